"""The same behavior and the same errors of an index with every backend."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from kosbert.errors import KosbertError, UsageError
from kosbert.model.baselines import RandomWords
from kosbert.progress import ProgressEvent
from kosbert.search import Index
from kosbert.search.build import describe

BACKENDS = ["exact", "binary", "hnsw", "milvus"]


def new_index(backend: str, folder: Path, **options: str) -> Index:
    if backend == "hnsw":
        pytest.importorskip("usearch")
    if backend == "milvus":
        pytest.importorskip("pymilvus")
        pytest.importorskip("milvus_lite")
        options["uri"] = str(folder / "index" / "milvus.db")
    return Index("random-words", backend=backend, **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_add_search_save_edit_and_load(backend: str, tmp_path: Path, shop: list[str]) -> None:
    index = new_index(backend, tmp_path)
    metadata = [{"year": 2018 + row} for row in range(len(shop))]
    assert index.add(shop, metadata=metadata) == list("012345")
    assert index.count() == len(index) == 6
    hits = index.search(shop[2], k=2)
    assert [hit.id for hit in hits] == ["2", "3"]
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    assert hits[0].metadata == {"year": 2020}
    assert index.search(shop[2], k=2, vector=index.encoder.encode([shop[2]])[0]) == hits
    assert [hit.id for hit in index.search(shop[2], where="year!=2020", k=1)] == ["3"]
    assert index.search(shop[2], where="year>3000") == []
    assert len(index.search(shop[2], k=100)) == 6
    directory = index.save(tmp_path / "index")
    index.close()

    with Index.edit(directory) as index:
        index.upsert(["환불을 받고 싶어요 제발", "새 문장"], ids=["2", "new"])
        assert index.delete(["0", "1"]) == 2
        assert [hit.id for hit in index.search("환불을 받고 싶어요 제발", k=1)] == ["2"]
    index = Index.load(directory)
    assert sorted(index.ids()) == ["2", "3", "4", "5", "new"]
    hits = index.search("환불을 받고 싶어요 제발", k=10)
    assert len(hits) == 5
    assert hits[0].text == "환불을 받고 싶어요 제발"
    assert hits[0].metadata == {}
    ids, cosines = index.query(index.encoder.encode(["새 문장", "오늘 날씨가 좋아요"]), k=1)
    assert ids == [["new"], ["4"]]
    assert cosines == pytest.approx(np.ones((2, 1)), abs=1e-5)
    index.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_invalid_calls_raise_and_leave_the_index_unchanged(backend: str, tmp_path: Path, shop: list[str]) -> None:
    index = new_index(backend, tmp_path)
    with pytest.raises(UsageError, match="the index is empty"):
        index.search("글")
    index.add(shop)
    for call, message in (
        (lambda: index.add(["글"], vectors=np.ones((1, 7))), "vectors of 7 dimensions do not fit an index of 256"),
        (lambda: index.add(["글"], vectors=np.full((1, 256), np.nan)), "NaN"),
        (lambda: index.query(np.ones((1, 7))), "vectors of 7 dimensions"),
        (lambda: index.search("글", vector=np.ones(7)), "vectors of 7 dimensions"),
        (lambda: index.delete(["0", "none"]), "no id 'none' in the index: nothing was deleted"),
        (lambda: index.add(["글"], ids=["3"]), "'3' is already in the index"),
        (lambda: index.add(["글", "글"], ids=["x", "x"]), "'x' is given to 2 sentences"),
        (lambda: index.add(["글"], ids=["x", "y"]), "2 ids do not fit 1"),
        (lambda: index.add(["글"], metadata=[]), "0 metadata do not fit 1"),
        (lambda: index.add("글"), "not a list"),
        (lambda: index.add(["글", 3]), "sentence 1 is a int, not a string"),
        (lambda: index.search("글", k=0), "0 hits are impossible"),
        (lambda: index.search("글", where="year=1"), "no field 'year'"),
        (lambda: index.search("글", hybrid=True), "has no BM25 tokens"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    assert index.ids() == list("012345")
    assert len(index.search(shop[0], k=50)) == 6
    index.add(["다음"])
    assert index.search("다음", k=1)[0].text == "다음"
    index.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "exacd"}, "did you mean exact"),
        ({"precision": "int8"}, "no choice of precision"),
        ({"uri": "http://x"}, "has no URI"),
        ({"lexical": "morpheme"}, "did you mean morphemes"),
        ({"backend": "hnsw", "precision": "int4"}, "unknown precision"),
        ({"model": "tfidf:sample-sts-dev"}, "sparse"),
    ],
)
def test_invalid_options_are_an_error(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Index(**{"model": "random-words"} | options)


def test_add_reports_progress(shop: list[str]) -> None:
    events: list[ProgressEvent] = []
    Index("random-words").add(shop, on_progress=events.append)
    assert [(event.task, event.done, event.total) for event in events] == [("encode", 0, 6), ("encode", 6, 6)]


def test_index_rejects_another_model(tmp_path: Path, shop: list[str]) -> None:
    index = Index("random-words")
    index.add(shop)
    index.save(tmp_path)
    for model in ("random", RandomWords(seed=1), RandomWords(dim=64)):
        with pytest.raises(UsageError, match="was made with random-words .* not with"):
            Index.load(tmp_path, model)
    assert len(Index.load(tmp_path, RandomWords()).search(shop[0])) == 6


def test_model_is_identified_by_its_files_and_pooling(tmp_path: Path, tiny_bert: Path, sentences: list[str]) -> None:
    index = Index(f"mean:{tiny_bert}")
    index.add(sentences)
    index.save(tmp_path / "index")
    copy = tmp_path / "moved"
    shutil.copytree(tiny_bert, copy)
    (copy / "README.md").write_text("another card", encoding="utf-8")
    assert Index.load(tmp_path / "index", f"mean:{copy}").search(sentences[1], k=1)[0].id == "1"
    with pytest.raises(UsageError, match="was made with mean:"):
        Index.load(tmp_path / "index", f"cls:{copy}")
    (copy / "config.json").write_text((copy / "config.json").read_text("utf-8") + " ", encoding="utf-8")
    with pytest.raises(UsageError, match="was made with mean:"):
        Index.load(tmp_path / "index", f"mean:{copy}")


@pytest.mark.parametrize("backend", ["exact", "binary", "hnsw"])
@pytest.mark.parametrize("damage", ["truncated", "missing", "zeros"])
def test_damaged_file_is_a_one_sentence_error(backend: str, damage: str, tmp_path: Path, shop: list[str]) -> None:
    index = new_index(backend, tmp_path, lexical="bigrams")
    index.add(shop)
    index.save(tmp_path / "index")
    for path in sorted(path for path in (tmp_path / "index").rglob("[!.]*") if path.is_file()):  # not the lock file
        content = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "missing":
            path.unlink()
        else:
            path.write_bytes(bytes(len(content)))
        with pytest.raises(KosbertError) as caught:
            describe(tmp_path / "index")
        assert "\n" not in str(caught.value)
        assert "build" in str(caught.value)
        path.write_bytes(content)
    assert describe(tmp_path / "index").count == 6
    assert len(Index.load(tmp_path / "index").search("글")) == 6


def test_index_of_another_format_is_a_one_sentence_error(tmp_path: Path, shop: list[str]) -> None:
    index = Index("random-words")
    index.add(shop)
    index.save(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_text(encoding="utf-8"))
    (tmp_path / "index.json").write_text(json.dumps(manifest | {"format": 1}), encoding="utf-8")
    with pytest.raises(KosbertError, match="was written by another version of kosbert: build the index again"):
        Index.load(tmp_path)


def test_loaded_index_is_read_only_and_a_failed_edit_is_discarded(tmp_path: Path, shop: list[str]) -> None:
    index = Index("random-words")
    index.add(shop)
    index.save(tmp_path)
    with pytest.raises(UsageError, match="opened read-only"):
        Index.load(tmp_path).add(["글"])

    def add_and_fail() -> None:
        with Index.edit(tmp_path) as edited:
            edited.add(["글"])
            edited.delete(["none"])

    with pytest.raises(UsageError, match="no id"):
        add_and_fail()
    assert len(Index.load(tmp_path)) == 6
    with pytest.raises(UsageError, match="holds an index already"):
        index.save(tmp_path)
    index.save(tmp_path, overwrite=True)
    with pytest.raises(UsageError, match="holds no index"), Index.edit(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_files_can_be_read_with_standard_tools(tmp_path: Path, shop: list[str]) -> None:
    index = Index("random-words", lexical="bigrams")
    index.add(shop, metadata=[{"source": "가"}] * 6)
    index.save(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_text(encoding="utf-8"))
    assert manifest["model"]["name"] == "random-words"
    folder = tmp_path / f"generation-{manifest['generation']}"
    assert pyarrow.parquet.read_table(folder / "documents.parquet")["text"].to_pylist() == shop
    assert np.load(folder / "vectors.npy", allow_pickle=False).shape == (6, 256)


def test_failed_add_leaves_no_vectors_behind(shop: list[str]) -> None:
    class FailsOnSecondCall:
        dim = 256

        def __init__(self, encoder: object) -> None:
            self.encoder, self.calls = encoder, 0

        def encode(self, sentences: list[str]) -> object:
            self.calls += 1
            if self.calls > 1:
                raise KosbertError("the model broke")
            return self.encoder.encode(sentences)  # type: ignore[attr-defined]

    index = Index("random-words")
    index.add(shop)
    encoder, index.encoder = index.encoder, FailsOnSecondCall(index.encoder)
    with pytest.raises(KosbertError, match="broke"):
        index.add([f"문장 {number}" for number in range(9_000)])
    index.encoder = encoder
    assert len(index.search("문장 3", k=100)) == 6
    index.add(["문장 3"])
    assert index.search("문장 3", k=1)[0].score == pytest.approx(1, abs=1e-5)


def test_model_with_zero_vectors_for_the_probe_sentences(tmp_path: Path) -> None:
    """Word vectors may have none of the words of the probe sentences; the index must still accept its own model."""

    class ThreeLetters:
        dim = 3

        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array([[text.count(letter) for letter in "뷁쀍뾟"] for text in sentences], np.float32)

    index = Index(ThreeLetters())
    index.add(["뷁", "쀍", "뾟뾟"])
    assert not np.any(index.model.probe)
    index.save(tmp_path)
    assert Index.load(tmp_path, ThreeLetters()).search("뾟", k=1)[0].text == "뾟뾟"


def test_search_does_not_import_torch(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from kosbert.search import Index

class Letters:
    dim = 4
    def encode(self, sentences):
        return np.array([[ord(text[0]) % 7, len(text), 1, 2] for text in sentences], np.float32)

index = Index(Letters())
index.add(["가나", "다"])
index.save("index")
index = Index.load("index", Letters())
assert index.search("가나")[0].text == "가나"
print([name for name in ("torch", "transformers", "sklearn", "sentence_transformers") if name in sys.modules])
"""
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert (process.stdout, process.stderr) == ("[]\n", "")
