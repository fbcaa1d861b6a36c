"""`kosbert search`: its table, its JSON, its reasons, its mistakes."""

import json
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from kosbert.cli import search as command
from kosbert.errors import KosbertError
from kosbert.search import Index

app = typer.Typer()
app.command()(command.search)
TEXTS = ["배송이 늦어요", "환불해 주세요 [빨리]", "배송이 빨라요"]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(command, "out", Console(width=160))
    index = Index("random-words", words="bigrams")
    index.add(TEXTS, metadata=[{"year": year, "source": "[가게]"} for year in (2020, 2021, 2022)])
    return str(index.save(tmp_path / "index"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def document(*arguments: str) -> dict:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_json(index: str) -> None:
    found = document("배송이 늦어요", "--index", index, "-k", "2")
    assert found["query"] == "배송이 늦어요"
    assert [hit["text"] for hit in found["hits"]] == [TEXTS[0], TEXTS[2]]
    assert found["hits"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert found["hits"][0]["metadata"] == {"year": 2020, "source": "[가게]"}
    assert [hit["id"] for hit in document("배송이", "--index", index, "--filter", "year>=2022")["hits"]] == ["2"]


def test_hybrid_and_explain(index: str) -> None:
    pytest.importorskip("bm25s")
    (hit,) = document("배송을 늦어요", "--index", index, "--hybrid", "--explain", "-k", "1")["hits"]
    assert hit["words_rank"] == hit["vector_rank"] == 1
    assert hit["score"] == pytest.approx(2 / 61)
    effects = {each["word"]: each["effect"] for each in hit["explanation"]["query"]}
    assert effects["늦어요"] > effects["배송을"]
    done = run("배송을 늦어요", "--index", index, "--hybrid", "--explain")
    assert done.exit_code == 0
    for text in ("by meaning", "BM25", "1/(60+1)", "[빨리]", "[가게]", "2022"):
        assert text in done.stdout


def test_table(index: str) -> None:
    done = run("배송이 늦어요", "--index", index)
    assert all(text in done.stdout for text in (*TEXTS, "[가게]", "1.000"))
    assert "nothing fulfills the filter" in run("글", "--index", index, "--filter", "year>3000").stdout


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("--filter", "yaer=1"), "did you mean year", 2),
        (("--filter", "year"), "cannot be read", 2),
        (("--model", "random"), "was made with random-words", 2),
        (("--model", "nowhere/model"), "nowhere/model", 1),
    ],
)
def test_mistakes(index: str, arguments: tuple[str, ...], message: str, code: int) -> None:
    done = run("글", "--index", index, *arguments)
    assert isinstance(done.exception, KosbertError)
    assert message in str(done.exception)
    assert done.exception.exit_code == code
    assert done.stdout == ""


def test_no_index(tmp_path: Path) -> None:
    done = run("글", "--index", str(tmp_path / "none"))
    assert "holds no index" in str(done.exception)
    Index("random-words").save(tmp_path / "empty")
    assert "the index is empty" in str(run("글", "--index", str(tmp_path / "empty")).exception)
    assert run("글").exit_code == 2
    assert run("글", "--index", "x", "-k", "0").exit_code == 2
