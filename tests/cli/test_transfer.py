"""`kosbert transfer`: a table for people, one JSON document for programs, one sentence for a mistake."""

import json

import pytest
import typer
from typer.testing import CliRunner

from kosbert.cli.transfer import transfer
from kosbert.errors import UsageError
from kosbert.evaluation import transfer_tasks as catalogue
from kosbert.evaluation.transfer_tasks import Task

app = typer.Typer()
app.command()(transfer)


@pytest.fixture(autouse=True)
def own_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A suite of one task that needs no files, and one whose file is not here."""
    sample = {"train": "sample-nli-dev", "test": "sample-nli-test"}
    pairs = Task("sample", "ko", (sample,), "u, v, |u-v|, u*v", f1="macro")
    monkeypatch.setattr(catalogue, "TASKS", (pairs, Task("nowhere", "ko", ({"all": "cr"},))))
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("KOSBERT_DATA", raising=False)


def test_json() -> None:
    done = CliRunner().invoke(app, ["random-words", "--json", "--limit", "300"], catch_exceptions=False)
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert {key: document[key] for key in ("model", "suite", "seed", "limit", "average")} == {
        "model": "random-words",
        "suite": "ko",
        "seed": 1111,
        "limit": 300,
        "average": None,
    }
    [score] = document["tasks"]
    assert score["data"] == ["sample-nli-dev", "sample-nli-test"]
    assert 0 < score["accuracy"]["low"] < score["accuracy"]["value"] < score["accuracy"]["high"] < 1
    assert "is missing" in document["missing"]["nowhere"]


def test_table() -> None:
    done = CliRunner().invoke(app, ["random-words", "--limit", "300"], catch_exceptions=False)
    assert done.exit_code == 0
    printed = " ".join(done.stdout.split())  # however wide the terminal is
    assert "accuracy ×100" in printed
    assert "at most 300 rows" in printed
    assert "nowhere: senteval/CR/custrev.neg of cr is missing: get it from" in printed
    assert "sample" in done.stderr  # the progress bar


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["random", "--suite", "fr"], "give en or ko"),
        (["random", "--task", "sampel"], "did you mean sample"),
        (["static:nowhere.vec", "--task", "sample"], "there is no file nowhere.vec"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
