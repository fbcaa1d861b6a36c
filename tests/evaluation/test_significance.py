"""Statistics against scipy, published examples, plain loops, and simulations."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kosbert.evaluation.resampling import SortedVariable, bootstrap, draw_counts, jackknife, permuted_differences
from kosbert.evaluation.significance import (
    ConfidenceInterval,
    CorrelationDifference,
    compare,
    confidence_limits,
    correlation_intervals,
    decide_winners,
    holm,
    seed_statistics,
    steiger,
    williams,
    wilson_interval,
)
from kosbert.evaluation.sts import correlation

REFERENCE = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}


def correlated(pairs: int, seed: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions without ties and gold scores with many."""
    generator = np.random.default_rng(seed)
    gold = np.round(generator.uniform(0, 5, pairs), 1)
    return gold + generator.normal(0, noise, pairs), gold


# Resampling: fast and plain implementations agree.


def test_counts_have_the_distribution_of_bootstrap_resamples() -> None:
    blocks = list(draw_counts(1_000, 250, seed=3))
    counts = np.concatenate(blocks, axis=1)
    assert len(blocks) > 1
    assert counts.shape == (1_000, 250)
    assert set(counts.sum(axis=0)) == {1_000}
    # The count of a pair is binomial: mean 1, variance 1 - 1/n; 36.8% of the pairs are not drawn.
    assert counts.var() == pytest.approx(1, abs=0.02)
    assert (counts == 0).mean() == pytest.approx(np.exp(-1), abs=0.005)
    np.testing.assert_array_equal(counts, np.concatenate(list(draw_counts(1_000, 250, seed=3)), axis=1))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=30))
def test_ranks_from_counts_equal_ranks_of_the_resample(cells) -> None:
    values, counts = (np.array(column) for column in zip(*cells, strict=True))
    ranks = SortedVariable(values).ranks(counts[:, None].astype(np.float32))[:, 0]
    repeated = np.repeat(values, counts)
    expected = stats.rankdata(repeated) - (len(repeated) + 1) / 2
    np.testing.assert_allclose(np.repeat(ranks, counts), expected, atol=1e-6)


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_bootstrap_equals_correlations_of_explicit_resamples(coefficient) -> None:
    first, gold = correlated(80, seed=1)
    second = np.round(first, 0)
    resampled = bootstrap([first, second], gold, ["pearson", "spearman"], resamples=40, seed=5)[coefficient]
    counts = np.concatenate(list(draw_counts(80, 40, seed=5)), axis=1).astype(int)
    for row, prediction in enumerate((first, second)):
        expected = [
            REFERENCE[coefficient](np.repeat(prediction, column), np.repeat(gold, column))[0] for column in counts.T
        ]
        np.testing.assert_allclose(resampled[row], expected, atol=1e-6)


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_jackknife_equals_explicit_leave_one_out(coefficient) -> None:
    prediction, gold = correlated(70, seed=2)
    prediction, gold = np.round(prediction, 0), np.round(gold, 0)  # ties in both
    expected = [REFERENCE[coefficient](np.delete(prediction, k), np.delete(gold, k))[0] for k in range(70)]
    np.testing.assert_allclose(jackknife(prediction, gold, coefficient), expected, atol=1e-12)


# Intervals.


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_confidence_limits_equal_scipy_on_the_same_resamples(coefficient, method) -> None:
    prediction, gold = correlated(60, seed=3, noise=0.6)

    def statistic(x, y):
        return REFERENCE[coefficient](x, y)[0]

    expected = stats.bootstrap(
        (prediction, gold), statistic, paired=True, vectorized=False, n_resamples=400, method=method,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    leave_one_out = jackknife(prediction, gold, coefficient) if method == "BCa" else None
    limits = confidence_limits(expected.bootstrap_distribution, statistic(prediction, gold), leave_one_out)
    assert limits == pytest.approx(tuple(expected.confidence_interval), abs=1e-10)


def test_percentile_and_bca_intervals_are_close_but_not_equal() -> None:
    prediction, gold = correlated(1_379, seed=4)
    percentile = correlation_intervals(prediction, gold, method="percentile", resamples=2_000)
    bca = correlation_intervals(prediction, gold, method="bca", resamples=2_000)
    for name in ("pearson", "spearman"):
        assert percentile[name].value == bca[name].value == pytest.approx(REFERENCE[name](prediction, gold)[0])
        assert percentile[name] != bca[name]
        assert bca[name].low == pytest.approx(percentile[name].low, abs=0.003)
        assert bca[name].low < bca[name].value < bca[name].high


def test_interval_width_at_the_size_of_korsts() -> None:
    """At n = 1,379 a Spearman of about 0.86 has an interval of about ±1.6 points."""
    prediction, gold = correlated(1_379, seed=0, noise=0.87)
    interval = correlation_intervals(prediction, gold)["spearman"]
    assert interval.value == pytest.approx(0.86, abs=0.01)
    assert 0.010 < (interval.high - interval.low) / 2 < 0.020


def test_intervals_of_degenerate_inputs() -> None:
    assert correlation_intervals(np.ones(30), np.arange(30.0)) == {"pearson": None, "spearman": None}
    assert correlation_intervals(np.arange(30.0), np.zeros(30))["spearman"] is None
    perfect = correlation_intervals(np.arange(30.0), np.arange(30.0))["spearman"]
    assert (perfect.low, perfect.high) == (1, 1)
    tiny = correlation_intervals(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), resamples=200)["pearson"]
    assert -1 <= tiny.low <= tiny.high <= 1  # constant resamples are dropped, so nothing is NaN


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_have_their_nominal_coverage(method) -> None:
    """93% to 97% of the 95% intervals must cover the true correlation: 600 samples of 120 pairs of normal variables."""
    rho = 0.8
    truth = {"pearson": rho, "spearman": 6 / np.pi * np.arcsin(rho / 2)}  # Pearson 1907, for normal variables
    generator = np.random.default_rng(2024)
    covered = dict.fromkeys(truth, 0)
    for sample in range(600):
        x, y = generator.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 120, method="cholesky").T
        intervals = correlation_intervals(x, y, method=method, resamples=600, seed=sample)
        for name, value in truth.items():
            covered[name] += intervals[name].covers(value)
    for name, count in covered.items():
        assert 0.93 <= count / 600 <= 0.97, (name, count / 600)


def test_seed_statistics_equal_scipy() -> None:
    scores = [0.861, 0.857, 0.866, 0.859]
    statistics = seed_statistics(scores)
    assert (statistics.runs, statistics.mean) == (4, pytest.approx(np.mean(scores)))
    assert statistics.std == pytest.approx(np.std(scores, ddof=1))
    expected = stats.t.interval(0.95, 3, loc=np.mean(scores), scale=stats.sem(scores))
    assert (statistics.low, statistics.high) == pytest.approx(expected)
    single = seed_statistics([0.8])
    assert (single.mean, single.std, single.low, single.high) == (0.8, None, None, None)
    with pytest.raises(ValueError, match="no runs"):
        seed_statistics([])


def test_wilson_interval_matches_published_values() -> None:
    """81 of 263: 0.2553 to 0.3662 (Newcombe 1998, table I, method 3); 0 of 20: 0 to 0.1611."""
    interval = wilson_interval(81, 263)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)
    assert interval.value == pytest.approx(81 / 263)
    interval = wilson_interval(0, 20)
    assert (interval.low, round(interval.high, 4)) == (0, 0.1611)


# Dependent correlations: published examples.


def test_williams_and_steiger_match_the_example_of_steiger_1980() -> None:
    """Steiger 1980, case A, and the help of psych::r.test: r12 = .40, r13 = .50, r23 = .10, n = 103."""
    statistic, p = williams(0.40, 0.50, 0.10, 103)
    assert statistic == pytest.approx(-0.89, abs=0.005)
    assert p == pytest.approx(0.37, abs=0.005)
    assert steiger(0.40, 0.50, 0.10, 103)[0] == pytest.approx(-0.89, abs=0.005)


def test_williams_matches_the_example_of_r_psych() -> None:
    """The help of R's psych::r.test prints p < 0.1000759 for these correlations of 5,105 cases."""
    p = williams(0.693458895410494, 0.695966022434845, 0.988475791500198, 5105)[1]
    assert round(p, 7) == 0.1000759


@pytest.mark.parametrize(
    ("first", "second", "between", "pairs", "t", "z"),
    [  # printed by R's cocor 1.1-4 (williams1959, steiger1980) for correlations with four decimals
        (0.8066, 0.2383, 0.2255, 177, 9.3823, 8.5460),
        (-0.1741, 0.2015, 0.3734, 646, -9.0340, -8.6124),
        (0.7245, 0.7108, 0.8972, 15549, 5.5544, 5.5498),
    ],
)
def test_williams_and_steiger_match_r_cocor(first, second, between, pairs, t, z) -> None:
    # The printed correlations are rounded: half a unit of the last digit of their difference.
    tolerance = 1e-4 / abs(first - second) * abs(t) + 1e-3
    assert williams(first, second, between, pairs)[0] == pytest.approx(t, abs=tolerance)
    assert steiger(first, second, between, pairs)[0] == pytest.approx(z, abs=tolerance)


def test_williams_and_steiger_at_their_limits() -> None:
    for test in (williams, steiger):
        assert test(0.8, 0.8, 0.9, 100) == (0.0, 1.0)
        assert test(0.8, 0.7, 0.6, 100)[0] == pytest.approx(-test(0.7, 0.8, 0.6, 100)[0])
        assert test(0.8, 0.7, 0.9, 100)[1] < test(0.8, 0.7, 0.2, 100)[1]  # the more models agree, the more power
        with pytest.raises(ValueError, match="4 pairs"):
            test(0.5, 0.4, 0.3, 3)


# Two models on the same pairs.


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_permuted_differences_equal_exhaustive_permutation(coefficient) -> None:
    """With eight pairs all 256 permutations can be enumerated; half of them mirror the other half."""
    first, gold = correlated(8, seed=6, noise=0.5)
    second = np.random.default_rng(8).normal(size=8) * 100  # on another scale
    if coefficient == "spearman":
        x, y = stats.rankdata(first), stats.rankdata(second)
    else:
        x, y = stats.zscore(first), stats.zscore(second)
    exact = []
    for coins in product((True, False), repeat=8):
        a, b = np.where(coins, x, y), np.where(coins, y, x)
        exact.append(correlation(coefficient, a, gold) - correlation(coefficient, b, gold))
    permuted = permuted_differences(first, second, gold, coefficient, resamples=20_000, seed=0)
    assert {round(value, 5) + 0.0 for value in permuted} == {round(value, 5) + 0.0 for value in exact}
    for threshold in (0.2, 0.5, 0.9):
        expected = np.mean(np.abs(exact) > threshold)
        assert np.mean(np.abs(permuted) > threshold) == pytest.approx(expected, abs=0.015)


def test_comparison_is_invariant_to_monotonic_scaling() -> None:
    first, gold = correlated(200, seed=9)
    second, _ = correlated(200, seed=9, noise=1.4)
    unscaled = compare(first, second, gold, resamples=500)
    scaled = compare(first, np.exp(second / 3) * 1_000, gold, resamples=500)
    assert unscaled == scaled


def test_model_compared_with_itself_is_a_tie() -> None:
    model, gold = correlated(150, seed=10)
    difference = compare(model, model * 2, gold, resamples=500)
    assert (difference.interval, difference.randomization_p) == (ConfidenceInterval(0, 0, 0), 1)
    assert difference.williams_p == difference.steiger_p == 1
    assert decide_winners({"set": difference})["set"].winner == "tie"


def test_clear_difference_is_significant_in_both_directions() -> None:
    better, gold = correlated(400, seed=11, noise=0.5)
    worse = gold + np.random.default_rng(12).normal(0, 2, 400)
    for coefficient in ("pearson", "spearman"):
        difference = compare(better, worse, gold, coefficient, resamples=1_000)
        assert difference.first > difference.second
        assert difference.interval.value == pytest.approx(difference.first - difference.second)
        assert difference.interval.low > 0
        assert max(difference.randomization_p, difference.williams_p, difference.steiger_p) < 0.002
        reverse = compare(worse, better, gold, coefficient, resamples=1_000)
        assert reverse.interval.value == -difference.interval.value
        assert decide_winners({"set": difference})["set"].winner == "first"
        assert decide_winners({"set": reverse})["set"].winner == "second"


def test_comparison_with_a_constant_model_is_undefined() -> None:
    model, gold = correlated(50, seed=13)
    assert compare(model, np.ones(50), gold, resamples=100) is None
    assert decide_winners({"set": None}) == {"set": None}


def test_false_positive_rate_is_nominal() -> None:
    """Under the null hypothesis each test at 5%, and each 95% interval, is wrong about 5% of the time."""
    generator = np.random.default_rng(5)
    wrong = {"randomization_p": 0, "williams_p": 0, "steiger_p": 0, "interval": 0}
    trials = 300
    for trial in range(trials):
        gold = generator.normal(size=100)
        shared = generator.normal(size=100)
        first, second = (gold + shared * 0.5 + generator.normal(size=100) * 0.6 for _ in range(2))
        difference = compare(first, second, gold, resamples=400, seed=trial)
        wrong["interval"] += not difference.interval.covers(0)
        for name in ("randomization_p", "williams_p", "steiger_p"):
            wrong[name] += getattr(difference, name) < 0.05
    for name, count in wrong.items():
        assert 0.02 <= count / trials <= 0.09, (name, count / trials)


def test_holm_matches_hand_computed_values() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_the_order_and_never_lowers_a_p_value(p_values) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)
    if len(p_values) == 1:
        assert adjusted == p_values


def test_winner_needs_both_interval_and_test() -> None:
    def difference(low: float, high: float, p: float) -> CorrelationDifference:
        interval = ConfidenceInterval((low + high) / 2, low, high)
        return CorrelationDifference("spearman", 100, 0.8, 0.7, interval, p, p, p)

    table = {
        "first is better": difference(0.01, 0.05, 0.001),
        "second is better": difference(-0.05, -0.01, 0.001),
        "interval covers 0": difference(-0.01, 0.05, 0.001),
        "interval touches 0": difference(0.0, 0.05, 0.001),
        "test is not significant": difference(0.01, 0.05, 0.06),
    }
    results = decide_winners(table)
    assert [result.winner for result in results.values()] == ["first", "second", "tie", "tie", "tie"]
    # A p-value of 0.03 is significant alone, but not as one of two.
    assert decide_winners({"alone": difference(0.01, 0.05, 0.03)})["alone"].winner == "first"
    assert decide_winners({str(n): difference(0.01, 0.05, 0.03) for n in range(2)})["0"].winner == "tie"
