"""Batches contain every sentence once and respect their limits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.errors import UsageError
from kosbert.model.batching import batches_by_tokens, checked_texts, distinct, windows


@given(
    st.lists(st.integers(0, 600), max_size=200), st.integers(1, 2_000), st.booleans(), st.none() | st.integers(1, 20)
)
def test_batches_contain_every_sentence_once_within_the_limits(lengths, budget, padded, max_sentences):
    batches = list(batches_by_tokens(lengths, budget, padded=padded, max_sentences=max_sentences))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        sizes = [lengths[index] for index in batch]
        tokens = len(sizes) * max(sizes) if padded else sum(sizes)
        assert tokens <= budget or len(batch) == 1
        assert max_sentences is None or len(batch) <= max_sentences
        assert sizes == sorted(sizes, reverse=True)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=60), st.integers(20, 200))
def test_batches_are_as_full_as_possible(lengths, budget):
    batches = list(batches_by_tokens(lengths, budget, padded=False))
    for batch, following in pairwise(batches):
        assert sum(lengths[index] for index in batch) + lengths[following[0]] > budget


@given(st.lists(st.sampled_from("가나다라마"), max_size=50))
def test_distinct_and_inverse_restore_the_sentences(sentences):
    unique, inverse = distinct(sentences)
    assert len(set(unique)) == len(unique)
    assert [unique[index] for index in inverse] == sentences
    assert inverse.dtype == np.intp


def test_windows_split_an_iterator():
    assert list(windows(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(windows([], 2)) == []


def test_error_names_the_position_of_a_non_string():
    with pytest.raises(UsageError, match="sentence 2 is a int"):
        list(checked_texts(["가", "나", 3], clean=True))
