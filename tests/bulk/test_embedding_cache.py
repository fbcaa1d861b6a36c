"""A sentence seen before is not encoded again, and the answer is the same with any amount of memory."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from kosbert.bulk.embedding_cache import EmbeddingCache

some_texts = some.lists(some.lists(some.sampled_from("가나다라마바사아자차"), max_size=12), max_size=8)


@given(some_texts, some.integers(0, 6))
def test_the_same_vectors_with_any_memory(calls, places):
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.array([[ord(text), -ord(text)] for text in texts], np.float32)

    remembered = EmbeddingCache(encode, 2, memory=8 * places)
    for texts in calls:
        vectors = remembered(texts)
        np.testing.assert_array_equal(vectors, np.array([[ord(t), -ord(t)] for t in texts], np.float32).reshape(-1, 2))
    total = sum(map(len, calls))
    assert len(asked) + remembered.found == total
    assert len(asked) >= len({text for texts in calls for text in texts})


def test_enough_memory_encodes_each_once():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.ones((len(texts), 4), np.float32)

    remembered = EmbeddingCache(encode, 4)
    for _ in range(3):
        remembered(["비", "눈", "비"])
    assert asked == ["비", "눈"]
    assert remembered.found == 7


def test_the_oldest_is_forgotten_first():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.ones((len(texts), 1), np.float32)

    remembered = EmbeddingCache(encode, 1, memory=8)
    for text in ("비", "눈", "비", "해", "비", "눈"):
        remembered([text])
    assert asked == ["비", "눈", "해", "눈"]
