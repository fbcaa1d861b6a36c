"""`kosbert cluster`: its table, its JSON, its map."""

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
    texts = [f"경제 정책 발표 {place}" for place in range(12)] + [f"야구 경기 [결과] {place}" for place in range(8)]
    (tmp_path / "a.txt").write_text("\n".join(texts), encoding="utf-8")
    return tmp_path / "a.txt"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--model", "random-words"])


@pytest.mark.parametrize("method", ["kmeans", "agglomerative", "hdbscan"])
def test_json(method: str, file: Path) -> None:
    done = run(str(file), "--method", method, "--clusters", "2", "--threshold", "0.4", "--json", "--resamples", "2")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [each["size"] for each in found["groups"]] == [12, 8]
    assert found["assignments"] == [0] * 12 + [1] * 8
    assert set(found["groups"][1]["topic"]) & {"야구", "경기", "결과"}
    assert found["map"] == ""


def test_table_and_map(file: Path) -> None:
    page = file.with_name("map.html")
    done = run(str(file), "--clusters", "2", "--resamples", "0", "--map", str(page))
    assert done.exit_code == 0, done.output
    for text in ("[결과]", "20 sentences, 2 groups by kmeans, 0 in none", "map:"):
        assert text in done.stdout
    assert "[결과]" in page.read_text(encoding="utf-8")


def test_mistakes(file: Path) -> None:
    assert "did you mean kmeans" in str(run(str(file), "--method", "k-mean").exception)
    assert "cannot make 99 groups" in str(run(str(file), "--clusters", "99").exception)
    assert "does not exist" in str(run(str(file.with_name("none.txt"))).exception)
