"""Clusters that exist are found, named and stable; random ones are not stable."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from kosbert.errors import UsageError
from kosbert.progress import ProgressEvent
from kosbert.search import clustering
from kosbert.search.cluster_report import cluster, write_map
from kosbert.search.clustering import (
    ClusteringConfig,
    centroids,
    cluster_vectors,
    nouns,
    outliers,
    project_2d,
    stability,
    topics,
)


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Three dense clusters of 60, 40 and 20 unit vectors around orthogonal directions, and their labels."""
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [60, 40, 20])
    vectors = np.eye(16)[labels] + 0.08 * generator.standard_normal((120, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.mark.parametrize(
    "config",
    [
        ClusteringConfig("kmeans", 3),
        ClusteringConfig("agglomerative", threshold=0.6),
        ClusteringConfig("hdbscan", min_cluster_size=5),
    ],
)
def test_separate_clusters_are_found_and_stable(config: ClusteringConfig, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, expected = blobs
    labels = cluster_vectors(vectors, config)
    clustered = labels >= 0
    assert np.array_equal(labels[clustered], expected[clustered])  # numbered by size
    assert clustered.mean() > 0.9
    events: list[ProgressEvent] = []
    assert min(stability(vectors, labels, config, resamples=3, on_progress=events.append)) > 0.85
    assert [(event.done, event.total) for event in events] == [(1, 3), (2, 3), (3, 3)]


def test_clusters_of_noise_are_not_stable() -> None:
    noise = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    config = ClusteringConfig("kmeans", 8)
    labels = cluster_vectors(noise, config)
    assert np.mean(stability(noise, labels, config, resamples=3)) < 0.6
    strict = ClusteringConfig("agglomerative", threshold=0.95, min_cluster_size=3)
    assert cluster_vectors(noise, strict).max() == -1


def test_outliers_are_sorted_farthest_first(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, labels = blobs
    far = np.zeros((2, 16), np.float32)
    far[0, 9], far[1, [0, 10]] = 1, (0.6, 0.8)
    all_vectors, all_labels = np.concatenate([vectors, far]), np.concatenate([labels, [0, 0]])
    assert outliers(all_vectors, all_labels)[:2].tolist() == [120, 121]
    assert outliers(all_vectors, np.full(122, -1)).tolist() == list(range(122))
    assert centroids(all_vectors, np.full(122, -1)).shape == (0, 16)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ClusteringConfig("kmean"), "did you mean kmeans"),
        (ClusteringConfig("kmeans", 30), "20 sentences cannot form 30 clusters"),
        (ClusteringConfig("agglomerative", threshold=1.5), "threshold of 1.5 is impossible"),
        (ClusteringConfig("hdbscan", min_cluster_size=1), "minimum cluster size of 1 is impossible"),
        (ClusteringConfig("hdbscan", min_cluster_size=21), "minimum cluster size of 21 is impossible"),
    ],
)
def test_impossible_config_is_an_error(config: ClusteringConfig, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cluster_vectors(np.eye(20, dtype=np.float32), config)


def test_too_many_sentences_for_a_quadratic_method_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clustering.MAX_SENTENCES, "agglomerative", 10)
    with pytest.raises(UsageError, match="at most 10 sentences, not 20: use kmeans"):
        cluster_vectors(np.eye(20, dtype=np.float32), ClusteringConfig("agglomerative"))


def test_topics_are_the_characteristic_nouns_of_a_cluster() -> None:
    pytest.importorskip("kiwipiepy")
    texts = ["정부가 경제 정책을 발표했다", "경제가 어렵다", "야구 경기를 정부가 봤다", "오늘 야구를 했다", "몰라"]
    words = topics(texts, np.array([0, 0, 1, 1, -1]))
    assert words[0][0] == "경제"
    assert words[1][0] == "야구"
    assert all(len(word) > 1 for topic in words for word in topic)


def test_nouns_without_kiwipiepy_are_eojeols_without_particles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "default_analyzer", lambda: "bigrams")
    assert nouns(["학교에서 친구를 만났다", "나는 AI가!", ""]) == [["학교", "친구", "만났다"], ["나는", "AI"], []]


MALICIOUS = '</script><script>alert("1")</script><img src=x onerror=alert(1)> & \u2028 \\ "끝"'


def test_map_is_self_contained_and_escapes_texts(tmp_path: Path, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, labels = blobs
    texts = [MALICIOUS, *(f"문장 {number}" for number in range(1, 120))]
    path = tmp_path / "map.html"
    write_map(path, vectors, texts, labels, [["경제", MALICIOUS], [], ["셋"]], title=MALICIOUS)
    page = path.read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "{{" not in page
    assert not re.findall(r"(?:src|href|url)\s*[=(]", page.replace(MALICIOUS, "").split("<body>")[0].split("&lt;")[0])
    assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]  # an XML namespace, not a request
    match = re.search(r'id="content">(.*?)</script>', page, re.DOTALL)
    assert match
    content = json.loads(match[1])
    assert len(content["points"]) == 120
    assert content["points"][0][3] == MALICIOUS
    assert all(0 <= x <= 1_000 and 0 <= y <= 1_000 for x, y, *_ in content["points"])
    assert [cluster["size"] for cluster in content["clusters"]] == [60, 40, 20]
    assert list(tmp_path.iterdir()) == [path]


def test_projection_keeps_neighbors_together(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, labels = blobs
    points = project_2d(vectors, 0)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert np.mean(labels[distances.argmin(axis=1)] == labels) > 0.95
    for size in range(1, 7):
        assert np.isfinite(project_2d(vectors[:size], 0)).all()


def test_report_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    texts = [f"경제 정책 발표 {number}" for number in range(30)] + [f"야구 경기 결과 {number}" for number in range(20)]
    file.write_text("\n".join(texts), encoding="utf-8")
    events: list[ProgressEvent] = []
    report = cluster(
        file, config=ClusteringConfig("kmeans", 2), model="random-words", map_path=tmp_path / "map.html",
        on_progress=events.append,
    )  # fmt: skip
    assert [cluster.size for cluster in report.clusters] == [30, 20]
    assert report.labels == [0] * 30 + [1] * 20
    assert report.lines == list(range(1, 51))
    assert set(report.clusters[0].topic) & {"경제", "정책", "발표"}
    assert report.stability == pytest.approx(1)
    assert report.clusters[0].representatives[0] in texts
    assert (tmp_path / "map.html").stat().st_size > 5_000
    assert list(dict.fromkeys(event.task for event in events)) == ["encode", "cluster", "stability", "map"]
    assert all(event.done == event.total for event in {event.task: event for event in events}.values())
    with pytest.raises(UsageError, match=r"ends in \.html"):
        cluster(file, config=ClusteringConfig(), model="random-words", map_path=tmp_path / "map.png")
