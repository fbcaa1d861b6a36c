"""Edited copies are new sentences similar to the originals; neighbors are exact within a part; both are seeded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.training import augmentation
from kosbert.training.augmentation import edited_copies, nearest_neighbors

SENTENCES = ["오늘 아침에 비가 많이 왔다", "고양이가 창가에서 잔다", "주식 시장이 크게 올랐다", "안녕"] * 25


def test_most_copies_are_new_and_share_words():
    copies = edited_copies(SENTENCES, 2, seed=1)
    assert [len(column) for column in copies] == [100, 100]
    assert sum(copy != sentence for column in copies for copy, sentence in zip(column, SENTENCES, strict=True)) > 150
    long = [(copy, sentence) for copy, sentence in zip(copies[0], SENTENCES, strict=True) if len(sentence) > 5]
    shared = [len(set(copy.split()) & set(sentence.split())) / len(sentence.split()) for copy, sentence in long]
    assert sum(shared) / len(shared) > 0.5


def test_edited_copies_depend_on_the_seed():
    assert edited_copies(SENTENCES, 1, seed=1) == edited_copies(SENTENCES, 1, seed=1)
    assert edited_copies(SENTENCES, 1, seed=1) != edited_copies(SENTENCES, 1, seed=2)


@given(st.lists(st.text(alphabet="가나다 ", max_size=20), min_size=1, max_size=8), st.integers(0, 99))
def test_edits_use_only_existing_letters_and_never_empty_a_sentence(sentences, seed):
    (column,) = edited_copies(sentences, 1, seed=seed)
    letters = set("".join(sentences))
    for copy, sentence in zip(column, sentences, strict=True):
        assert set(copy) <= letters | {" "}
        assert bool(copy.strip()) == bool(sentence.strip())


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(augmentation, "_BLOCK", 7)


@pytest.mark.usefixtures("small_blocks")
def test_neighbors_in_one_part_are_the_nearest_of_all():
    vectors = np.random.default_rng(1).normal(size=(40, 8)).astype(np.float16)
    unit = vectors.astype(np.float32) / np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    np.testing.assert_array_equal(nearest_neighbors(vectors, 3, seed=0), np.argsort(-cosines, axis=1)[:, :3])


@pytest.mark.usefixtures("small_blocks")
def test_neighbors_come_from_random_parts_of_the_seed(monkeypatch):
    monkeypatch.setattr(augmentation, "_PART", 10)
    vectors = np.random.default_rng(1).normal(size=(40, 8)).astype(np.float32)
    first, same_seed, other_seed = (nearest_neighbors(vectors, 2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same_seed)
    assert (first != other_seed).any()
    assert (first != np.arange(40)[:, None]).all()
    parts = {frozenset((row_number, *row)) for row_number, row in enumerate(first.tolist())}
    assert len(set().union(*parts)) == 40
    groups = np.array_split(np.random.default_rng(0).permutation(40), 4)
    assert all(any(part <= set(group.tolist()) for group in groups) for part in parts)


def test_zero_vectors_have_neighbors():
    assert nearest_neighbors(np.zeros((3, 4), np.float16), 1, seed=0).shape == (3, 1)
