"""`kosbert search`: table, JSON, explanations, errors."""

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
    index = Index("random-words", lexical="bigrams")
    index.add(TEXTS, metadata=[{"year": year, "source": "[가게]"} for year in (2020, 2021, 2022)])
    return str(index.save(tmp_path / "index"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def document(*arguments: str) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_has_query_and_hits(index: str) -> None:
    output = document("배송이 늦어요", "--index", index, "-k", "2")
    assert output["query"] == "배송이 늦어요"
    assert [hit["text"] for hit in output["hits"]] == [TEXTS[0], TEXTS[2]]
    assert output["hits"][0]["score"] == pytest.approx(1, abs=1e-5)
    assert output["hits"][0]["metadata"] == {"year": 2020, "source": "[가게]"}
    assert [hit["id"] for hit in document("배송이", "--index", index, "--filter", "year>=2022")["hits"]] == ["2"]


def test_hybrid_hits_and_explanations(index: str) -> None:
    pytest.importorskip("bm25s")
    (hit,) = document("배송을 늦어요", "--index", index, "--hybrid", "--explain", "-k", "1")["hits"]
    assert hit["bm25_rank"] == hit["dense_rank"] == 1
    assert hit["score"] == pytest.approx(2 / 61)
    effects = {word["word"]: word["effect"] for word in hit["explanation"]["query"]}
    assert effects["늦어요"] > effects["배송을"]
    result = run("배송을 늦어요", "--index", index, "--hybrid", "--explain")
    assert result.exit_code == 0
    for text in ("dense rank", "BM25 rank", "1/(60+1)", "[빨리]", "[가게]", "2022"):
        assert text in result.stdout


def test_table_shows_texts_and_metadata(index: str) -> None:
    result = run("배송이 늦어요", "--index", index)
    assert all(text in result.stdout for text in (*TEXTS, "[가게]", "1.000"))
    assert "no sentence matches the filter" in run("글", "--index", index, "--filter", "year>3000").stdout


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("--filter", "yaer=1"), "did you mean year", 2),
        (("--filter", "year"), "cannot be parsed", 2),
        (("--model", "random"), "was made with random-words", 2),
        (("--model", "nowhere/model"), "nowhere/model", 1),
    ],
)
def test_wrong_options_are_an_error(index: str, arguments: tuple[str, ...], message: str, code: int) -> None:
    result = run("글", "--index", index, *arguments)
    assert isinstance(result.exception, KosbertError)
    assert message in str(result.exception)
    assert result.exception.exit_code == code
    assert result.stdout == ""


def test_missing_or_empty_index_is_an_error(tmp_path: Path) -> None:
    assert "holds no index" in str(run("글", "--index", str(tmp_path / "none")).exception)
    Index("random-words").save(tmp_path / "empty")
    assert "the index is empty" in str(run("글", "--index", str(tmp_path / "empty")).exception)
    assert run("글").exit_code == 2
    assert run("글", "--index", "x", "-k", "0").exit_code == 2
