"""`kosbert diagnose`: table, JSON, and error messages."""

import json
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from kosbert.cli import diagnose as command
from kosbert.errors import KosbertError

app = typer.Typer()
app.command()(command.diagnose)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "out", Console(width=200))
    monkeypatch.setenv("KOSBERT_OFFLINE", "1")
    monkeypatch.setenv("KOSBERT_DATA", "")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def document(*arguments: str) -> dict:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_json_document() -> None:
    diagnosis = document("random-words", "--examples", "2")
    assert diagnosis["model"] == "random-words"
    assert diagnosis["on"] is None
    assert [result["phenomenon"] for result in diagnosis["phenomena"]] == [
        "negation", "particle", "number", "honorific", "spacing", "typo", "loanword",
    ]  # fmt: skip
    for result in diagnosis["phenomena"]:
        assert result["count"] >= 40
        assert result["accuracy"]["low"] <= result["accuracy"]["value"] == result["passed"] / result["count"]
        assert len(result["worst"]) == 2
    assert diagnosis["space"]["sentences"] == diagnosis["space"]["positive_pairs"] == diagnosis["overall"]["count"]


def test_space_is_measured_on_the_given_split() -> None:
    default, on_split = document("random-words"), document("random-words", "--on", "sample-sts-dev")
    assert on_split["on"] == "sample-sts-dev"
    assert on_split["phenomena"] == default["phenomena"]
    assert on_split["space"]["sentences"] != default["space"]["sentences"]
    assert 0 < on_split["space"]["positive_pairs"] < on_split["space"]["sentences"]


def test_table_and_examples() -> None:
    done = run("random-words", "--examples", "1")
    assert done.exit_code == 0, done.output
    for word in ("negation", "loanword", "95% CI", "uniformity", "IsoScore", "the minimal pairs", "changed"):
        assert word in done.stdout
    assert done.stdout.count("\n  paraphrase ") == 7
    assert "  changed    " not in run("random-words", "--examples", "0").stdout


def test_model_directory(tiny_bert: Path) -> None:
    diagnosis = document(str(tiny_bert))
    assert diagnosis["space"]["dimensions"] == 32
    assert diagnosis["overall"]["count"] == sum(result["count"] for result in diagnosis["phenomena"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("random", "--on", "korst-dev"), "did you mean korsts"),
        (("randon:x",), "did you mean random"),
        (("static:nowhere.vec",), "there is no file nowhere.vec"),
    ],
)
def test_error_message_names_the_fix(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, KosbertError)
    assert message in str(done.exception)
    assert done.stdout == ""


def test_invalid_options_exit_with_code_2() -> None:
    assert run("random", "--examples", "-1").exit_code == 2
    assert run("random", "tfidf").exit_code == 2
