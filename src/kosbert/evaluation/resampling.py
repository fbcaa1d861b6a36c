"""Thousands of resampled correlations in a second: the engine below `kosbert.evaluation.significance`.

A bootstrap resample of n pairs is, for every pair, how often it was drawn: a column of counts that sums to n. Then

- Pearson's correlation needs only five sums that are weighted by the counts: one matrix product for all resamples;
- Spearman's needs the ranks within the resample. The values are sorted once; going through them in that order, the
  counts add up to the ranks, and equal values share their middle. So a resample costs a cumulative sum, no sort.

Arrays are (pairs, resamples), so that reordering the pairs copies whole rows. Undefined correlations are NaN here.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float32]
Floats = NDArray[np.float64]

_CELLS = 100_000  # counts handled at once: with their ranks they stay in the cache of one core


class Values:
    """One variable of the pairs, prepared for resampling."""

    def __init__(self, values: NDArray[np.floating]) -> None:
        values = np.asarray(values, np.float64)
        spread = values.std()
        self.standardized: Floats = (values - values.mean()) / (spread if spread > 0 else 1)
        _, self._group, sizes = np.unique(values, return_inverse=True, return_counts=True)
        self._order = np.argsort(self._group, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.ties: NDArray[np.int64] = sizes[self._group]  # how many pairs share the value of each

    def ranks(self, counts: Counts) -> Counts:
        """Ranks of the pairs within every resample, less the mean rank; ties share theirs. (pairs, resamples)."""
        sizes = counts[self._order]
        if len(self._starts) < len(sizes):
            sizes = np.add.reduceat(sizes, self._starts, axis=0)  # (distinct values, resamples)
        ranks = np.cumsum(sizes, axis=0)  # exact: halves below 2**23 are float32 numbers
        total = ranks[-1] if len(ranks) else np.float32(0)
        ranks = ranks - total / 2  # the mean of (below + (1 + own) / 2) is (1 + total) / 2
        ranks -= sizes / 2
        return ranks[self._group]


def draw_counts(pairs: int, resamples: int, seed: int) -> Iterator[Counts]:
    """Bootstrap resamples as counts, block by block."""
    generator = np.random.default_rng(seed)
    block = max(1, _CELLS // max(pairs, 1))
    for start in range(0, resamples, block):
        width = min(block, resamples - start)
        drawn = generator.integers(0, pairs, (pairs, width))
        drawn *= width
        drawn += np.arange(width)
        yield np.bincount(drawn.ravel(), minlength=pairs * width).reshape(pairs, width).astype(np.float32)


def bootstrap(
    predictions: Sequence[NDArray[np.floating]],
    gold: NDArray[np.floating],
    coefficients: Sequence[str],
    *,
    resamples: int,
    seed: int,
) -> dict[str, Floats]:
    """Correlations with `gold` of each of the predictions on the same resamples: (predictions, resamples) by name."""
    columns, target = [Values(each) for each in predictions], Values(gold)
    blocks: dict[str, list[Floats]] = {name: [] for name in coefficients}
    for counts in draw_counts(len(gold), resamples, seed):
        if "pearson" in blocks:
            blocks["pearson"].append(np.stack([_pearson(counts, each, target) for each in columns]))
        if "spearman" in blocks:
            ranks = target.ranks(counts)
            blocks["spearman"].append(np.stack([_spearman(counts, each.ranks(counts), ranks) for each in columns]))
    return {name: np.concatenate(parts, axis=1) for name, parts in blocks.items()}


def _pearson(counts: Counts, x: Values, y: Values) -> Floats:
    a, b = x.standardized, y.standardized
    sums = np.stack([a, b, a * a, b * b, a * b]) @ counts / len(a)  # (5, resamples)
    return _ratio(sums[4] - sums[0] * sums[1], sums[2] - sums[0] ** 2, sums[3] - sums[1] ** 2)


def _spearman(counts: Counts, x: Counts, y: Counts) -> Floats:
    """Correlate centered ranks; the scale keeps sums of squares near one, where float32 products lose least."""
    scale = np.float32(1 / max(len(counts), 1))
    x, y = x * scale, y * scale
    weighted = counts * x
    products = (weighted * y, weighted * x, counts * y * y)
    return _ratio(*(each.sum(axis=0, dtype=np.float64) / len(counts) for each in products))


def _ratio(covariance: Floats, variance: Floats, other: Floats) -> Floats:
    """Correlations; NaN where a resample is constant."""
    defined = (variance > 1e-12) & (other > 1e-12)
    scale = np.sqrt(np.where(defined, variance * other, 1))
    return np.where(defined, np.clip(covariance / scale, -1, 1), np.nan)


def jackknife(prediction: NDArray[np.floating], gold: NDArray[np.floating], coefficient: str) -> Floats:
    """Correlations without the first pair, without the second, …: what the acceleration of BCa is made of."""
    x, y = Values(prediction), Values(gold)
    count = len(gold)
    if coefficient == "pearson":
        a, b = x.standardized, y.standardized
        columns = np.stack([a, b, a * a, b * b, a * b])
        sums = (columns.sum(axis=1, keepdims=True) - columns) / (count - 1)
        return _ratio(sums[4] - sums[0] * sums[1], sums[2] - sums[0] ** 2, sums[3] - sums[1] ** 2)
    # Without pair k, the rank of pair i falls by above(i, k): 1 where i is above k, 1/2 where they are equal. So
    # Σ R'S' over i ≠ k is Σ RS - Σ R·above_y - Σ S·above_x + Σ above_x·above_y. Ranks here are less the mean rank.
    everything = np.ones((count, 1), np.float32)
    r, s = (np.asarray(each.ranks(everything), np.float64).ravel() for each in (x, y))
    total = r @ s
    products = np.empty(count)
    block = max(1, 2_000_000 // count)
    for start in range(0, count, block):
        here = slice(start, start + block)
        above_x, above_y = (_above(each, each[here]) for each in (r, s))  # (block, pairs)
        both = np.einsum("ki,ki->k", above_x, above_y, dtype=np.float64)
        products[here] = total - r[here] * s[here] - above_y @ r - above_x @ s + both
        # Pair k itself is no part of the sums, but equals itself: take its halves out again.
        products[here] += (r[here] + s[here]) / 2 - 0.25
    # The ranks that remain have the mean n/2; less the old mean (n + 1)/2 that is -1/2.
    covariance = products / (count - 1) - 0.25
    return _ratio(covariance / count**2, _rank_variance(x, count) / count**2, _rank_variance(y, count) / count**2)


def _above(values: Floats, others: Floats) -> NDArray[np.float64]:
    """1 where a value is above the other, 1/2 where they are equal: (others, values)."""
    difference = np.sign(values[None, :] - others[:, None])
    return (difference + 1) / 2


def _rank_variance(values: Values, count: int) -> Floats:
    """Variance of the ranks without the first pair, without the second, …: (n³ - n - Σ(t³ - t)) / 12n with ties."""
    left = count - 1
    ties = values.ties.astype(np.float64)
    shared = (ties**3 - ties) / ties  # summed over the pairs of a group this is its t³ - t
    correction = shared.sum() - (ties**3 - ties) + ((ties - 1) ** 3 - (ties - 1))  # one fewer in the pair's own group
    variance: Floats = (left**3 - left - correction) / 12 / left
    return variance


def swap(
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    gold: NDArray[np.floating],
    coefficient: str,
    *,
    resamples: int,
    seed: int,
) -> Floats:
    """Differences of the correlations when, pair by pair, a coin says whether two models swap their predictions.

    Models put cosines on different scales, and mixing those would be a change of its own. So what is swapped are the
    ranks for Spearman, which leaves either correlation as it is, and standardized values for Pearson.
    """
    one, other, target = Values(first), Values(second), Values(gold)
    count = len(gold)
    generator = np.random.default_rng(seed)
    everything = np.ones((count, 1), np.float32)
    ranks = [each.ranks(everything).ravel() for each in (one, other, target)]
    pool = Values(np.concatenate(ranks[:2]))
    block = max(1, _CELLS // count)
    found = []
    for start in range(0, resamples, block):
        width = min(block, resamples - start)
        kept = generator.integers(0, 2, (count, width), dtype=np.int8).astype(np.float32)
        if coefficient == "pearson":
            found.append(_mixed_pearson(kept, one, other, target) - _mixed_pearson(1 - kept, one, other, target))
        else:
            found.append(_mixed_spearman(kept, pool, ranks[2]) - _mixed_spearman(1 - kept, pool, ranks[2]))
    return np.concatenate(found)


def _mixed_pearson(kept: Counts, one: Values, other: Values, target: Values) -> Floats:
    """Correlate what is `one` where `kept` is 1, and `other` where it is 0."""
    a, b, y = one.standardized, other.standardized, target.standardized
    sums = np.stack([a - b, a * a - b * b, (a - b) * y]) @ kept + np.stack([b, b * b, b * y]).sum(axis=1, keepdims=True)
    sums /= len(a)
    return _ratio(sums[2] - sums[0] * y.mean(), sums[1] - sums[0] ** 2, np.full(len(sums[0]), y.var()))


def _mixed_spearman(kept: Counts, pool: Values, target: Counts) -> Floats:
    """As above with ranks: of the pool of both models' ranks, one of each pair is in the resample."""
    ranks = pool.ranks(np.concatenate([kept, 1 - kept]))
    count = len(target)
    mixed = np.where(kept > 0, ranks[:count], ranks[count:])
    return _spearman(np.ones_like(kept), mixed, np.broadcast_to(target[:, None], mixed.shape))
