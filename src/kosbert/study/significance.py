"""Seeds and pairs together: how sure is a row's mean, and which rows differ?

A score moves for two reasons. Another seed trains another model; other test pairs would give another correlation. An
interval over pairs alone calls luck of the seed a finding, one over seeds alone forgets that the test set is a sample.
Both count here. For rows A and B with the seeds s = 1 … S and the difference d(s) of their correlations:

    D         the mean of d(s)
    seeds     variance of d(s) over the seeds, divided by S, with S - 1 degrees of freedom
    pairs     variance of D when the test pairs are resampled, the same for all models, with n - 1 degrees of freedom
    D / √(seeds + pairs)   is compared with Student's t, degrees of freedom after Welch and Satterthwaite

Rows are matched by seed. What seeds and pairs share is counted in both, which makes the test a little cautious. Over
all pairs of rows of a table the p-values are corrected by Holm; below 0.05 a difference counts, all else is a tie.
Where one seed was asked for only the pairs speak, and the verdict is about these very models; where more were asked for
and only one has finished, there is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from kosbert.evaluation.resampling import bootstrap
from kosbert.evaluation.significance import holm
from kosbert.evaluation.sts import correlation

Floats = NDArray[np.float64]
ALPHA = 0.05


@dataclass(frozen=True)
class Estimate:
    """A number with its interval over seeds and pairs, and the p-value that it is 0."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Mean:
    """A row's score: the seeds' own values, their mean and deviation, and the interval over seeds and pairs."""

    runs: list[float]
    mean: float
    deviation: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """First row less second, after Holm's correction."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    seeds: int
    verdict: Literal["first", "second", "tie"]


def estimate(over_seeds: Sequence[float], over_pairs: Floats, pairs: int, level: float = 0.95) -> Estimate:
    """A mean over seeds with both of its uncertainties.

    Args:
        over_seeds: the value of each seed.
        over_pairs: the mean over seeds on each resample of the pairs.
        pairs: how many pairs there are.
        level: of the interval.
    """
    values = np.asarray(over_seeds, np.float64)
    seeds, value = len(values), float(values.mean())
    by_seed = float(values.var(ddof=1)) / seeds if seeds > 1 else 0.0
    drawn = over_pairs[np.isfinite(over_pairs)]
    by_pair = float(drawn.var(ddof=1)) if len(drawn) > 1 else 0.0
    variance = by_seed + by_pair
    if variance <= 0:
        return Estimate(value, value, value, 1.0 if value == 0 else 0.0)
    parts = (by_seed**2 / (seeds - 1) if seeds > 1 else 0.0) + by_pair**2 / (pairs - 1)
    freedom = variance**2 / parts
    error = variance**0.5
    margin = float(t.ppf((1 + level) / 2, freedom)) * error
    return Estimate(value, value - margin, value + margin, float(2 * t.sf(abs(value) / error, freedom)))


class Resampled:
    """The correlations of all runs of a table on the same resamples of the pairs, drawn once."""

    def __init__(
        self,
        predictions: Mapping[str, Mapping[int, Floats]],
        gold: Floats,
        coefficient: str = "spearman",
        *,
        planned: Mapping[str, int] | None = None,
        resamples: int = 1_000,
        seed: int = 0,
    ) -> None:
        """Take the predictions by row and by seed; rows with an undefined correlation are left out.

        `planned` says how many seeds a row was to have, where some may be missing: a row of one seed is the same with
        every seed (TF-IDF), but a row that lost all others is not.
        """
        self.pairs = len(gold)
        self.planned = {row: len(seeds) for row, seeds in predictions.items()} | dict(planned or {})
        values = {
            (row, number): correlation(coefficient, each, gold)
            for row, seeds in predictions.items()
            for number, each in seeds.items()
        }
        undefined = {row for (row, _), value in values.items() if value is None}
        self.rows = [row for row in predictions if row not in undefined and predictions[row]]
        known = [(row, number) for row in self.rows for number in predictions[row]]
        self.values = {each: float(value) for each in known if (value := values[each]) is not None}
        drawn = bootstrap(
            [predictions[row][number] for row, number in known], gold, (coefficient,), resamples=resamples, seed=seed
        )[coefficient] if known else np.empty((0, resamples))  # fmt: skip
        self.drawn = dict(zip(known, drawn, strict=True))

    def seeds(self, row: str) -> list[int]:
        """The seeds of a row."""
        return sorted(number for name, number in self.values if name == row)

    def mean(self, row: str) -> Mean:
        """A row's mean over its seeds."""
        seeds = self.seeds(row)
        runs = [self.values[row, seed] for seed in seeds]
        found = estimate(runs, np.mean([self.drawn[row, seed] for seed in seeds], axis=0), self.pairs)
        deviation = float(np.std(runs, ddof=1)) if len(runs) > 1 else None
        return Mean(runs, found.value, deviation, found.low, found.high)

    def difference(self, first: str, second: str) -> tuple[Estimate, int]:
        """First row less second, matched by seed; a row of one seed is held against every seed of the other."""
        ours, theirs = self.seeds(first), self.seeds(second)
        wanted = self.planned[first], self.planned[second]
        matched = [(seed, seed) for seed in ours if seed in theirs]
        if 1 in wanted:
            matched = [(one, other) for one in ours for other in theirs]
        if not matched:
            matched = list(zip(ours, theirs, strict=False))
        runs = [self.values[first, one] - self.values[second, other] for one, other in matched]
        drawn = np.mean([self.drawn[first, one] - self.drawn[second, other] for one, other in matched], axis=0)
        found = estimate(runs, drawn, self.pairs)
        if len(matched) == 1 and max(wanted) > 1:
            found = replace(found, p=1.0)  # what the missing seeds would say is not known
        return found, len(matched)

    def comparisons(self) -> list[Comparison]:
        """Every two rows, judged together."""
        pairs = list(combinations(self.rows, 2))
        found = [self.difference(*pair) for pair in pairs]
        corrected = holm([each.p for each, _ in found]) if found else []
        made = []
        for (first, second), (each, seeds), p in zip(pairs, found, corrected, strict=True):
            ahead: Literal["first", "second"] = "first" if each.value > 0 else "second"
            verdict: Literal["first", "second", "tie"] = ahead if p < ALPHA else "tie"
            made.append(Comparison(first, second, each.value, each.low, each.high, p, seeds, verdict))
        return made
