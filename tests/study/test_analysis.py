"""Slices, example pairs, the embedding map, compression, and the NLI probe."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.errors import UsageError
from kosbert.evaluation.sts import spearman
from kosbert.study.analysis import project, to_gold_scale
from kosbert.study.config import Probe
from kosbert.study.scoring import bytes_per_vector, compress, nli_accuracy


@given(st.lists(st.integers(-50, 50), min_size=3, max_size=30, unique=True), st.integers(0, 1_000))
def test_gold_scale_keeps_ranks(values, seed):
    gold = np.random.default_rng(seed).permutation(len(values)) / 10
    scaled = to_gold_scale(np.array(values), gold)
    assert sorted(scaled) == pytest.approx(sorted(gold))
    assert list(np.argsort(values)) == list(np.argsort(scaled))
    assert spearman(scaled, gold) == pytest.approx(spearman(np.array(values), gold))


def test_examples_and_slices_of_finished_study(finished):
    _, summary, _ = finished
    assert 1 <= len(summary.examples) <= 10
    for example in summary.examples:
        best_is_closer = abs(example.best - example.gold) < abs(example.runner_up - example.gold)
        assert best_is_closer == (example.closer == "best")
    slices = summary.eval_sets[0].slices
    assert {part.kind for part in slices} == {"length", "overlap"}  # a single source gives no slices by source
    assert sum(part.pairs for part in slices if part.kind == "length") == 40


def test_projection_is_deterministic():
    vectors = np.random.default_rng(0).normal(size=(40, 8))
    first, second = project(vectors), project(vectors)
    assert first.shape == (40, 2)
    assert np.array_equal(first, second)


def test_compress_truncates_and_quantizes():
    vectors = np.random.default_rng(0).normal(size=(200, 64)).astype(np.float32)
    assert compress(vectors, {}) is vectors
    assert compress(vectors, {"truncate_dim": 8}).shape == (200, 8)
    assert set(np.unique(compress(vectors, {"precision": "binary"}))) == {-1.0, 1.0}
    step = (vectors.max(axis=0) - vectors.min(axis=0)) / 255
    quantized = compress(vectors, {"precision": "int8"})
    assert np.all(np.abs(quantized - vectors) <= step / 2 + 1e-6)
    assert all(len(np.unique(column)) <= 256 for column in quantized.T)
    constant = np.ones((3, 2), np.float32)
    assert np.array_equal(compress(constant, {"precision": "int8"}), constant)
    with pytest.raises(UsageError, match="choose float32, int8 or binary"):
        compress(vectors, {"precision": "int4"})


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 256),
        ({"truncate_dim": 16}, 64),
        ({"precision": "int8"}, 64),
        ({"precision": "binary", "truncate_dim": 20}, 3),
    ],
)
def test_bytes_per_vector(options, size):
    assert bytes_per_vector(np.zeros((2, 64), np.float32), options) == size


def test_nli_accuracy_is_perfect_when_vectors_encode_the_label(tmp_path):
    lines = ["sentence1\tsentence2\tlabel"]
    letters = {"entailment": "a", "neutral": "b", "contradiction": "c"}
    lines += [f"{n} a\t{n} {letters[label]}\t{label}" for n in range(60) for label in letters]
    (tmp_path / "nli.tsv").write_text("\n".join(lines), encoding="utf-8")

    class LastLetterEncoder:
        def encode(self, sentences):
            return np.array([[text.endswith(letter) for letter in "abc"] for text in sentences], np.float32)

    probe = Probe(train=str(tmp_path / "nli.tsv"), test=str(tmp_path / "nli.tsv"))
    assert nli_accuracy(LastLetterEncoder(), probe, "|u-v|", None) == 1.0
    assert nli_accuracy(LastLetterEncoder(), probe, "u,v", None) == 1.0
