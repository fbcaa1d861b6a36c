"""Statistics against scipy, against published examples, against plain loops, and by simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kosbert.evaluation.resampling import Values, bootstrap, draw_counts, jackknife, swap
from kosbert.evaluation.significance import (
    Difference,
    Interval,
    compare,
    confidence_limits,
    holm,
    intervals,
    over_seeds,
    spearman_interval,
    steiger,
    verdicts,
    williams,
)
from kosbert.evaluation.sts import correlation

REFERENCE = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}


def correlated(pairs: int, seed: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Predictions without ties and gold scores with many."""
    generator = np.random.default_rng(seed)
    gold = np.round(generator.uniform(0, 5, pairs), 1)
    return gold + generator.normal(0, noise, pairs), gold


# Resampling: the fast way equals the plain one.


def test_counts_are_resamples() -> None:
    blocks = list(draw_counts(1_000, 250, seed=3))
    counts = np.concatenate(blocks, axis=1)
    assert len(blocks) > 1
    assert counts.shape == (1_000, 250)
    assert set(counts.sum(axis=0)) == {1_000}
    # How often one pair is drawn is binomial: mean 1, variance 1 - 1/n; 0.368 of the pairs are missing.
    assert counts.var() == pytest.approx(1, abs=0.02)
    assert (counts == 0).mean() == pytest.approx(np.exp(-1), abs=0.005)
    np.testing.assert_array_equal(counts, np.concatenate(list(draw_counts(1_000, 250, seed=3)), axis=1))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=30))
def test_ranks_of_a_resample(cells) -> None:
    """Midranks from cumulative counts, ties and all, equal ranking the resample itself."""
    values, counts = (np.array(each) for each in zip(*cells, strict=True))
    ranks = Values(values).ranks(counts[:, None].astype(np.float32))[:, 0]
    repeated = np.repeat(values, counts)
    expected = stats.rankdata(repeated) - (len(repeated) + 1) / 2
    np.testing.assert_allclose(np.repeat(ranks, counts), expected, atol=1e-6)


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_bootstrap_equals_resampling_by_hand(coefficient) -> None:
    first, gold = correlated(80, seed=1)
    second = np.round(first, 0)
    drawn = bootstrap([first, second], gold, ["pearson", "spearman"], resamples=40, seed=5)[coefficient]
    counts = np.concatenate(list(draw_counts(80, 40, seed=5)), axis=1).astype(int)
    for row, prediction in enumerate((first, second)):
        expected = [REFERENCE[coefficient](np.repeat(prediction, each), np.repeat(gold, each))[0] for each in counts.T]
        np.testing.assert_allclose(drawn[row], expected, atol=1e-6)


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_jackknife_equals_leaving_out_by_hand(coefficient) -> None:
    prediction, gold = correlated(70, seed=2)
    prediction, gold = np.round(prediction, 0), np.round(gold, 0)  # ties on both sides
    expected = [REFERENCE[coefficient](np.delete(prediction, k), np.delete(gold, k))[0] for k in range(70)]
    np.testing.assert_allclose(jackknife(prediction, gold, coefficient), expected, atol=1e-12)


# Intervals.


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_limits_equal_scipy_on_the_same_draws(coefficient, method) -> None:
    prediction, gold = correlated(60, seed=3, noise=0.6)

    def statistic(x, y):
        return REFERENCE[coefficient](x, y)[0]

    theirs = stats.bootstrap(
        (prediction, gold), statistic, paired=True, vectorized=False, n_resamples=400, method=method,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    left_out = jackknife(prediction, gold, coefficient) if method == "BCa" else None
    ours = confidence_limits(theirs.bootstrap_distribution, statistic(prediction, gold), left_out)
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=1e-10)


def test_methods_differ_and_agree_roughly() -> None:
    prediction, gold = correlated(1_379, seed=4)
    percentile = intervals(prediction, gold, method="percentile", resamples=2_000)
    accelerated = intervals(prediction, gold, method="bca", resamples=2_000)
    for name in ("pearson", "spearman"):
        assert percentile[name].value == accelerated[name].value == pytest.approx(REFERENCE[name](prediction, gold)[0])
        assert percentile[name] != accelerated[name]
        assert accelerated[name].low == pytest.approx(percentile[name].low, abs=0.003)
        assert accelerated[name].low < accelerated[name].value < accelerated[name].high
    assert spearman_interval(prediction, gold) == percentile["spearman"]


def test_the_width_at_korsts_size() -> None:
    """The design notes it: at n = 1,379 a Spearman of about 0.86 has an interval of about ±1.6 points."""
    prediction, gold = correlated(1_379, seed=0, noise=0.87)
    found = intervals(prediction, gold)["spearman"]
    assert found.value == pytest.approx(0.86, abs=0.01)
    assert 0.010 < (found.high - found.low) / 2 < 0.020


def test_intervals_are_undefined_with_the_value() -> None:
    assert intervals(np.ones(30), np.arange(30.0)) == {"pearson": None, "spearman": None}
    assert spearman_interval(np.arange(30.0), np.zeros(30)) is None
    perfect = intervals(np.arange(30.0), np.arange(30.0))["spearman"]
    assert (perfect.low, perfect.high) == (1, 1)
    tiny = intervals(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), resamples=200)["pearson"]
    assert -1 <= tiny.low <= tiny.high <= 1  # constant resamples are left out, nothing is NaN


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_coverage(method) -> None:
    """Of 95% intervals, 93% to 97% must hold the true correlation: 600 samples of 120 pairs of normal variables."""
    rho = 0.8
    truth = {"pearson": rho, "spearman": 6 / np.pi * np.arcsin(rho / 2)}  # Pearson 1907, for normal variables
    generator = np.random.default_rng(2024)
    covered = dict.fromkeys(truth, 0)
    for sample in range(600):
        x, y = generator.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 120, method="cholesky").T
        found = intervals(x, y, method=method, resamples=600, seed=sample)
        for name, value in truth.items():
            covered[name] += found[name].covers(value)
    for name, count in covered.items():
        assert 0.93 <= count / 600 <= 0.97, (name, count / 600)


def test_over_seeds() -> None:
    scores = [0.861, 0.857, 0.866, 0.859]
    found = over_seeds(scores)
    assert (found.runs, found.mean) == (4, pytest.approx(np.mean(scores)))
    assert found.deviation == pytest.approx(np.std(scores, ddof=1))
    expected = stats.t.interval(0.95, 3, loc=np.mean(scores), scale=stats.sem(scores))
    assert (found.low, found.high) == pytest.approx(expected)
    one = over_seeds([0.8])
    assert (one.mean, one.deviation, one.low, one.high) == (0.8, None, None, None)
    with pytest.raises(ValueError, match="no runs"):
        over_seeds([])


# Dependent correlations: published examples.


def test_steigers_example() -> None:
    """Steiger 1980, case A, and the help of psych::r.test: r12 = .40, r13 = .50, r23 = .10, n = 103."""
    statistic, p = williams(0.40, 0.50, 0.10, 103)
    assert statistic == pytest.approx(-0.89, abs=0.005)
    assert p == pytest.approx(0.37, abs=0.005)
    assert steiger(0.40, 0.50, 0.10, 103)[0] == pytest.approx(-0.89, abs=0.005)


def test_psych_to_eight_digits() -> None:
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
def test_cocor_examples(first, second, between, pairs, t, z) -> None:
    # What is left is the rounding of the printed correlations: half a unit of the difference's last digit.
    slack = 1e-4 / abs(first - second) * abs(t) + 1e-3
    assert williams(first, second, between, pairs)[0] == pytest.approx(t, abs=slack)
    assert steiger(first, second, between, pairs)[0] == pytest.approx(z, abs=slack)


def test_tests_at_their_limits() -> None:
    for test in (williams, steiger):
        assert test(0.8, 0.8, 0.9, 100) == (0.0, 1.0)
        assert test(0.8, 0.7, 0.6, 100)[0] == pytest.approx(-test(0.7, 0.8, 0.6, 100)[0])
        assert test(0.8, 0.7, 0.9, 100)[1] < test(0.8, 0.7, 0.2, 100)[1]  # models that agree are easier to compare
        with pytest.raises(ValueError, match="4 pairs"):
            test(0.5, 0.4, 0.3, 3)


# Two models on the same pairs.


@pytest.mark.parametrize("coefficient", ["pearson", "spearman"])
def test_swapping_equals_all_swaps(coefficient) -> None:
    """With eight pairs all 256 ways can be tried; half of them mirror the other half."""
    first, gold = correlated(8, seed=6, noise=0.5)
    second = np.random.default_rng(8).normal(size=8) * 100  # on a scale of its own
    if coefficient == "spearman":
        one, other = stats.rankdata(first), stats.rankdata(second)
    else:
        one, other = stats.zscore(first), stats.zscore(second)
    exact = []
    for coins in product((True, False), repeat=8):
        a, b = np.where(coins, one, other), np.where(coins, other, one)
        exact.append(correlation(coefficient, a, gold) - correlation(coefficient, b, gold))
    drawn = swap(first, second, gold, coefficient, resamples=20_000, seed=0)
    assert {round(value, 5) + 0.0 for value in drawn} == {round(value, 5) + 0.0 for value in exact}
    for threshold in (0.2, 0.5, 0.9):
        expected = np.mean(np.abs(exact) > threshold)
        assert np.mean(np.abs(drawn) > threshold) == pytest.approx(expected, abs=0.015)


def test_the_scale_of_a_model_does_not_matter() -> None:
    first, gold = correlated(200, seed=9)
    second, _ = correlated(200, seed=9, noise=1.4)
    plain = compare(first, second, gold, resamples=500)
    stretched = compare(first, np.exp(second / 3) * 1_000, gold, resamples=500)
    assert plain == stretched


def test_a_model_ties_with_itself() -> None:
    model, gold = correlated(150, seed=10)
    found = compare(model, model * 2, gold, resamples=500)
    assert (found.interval, found.randomization) == (Interval(0, 0, 0), 1)
    assert found.williams == found.steiger == 1
    assert verdicts({"set": found})["set"].winner == "tie"


def test_a_clear_difference_and_its_direction() -> None:
    better, gold = correlated(400, seed=11, noise=0.5)
    worse = gold + np.random.default_rng(12).normal(0, 2, 400)
    for coefficient in ("pearson", "spearman"):
        found = compare(better, worse, gold, coefficient, resamples=1_000)
        assert found.first > found.second
        assert found.interval.value == pytest.approx(found.first - found.second)
        assert found.interval.low > 0
        assert max(found.randomization, found.williams, found.steiger) < 0.002
        back = compare(worse, better, gold, coefficient, resamples=1_000)
        assert back.interval.value == -found.interval.value
        assert verdicts({"set": found})["set"].winner == "first"
        assert verdicts({"set": back})["set"].winner == "second"


def test_compare_is_undefined_with_a_constant_model() -> None:
    model, gold = correlated(50, seed=13)
    assert compare(model, np.ones(50), gold, resamples=100) is None
    assert verdicts({"set": None}) == {"set": None}


def test_equal_models_are_rarely_told_apart() -> None:
    """Under the null each test at 5% must be wrong about 5% of the time, and their intervals cover 0 as often."""
    generator = np.random.default_rng(5)
    wrong = {"randomization": 0, "williams": 0, "steiger": 0, "interval": 0}
    trials = 300
    for trial in range(trials):
        gold = generator.normal(size=100)
        shared = generator.normal(size=100)
        first, second = (gold + shared * 0.5 + generator.normal(size=100) * 0.6 for _ in range(2))
        found = compare(first, second, gold, resamples=400, seed=trial)
        wrong["interval"] += not found.interval.covers(0)
        for name in ("randomization", "williams", "steiger"):
            wrong[name] += getattr(found, name) < 0.05
    for name, count in wrong.items():
        assert 0.02 <= count / trials <= 0.09, (name, count / trials)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_order_and_never_helps(p_values) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)
    if len(p_values) == 1:
        assert adjusted == p_values


def test_a_verdict_needs_both_interval_and_test() -> None:
    def difference(low: float, high: float, p: float) -> Difference:
        return Difference("spearman", 100, 0.8, 0.7, Interval((low + high) / 2, low, high), p, p, p)

    table = {
        "sure": difference(0.01, 0.05, 0.001),
        "lost": difference(-0.05, -0.01, 0.001),
        "interval covers 0": difference(-0.01, 0.05, 0.001),
        "touches 0": difference(0.0, 0.05, 0.001),
        "not by the test": difference(0.01, 0.05, 0.06),
    }
    found = verdicts(table)
    assert [each.winner for each in found.values()] == ["first", "second", "tie", "tie", "tie"]
    # Alone, 0.03 is enough; as one of two it is not.
    assert verdicts({"alone": difference(0.01, 0.05, 0.03)})["alone"].winner == "first"
    assert verdicts({str(n): difference(0.01, 0.05, 0.03) for n in range(2)})["0"].winner == "tie"
