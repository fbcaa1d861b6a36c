"""Cached sentences are not encoded again, and the vectors are the same with any cache size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from kosbert.bulk.embedding_cache import EmbeddingCache

some_texts = some.lists(some.lists(some.sampled_from("가나다라마바사아자차"), max_size=12), max_size=8)


@given(some_texts, some.integers(0, 6))
def test_vectors_are_the_same_with_any_cache_size(calls, slots):
    encoded = []

    def encode(texts):
        encoded.extend(texts)
        return np.array([[ord(text), -ord(text)] for text in texts], np.float32)

    cache = EmbeddingCache(encode, 2, max_bytes=8 * slots)
    for texts in calls:
        vectors = cache(texts)
        np.testing.assert_array_equal(vectors, np.array([[ord(t), -ord(t)] for t in texts], np.float32).reshape(-1, 2))
    total = sum(map(len, calls))
    assert len(encoded) + cache.hits == total
    assert len(encoded) >= len({text for texts in calls for text in texts})


def test_large_cache_encodes_each_sentence_once():
    encoded = []

    def encode(texts):
        encoded.extend(texts)
        return np.ones((len(texts), 4), np.float32)

    cache = EmbeddingCache(encode, 4)
    for _ in range(3):
        cache(["비", "눈", "비"])
    assert encoded == ["비", "눈"]
    assert cache.hits == 7


def test_least_recently_used_sentence_is_evicted():
    encoded = []

    def encode(texts):
        encoded.extend(texts)
        return np.ones((len(texts), 1), np.float32)

    cache = EmbeddingCache(encode, 1, max_bytes=8)
    for text in ("비", "눈", "비", "해", "비", "눈"):
        cache([text])
    assert encoded == ["비", "눈", "해", "눈"]
