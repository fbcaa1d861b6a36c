"""Fast resampled correlations, for `kosbert.evaluation.significance`: thousands in a second.

A bootstrap resample of n pairs is a column of counts: how often each pair was drawn. Then

- Pearson needs five sums weighted by the counts: one matrix product for all resamples;
- Spearman needs the ranks within the resample. Values are sorted once; in that order the cumulative counts are the
  ranks, and equal values share their midrank. A resample costs a cumulative sum and no sort.

Arrays are (pairs, resamples), so that reordering pairs copies whole rows. Undefined correlations are NaN here.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float32]
Floats = NDArray[np.float64]

_CELLS = 100_000  # counts per block: with their ranks they stay in the cache of one core


class SortedVariable:
    """One variable of the pairs (gold or predicted scores), sorted once for all resamples."""

    def __init__(self, values: NDArray[np.floating]) -> None:
        values = np.asarray(values, np.float64)
        std = values.std()
        self.standardized: Floats = (values - values.mean()) / (std if std > 0 else 1)
        _, self._group, sizes = np.unique(values, return_inverse=True, return_counts=True)
        self._order = np.argsort(self._group, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.ties: NDArray[np.int64] = sizes[self._group]  # for each pair, how many pairs share its value

    def ranks(self, counts: Counts) -> Counts:
        """Return centered ranks within every resample, (pairs, resamples); ties share their midrank."""
        sizes = counts[self._order]
        if len(self._starts) < len(sizes):
            sizes = np.add.reduceat(sizes, self._starts, axis=0)  # (distinct values, resamples)
        ranks = np.cumsum(sizes, axis=0)  # exact: halves below 2**23 are float32 numbers
        total = ranks[-1] if len(ranks) else np.float32(0)
        ranks = ranks - total / 2  # the mean of (below + (1 + size) / 2) is (1 + total) / 2
        ranks -= sizes / 2
        return ranks[self._group]


def draw_counts(pairs: int, resamples: int, seed: int) -> Iterator[Counts]:
    """Yield blocks of bootstrap resamples as counts, (pairs, block)."""
    generator = np.random.default_rng(seed)
    block = max(1, _CELLS // max(pairs, 1))
    for start in range(0, resamples, block):
        width = min(block, resamples - start)
        cells = generator.integers(0, pairs, (pairs, width))
        cells *= width
        cells += np.arange(width)
        yield np.bincount(cells.ravel(), minlength=pairs * width).reshape(pairs, width).astype(np.float32)


def bootstrap(
    predictions: Sequence[NDArray[np.floating]],
    gold: NDArray[np.floating],
    coefficients: Sequence[str],
    *,
    resamples: int,
    seed: int,
) -> dict[str, Floats]:
    """Correlate several predictions with `gold` on the same resamples: (predictions, resamples) by coefficient."""
    variables, target = [SortedVariable(prediction) for prediction in predictions], SortedVariable(gold)
    blocks: dict[str, list[Floats]] = {name: [] for name in coefficients}
    for counts in draw_counts(len(gold), resamples, seed):
        if "pearson" in blocks:
            blocks["pearson"].append(np.stack([_pearson(counts, variable, target) for variable in variables]))
        if "spearman" in blocks:
            ranks = target.ranks(counts)
            correlations = [_spearman(counts, variable.ranks(counts), ranks) for variable in variables]
            blocks["spearman"].append(np.stack(correlations))
    return {name: np.concatenate(columns, axis=1) for name, columns in blocks.items()}


def _pearson(counts: Counts, x: SortedVariable, y: SortedVariable) -> Floats:
    a, b = x.standardized, y.standardized
    sums = np.stack([a, b, a * a, b * b, a * b]) @ counts / len(a)  # (5, resamples)
    return _ratio(sums[4] - sums[0] * sums[1], sums[2] - sums[0] ** 2, sums[3] - sums[1] ** 2)


def _spearman(counts: Counts, x: Counts, y: Counts) -> Floats:
    """Correlate centered ranks; the scale keeps sums of squares near 1, where float32 products lose least."""
    scale = np.float32(1 / max(len(counts), 1))
    x, y = x * scale, y * scale
    weighted = counts * x
    products = (weighted * y, weighted * x, counts * y * y)
    return _ratio(*(product.sum(axis=0, dtype=np.float64) / len(counts) for product in products))


def _ratio(covariance: Floats, x_variance: Floats, y_variance: Floats) -> Floats:
    """Return correlations; NaN where a resample is constant."""
    defined = (x_variance > 1e-12) & (y_variance > 1e-12)
    scale = np.sqrt(np.where(defined, x_variance * y_variance, 1))
    return np.where(defined, np.clip(covariance / scale, -1, 1), np.nan)


def jackknife(prediction: NDArray[np.floating], gold: NDArray[np.floating], coefficient: str) -> Floats:
    """Return the correlations with each pair left out, (pairs,): BCa computes its acceleration from them."""
    x, y = SortedVariable(prediction), SortedVariable(gold)
    count = len(gold)
    if coefficient == "pearson":
        a, b = x.standardized, y.standardized
        columns = np.stack([a, b, a * a, b * b, a * b])
        sums = (columns.sum(axis=1, keepdims=True) - columns) / (count - 1)
        return _ratio(sums[4] - sums[0] * sums[1], sums[2] - sums[0] ** 2, sums[3] - sums[1] ** 2)
    # Without pair k, the rank of pair i falls by above(i, k): 1 where i is above k, 1/2 where they are equal. So
    # Σ R'S' over i ≠ k is Σ RS - Σ R·above_y - Σ S·above_x + Σ above_x·above_y. Ranks are centered.
    once = np.ones((count, 1), np.float32)
    r, s = (np.asarray(variable.ranks(once), np.float64).ravel() for variable in (x, y))
    total = r @ s
    products = np.empty(count)
    block = max(1, 2_000_000 // count)
    for start in range(0, count, block):
        rows = slice(start, start + block)
        above_x, above_y = (_above(ranks, ranks[rows]) for ranks in (r, s))  # (block, pairs)
        both = np.einsum("ki,ki->k", above_x, above_y, dtype=np.float64)
        products[rows] = total - r[rows] * s[rows] - above_y @ r - above_x @ s + both
        # Pair k is not part of the sums, but it equals itself: remove its halves.
        products[rows] += (r[rows] + s[rows]) / 2 - 0.25
    # The remaining ranks have the mean n/2; minus the old mean (n + 1)/2 that is -1/2.
    covariance = products / (count - 1) - 0.25
    return _ratio(covariance / count**2, _rank_variance(x, count) / count**2, _rank_variance(y, count) / count**2)


def _above(values: Floats, references: Floats) -> NDArray[np.float64]:
    """Return 1 where a value is above the reference, 1/2 where they are equal: (references, values)."""
    difference = np.sign(values[None, :] - references[:, None])
    return (difference + 1) / 2


def _rank_variance(variable: SortedVariable, count: int) -> Floats:
    """Return the variance of the ranks with each pair left out: (n³ - n - Σ(t³ - t)) / 12n with ties."""
    remaining = count - 1
    ties = variable.ties.astype(np.float64)
    per_pair = (ties**3 - ties) / ties  # summed over the pairs of a group this is its t³ - t
    # The group of the pair that is left out has one member fewer.
    correction = per_pair.sum() - (ties**3 - ties) + ((ties - 1) ** 3 - (ties - 1))
    variance: Floats = (remaining**3 - remaining - correction) / 12 / remaining
    return variance


def permuted_differences(
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    gold: NDArray[np.floating],
    coefficient: str,
    *,
    resamples: int,
    seed: int,
) -> Floats:
    """Return differences of two models' correlations when their predictions are swapped at random, pair by pair.

    This is the null distribution of the paired randomization test. Models put cosines on different scales, and mixing
    scales would change the correlations by itself. So ranks are swapped for Spearman, which leaves either correlation
    unchanged, and standardized values for Pearson.
    """
    x, y, target = SortedVariable(first), SortedVariable(second), SortedVariable(gold)
    count = len(gold)
    generator = np.random.default_rng(seed)
    once = np.ones((count, 1), np.float32)
    x_ranks, y_ranks, gold_ranks = (variable.ranks(once).ravel() for variable in (x, y, target))
    pool = SortedVariable(np.concatenate([x_ranks, y_ranks]))
    block = max(1, _CELLS // count)
    differences = []
    for start in range(0, resamples, block):
        width = min(block, resamples - start)
        from_first = generator.integers(0, 2, (count, width), dtype=np.int8).astype(np.float32)
        if coefficient == "pearson":
            mixed = [_mixed_pearson(mask, x, y, target) for mask in (from_first, 1 - from_first)]
        else:
            mixed = [_mixed_spearman(mask, pool, gold_ranks) for mask in (from_first, 1 - from_first)]
        differences.append(mixed[0] - mixed[1])
    return np.concatenate(differences)


def _mixed_pearson(from_first: Counts, x: SortedVariable, y: SortedVariable, target: SortedVariable) -> Floats:
    """Correlate with the target what is x where `from_first` is 1 and y where it is 0."""
    a, b, gold = x.standardized, y.standardized, target.standardized
    constants = np.stack([b, b * b, b * gold]).sum(axis=1, keepdims=True)
    sums = (np.stack([a - b, a * a - b * b, (a - b) * gold]) @ from_first + constants) / len(a)
    return _ratio(sums[2] - sums[0] * gold.mean(), sums[1] - sums[0] ** 2, np.full(len(sums[0]), gold.var()))


def _mixed_spearman(from_first: Counts, pool: SortedVariable, gold_ranks: Counts) -> Floats:
    """Do the same with ranks: the resample takes one of each pair from the pool of both models' ranks."""
    ranks = pool.ranks(np.concatenate([from_first, 1 - from_first]))
    count = len(gold_ranks)
    mixed = np.where(from_first > 0, ranks[:count], ranks[count:])
    return _spearman(np.ones_like(from_first), mixed, np.broadcast_to(gold_ranks[:, None], mixed.shape))
