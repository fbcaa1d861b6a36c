"""Intervals and comparisons over seeds and pairs: known answers and the rate of false positives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.evaluation.significance import seed_statistics
from kosbert.study.significance import SeedPairBootstrap, interval_estimate


def equal_variants(rng, variants, seeds=3, pairs=120, noise=1.0, seed_noise=0.5):
    """Return predictions of equally good variants (gold plus noise of pairs and seeds) and the gold scores."""
    gold = rng.uniform(0, 5, pairs)
    predictions = {}
    for variant in variants:
        predictions[variant] = {
            seed: gold + rng.normal(0, noise, pairs) + rng.normal(0, seed_noise, pairs) for seed in range(1, seeds + 1)
        }
    return predictions, gold


def test_without_pair_variance_it_is_the_t_interval_over_seeds():
    scores = [0.861, 0.857, 0.866]
    estimate, expected = interval_estimate(scores, np.full(50, 0.86), 1000), seed_statistics(scores)
    actual = (estimate.value, estimate.ci_low, estimate.ci_high)
    assert actual == pytest.approx((expected.mean, expected.low, expected.high))


def test_with_one_seed_it_is_the_spread_of_the_resamples():
    resampled = np.random.default_rng(0).normal(0.8, 0.01, 20_000)
    estimate = interval_estimate([0.8], resampled, 1_000_000)
    assert (estimate.ci_low, estimate.ci_high) == pytest.approx((0.8 - 1.96 * 0.01, 0.8 + 1.96 * 0.01), abs=5e-4)


def test_both_variances_give_a_wider_interval_than_pairs_alone():
    resampled = np.random.default_rng(0).normal(0.86, 0.01, 2_000)
    scores = [0.85, 0.86, 0.87]
    both = interval_estimate(scores, resampled, 500)
    pairs_only = interval_estimate([0.86], resampled, 500)
    seeds_only = interval_estimate(scores, resampled * 0 + 0.86, 500)
    assert both.ci_high - both.ci_low > pairs_only.ci_high - pairs_only.ci_low
    assert seeds_only.ci_low < 0.86 < seeds_only.ci_high


def test_equal_variants_are_not_significant_and_a_clear_difference_is():
    predictions, gold = equal_variants(np.random.default_rng(1), ["a", "b"])
    predictions["b"] = predictions["a"]
    predictions["worse"] = {seed: np.random.default_rng(seed).normal(0, 1, len(gold)) for seed in (1, 2, 3)}
    comparisons = SeedPairBootstrap(predictions, gold, resamples=300).comparisons()
    by_pair = {(comparison.first, comparison.second): comparison for comparison in comparisons}
    assert not by_pair["a", "b"].significant
    assert by_pair["a", "b"].winner is None
    assert by_pair["a", "b"].difference == 0
    assert by_pair["a", "worse"].significant
    assert by_pair["a", "worse"].winner == "a"
    assert by_pair["b", "worse"].ci_low > 0


def test_variant_planned_with_one_seed_is_compared_with_every_seed():
    predictions, gold = equal_variants(np.random.default_rng(2), ["a", "b"])
    predictions["b"] = {1: predictions["b"][1]}
    bootstrap = SeedPairBootstrap(predictions, gold, resamples=200)
    assert bootstrap.difference("a", "b")[1] == 3
    assert bootstrap.mean("b").std is None


def test_variant_that_lost_its_seeds_is_never_significant():
    predictions, gold = equal_variants(np.random.default_rng(3), ["a"], seeds=5)
    predictions["b"] = {1: np.random.default_rng(4).normal(0, 1, len(gold))}  # far worse, with one seed
    one_planned = SeedPairBootstrap(predictions, gold, resamples=300).comparisons()[0]
    assert (one_planned.winner, one_planned.seeds) == ("a", 5)
    planned = {"a": 5, "b": 5}
    lost = SeedPairBootstrap(predictions, gold, planned_seeds=planned, resamples=300).comparisons()[0]
    assert (lost.winner, lost.seeds) == (None, 1)
    predictions["a"] = {1: predictions["a"][1]}
    both_lost = SeedPairBootstrap(predictions, gold, planned_seeds=planned, resamples=300).comparisons()[0]
    assert not both_lost.significant
    assert SeedPairBootstrap(predictions, gold, resamples=300).comparisons()[0].winner == "a"  # one seed was planned


def test_variant_with_undefined_correlation_is_left_out():
    predictions, gold = equal_variants(np.random.default_rng(3), ["a"])
    predictions["constant"] = {1: np.ones(len(gold))}
    assert SeedPairBootstrap(predictions, gold, resamples=50).variants == ["a"]


def test_false_positives_are_rare():
    """At most 5% are expected, and the test is conservative; 12 of 120 leaves room for chance."""
    false_positives = 0
    for number in range(120):
        predictions, gold = equal_variants(np.random.default_rng(number), ["a", "b"], pairs=80)
        comparison = SeedPairBootstrap(predictions, gold, resamples=200, seed=number).comparisons()[0]
        false_positives += comparison.significant
    assert false_positives <= 12


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), seeds=st.integers(1, 4))
def test_difference_is_antisymmetric(seed, seeds):
    predictions, gold = equal_variants(np.random.default_rng(seed), ["a", "b"], seeds=seeds, pairs=40)
    bootstrap = SeedPairBootstrap(predictions, gold, resamples=60)
    (forward, n), (backward, m) = bootstrap.difference("a", "b"), bootstrap.difference("b", "a")
    assert n == m
    assert forward.value == pytest.approx(-backward.value)
    mirrored = (-backward.ci_high, -backward.ci_low, backward.p_value)
    assert (forward.ci_low, forward.ci_high, forward.p_value) == pytest.approx(mirrored)
    assert forward.ci_low <= forward.value <= forward.ci_high
