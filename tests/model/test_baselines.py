"""Baselines: known scores, lookup of word vectors, names and errors."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert import data
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation.sts import score_pairs
from kosbert.model import load, load_any
from kosbert.model.baselines import CharacterTfidf, RandomSentences, RandomWords, StaticWords

VECTORS = {"학교": (1, 0, 0), "학": (0, 0, 9), "간다": (0, 1, 0), ".": (0, 0, 3), "school": (2, 2, 2), "3월": (5, 0, 0)}
LINES = [" ".join(map(str, (word, *numbers))) for word, numbers in VECTORS.items()]


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    file = tmp_path / "words.vec"
    file.write_text("\n".join([f"{len(LINES)} 3", *LINES, ""]), encoding="utf-8")
    return file


@pytest.mark.real_data
@pytest.mark.parametrize(("reference", "expected"), [("korsts-test", 0.6611), ("klue-sts-dev", 0.293)])
def test_tfidf_reaches_the_known_score(reference: str, expected: float) -> None:
    for split in (reference, "korsts-train"):
        if not data.available(*data.resolve(split)):
            pytest.skip(f"{split} is not in KOSBERT_DATA")
    spearman = score_pairs(load_any("tfidf"), data.load(reference, download=False))["spearman"]
    assert spearman == pytest.approx(expected, abs=5e-5 if reference == "korsts-test" else 5e-4)


def test_tfidf_without_korsts_is_fitted_on_the_sample_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: list[str]
) -> None:
    monkeypatch.delenv("KOSBERT_DATA", raising=False)
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    default = load_any("tfidf", data_dir=tmp_path).encode(sentences)
    named = load_any("tfidf:sample-sts-train").encode(sentences)
    assert abs(default - named).max() == 0
    fitted = CharacterTfidf([text for row in data.load("sample-sts-train") for text in data.sentences_of(row)])
    assert abs(default - fitted.encode(sentences)).max() == 0


def test_tfidf_of_an_unknown_split_is_an_error() -> None:
    with pytest.raises(UsageError, match="did you mean korsts-train"):
        load_any("tfidf:korsts-trian")


@settings(max_examples=30)
@given(st.lists(st.text(max_size=20), max_size=5))
def test_random_sentences_depend_on_the_text_alone(texts: list[str]) -> None:
    vectors = RandomSentences(dim=20).encode([*texts, "비가 온다"])
    assert vectors.shape == (len(texts) + 1, 20)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert np.array_equal(vectors[-1], RandomSentences(dim=20).encode(["비가  온다"])[0])  # extra spaces are removed


def test_random_vectors_are_the_same_on_every_machine() -> None:
    signs = np.sign(RandomSentences(dim=8).encode(["비가 온다"]))[0].astype(int).tolist()
    assert signs == [-1, -1, 1, 1, 1, -1, -1, -1]
    assert not np.array_equal(RandomSentences(seed=1).encode(["눈"]), RandomSentences(seed=2).encode(["눈"]))


def test_random_sentences_are_unrelated() -> None:
    vectors = RandomSentences().encode([f"문장 {number}" for number in range(200)])
    cosines = (vectors @ vectors.T)[~np.eye(200, dtype=bool)]
    assert cosines.mean() == pytest.approx(0, abs=0.005)
    assert cosines.std() == pytest.approx(1 / 16, rel=0.05)


def test_random_words_average_their_words() -> None:
    both, first, second, none = RandomWords().encode(["비가 온다", "비가", "온다", " "])
    assert np.allclose(both, (first + second) / 2)
    assert np.allclose(RandomWords().encode(["온다 비가"])[0], both)
    assert not none.any()


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("학교 간다.", ["학교", "간다", "."]),
        ("학교에서 간다", ["학교", "간다"]),  # the longest prefix in the file, not 학
        ("School schooling", ["school"]),  # a prefix of a Latin word is another word
        ("3월, (학생)", ["3월", "학"]),  # punctuation that is not in the file is ignored
        ("3월에는 schooling은 SCHOOL은", ["3월", "school"]),
        ("모르는 말", []),
    ],
)
def test_static_words_look_up_stems(vectors: Path, sentence: str, words: list[str]) -> None:
    static = StaticWords(vectors)
    assert static.words(sentence) == words
    expected = np.mean([VECTORS[word] for word in words], axis=0) if words else np.zeros(3)
    assert np.allclose(static.encode([sentence]), [expected])


def test_static_words_read_every_file_format(vectors: Path, tmp_path: Path) -> None:
    expected = StaticWords(vectors).encode(["학교에 간다."])
    plain, packed = tmp_path / "glove.txt", tmp_path / "words.vec.gz"
    plain.write_text("\n".join([*LINES, ". . . 7 7 7"]), encoding="utf-8")
    with gzip.open(packed, "wt", encoding="utf-8") as file:
        file.write(vectors.read_text(encoding="utf-8").replace("\n", " \n"))  # fastText ends its lines with a space
    for path in (plain, packed):
        assert np.array_equal(load_any(f"static:{path}").encode(["학교에 간다."]), expected)
    assert StaticWords(vectors).encode([]).shape == (0, 3)


@pytest.mark.parametrize("damage", ["학교 1 2", "학교 1 2 x", "학교 1 2 nan", "1 2 3"])
def test_damaged_word_vectors_are_an_error(vectors: Path, damage: str) -> None:
    vectors.write_text(f"2 3\n간다 1 2 3\n{damage}\n", encoding="utf-8")
    with pytest.raises(KosbertError, match="line 3: not a word and 3 numbers; give"):
        StaticWords(vectors)


def test_empty_word_vectors_are_an_error(vectors: Path) -> None:
    vectors.write_text("", encoding="utf-8")
    with pytest.raises(KosbertError, match="holds no word vectors"):
        StaticWords(vectors)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_pooling_prefix_loads_a_backbone(tiny_bert: Path, sentences: list[str], pooling: str) -> None:
    expected = load(tiny_bert, pooling=pooling).encode(sentences)
    assert np.array_equal(load_any(f"{pooling}:{tiny_bert}").encode(sentences), expected)
    assert np.allclose(load_any(str(tiny_bert)).encode(sentences), expected) == (pooling == "mean")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("static:nowhere.vec", "there is no file nowhere.vec"),
        ("static", "give static:FILE"),
        ("mean:", "give mean:NAME"),
        ("random:7", "give random alone"),
        ("avg:klue/bert-base", "did you mean"),
        ("ran-dom:x", "did you mean random"),
        ("cls:/no/such/place", "there is no directory /no/such/place"),
        ("/no/such/place", "there is no directory /no/such/place"),
    ],
)
def test_wrong_names_are_one_sentence_errors(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_any(name)
    assert "\n" not in str(caught.value)
