"""Slices, pairs to look at, the map; and vectors as they would be stored."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.errors import UsageError
from kosbert.evaluation.sts import spearman
from kosbert.study.analysis import flat, on_the_gold_scale
from kosbert.study.config import Probe
from kosbert.study.scoring import bytes_of, compressed, nli_accuracy


@given(st.lists(st.integers(-50, 50), min_size=3, max_size=30, unique=True), st.integers(0, 1_000))
def test_the_gold_scale_keeps_the_ranks(values, seed):
    gold = np.random.default_rng(seed).permutation(len(values)) / 10
    said = on_the_gold_scale(np.array(values), gold)
    assert sorted(said) == pytest.approx(sorted(gold))
    assert list(np.argsort(values)) == list(np.argsort(said))
    assert spearman(said, gold) == pytest.approx(spearman(np.array(values), gold))


def test_what_the_report_looks_at(finished):
    _, found, _ = finished
    examples = found["examples"]
    assert 1 <= len(examples) <= 10
    for each in examples:
        nearer = abs(each["best"] - each["gold"]) < abs(each["other"] - each["gold"])
        assert nearer == (each["kind"] == "wins")
    slices = found["sets"][0]["slices"]
    assert {each["kind"] for each in slices} == {"length", "overlap"}  # one source: no slices by it
    assert sum(each["pairs"] for each in slices if each["kind"] == "length") == 40


def test_a_map_is_the_same_every_time():
    vectors = np.random.default_rng(0).normal(size=(40, 8))
    one, other = flat(vectors), flat(vectors)
    assert one.shape == (40, 2)
    assert np.array_equal(one, other)


def test_compressed_vectors():
    vectors = np.random.default_rng(0).normal(size=(200, 64)).astype(np.float32)
    assert compressed(vectors, {}) is vectors
    assert compressed(vectors, {"dim": 8}).shape == (200, 8)
    assert set(np.unique(compressed(vectors, {"kind": "binary"}))) == {-1.0, 1.0}
    step = (vectors.max(axis=0) - vectors.min(axis=0)) / 255
    small = compressed(vectors, {"kind": "int8"})
    assert np.all(np.abs(small - vectors) <= step / 2 + 1e-6)
    assert all(len(np.unique(column)) <= 256 for column in small.T)
    constant = np.ones((3, 2), np.float32)
    assert np.array_equal(compressed(constant, {"kind": "int8"}), constant)
    sizes = [bytes_of(vectors, how) for how in ({}, {"dim": 16}, {"kind": "int8"}, {"kind": "binary", "dim": 20})]
    assert sizes == [256, 64, 64, 3]
    with pytest.raises(UsageError, match="choose float32, int8 or binary"):
        compressed(vectors, {"kind": "int4"})


def test_nli_accuracy_of_vectors_that_hold_the_label(tmp_path):
    """An encoder that sees the last letter: |u-v| tells the three labels apart, (u) of one side alone cannot."""
    lines = ["sentence1\tsentence2\tlabel"]
    letters = {"entailment": "a", "neutral": "b", "contradiction": "c"}
    lines += [f"{n} a\t{n} {letters[label]}\t{label}" for n in range(60) for label in letters]
    (tmp_path / "nli.tsv").write_text("\n".join(lines), encoding="utf-8")

    class Letters:
        def encode(self, sentences):
            return np.array([[text.endswith(letter) for letter in "abc"] for text in sentences], np.float32)

    probe = Probe(train=str(tmp_path / "nli.tsv"), test=str(tmp_path / "nli.tsv"))
    assert nli_accuracy(Letters(), probe, "|u-v|", None) == 1.0
    assert nli_accuracy(Letters(), probe, "u,v", None) == 1.0
