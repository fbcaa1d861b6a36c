"""Cluster the sentences of a file: topics, representative sentences, outliers, stability, and a map as a web page."""

import html
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from kosbert.data.sentences import read_sentences
from kosbert.errors import UsageError
from kosbert.files import atomic_write
from kosbert.model import load_any
from kosbert.progress import ProgressCallback, ProgressEvent
from kosbert.search.backends.base import Vectors
from kosbert.search.clustering import (
    ClusteringConfig,
    Labels,
    centroids,
    cluster_vectors,
    outliers,
    project_2d,
    stability,
    topics,
)
from kosbert.search.encoding import unit_vectors

MAX_MAP_POINTS = 3_000
"""Sentences on a map; a larger file is sampled."""
_MAX_OUTLIERS = 50


@dataclass(frozen=True)
class Cluster:
    """A cluster of sentences.

    Args:
        size: number of sentences.
        topic: its most characteristic nouns.
        representatives: the sentences nearest to the centroid.
        cohesion: mean cosine with the centroid.
        stability: 0 to 1; None if it was not measured.
    """

    size: int
    topic: list[str]
    representatives: list[str]
    cohesion: float
    stability: float | None


@dataclass(frozen=True)
class ClusterReport:
    """The clusters of a file, largest first.

    Args:
        method: kmeans, agglomerative or hdbscan.
        sentences: number of sentences.
        clusters: the clusters, largest first.
        outliers: sentences far from every centroid, farthest first, at most 50.
        unassigned: number of sentences in no cluster.
        stability: mean stability weighted by cluster size; None if it was not measured.
        lines: line of each sentence in the file.
        labels: number of the cluster of each sentence, -1 for none.
        map: path of the map, "" without one.
    """

    method: str
    sentences: int
    clusters: list[Cluster]
    outliers: list[str]
    unassigned: int
    stability: float | None
    lines: list[int]
    labels: list[int]
    map: str

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return asdict(self)


def cluster(
    file: Path,
    *,
    config: ClusteringConfig,
    model: str = "builtin",
    text_column: str = "text",
    encoding: str = "",
    sheet: str = "",
    representatives: int = 3,
    resamples: int = 5,
    map_path: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> ClusterReport:
    """Cluster the sentences of a file.

    Args:
        file: a .txt, .csv, .tsv, .json, .jsonl, .parquet or .xlsx file.
        config: method and settings.
        model: builtin, a directory, a Hugging Face name or a baseline.
        text_column: the column with the sentences.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
        representatives: representative sentences per cluster.
        resamples: resamples to measure stability; 0 to skip it.
        map_path: where to write the map, a self-contained .html file.
        on_progress: called with the progress of encoding, clustering, stability and the map.
    """
    if map_path and (map_path.suffix.lower() not in (".html", ".htm") or not map_path.parent.is_dir()):
        raise UsageError(
            f"the map is a web page: give a name that ends in .html in an existing directory, not {map_path}"
        )
    rows = read_sentences(file, text_column=text_column, encoding=encoding, sheet=sheet)
    vectors = unit_vectors(load_any(model), rows.texts, on_progress=on_progress)
    _report(on_progress, "cluster", 0)
    labels = cluster_vectors(vectors, config)
    _report(on_progress, "cluster", 1)
    cluster_topics = topics(rows.texts, labels)
    stabilities: list[float] | list[None] = [None] * len(cluster_topics)
    if resamples:
        stabilities = stability(vectors, labels, config, resamples=resamples, on_progress=on_progress)
    clusters = []
    for number, centroid in enumerate(centroids(vectors, labels)):
        members = np.flatnonzero(labels == number)
        cosines = vectors[members] @ centroid
        by_cosine = members[np.argsort(-cosines, kind="stable")]
        distinct = list(dict.fromkeys(rows.texts[row] for row in by_cosine))
        clusters.append(
            Cluster(
                size=len(members), topic=cluster_topics[number], representatives=distinct[:representatives],
                cohesion=float(cosines.mean()), stability=stabilities[number],
            )
        )  # fmt: skip
    if map_path:
        _report(on_progress, "map", 0)
        write_map(map_path, vectors, rows.texts, labels, cluster_topics, title=file.name, seed=config.seed)
        _report(on_progress, "map", 1)
    sizes = [cluster.size for cluster in clusters]
    return ClusterReport(
        method=config.method, sentences=len(labels), clusters=clusters,
        outliers=[rows.texts[row] for row in outliers(vectors, labels)[:_MAX_OUTLIERS]],
        unassigned=int((labels < 0).sum()),
        stability=float(np.average(np.array(stabilities, np.float64), weights=sizes)) if resamples and sizes else None,
        lines=rows.lines, labels=labels.tolist(), map=str(map_path) if map_path else "",
    )  # fmt: skip


def _report(on_progress: ProgressCallback | None, task: str, done: int) -> None:
    if on_progress:
        on_progress(ProgressEvent(task, done, 1))


def write_map(
    path: Path, vectors: Vectors, texts: Sequence[str], labels: Labels, cluster_topics: Sequence[Sequence[str]],
    *, title: str, seed: int = 0,
) -> None:  # fmt: skip
    """Write a self-contained web page that shows each sentence as a dot.

    The user's texts are embedded as JSON with < > & escaped, and the page shows them as text, never as markup.
    """
    sample = np.arange(len(texts))
    if len(sample) > MAX_MAP_POINTS:
        sample = np.sort(np.random.default_rng(seed).choice(len(texts), MAX_MAP_POINTS, replace=False))
    points = project_2d(vectors[sample], seed)
    content = {
        "points": [
            [round(float(x) * 1_000, 1), round(float(y) * 1_000, 1), int(labels[row]), texts[row]]
            for (x, y), row in zip(points, sample.tolist(), strict=True)
        ],
        "clusters": [
            {"name": " · ".join(topic) or f"{number + 1}", "size": int((labels == number).sum())}
            for number, topic in enumerate(cluster_topics)
        ],
        "unassigned": int((labels < 0).sum()),
        "sentences": len(texts),
    }
    encoded = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    page = (files("kosbert.search") / "cluster_map.html").read_text(encoding="utf-8")
    page = page.replace("{{title}}", html.escape(title)).replace("{{content}}", encoded)
    with atomic_write(path, newline="\n") as stream:
        stream.write(page)
