"""Confidence intervals and significance tests over seeds and test pairs together.

A score varies for two reasons: another seed trains another model, and other test pairs give another correlation. An
interval over pairs alone takes seed variance for an effect; an interval over seeds alone ignores that the test set is a
sample. Both are counted here. For variants A and B with seeds s = 1 … S and the difference d(s) of their correlations:

    D         mean of d(s)
    seeds     variance of d(s) over seeds, divided by S, with S - 1 degrees of freedom
    pairs     variance of D over bootstrap resamples of the test pairs (the same for all models), n - 1 degrees
    D / √(seeds + pairs)   is compared with Student's t, with Welch-Satterthwaite degrees of freedom

Variants are matched by seed. What seeds and pairs have in common is counted twice, which is slightly conservative.
P-values are Holm-corrected over all pairs of variants; a difference is significant below 0.05. With one planned seed
only the pairs count, and the result holds for these models only. If several seeds were planned and only one has
finished, no difference is called significant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from kosbert.evaluation.resampling import bootstrap
from kosbert.evaluation.significance import holm
from kosbert.evaluation.sts import correlation
from kosbert.study.summary import PairwiseComparison, VariantMean

Floats = NDArray[np.float64]
ALPHA = 0.05


@dataclass(frozen=True)
class IntervalEstimate:
    """A mean with its confidence interval and the p-value of the hypothesis that it is 0."""

    value: float
    ci_low: float
    ci_high: float
    p_value: float


def interval_estimate(
    per_seed: Sequence[float], resampled: Floats, pairs: int, level: float = 0.95
) -> IntervalEstimate:
    """Estimate a mean over seeds with the variance of both seeds and pairs.

    Args:
        per_seed: the value of each seed.
        resampled: the mean over seeds on each bootstrap resample of the pairs.
        pairs: number of pairs.
        level: of the confidence interval.
    """
    values = np.asarray(per_seed, np.float64)
    seeds, value = len(values), float(values.mean())
    seed_variance = float(values.var(ddof=1)) / seeds if seeds > 1 else 0.0
    finite = resampled[np.isfinite(resampled)]
    pair_variance = float(finite.var(ddof=1)) if len(finite) > 1 else 0.0
    variance = seed_variance + pair_variance
    if variance <= 0:
        return IntervalEstimate(value, value, value, 1.0 if value == 0 else 0.0)
    satterthwaite = (seed_variance**2 / (seeds - 1) if seeds > 1 else 0.0) + pair_variance**2 / (pairs - 1)
    df = variance**2 / satterthwaite
    error = variance**0.5
    margin = float(t.ppf((1 + level) / 2, df)) * error
    return IntervalEstimate(value, value - margin, value + margin, float(2 * t.sf(abs(value) / error, df)))


class SeedPairBootstrap:
    """Correlations of all runs on the same bootstrap resamples of the test pairs."""

    def __init__(
        self,
        predictions: Mapping[str, Mapping[int, Floats]],
        gold: Floats,
        coefficient: str = "spearman",
        *,
        planned_seeds: Mapping[str, int] | None = None,
        resamples: int = 1_000,
        seed: int = 0,
    ) -> None:
        """Resample the predictions; variants with an undefined correlation are left out.

        Args:
            predictions: by variant and seed.
            gold: human scores.
            coefficient: spearman or pearson.
            planned_seeds: seeds that each variant should have. A variant planned with one seed is the same for every
                seed (TF-IDF); a variant that lost the others is not.
            resamples: number of bootstrap resamples.
            seed: of the resampling.
        """
        self.pairs = len(gold)
        self.planned_seeds = {name: len(seeds) for name, seeds in predictions.items()} | dict(planned_seeds or {})
        correlations = {
            (variant, number): correlation(coefficient, values, gold)
            for variant, seeds in predictions.items()
            for number, values in seeds.items()
        }
        undefined = {variant for (variant, _), value in correlations.items() if value is None}
        self.variants = [name for name in predictions if name not in undefined and predictions[name]]
        runs = [(variant, number) for variant in self.variants for number in predictions[variant]]
        self.values = {run: float(value) for run in runs if (value := correlations[run]) is not None}
        resampled = bootstrap(
            [predictions[variant][number] for variant, number in runs], gold, (coefficient,), resamples=resamples,
            seed=seed,
        )[coefficient] if runs else np.empty((0, resamples))  # fmt: skip
        self.resampled = dict(zip(runs, resampled, strict=True))

    def seeds(self, variant: str) -> list[int]:
        """Return the seeds of a variant."""
        return sorted(number for name, number in self.values if name == variant)

    def mean(self, variant: str) -> VariantMean:
        """Return the mean of a variant over its seeds."""
        seeds = self.seeds(variant)
        per_seed = [self.values[variant, seed] for seed in seeds]
        resampled = np.mean([self.resampled[variant, seed] for seed in seeds], axis=0)
        estimate = interval_estimate(per_seed, resampled, self.pairs)
        std = float(np.std(per_seed, ddof=1)) if len(per_seed) > 1 else None
        return VariantMean(
            per_seed=per_seed, mean=estimate.value, std=std, ci_low=estimate.ci_low, ci_high=estimate.ci_high
        )

    def difference(self, first: str, second: str) -> tuple[IntervalEstimate, int]:
        """Return first minus second, matched by seed, and the number of matches.

        A variant planned with one seed is compared with every seed of the other.
        """
        first_seeds, second_seeds = self.seeds(first), self.seeds(second)
        planned = self.planned_seeds[first], self.planned_seeds[second]
        matches = [(seed, seed) for seed in first_seeds if seed in second_seeds]
        if 1 in planned:
            matches = [(a, b) for a in first_seeds for b in second_seeds]
        if not matches:
            matches = list(zip(first_seeds, second_seeds, strict=False))
        per_seed = [self.values[first, a] - self.values[second, b] for a, b in matches]
        resampled = np.mean([self.resampled[first, a] - self.resampled[second, b] for a, b in matches], axis=0)
        estimate = interval_estimate(per_seed, resampled, self.pairs)
        if len(matches) == 1 and max(planned) > 1:
            estimate = replace(estimate, p_value=1.0)  # the variance over seeds is unknown
        return estimate, len(matches)

    def comparisons(self) -> list[PairwiseComparison]:
        """Compare every two variants, with Holm's correction over all pairs."""
        names = list(combinations(self.variants, 2))
        differences = [self.difference(first, second) for first, second in names]
        corrected = holm([estimate.p_value for estimate, _ in differences]) if differences else []
        comparisons = []
        for (first, second), (estimate, seeds), p_value in zip(names, differences, corrected, strict=True):
            better = first if estimate.value > 0 else second
            comparisons.append(
                PairwiseComparison(
                    first=first,
                    second=second,
                    difference=estimate.value,
                    ci_low=estimate.ci_low,
                    ci_high=estimate.ci_high,
                    p_value=p_value,
                    seeds=seeds,
                    significant=p_value < ALPHA,
                    winner=better if p_value < ALPHA else None,
                )
            )
        return comparisons
