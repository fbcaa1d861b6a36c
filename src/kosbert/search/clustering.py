"""Cluster sentences by their vectors (k-means, agglomerative, HDBSCAN): topics, outliers, stability, 2-D projection."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import UsageError, did_you_mean
from kosbert.model.similarity import unit
from kosbert.progress import ProgressCallback, ProgressEvent
from kosbert.search.backends.base import Vectors
from kosbert.search.lexical import default_analyzer, kiwi_tokens
from kosbert.text import clean

METHODS = ("kmeans", "agglomerative", "hdbscan")
MAX_SENTENCES = {"kmeans": 10_000_000, "agglomerative": 20_000, "hdbscan": 50_000}
"""Sentences that a method can cluster: agglomerative and HDBSCAN compare every pair."""

Labels = NDArray[np.int64]
"""The cluster of each sentence, numbered from the largest cluster on; -1 is none."""


@dataclass(frozen=True)
class ClusteringConfig:
    """Settings of a clustering; a method ignores what it does not use.

    Args:
        method: kmeans, agglomerative or hdbscan.
        n_clusters: clusters of k-means; 0 for the square root of half the sentences, at most 50.
        threshold: average cosine from which agglomerative merges two clusters.
        min_cluster_size: of HDBSCAN and agglomerative; sentences in smaller clusters belong to none.
        seed: random seed.
    """

    method: str = "kmeans"
    n_clusters: int = 0
    threshold: float = 0.6
    min_cluster_size: int = 5
    seed: int = 0


def cluster_vectors(vectors: Vectors, config: ClusteringConfig) -> Labels:
    """Cluster unit vectors, (n, dim)."""
    method, size = config.method, len(vectors)
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}: {did_you_mean(method, METHODS)}")
    max_size = MAX_SENTENCES[method]
    if size > max_size:
        raise UsageError(f"{method} compares every pair, of at most {max_size:,} sentences, not {size:,}: use kmeans")
    if not 0 < config.threshold < 1:
        raise UsageError(f"a threshold of {config.threshold:g} is impossible: give a cosine between 0 and 1")
    if method == "kmeans":
        n_clusters = config.n_clusters or min(50, max(2, round(math.sqrt(size / 2))))
        if n_clusters > size:
            raise UsageError(f"{size} sentences cannot form {n_clusters} clusters: ask for fewer")
        return _sort_by_size(_kmeans(vectors, n_clusters, config.seed), min_size=1)
    if size < 2:
        raise UsageError(f"{size} sentence cannot be clustered: give more")
    if method == "agglomerative":
        return _sort_by_size(_agglomerative(vectors, config.threshold), min_size=config.min_cluster_size)
    if config.min_cluster_size < 2 or config.min_cluster_size > size:
        raise UsageError(f"a minimum cluster size of {config.min_cluster_size} is impossible: give 2 to {size}")
    return _sort_by_size(_hdbscan(vectors, config.min_cluster_size, config.seed), min_size=1)


def _kmeans(vectors: Vectors, n_clusters: int, seed: int) -> Labels:
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(n_clusters=n_clusters, random_state=seed, n_init=3, batch_size=4_096)
    return np.asarray(model.fit_predict(vectors), np.int64)


def _agglomerative(vectors: Vectors, threshold: float) -> Labels:
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(
        n_clusters=None, distance_threshold=1 - threshold, metric="cosine", linkage="average"
    )
    # scikit-learn rejects zero vectors, which have no cosine: replace them by a vector of ones.
    nonzero = np.where(np.abs(vectors).sum(axis=1, keepdims=True) > 0, vectors, np.float32(1))
    return np.asarray(model.fit_predict(nonzero), np.int64)


def _hdbscan(vectors: Vectors, min_cluster_size: int, seed: int) -> Labels:
    from sklearn.cluster import HDBSCAN
    from sklearn.decomposition import PCA

    # Densities mean little in hundreds of dimensions; the first 50 principal components hold most of the variance.
    components = min(50, *vectors.shape)
    reduced = vectors
    if components < vectors.shape[1]:
        reduced = PCA(components, random_state=seed).fit_transform(vectors)
    return np.asarray(HDBSCAN(min_cluster_size=min_cluster_size, copy=True).fit_predict(reduced), np.int64)


def _sort_by_size(labels: Labels, min_size: int) -> Labels:
    """Renumber the clusters by descending size; smaller ones than `min_size` become -1."""
    clusters, sizes = np.unique(labels[labels >= 0], return_counts=True)
    by_size = sorted(zip(clusters.tolist(), sizes.tolist(), strict=True), key=lambda item: -item[1])
    kept = [cluster for cluster, size in by_size if size >= min_size]
    number_of = {cluster: number for number, cluster in enumerate(kept)}
    return np.array([number_of.get(label, -1) for label in labels.tolist()], np.int64)


def count_clusters(labels: Labels) -> int:
    """Return the number of clusters."""
    return int(labels.max(initial=-1)) + 1


def centroids(vectors: Vectors, labels: Labels) -> Vectors:
    """Return the normalized mean vector of each cluster, (clusters, dim)."""
    count = count_clusters(labels)
    if not count:
        return vectors[:0]
    return unit(np.stack([vectors[labels == number].mean(axis=0) for number in range(count)]))


def outliers(vectors: Vectors, labels: Labels) -> NDArray[np.intp]:
    """Return sentences in no cluster or far from their centroid, the farthest from all centroids first.

    Far is more than three robust standard deviations (1.4826 × median absolute deviation) below the median cosine. The
    outliers themselves do not inflate this estimate.
    """
    centers = centroids(vectors, labels)
    if not len(centers):
        return np.arange(len(vectors))
    cosines = np.array(
        [vector @ centers[label] if label >= 0 else -1.0 for vector, label in zip(vectors, labels, strict=True)]
    )
    clustered = cosines[labels >= 0]
    median = np.median(clustered)
    deviation = 1.4826 * np.median(np.abs(clustered - median))
    far = np.flatnonzero((labels < 0) | ((cosines < median - 3 * deviation) & (deviation > 0)))
    return far[np.argsort((vectors[far] @ centers.T).max(axis=1), kind="stable")]


def stability(
    vectors: Vectors,
    labels: Labels,
    config: ClusteringConfig,
    *,
    resamples: int = 5,
    on_progress: ProgressCallback | None = None,
) -> list[float]:
    """Return how well each cluster is recovered on random subsets of 80 % of the sentences, 0 to 1.

    The score of a cluster is its largest Jaccard similarity with a cluster of the resample, averaged over resamples
    (Hennig 2007, Cluster-wise assessment of cluster stability). Hennig calls 0.75 and more stable, and advises against
    trusting clusters below 0.6.
    """
    generator = np.random.default_rng(config.seed)
    count = count_clusters(labels)
    sums, times = np.zeros(count), np.zeros(count)
    for number in range(resamples):
        sample = np.sort(generator.choice(len(vectors), max(2, len(vectors) * 4 // 5), replace=False))
        resample_config = replace(
            config,
            n_clusters=min(count, len(sample)) if config.method == "kmeans" else 0,
            min_cluster_size=min(config.min_cluster_size, len(sample)),
            seed=config.seed + number + 1,
        )
        old, new = labels[sample], cluster_vectors(vectors[sample], resample_config)
        # overlap[i, j]: sentences of the original cluster i in cluster j of the resample
        overlap = np.zeros((count, count_clusters(new)))
        in_both = (old >= 0) & (new >= 0)
        np.add.at(overlap, (old[in_both], new[in_both]), 1)
        old_sizes = np.bincount(old[old >= 0], minlength=count)
        new_sizes = np.bincount(new[new >= 0], minlength=overlap.shape[1])
        jaccard = overlap / np.maximum(old_sizes[:, None] + new_sizes[None] - overlap, 1)
        sampled = old_sizes > 0
        sums[sampled] += jaccard.max(axis=1, initial=0)[sampled]
        times[sampled] += 1
        if on_progress:
            on_progress(ProgressEvent("stability", number + 1, resamples, "resamples"))
    return [float(total / n) if n else 0.0 for total, n in zip(sums, times, strict=True)]


_WORD = re.compile(r"[^\W_]+")
# Particles and endings of 하다 and 이다 that follow a noun in an eojeol, long ones first.
_NOUN_SUFFIX = re.compile(
    "(?:에서는|으로는|에게서|이라고|입니다|합니다|했습니다|습니다|까지|부터|에게|한테|께서|에서|으로|이나|이랑|처럼|보다|마다|조차|마저"
    "|하고|하는|했다|한다|하다|해요|했어요|하게|이다|이고|이며|은|는|이|가|을|를|에|와|과|도|의|만|로|랑|나)$"
)


def nouns(texts: Sequence[str]) -> list[list[str]]:
    """Return the nouns of each text by kiwipiepy; without it, eojeols without their particles."""
    if default_analyzer() == "morphemes":
        return [
            [token.form for token in tokens if token.tag in ("NNG", "NNP", "SL") and len(token.form) > 1]
            for tokens in kiwi_tokens(texts)
        ]
    return [[stem for word in _WORD.findall(clean(text)) if len(stem := _stem(word)) > 1] for text in texts]


def _stem(eojeol: str) -> str:
    """Strip a particle, unless fewer than two characters would be left."""
    stem = _NOUN_SUFFIX.sub("", eojeol)
    return stem if len(stem) > 1 else eojeol


def topics(texts: Sequence[str], labels: Labels, *, max_words: int = 4) -> list[list[str]]:
    """Return the most characteristic nouns of each cluster by class-based TF-IDF (Grootendorst 2022, BERTopic).

    A cluster is one document. The weight of noun t in cluster c is tf(t, c) × log(1 + A / f(t)): tf is its share of the
    cluster's nouns, f its frequency over all clusters, A the mean number of nouns per cluster.
    """
    counts: list[Counter[str]] = [Counter() for _ in range(count_clusters(labels))]
    clustered = np.flatnonzero(labels >= 0).tolist()
    for row, words in zip(clustered, nouns([texts[row] for row in clustered]), strict=True):
        counts[labels[row]].update(set(words))  # once per sentence: repetition in a sentence does not count
    frequencies: Counter[str] = sum(counts, Counter())
    mean_nouns = frequencies.total() / max(1, len(counts))

    def best_words(count: Counter[str]) -> list[str]:
        total = max(1, count.total())
        weights = {word: n / total * np.log1p(mean_nouns / frequencies[word]) for word, n in count.items()}
        return sorted(weights, key=lambda word: (-weights[word], word))[:max_words]

    return [best_words(count) for count in counts]


def project_2d(vectors: Vectors, seed: int) -> NDArray[np.float64]:
    """Project vectors to the unit square by t-SNE, so that similar sentences are close, (n, 2)."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    size = len(vectors)
    if size < 5:
        points = np.stack([np.arange(size), np.zeros(size)], axis=1).astype(np.float64)
    else:
        reduced = PCA(min(50, *vectors.shape), random_state=seed).fit_transform(vectors)
        tsne = TSNE(2, init="pca", perplexity=min(30.0, (size - 1) / 3), random_state=seed)
        points = tsne.fit_transform(reduced).astype(np.float64)
    points -= points.min(axis=0)
    return np.asarray(points / max(float(points.max(initial=0)), 1e-9))
