"""Groups of sentences by their vectors: k-means, agglomerative with a threshold, or HDBSCAN; how sure they are."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError, did_you_mean
from kosbert.model.similarity import unit
from kosbert.search.backends.base import Vectors

METHODS = ("kmeans", "agglomerative", "hdbscan")
MOST = {"kmeans": 10_000_000, "agglomerative": 20_000, "hdbscan": 50_000}
"""Sentences that a method can take: the others compare every pair."""

Labels = NDArray[np.int64]
"""The number of each sentence's group, the largest group first; -1 belongs to none."""


@dataclass(frozen=True)
class Settings:
    """How to group; what a method does not use is ignored.

    `count` groups are what k-means makes (0: the square root of half the sentences, at most 50). `threshold` is the
    average cosine from which agglomerative joins two groups. `smallest` is the least size of a group, for HDBSCAN and
    agglomerative; what is left over belongs to none.
    """

    method: str = "kmeans"
    count: int = 0
    threshold: float = 0.6
    smallest: int = 5
    seed: int = 0


def group(vectors: Vectors, settings: Settings) -> Labels:
    """Group unit vectors, (n, dim)."""
    method, size = settings.method, len(vectors)
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}: {did_you_mean(method, METHODS)}")
    if size > MOST[method]:
        raise UsageError(f"{method} compares every pair and takes {MOST[method]:,} sentences, not {size:,}: use kmeans")
    if not 0 < settings.threshold < 1:
        raise UsageError(f"a threshold of {settings.threshold:g} is impossible: give a cosine between 0 and 1")
    if method == "kmeans":
        count = settings.count or min(50, max(2, round(math.sqrt(size / 2))))
        if count > size:
            raise UsageError(f"{size} sentences cannot make {count} groups: ask for fewer")
        return _by_size(_kmeans(vectors, count, settings.seed), least=1)
    if size < 2:
        raise UsageError(f"{size} sentence makes no groups: give more")
    if method == "agglomerative":
        return _by_size(_agglomerative(vectors, settings.threshold), least=settings.smallest)
    if settings.smallest < 2 or settings.smallest > size:
        raise UsageError(f"groups of {settings.smallest} are impossible here: give 2 to {size} as the smallest")
    return _by_size(_hdbscan(vectors, settings.smallest, settings.seed), least=1)


def _kmeans(vectors: Vectors, count: int, seed: int) -> Labels:
    from sklearn.cluster import MiniBatchKMeans

    found = MiniBatchKMeans(n_clusters=count, random_state=seed, n_init=3, batch_size=4_096).fit_predict(vectors)
    return np.asarray(found, np.int64)


def _agglomerative(vectors: Vectors, threshold: float) -> Labels:
    from sklearn.cluster import AgglomerativeClustering

    grouping = AgglomerativeClustering(
        n_clusters=None, distance_threshold=1 - threshold, metric="cosine", linkage="average"
    )
    # A zero vector has no direction and scikit-learn refuses it; one of equal parts is near to nothing in particular.
    directed = np.where(np.abs(vectors).sum(axis=1, keepdims=True) > 0, vectors, np.float32(1))
    return np.asarray(grouping.fit_predict(directed), np.int64)


def _hdbscan(vectors: Vectors, smallest: int, seed: int) -> Labels:
    from sklearn.cluster import HDBSCAN
    from sklearn.decomposition import PCA

    # Densities mean little in hundreds of dimensions: the first fifty directions hold most of what differs.
    most = min(50, *vectors.shape)
    reduced = PCA(most, random_state=seed).fit_transform(vectors) if most < vectors.shape[1] else vectors
    return np.asarray(HDBSCAN(min_cluster_size=smallest, copy=True).fit_predict(reduced), np.int64)


def _by_size(labels: Labels, least: int) -> Labels:
    """Number the groups from the largest on; those that are too small belong to none."""
    names, sizes = np.unique(labels[labels >= 0], return_counts=True)
    order = [name for name, size in sorted(zip(names.tolist(), sizes.tolist(), strict=True), key=lambda each: -each[1])
             if size >= least]  # fmt: skip
    new = {name: number for number, name in enumerate(order)}
    return np.array([new.get(label, -1) for label in labels.tolist()], np.int64)


def centers(vectors: Vectors, labels: Labels) -> Vectors:
    """The direction of each group's mean, (groups, dim)."""
    count = int(labels.max(initial=-1)) + 1
    return unit(np.stack([vectors[labels == each].mean(axis=0) for each in range(count)])) if count else vectors[:0]


def outliers(vectors: Vectors, labels: Labels) -> NDArray[np.intp]:
    """What belongs to no group, and what is far from the center of its own; the farthest from all centers first.

    Far is below the median by three deviations, robust ones (1.4826 times the median of absolute deviations), which
    the outliers themselves do not widen.
    """
    middle = centers(vectors, labels)
    if not len(middle):
        return np.arange(len(vectors))
    cosines = np.array(
        [vector @ middle[label] if label >= 0 else -1.0 for vector, label in zip(vectors, labels, strict=True)]
    )
    inside = cosines[labels >= 0]
    deviation = 1.4826 * np.median(np.abs(inside - np.median(inside)))
    far = np.flatnonzero((labels < 0) | ((cosines < np.median(inside) - 3 * deviation) & (deviation > 0)))
    return far[np.argsort((vectors[far] @ middle.T).max(axis=1), kind="stable")]


def stability(
    vectors: Vectors,
    labels: Labels,
    settings: Settings,
    *,
    resamples: int = 5,
    report: Callable[[int], Any] | None = None,
) -> list[float]:
    """How well each group comes back when a random four fifths of the sentences are grouped anew, 0 to 1.

    For each group the largest Jaccard overlap with a group of the resample, averaged (Hennig 2007, Cluster-wise
    assessment of cluster stability): he calls 0.75 and more stable, and below 0.6 not to be trusted.
    """
    generator = np.random.default_rng(settings.seed)
    count = int(labels.max(initial=-1)) + 1
    sums, times = np.zeros(count), np.zeros(count)
    for number in range(resamples):
        chosen = np.sort(generator.choice(len(vectors), max(2, len(vectors) * 4 // 5), replace=False))
        made = len(np.unique(labels[labels >= 0]))
        again = Settings(
            settings.method,
            min(made, len(chosen)) if settings.method == "kmeans" else 0,
            settings.threshold,
            min(settings.smallest, len(chosen)),
            settings.seed + number + 1,
        )
        new, old = group(vectors[chosen], again), labels[chosen]
        # common[i, j]: sentences of the old group i that are in the new group j
        common = np.zeros((count, int(new.max(initial=-1)) + 1))
        both = (old >= 0) & (new >= 0)
        np.add.at(common, (old[both], new[both]), 1)
        old_sizes = np.bincount(old[old >= 0], minlength=count)
        new_sizes = np.bincount(new[new >= 0], minlength=common.shape[1])
        jaccard = common / np.maximum(old_sizes[:, None] + new_sizes[None] - common, 1)
        here = old_sizes > 0
        sums[here] += jaccard.max(axis=1, initial=0)[here]
        times[here] += 1
        if report:
            report(number + 1)
    return [float(total / number) if number else 0.0 for total, number in zip(sums, times, strict=True)]
