"""`kosbert cluster`: table, JSON, map, errors."""

import json
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from kosbert.cli import cluster as command

app = typer.Typer()
app.command()(command.cluster)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "out", Console(width=160))
    texts = [f"경제 정책 발표 {number}" for number in range(12)] + [f"야구 경기 [결과] {number}" for number in range(8)]
    (tmp_path / "a.txt").write_text("\n".join(texts), encoding="utf-8")
    return tmp_path / "a.txt"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--model", "random-words"])


@pytest.mark.parametrize("method", ["kmeans", "agglomerative", "hdbscan"])
def test_json_has_clusters_and_labels(method: str, file: Path) -> None:
    result = run(str(file), "--method", method, "--n-clusters", "2", "--threshold", "0.4", "--json", "--resamples", "2")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [cluster["size"] for cluster in report["clusters"]] == [12, 8]
    assert report["labels"] == [0] * 12 + [1] * 8
    assert set(report["clusters"][1]["topic"]) & {"야구", "경기", "결과"}
    assert report["map"] == ""


def test_table_and_map_are_written(file: Path) -> None:
    page = file.with_name("map.html")
    result = run(str(file), "--n-clusters", "2", "--resamples", "0", "--map", str(page))
    assert result.exit_code == 0, result.output
    for text in ("[결과]", "20 sentences, 2 clusters by kmeans, 0 unassigned", "map:"):
        assert text in result.stdout
    assert "[결과]" in page.read_text(encoding="utf-8")


def test_wrong_options_are_an_error(file: Path) -> None:
    assert "did you mean kmeans" in str(run(str(file), "--method", "k-mean").exception)
    assert "cannot form 99 clusters" in str(run(str(file), "--n-clusters", "99").exception)
    assert "there is no file" in str(run(str(file.with_name("none.txt"))).exception)
