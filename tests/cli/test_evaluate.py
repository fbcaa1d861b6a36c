"""`kosbert evaluate` and `kosbert compare`: tables, JSON, and error messages."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from kosbert import data
from kosbert.cli import evaluate as commands
from kosbert.errors import KosbertError
from kosbert.evaluation.sts import CORRELATIONS

app = typer.Typer()
app.command("evaluate")(commands.evaluate)
app.command("compare")(commands.compare)

TFIDF = "tfidf:sample-sts-train"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KOSBERT_OFFLINE", "1")
    monkeypatch.delenv("KOSBERT_DATA", raising=False)
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    for console in (commands.out, commands.err):
        monkeypatch.setattr(console, "_width", 200)


def run(*arguments: str) -> str:
    """Return the standard output of a call."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*arguments: str) -> dict:
    """Return the JSON of `evaluate`."""
    return json.loads(run("evaluate", *arguments, "--json"))


def usage_error(*arguments: str) -> str:
    """Return the message of a wrong call, which has one line and exit code 2."""
    with pytest.raises(KosbertError) as caught:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert caught.value.exit_code == 2
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "pairs, with a comma.tsv"
    rows = data.load("sample-sts-dev")[:60]
    lines = ["sentence1\tsentence2\tscore", *(f"{row.sentence1}\t{row.sentence2}\t{row.score}" for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> tuple[str, str]:
    """Files of vectors for sample-sts-dev whose cosine is the score."""
    angles = np.array([np.arccos(row.score / 5) for row in data.load("sample-sts-dev")])
    first, second = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(first, np.tile([1.0, 0.0], (len(angles), 1)))
    np.save(second, np.stack([np.cos(angles), np.sin(angles)], axis=1))
    return str(first), str(second)


@pytest.mark.parametrize(
    "arguments",
    [
        (TFIDF, "--on", "sample-sts-test", "sample-sts-dev"),
        (TFIDF, "--on", "sample-sts-test,sample-sts-dev"),
        (TFIDF, "--on", "sample-sts-test", "--on", "sample-sts-dev"),
        ("--on", "sample-sts-test", TFIDF, "sample-sts-dev"),
        (TFIDF, "--on", "sample-sts-test", "sample-sts-dev", "sample-sts-test"),  # each dataset once
    ],
)
def test_datasets_can_be_given_in_several_forms(arguments) -> None:
    evaluation = document(*arguments)
    assert evaluation["model"] == TFIDF
    assert [result["dataset"] for result in evaluation["results"]] == ["sample-sts-test", "sample-sts-dev"]
    assert [result["pairs"] for result in evaluation["results"]] == [1000, 500]


def test_json_has_raw_scores_and_intervals() -> None:
    (result,) = document(TFIDF, "--on", "sample-sts-dev")["results"]
    assert list(result["correlations"]) == [*CORRELATIONS, "average"]
    score = result["correlations"]["cosine_spearman"]
    interval = result["cosine_spearman"]
    assert -1 < interval["low"] < score == interval["value"] < interval["high"] < 1
    assert result["slices"] is result["human_agreement"] is None
    assert result["published_scores"] == []


def test_table_shows_scores_times_100() -> None:
    score = document(TFIDF, "--on", "sample-sts-dev")["results"][0]["correlations"]["cosine_spearman"]
    printed = run("evaluate", TFIDF, "--on", "sample-sts-dev")
    assert f"{100 * score:.2f}" in printed
    for heading in ("cosine Pearson", "Euclidean Spearman", "Manhattan Pearson", "dot Spearman", "average", "95%"):
        assert heading in printed
    assert "nan" not in printed.lower()


def test_user_file_with_column_names(user_file: Path, tmp_path: Path) -> None:
    results = document(TFIDF, "--on", str(user_file), "sample-sts-dev")["results"]
    assert [result["pairs"] for result in results] == [60, 500]
    renamed = tmp_path / "named.tsv"
    renamed.write_text(user_file.read_text(encoding="utf-8").replace("score", "점수"), encoding="utf-8")
    again = document(TFIDF, "--on", str(renamed), "--column", "score=점수")["results"][0]
    assert again["correlations"] == results[0]["correlations"]


def test_vectors_instead_of_a_model(vectors) -> None:
    evaluation = document("--vectors", *vectors, "--on", "sample-sts-dev")
    assert evaluation["model"] == "vectors"
    assert evaluation["results"][0]["correlations"]["cosine_spearman"] == pytest.approx(1)
    assert "100.00" in run("evaluate", "--vectors", *vectors, "--on", "sample-sts-dev")


def test_model_directory(tiny_bert: Path) -> None:
    evaluation = document(str(tiny_bert), "--on", "sample-sts-dev", "--resamples", "100")
    assert evaluation["model"] == str(tiny_bert)
    assert None not in evaluation["results"][0]["correlations"].values()


def test_pattern_gives_statistics_over_seeds(tiny_bert: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        shutil.copytree(tiny_bert, tmp_path / f"seed-{seed}")
    pattern = str(tmp_path / "seed-*")
    evaluation = document(pattern, "--on", "sample-sts-dev", "--resamples", "100")
    assert [Path(model["model"]).name for model in evaluation["models"]] == ["seed-1", "seed-2"]
    statistics = evaluation["seeds"]["sample-sts-dev"]["cosine_spearman"]
    assert statistics["runs"] == 2
    assert statistics["mean"] == pytest.approx(evaluation["models"][0]["results"][0]["correlations"]["cosine_spearman"])
    assert statistics["std"] == pytest.approx(0)
    assert "2 runs" in run("evaluate", pattern, "--on", "sample-sts-dev", "--resamples", "100")


def test_slices_and_leakage() -> None:
    result = document(TFIDF, "--on", "sample-sts-dev", "--slices", "--training", "sample-sts-train")["results"][0]
    assert {part["kind"] for part in result["slices"]} >= {"length", "overlap", "leakage"}
    printed = run("evaluate", TFIDF, "--on", "sample-sts-dev", "--slices")
    assert "by slice" in printed
    assert "leakage" not in printed


def test_undefined_scores_are_null_and_named(tmp_path: Path, vectors) -> None:
    constant = tmp_path / "constant.npy"
    np.save(constant, np.ones((500, 2), np.float32))
    call = ("--vectors", str(constant), str(constant), "--on", "sample-sts-dev")
    assert set(document(*call)["results"][0]["correlations"].values()) == {None}
    printed = run("evaluate", *call)
    assert "undefined" in printed
    assert "nan" not in printed.lower()


def write_semeval(folder: Path) -> None:
    """Write STS12 in its publisher's layout, with the right number of pairs and made-up texts and scores."""
    dataset, split = data.resolve("sts12")
    sizes = {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399}
    for file in dataset.splits[split].files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        subtask = path.name.removeprefix("STS.input.").removeprefix("STS.gs.").removesuffix(".txt")
        kind = "input" if ".input." in path.name else "gs"
        lines = [
            f"word{n} alpha\tword{n} {'alpha' if n % 3 else 'beta'}" if kind == "input" else str(n % 6)
            for n in range(sizes[subtask])
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_semeval_subtasks_and_published_scores(tmp_path: Path) -> None:
    write_semeval(tmp_path)
    call = ("random-words", "--on", "sts12", "--data-dir", str(tmp_path))
    result = document(*call)["results"][0]
    assert set(result["subtasks"]) == {"by_subtask", "all", "mean", "weighted_mean"}
    assert len(result["subtasks"]["by_subtask"]) == 5
    assert result["subtasks"]["all"]["spearman"] == result["correlations"]["cosine_spearman"]
    assert {score["model"] for score in result["published_scores"]} >= {"SBERT-NLI-base", "all-MiniLM-L6-v2"}
    printed = run("evaluate", *call)
    for text in ("SMTeuroparl", "all (pooled)", "weighted mean", "SBERT-NLI-base", "70.97", "Reimers & Gurevych 2019"):
        assert text in printed


def test_compare_reports_a_winner_and_a_tie(user_file: Path) -> None:
    arguments = ("compare", TFIDF, "random", "--on", "sample-sts-test", str(user_file), "--resamples", "1000")
    comparison = json.loads(run(*arguments, "--json"))
    assert (comparison["first"], comparison["second"], comparison["coefficient"]) == (TFIDF, "random", "spearman")
    result = comparison["results"][0]
    assert result["result"]["winner"] == "first"
    assert result["difference"]["interval"]["low"] > 0
    assert set(result["difference"]) >= {"randomization_p", "williams_p", "steiger_p"}
    printed = run(*arguments)
    assert "A is better" in printed
    assert len(printed.splitlines()) <= 24  # fits one screen
    same = run("compare", TFIDF, TFIDF, "--on", "sample-sts-dev", "--resamples", "200")
    assert "tie" in same
    assert "is better" not in same


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", TFIDF), "--on"),
        (("evaluate",), "--on"),
        (("evaluate", TFIDF, "--on", "korsts-tset"), "korsts-test"),
        (("evaluate", TFIDF, "--on", "korsts-test"), "korsts"),  # known, but missing
        (("evaluate", TFIDF, "--on", "sample-nli-test"), "no scored pairs"),
        (("evaluate", TFIDF, "--on", "missing.tsv"), "no file missing.tsv"),
        (("evaluate", "no-such-model", "--on", "sample-sts-dev"), "no-such-model"),
        (("evaluate", "no-such-*", "--on", "sample-sts-dev"), "no directory matches"),
        (("evaluate", TFIDF, "--on", "sample-sts-dev", "--column", "score"), "ROLE=NAME"),
        (("compare", TFIDF, "--on", "sample-sts-dev"), "two models"),
        (("compare", TFIDF, TFIDF, "--on", "sample-sts-dev", "--coefficient", "kendall"), "spearman"),
        (("evaluate", "--vectors", "a.npy", "b.npy", "--on", "sample-sts-dev"), "a.npy cannot be read"),
    ],
)
def test_wrong_arguments_are_usage_errors(arguments, message) -> None:
    assert message in usage_error(*arguments)


def test_file_without_scores_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\tlabel\n비\t눈\tneutral\n", encoding="utf-8")
    assert "no score column" in usage_error("evaluate", TFIDF, "--on", str(path))
    path.write_text("sentence1\tsentence2\n비\t눈\n", encoding="utf-8")
    assert "score" in usage_error("evaluate", TFIDF, "--on", str(path))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((499, 2)), "499 first vectors for 500 pairs"),
        (np.where(np.arange(1000).reshape(500, 2) == 7, np.nan, 1), "NaN or infinity in row 3"),
        (np.ones((500, 3)), "3 and 2 dimensions"),
        (np.array(["a"] * 500), "no array of numbers"),
        (np.array([{}] * 500, dtype=object), "no array of numbers"),  # needs pickle
    ],
)
def test_invalid_vectors_are_usage_errors(array, message, vectors, tmp_path: Path) -> None:
    path = tmp_path / "wrong.npy"
    np.save(path, array, allow_pickle=True)
    assert message in usage_error("evaluate", "--vectors", str(path), vectors[1], "--on", "sample-sts-dev")


def test_empty_vector_file_is_a_usage_error(vectors, tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    message = usage_error("evaluate", "--vectors", str(tmp_path / "empty.npy"), vectors[1], "--on", "sample-sts-dev")
    assert "no array of numbers" in message


def test_comparing_on_too_few_pairs_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "three.csv"
    path.write_text("sentence1,sentence2,score\n비,눈,1\n해,달,2\n물,불,3\n", encoding="utf-8")
    assert "has 3 pairs: comparing models takes 4 or more" in usage_error("compare", TFIDF, "random", "--on", str(path))


def test_onnx_file_is_taken_as_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    arguments = ["evaluate", str(tmp_path / "m.onnx"), "--on", "sample-sts-dev"]
    with pytest.raises(KosbertError, match=r"m\.onnx cannot be run"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_vectors_with_several_datasets_are_a_usage_error(vectors) -> None:
    assert "one set" in usage_error("evaluate", "--vectors", *vectors, "--on", "sample-sts-dev", "sample-sts-test")


def test_help_imports_neither_torch_nor_scipy() -> None:
    script = (
        "import sys, typer; from kosbert.cli import evaluate as e; app = typer.Typer(); app.command()(e.evaluate); "
        "app.command()(e.compare)\n"
        "try: app(['evaluate', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules or 'scipy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
