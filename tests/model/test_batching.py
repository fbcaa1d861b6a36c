"""Batches hold every sentence once, and no more tokens than they may."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.errors import UsageError
from kosbert.model.batching import by_budget, check, distinct, windows


@given(st.lists(st.integers(0, 600), max_size=200), st.integers(1, 2_000), st.booleans())
def test_every_sentence_once_within_the_budget(lengths, budget, padded):
    batches = list(by_budget(lengths, budget, padded=padded))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        sizes = [lengths[index] for index in batch]
        tokens = len(sizes) * max(sizes) if padded else sum(sizes)
        assert tokens <= budget or len(batch) == 1
        assert sizes == sorted(sizes, reverse=True)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=60), st.integers(20, 200))
def test_batches_are_filled(lengths, budget):
    batches = list(by_budget(lengths, budget, padded=False))
    for batch, following in pairwise(batches):
        assert sum(lengths[index] for index in batch) + lengths[following[0]] > budget


@given(st.lists(st.sampled_from("가나다라마"), max_size=50))
def test_distinct_gives_back_the_original(sentences):
    unique, inverse = distinct(sentences)
    assert len(set(unique)) == len(unique)
    assert list(np.array(unique, dtype=object)[inverse]) == sentences if sentences else not unique


def test_windows():
    assert list(windows(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(windows([], 2)) == []


def test_check_counts_positions():
    with pytest.raises(UsageError, match="sentence 2 is a int"):
        list(check(["가", "나", 3], clean=True))
