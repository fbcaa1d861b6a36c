"""`kosbert mine`: its table, its JSON, and the file without what repeats."""

import json
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from kosbert.cli import mine as command
from kosbert.errors import UsageError

app = typer.Typer()
app.command()(command.mine)
LINES = ["오늘 날씨 참 좋다", "[환불] 해 주세요", "오늘 날씨 참 좋다", "오늘 날씨 참 참 좋다", "새 글"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "out", Console(width=160))
    (tmp_path / "a.txt").write_text("\n".join(LINES), encoding="utf-8")
    return tmp_path / "a.txt"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--model", "random-words"])


def test_json_and_dedup(file: Path) -> None:
    target = file.with_name("b.txt")
    done = run(str(file), "--dedup", str(target), "--threshold", "0.9", "-k", "1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [each["lines"] for each in found["pairs"]] == [[1, 4]]
    assert [(each["line"], each["kept_line"]) for each in found["dropped"]] == [(3, 1), (4, 1)]
    assert (found["sentences"], found["equal"], found["groups"]) == (5, 1, 1)
    assert target.read_text(encoding="utf-8") == f"{LINES[0]}\n{LINES[1]}\n{LINES[4]}\n"


def test_table(file: Path) -> None:
    done = run(str(file), "--threshold", "0.9", "-k", "6")
    assert done.exit_code == 0, done.output
    for text in ("[환불]", "1, 4", "5 sentences, 1 of them equal", "line 3:", "repeats line 1 (1.000)"):
        assert text in done.stdout


def test_mistakes(file: Path) -> None:
    assert "threshold" in str(run(str(file), "--threshold", "2").exception)
    done = run(str(file), "--dedup", str(file))
    assert isinstance(done.exception, UsageError)
    assert file.read_text(encoding="utf-8") == "\n".join(LINES)
    assert run(str(file), "-k", "0").exit_code == 2
