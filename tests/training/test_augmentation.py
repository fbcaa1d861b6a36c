"""Edited copies: new sentences out of known words, close to the old ones, the same for the same seed."""

from hypothesis import given
from hypothesis import strategies as st

from kosbert.training.augmentation import edited

SENTENCES = ["오늘 아침에 비가 많이 왔다", "고양이가 창가에서 잔다", "주식 시장이 크게 올랐다", "안녕"] * 25


def test_most_copies_are_new_and_near():
    copies = edited(SENTENCES, 2, seed=1)
    assert [len(column) for column in copies] == [100, 100]
    assert sum(copy != sentence for column in copies for copy, sentence in zip(column, SENTENCES, strict=True)) > 150
    long = [(copy, sentence) for copy, sentence in zip(copies[0], SENTENCES, strict=True) if len(sentence) > 5]
    kept = [len(set(copy.split()) & set(sentence.split())) / len(sentence.split()) for copy, sentence in long]
    assert sum(kept) / len(kept) > 0.5


def test_the_seed_decides():
    assert edited(SENTENCES, 1, seed=1) == edited(SENTENCES, 1, seed=1)
    assert edited(SENTENCES, 1, seed=1) != edited(SENTENCES, 1, seed=2)


@given(st.lists(st.text(alphabet="가나다 ", max_size=20), min_size=1, max_size=8), st.integers(0, 99))
def test_no_letter_comes_from_nowhere_and_nothing_becomes_empty(sentences, seed):
    (column,) = edited(sentences, 1, seed=seed)
    letters = set("".join(sentences))
    for copy, sentence in zip(column, sentences, strict=True):
        assert set(copy) <= letters | {" "}
        assert bool(copy.strip()) == bool(sentence.strip())
