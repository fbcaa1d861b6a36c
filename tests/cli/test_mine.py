"""`kosbert mine`: table, JSON, and the copy without duplicates."""

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


def test_json_lists_pairs_and_duplicates_and_dedup_writes_the_rest(file: Path) -> None:
    target = file.with_name("b.txt")
    result = run(str(file), "--dedup", str(target), "--threshold", "0.9", "-k", "1", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [pair["lines"] for pair in report["pairs"]] == [[1, 4]]
    assert [(row["line"], row["kept_line"]) for row in report["duplicates"]] == [(3, 1), (4, 1)]
    assert (report["sentences"], report["exact_duplicates"], report["duplicate_groups"]) == (5, 1, 1)
    assert target.read_text(encoding="utf-8") == f"{LINES[0]}\n{LINES[1]}\n{LINES[4]}\n"


def test_table_shows_pairs_and_duplicates(file: Path) -> None:
    result = run(str(file), "--threshold", "0.9", "-k", "6")
    assert result.exit_code == 0, result.output
    for text in (
        "[환불]",
        "1, 4",
        "5 sentences, 2 duplicates",
        "1 of them exact",
        "line 3:",
        "duplicate of line 1 (1.000)",
    ):
        assert text in result.stdout


def test_wrong_options_are_an_error_and_keep_the_file(file: Path) -> None:
    assert "threshold" in str(run(str(file), "--threshold", "2").exception)
    assert isinstance(run(str(file), "--dedup", str(file)).exception, UsageError)
    assert file.read_text(encoding="utf-8") == "\n".join(LINES)
    assert run(str(file), "-k", "0").exit_code == 2
