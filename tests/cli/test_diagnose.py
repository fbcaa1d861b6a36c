"""`kosbert diagnose`: its table, its JSON, its mistakes."""

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


def test_json() -> None:
    found = document("random-words", "--examples", "2")
    assert found["model"] == "random-words"
    assert found["on"] is None
    assert [each["phenomenon"] for each in found["phenomena"]] == [
        "negation", "particle", "number", "honorific", "spacing", "typo", "loanword",
    ]  # fmt: skip
    for each in found["phenomena"]:
        assert each["count"] >= 40
        assert each["share"]["low"] <= each["share"]["value"] == each["passed"] / each["count"]
        assert len(each["worst"]) == 2
    assert found["space"]["sentences"] == found["space"]["positives"] == found["overall"]["count"]


def test_the_space_of_a_split() -> None:
    plain, other = document("random-words"), document("random-words", "--on", "sample-sts-dev")
    assert other["on"] == "sample-sts-dev"
    assert other["phenomena"] == plain["phenomena"]
    assert other["space"]["sentences"] != plain["space"]["sentences"]
    assert 0 < other["space"]["positives"] < other["space"]["sentences"]


def test_table_and_examples() -> None:
    done = run("random-words", "--examples", "1")
    assert done.exit_code == 0, done.output
    for word in ("negation", "loanword", "95% interval", "uniformity", "IsoScore", "our own sentences", "changed"):
        assert word in done.stdout
    assert done.stdout.count("  kept ") == 7
    assert "  kept " not in run("random-words", "--examples", "0").stdout


def test_a_model_directory(tiny_bert: Path) -> None:
    found = document(str(tiny_bert))
    assert found["space"]["dimensions"] == 32
    assert found["overall"]["count"] == sum(each["count"] for each in found["phenomena"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("random", "--on", "korst-dev"), "did you mean korsts"),
        (("randon:x",), "did you mean random"),
        (("static:nowhere.vec",), "there is no file nowhere.vec"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_fix(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, KosbertError)
    assert message in str(done.exception)
    assert done.stdout == ""


def test_options_are_checked() -> None:
    assert run("random", "--examples", "-1").exit_code == 2
    assert run("random", "tfidf").exit_code == 2
