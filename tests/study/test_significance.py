"""Seeds and pairs: known answers, and that nothing is called a difference too often."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.evaluation.significance import seed_statistics
from kosbert.study.significance import Resampled, estimate


def table(rng, rows, seeds=3, pairs=120, noise=1.0, seed_noise=0.5):
    """Predictions of rows that are equally good: gold and noise of the pair, and each seed's own."""
    gold = rng.uniform(0, 5, pairs)
    found = {}
    for row in rows:
        found[row] = {
            s: gold + rng.normal(0, noise, pairs) + rng.normal(0, seed_noise, pairs) for s in range(1, seeds + 1)
        }
    return found, gold


def test_without_pairs_it_is_the_t_interval_over_seeds():
    scores = [0.861, 0.857, 0.866]
    found, known = estimate(scores, np.full(50, 0.86), 1000), seed_statistics(scores)
    assert (found.value, found.low, found.high) == pytest.approx((known.mean, known.low, known.high))


def test_without_seeds_it_is_the_spread_of_the_resamples():
    drawn = np.random.default_rng(0).normal(0.8, 0.01, 20_000)
    found = estimate([0.8], drawn, 1_000_000)
    assert (found.low, found.high) == pytest.approx((0.8 - 1.96 * 0.01, 0.8 + 1.96 * 0.01), abs=5e-4)


def test_both_together_are_wider_than_either():
    drawn = np.random.default_rng(0).normal(0.86, 0.01, 2_000)
    scores = [0.85, 0.86, 0.87]
    both, seeds, pairs = (
        estimate(*each, 500) for each in ((scores, drawn), (scores, drawn * 0 + 0.86), ([0.86], drawn))
    )
    # The degrees of freedom grow with the second part, so the width is compared on the scale of the error.
    assert both.high - both.low > pairs.high - pairs.low
    assert both.p >= 0
    assert seeds.low < 0.86 < seeds.high


def test_equal_models_are_a_tie_and_a_clear_difference_is_one():
    found, gold = table(np.random.default_rng(1), ["a", "b"])
    found["b"] = found["a"]
    found["worse"] = {s: np.random.default_rng(s).normal(0, 1, len(gold)) for s in (1, 2, 3)}
    compared = {(each.first, each.second): each for each in Resampled(found, gold, resamples=300).comparisons()}
    assert compared["a", "b"].verdict == "tie"
    assert compared["a", "b"].difference == 0
    assert compared["a", "worse"].verdict == "first"
    assert compared["b", "worse"].low > 0


def test_a_row_with_one_run_is_held_against_every_seed():
    found, gold = table(np.random.default_rng(2), ["a", "b"])
    found["b"] = {1: found["b"][1]}
    resampled = Resampled(found, gold, resamples=200)
    assert resampled.difference("a", "b")[1] == 3
    assert resampled.mean("b").deviation is None


def test_a_row_that_lost_its_seeds_is_not_judged():
    found, gold = table(np.random.default_rng(3), ["a"], seeds=5)
    found["b"] = {1: np.random.default_rng(4).normal(0, 1, len(gold))}  # far worse, with one seed
    as_planned = Resampled(found, gold, resamples=300).comparisons()[0]
    assert (as_planned.verdict, as_planned.seeds) == ("first", 5)
    lost = Resampled(found, gold, planned={"a": 5, "b": 5}, resamples=300).comparisons()[0]
    assert (lost.verdict, lost.seeds) == ("tie", 1)
    found["a"] = {1: found["a"][1]}
    assert Resampled(found, gold, planned={"a": 5, "b": 5}, resamples=300).comparisons()[0].verdict == "tie"
    assert Resampled(found, gold, resamples=300).comparisons()[0].verdict == "first"  # one was asked for


def test_an_undefined_row_is_left_out():
    found, gold = table(np.random.default_rng(3), ["a"])
    found["constant"] = {1: np.ones(len(gold))}
    assert Resampled(found, gold, resamples=50).rows == ["a"]


def test_rows_that_do_not_differ_are_rarely_told_apart():
    """Five per cent at most, and the test is cautious; 120 tables of equal rows."""
    wrong = 0
    for number in range(120):
        found, gold = table(np.random.default_rng(number), ["a", "b"], pairs=80)
        wrong += Resampled(found, gold, resamples=200, seed=number).comparisons()[0].verdict != "tie"
    assert wrong <= 12


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), seeds=st.integers(1, 4))
def test_the_other_way_round_is_the_same_difference(seed, seeds):
    found, gold = table(np.random.default_rng(seed), ["a", "b"], seeds=seeds, pairs=40)
    resampled = Resampled(found, gold, resamples=60)
    (one, n), (other, m) = resampled.difference("a", "b"), resampled.difference("b", "a")
    assert n == m
    assert one.value == pytest.approx(-other.value)
    assert (one.low, one.high, one.p) == pytest.approx((-other.high, -other.low, other.p))
    assert one.low <= one.value <= one.high
