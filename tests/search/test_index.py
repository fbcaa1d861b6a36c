"""One index, four stores: the same answers, the same mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest

from kosbert.errors import KosbertError, UsageError
from kosbert.model.baselines import RandomWords
from kosbert.search import Index

KINDS = ["exact", "binary", "hnsw", "milvus"]


def make(kind: str, folder: Path, **settings: str) -> Index:
    if kind == "hnsw":
        pytest.importorskip("usearch")
    if kind == "milvus":
        pytest.importorskip("pymilvus")
        pytest.importorskip("milvus_lite")
        settings["address"] = str(folder / "index" / "milvus.db")
    return Index("random-words", kind=kind, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_a_life(kind: str, tmp_path: Path, shop: list[str]) -> None:
    index = make(kind, tmp_path)
    years = [{"year": 2018 + place} for place in range(len(shop))]
    assert index.add(shop, metadata=years) == list("012345")
    assert index.count() == len(index) == 6
    best = index.search(shop[2], k=2)
    assert [hit.id for hit in best] == ["2", "3"]
    assert best[0].score == pytest.approx(1, abs=1e-5)
    assert best[0].metadata == {"year": 2020}
    assert [hit.id for hit in index.search(shop[2], where="year!=2020", k=1)] == ["3"]
    assert index.search(shop[2], where="year>3000") == []
    assert len(index.search(shop[2], k=100)) == 6
    directory = index.save(tmp_path / "index")
    index.close()

    with Index.change(directory) as index:
        index.upsert(["환불을 받고 싶어요 제발", "새 문장"], ids=["2", "new"])
        assert index.delete(["0", "1"]) == 2
        assert [hit.id for hit in index.search("환불을 받고 싶어요 제발", k=1)] == ["2"]
    index = Index.load(directory)
    assert sorted(index.ids()) == ["2", "3", "4", "5", "new"]
    hits = index.search("환불을 받고 싶어요 제발", k=10)
    assert len(hits) == 5
    assert hits[0].text == "환불을 받고 싶어요 제발"
    assert hits[0].metadata == {}
    ids, cosines = index.nearest(index.encoder.encode(["새 문장", "오늘 날씨가 좋아요"]), k=1)
    assert ids == [["new"], ["4"]]
    assert cosines == pytest.approx(np.ones((2, 1)), abs=1e-5)
    index.close()


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_lose_nothing(kind: str, tmp_path: Path, shop: list[str]) -> None:
    index = make(kind, tmp_path)
    with pytest.raises(UsageError, match="the index is empty"):
        index.search("글")
    index.add(shop)
    for call, message in (
        (lambda: index.add(["글"], vectors=np.ones((1, 7))), "vectors of 7 dimensions do not fit an index of 256"),
        (lambda: index.add(["글"], vectors=np.full((1, 256), np.nan)), "NaN"),
        (lambda: index.nearest(np.ones((1, 7))), "vectors of 7 dimensions"),
        (lambda: index.delete(["0", "none"]), "no id 'none' in the index: nothing was deleted"),
        (lambda: index.add(["글"], ids=["3"]), "'3' is already in the index"),
        (lambda: index.add(["글", "글"], ids=["x", "x"]), "'x' stands for 2 sentences"),
        (lambda: index.add(["글"], ids=["x", "y"]), "2 ids do not fit 1"),
        (lambda: index.add(["글"], metadata=[]), "0 metadata do not fit 1"),
        (lambda: index.add("글"), "not a list"),
        (lambda: index.add(["글", 3]), "sentence 1 is a int, not a string"),
        (lambda: index.search("글", k=0), "0 hits are impossible"),
        (lambda: index.search("글", where="year=1"), "no field 'year'"),
        (lambda: index.search("글", hybrid=True), "keeps no words"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    assert index.ids() == list("012345")
    assert len(index.search(shop[0], k=50)) == 6
    index.add(["다음"])
    assert index.search("다음", k=1)[0].text == "다음"
    index.close()


def test_settings_that_do_not_fit() -> None:
    for settings, message in (
        ({"kind": "exacd"}, "did you mean exact"),
        ({"precision": "int8"}, "has one precision"),
        ({"address": "http://x"}, "has no address"),
        ({"words": "morpheme"}, "did you mean morphemes"),
        ({"kind": "hnsw", "precision": "int4"}, "unknown precision"),
    ):
        with pytest.raises(UsageError, match=message):
            Index("random-words", **settings)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="sparse"):
        Index("tfidf:sample-sts-dev")


def test_another_model_is_refused(tmp_path: Path, shop: list[str]) -> None:
    index = Index("random-words")
    index.add(shop)
    index.save(tmp_path)
    for other in ("random", RandomWords(seed=1), RandomWords(dim=64)):
        with pytest.raises(UsageError, match="was made with random-words .* not with"):
            Index.load(tmp_path, other)
    assert len(Index.load(tmp_path, RandomWords()).search(shop[0])) == 6


def test_a_model_is_known_by_its_files_and_its_pooling(tmp_path: Path, tiny_bert: Path, sentences: list[str]) -> None:
    import shutil

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


@pytest.mark.parametrize("kind", ["exact", "binary", "hnsw"])
@pytest.mark.parametrize("damage", ["cut", "gone", "noise"])
def test_a_corrupt_file_is_one_sentence(kind: str, damage: str, tmp_path: Path, shop: list[str]) -> None:
    from kosbert.search.build import describe

    index = make(kind, tmp_path, words="bigrams")
    index.add(shop)
    index.save(tmp_path / "index")
    for file in sorted(path for path in (tmp_path / "index").rglob("*") if path.is_file()):
        content = file.read_bytes()
        if damage == "cut":
            file.write_bytes(content[: len(content) // 2])
        elif damage == "gone":
            file.unlink()
        else:
            file.write_bytes(bytes(len(content)))
        with pytest.raises(KosbertError) as caught:
            describe(tmp_path / "index")
        assert "\n" not in str(caught.value)
        assert "build" in str(caught.value)
        file.write_bytes(content)
    assert describe(tmp_path / "index").count == 6
    assert len(Index.load(tmp_path / "index").search("글")) == 6


def test_a_loaded_index_is_read_only_and_a_failed_change_changes_nothing(tmp_path: Path, shop: list[str]) -> None:
    index = Index("random-words")
    index.add(shop)
    index.save(tmp_path)
    with pytest.raises(UsageError, match="opened to be read"):
        Index.load(tmp_path).add(["글"])

    def add_and_fail() -> None:
        with Index.change(tmp_path) as changed:
            changed.add(["글"])
            changed.delete(["none"])

    with pytest.raises(UsageError, match="no id"):
        add_and_fail()
    assert len(Index.load(tmp_path)) == 6
    with pytest.raises(UsageError, match="holds an index already"):
        index.save(tmp_path)
    index.save(tmp_path, replace=True)
    with pytest.raises(UsageError, match="holds no index"), Index.change(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_files_are_plain(tmp_path: Path, shop: list[str]) -> None:
    import pyarrow.parquet

    index = Index("random-words", words="bigrams")
    index.add(shop, metadata=[{"source": "가"}] * 6)
    index.save(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_text(encoding="utf-8"))
    assert manifest["model"]["name"] == "random-words"
    folder = tmp_path / f"generation-{manifest['generation']}"
    assert pyarrow.parquet.read_table(folder / "documents.parquet")["text"].to_pylist() == shop
    assert np.load(folder / "vectors.npy", allow_pickle=False).shape == (6, 256)


def test_an_interrupted_add_leaves_no_vectors(shop: list[str]) -> None:
    index = Index("random-words")
    index.add(shop)

    class Broken:
        dim = 256

        def __init__(self, whole: object) -> None:
            self.whole, self.calls = whole, 0

        def encode(self, sentences: list[str]) -> object:
            self.calls += 1
            if self.calls > 1:
                raise KosbertError("the model broke")
            return self.whole.encode(sentences)  # type: ignore[attr-defined]

    good, index.encoder = index.encoder, Broken(index.encoder)
    with pytest.raises(KosbertError, match="broke"):
        index.add([f"문장 {place}" for place in range(9_000)])
    index.encoder = good
    assert len(index.search("문장 3", k=100)) == 6
    index.add(["문장 3"])
    assert index.search("문장 3", k=1)[0].score == pytest.approx(1, abs=1e-5)


def test_a_model_that_says_nothing_to_the_fixed_sentences(tmp_path: Path) -> None:
    """Word vectors may know none of their words; the index must still know its own model."""

    class Few:
        dim = 3

        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array([[text.count(letter) for letter in "뷁쀍뾟"] for text in sentences], np.float32)

    index = Index(Few())
    index.add(["뷁", "쀍", "뾟뾟"])
    assert not np.any(index.model.probe)
    index.save(tmp_path)
    assert Index.load(tmp_path, Few()).search("뾟", k=1)[0].text == "뾟뾟"


def test_searching_imports_no_torch(tmp_path: Path) -> None:
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
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_reading_while_another_process_writes(tmp_path: Path, shop: list[str]) -> None:
    import subprocess
    import sys

    index = Index("random-words")
    index.add(shop)
    index.save(tmp_path)
    code = """
import sys
from kosbert.search import Index
for number in range(40):
    with Index.change(sys.argv[1]) as index:
        index.upsert([f"글 {number}"], ids=["0"])
"""
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) as process:
        readings = 0
        while process.poll() is None:
            assert len(Index.load(tmp_path, index.encoder).search("글")) == 6
            readings += 1
    assert process.returncode == 0
    assert readings > 5
    assert Index.load(tmp_path).search("글 39", k=1)[0].text == "글 39"
