"""Groups that are there are found, named and stable; those that are not, are not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from kosbert.errors import UsageError
from kosbert.search import topics
from kosbert.search.cluster_report import cluster
from kosbert.search.clustering import Settings, centers, group, outliers, stability
from kosbert.search.map_page import layout, write_map
from kosbert.search.topics import label_groups, nouns


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Three dense groups of 60, 40 and 20 around orthogonal directions."""
    generator = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [60, 40, 20])
    vectors = np.eye(16)[truth] + 0.08 * generator.standard_normal((120, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), truth


@pytest.mark.parametrize(
    "settings", [Settings("kmeans", 3), Settings("agglomerative", threshold=0.6), Settings("hdbscan", smallest=5)]
)
def test_what_is_there_is_found(settings: Settings, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, truth = blobs
    labels = group(vectors, settings)
    inside = labels >= 0
    assert np.array_equal(labels[inside], truth[inside])  # numbered by size
    assert inside.mean() > 0.9
    assert min(stability(vectors, labels, settings, resamples=3)) > 0.85


def test_what_is_not_there_is_not_stable() -> None:
    noise = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    settings = Settings("kmeans", 8)
    labels = group(noise, settings)
    assert np.mean(stability(noise, labels, settings, resamples=3)) < 0.6
    assert group(noise, Settings("agglomerative", threshold=0.95, smallest=3)).max() == -1


def test_outliers_come_farthest_first(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, truth = blobs
    strange = np.zeros((2, 16), np.float32)
    strange[0, 9], strange[1, [0, 10]] = 1, (0.6, 0.8)
    both, labels = np.concatenate([vectors, strange]), np.concatenate([truth, [0, 0]])
    assert outliers(both, labels)[:2].tolist() == [120, 121]
    assert outliers(both, np.full(122, -1)).tolist() == list(range(122))
    assert centers(both, np.full(122, -1)).shape == (0, 16)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings("kmean"), "did you mean kmeans"),
        (Settings("kmeans", 30), "20 sentences cannot make 30 groups"),
        (Settings("agglomerative", threshold=1.5), "threshold of 1.5 is impossible"),
        (Settings("hdbscan", smallest=1), "groups of 1 are impossible"),
        (Settings("hdbscan", smallest=21), "groups of 21 are impossible"),
    ],
)
def test_impossible_settings(settings: Settings, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        group(np.eye(20, dtype=np.float32), settings)


def test_too_many_for_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("kosbert.search.clustering", fromlist=["MOST"]).MOST, "agglomerative", 10)
    with pytest.raises(UsageError, match="takes 10 sentences, not 20: use kmeans"):
        group(np.eye(20, dtype=np.float32), Settings("agglomerative"))


def test_topics_are_nouns_that_tell_groups_apart() -> None:
    pytest.importorskip("kiwipiepy")
    texts = ["정부가 경제 정책을 발표했다", "경제가 어렵다", "야구 경기를 정부가 봤다", "오늘 야구를 했다", "몰라"]
    found = label_groups(texts, np.array([0, 0, 1, 1, -1]))
    assert found[0][0] == "경제"
    assert found[1][0] == "야구"
    assert all(len(word) > 1 for words in found for word in words)


def test_nouns_without_kiwipiepy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "best_analyzer", lambda: "bigrams")
    assert nouns(["학교에서 친구를 만났다", "나는 AI가!", ""]) == [["학교", "친구", "만났다"], ["나는", "AI"], []]


EVIL = '</script><script>alert("1")</script><img src=x onerror=alert(1)> & \u2028 \\ "끝"'


def test_the_map_is_whole_and_safe(tmp_path: Path, blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, truth = blobs
    texts = [EVIL, *(f"문장 {place}" for place in range(1, 120))]
    path = tmp_path / "map.html"
    write_map(path, vectors, texts, truth, [["경제", EVIL], [], ["셋"]], title=EVIL)
    page = path.read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert "{{" not in page
    assert not re.findall(r"(?:src|href|url)\s*[=(]", page.replace(EVIL, "").split("<body>")[0].split("&lt;")[0])
    assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    content = re.search(r'id="content">(.*?)</script>', page, re.DOTALL)
    assert content
    data = json.loads(content[1])
    assert len(data["points"]) == 120
    assert data["points"][0][3] == EVIL
    assert all(0 <= x <= 1_000 and 0 <= y <= 1_000 for x, y, *_ in data["points"])
    assert [each["size"] for each in data["groups"]] == [60, 40, 20]
    assert list(tmp_path.iterdir()) == [path]


def test_the_map_puts_near_ones_near(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    vectors, truth = blobs
    places = layout(vectors, 0)
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert np.mean(truth[distances.argmin(axis=1)] == truth) > 0.95
    for few in range(1, 7):
        assert np.isfinite(layout(vectors[:few], 0)).all()


def test_a_file_from_end_to_end(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    texts = [f"경제 정책 발표 {place}" for place in range(30)] + [f"야구 경기 결과 {place}" for place in range(20)]
    file.write_text("\n".join(texts), encoding="utf-8")
    found = cluster(file, settings=Settings("kmeans", 2), model="random-words", page=tmp_path / "map.html")
    assert [each.size for each in found.groups] == [30, 20]
    assert found.assignments == [0] * 30 + [1] * 20
    assert found.lines == list(range(1, 51))
    assert set(found.groups[0].topic) & {"경제", "정책", "발표"}
    assert found.stability == pytest.approx(1)
    assert found.groups[0].representatives[0] in texts
    assert (tmp_path / "map.html").stat().st_size > 5_000
    with pytest.raises(UsageError, match=r"ends in \.html"):
        cluster(file, settings=Settings(), model="random-words", page=tmp_path / "map.png")
