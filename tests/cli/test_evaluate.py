"""`kosbert evaluate` and `kosbert compare`: what they print, and one sentence for each mistake."""

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
    """What a call prints to standard output."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*arguments: str) -> dict:
    """The JSON of `evaluate`."""
    return json.loads(run("evaluate", *arguments, "--json"))


def mistake(*arguments: str) -> str:
    """The one sentence of a wrong call, which ends with exit code 2."""
    with pytest.raises(KosbertError) as caught:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert caught.value.exit_code == 2
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "own, with a comma.tsv"
    rows = data.load("sample-sts-dev")[:60]
    lines = ["sentence1\tsentence2\tscore", *(f"{row.sentence1}\t{row.sentence2}\t{row.score}" for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> tuple[str, str]:
    """Vectors for sample-sts-dev whose cosine is the score."""
    angles = np.array([np.arccos(row.score / 5) for row in data.load("sample-sts-dev")])
    first, second = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(first, np.tile([1.0, 0.0], (len(angles), 1)))
    np.save(second, np.stack([np.cos(angles), np.sin(angles)], axis=1))
    return str(first), str(second)


@pytest.mark.parametrize(
    "arguments",
    [
        (TFIDF, "--on", "sample-sts-test", "sample-sts-dev"),  # as in the design
        (TFIDF, "--on", "sample-sts-test,sample-sts-dev"),
        (TFIDF, "--on", "sample-sts-test", "--on", "sample-sts-dev"),
        ("--on", "sample-sts-test", TFIDF, "sample-sts-dev"),
        (TFIDF, "--on", "sample-sts-test", "sample-sts-dev", "sample-sts-test"),  # each set once
    ],
)
def test_several_sets(arguments) -> None:
    found = document(*arguments)
    assert found["model"] == TFIDF
    assert [each["name"] for each in found["sets"]] == ["sample-sts-test", "sample-sts-dev"]
    assert [each["pairs"] for each in found["sets"]] == [1000, 500]


def test_json_is_raw_and_complete() -> None:
    (found,) = document(TFIDF, "--on", "sample-sts-dev")["sets"]
    assert list(found["correlations"]) == [*CORRELATIONS, "average"]
    score = found["correlations"]["cosine_spearman"]
    assert -1 < score < 1
    assert found["spearman"]["value"] == score
    assert found["spearman"]["low"] < score < found["spearman"]["high"]
    assert found["slices"] is found["human"] is None
    assert found["anchors"] == []


def test_the_table_is_times_a_hundred() -> None:
    score = document(TFIDF, "--on", "sample-sts-dev")["sets"][0]["correlations"]["cosine_spearman"]
    printed = run("evaluate", TFIDF, "--on", "sample-sts-dev")
    assert f"{100 * score:.2f}" in printed
    for heading in ("cosine Pearson", "Euclidean Spearman", "Manhattan Pearson", "dot Spearman", "average", "95%"):
        assert heading in printed
    assert "nan" not in printed.lower()


def test_the_users_own_file(own_file: Path, tmp_path: Path) -> None:
    found = document(TFIDF, "--on", str(own_file), "sample-sts-dev")["sets"]
    assert [each["pairs"] for each in found] == [60, 500]
    renamed = tmp_path / "named.tsv"
    renamed.write_text(own_file.read_text(encoding="utf-8").replace("score", "점수"), encoding="utf-8")
    again = document(TFIDF, "--on", str(renamed), "--column", "score=점수")["sets"][0]
    assert again["correlations"] == found[0]["correlations"]


def test_vectors_need_no_model(vectors) -> None:
    found = document("--vectors", *vectors, "--on", "sample-sts-dev")
    assert found["model"] == "vectors"
    assert found["sets"][0]["correlations"]["cosine_spearman"] == pytest.approx(1)
    assert "100.00" in run("evaluate", "--vectors", *vectors, "--on", "sample-sts-dev")


def test_a_model_directory(tiny_bert: Path) -> None:
    found = document(str(tiny_bert), "--on", "sample-sts-dev", "--resamples", "100")
    assert found["model"] == str(tiny_bert)
    assert None not in found["sets"][0]["correlations"].values()


def test_runs_that_differ_in_their_seed(tiny_bert: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        shutil.copytree(tiny_bert, tmp_path / f"seed-{seed}")
    pattern = str(tmp_path / "seed-*")
    found = document(pattern, "--on", "sample-sts-dev", "--resamples", "100")
    assert [Path(each["model"]).name for each in found["models"]] == ["seed-1", "seed-2"]
    seeds = found["seeds"]["sample-sts-dev"]["cosine_spearman"]
    assert seeds["runs"] == 2
    assert seeds["mean"] == pytest.approx(found["models"][0]["sets"][0]["correlations"]["cosine_spearman"])
    assert seeds["deviation"] == pytest.approx(0)
    assert "2 runs" in run("evaluate", pattern, "--on", "sample-sts-dev", "--resamples", "100")


def test_slices_and_leakage() -> None:
    found = document(TFIDF, "--on", "sample-sts-dev", "--slices", "--training", "sample-sts-train")["sets"][0]
    assert {each["kind"] for each in found["slices"]} >= {"length", "overlap", "leakage"}
    printed = run("evaluate", TFIDF, "--on", "sample-sts-dev", "--slices")
    assert "by slices" in printed
    assert "leakage" not in printed


def test_undefined_is_said_so(tmp_path: Path, vectors) -> None:
    constant = tmp_path / "constant.npy"
    np.save(constant, np.ones((500, 2), np.float32))
    call = ("--vectors", str(constant), str(constant), "--on", "sample-sts-dev")
    assert set(document(*call)["sets"][0]["correlations"].values()) == {None}
    printed = run("evaluate", *call)
    assert "undefined" in printed
    assert "nan" not in printed.lower()


def write_semeval(folder: Path) -> None:
    """STS12 in its publisher's layout, with as many pairs as it must have; scores grow with the pair's number."""
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


def test_semeval_by_sub_tasks_beside_what_is_published(tmp_path: Path) -> None:
    write_semeval(tmp_path)
    call = ("random-words", "--on", "sts12", "--data-dir", str(tmp_path))
    found = document(*call)["sets"][0]
    assert set(found["subtasks"]) == {"parts", "all", "mean", "weighted_mean"}
    assert len(found["subtasks"]["parts"]) == 5
    assert found["subtasks"]["all"]["spearman"] == found["correlations"]["cosine_spearman"]
    assert {each["model"] for each in found["anchors"]} >= {"SBERT-NLI-base", "all-MiniLM-L6-v2"}
    printed = run("evaluate", *call)
    for text in ("SMTeuroparl", "all (pooled)", "weighted mean", "SBERT-NLI-base", "70.97", "Reimers & Gurevych 2019"):
        assert text in printed


def test_compare_tells_a_difference_and_a_tie(own_file: Path) -> None:
    arguments = ("compare", TFIDF, "random", "--on", "sample-sts-test", str(own_file), "--resamples", "1000")
    found = json.loads(run(*arguments, "--json"))
    assert (found["first"], found["second"], found["coefficient"]) == (TFIDF, "random", "spearman")
    first = found["sets"][0]
    assert first["verdict"]["winner"] == "first"
    assert first["difference"]["interval"]["low"] > 0
    assert set(first["difference"]) >= {"randomization", "williams", "steiger"}
    printed = run(*arguments)
    assert "A is better" in printed
    assert len(printed.splitlines()) <= 24  # one screen
    same = run("compare", TFIDF, TFIDF, "--on", "sample-sts-dev", "--resamples", "200")
    assert "tie" in same
    assert "is better" not in same


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("evaluate", TFIDF), "--on"),
        (("evaluate",), "--on"),
        (("evaluate", TFIDF, "--on", "korsts-tset"), "korsts-test"),
        (("evaluate", TFIDF, "--on", "korsts-test"), "korsts"),  # known, but not here
        (("evaluate", TFIDF, "--on", "sample-nli-test"), "no scored pairs"),
        (("evaluate", TFIDF, "--on", "missing.tsv"), "no file missing.tsv"),
        (("evaluate", "no-such-model", "--on", "sample-sts-dev"), "no-such-model"),
        (("evaluate", "no-such-*", "--on", "sample-sts-dev"), "no directory fits"),
        (("evaluate", TFIDF, "--on", "sample-sts-dev", "--column", "score"), "ROLE=NAME"),
        (("compare", TFIDF, "--on", "sample-sts-dev"), "two models"),
        (("compare", TFIDF, TFIDF, "--on", "sample-sts-dev", "--coefficient", "kendall"), "spearman"),
        (("evaluate", "--vectors", "a.npy", "b.npy", "--on", "sample-sts-dev"), "a.npy cannot be read"),
    ],
)
def test_mistakes(arguments, sentence) -> None:
    assert sentence in mistake(*arguments)


def test_a_file_without_scores(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\tlabel\n비\t눈\tneutral\n", encoding="utf-8")
    assert "no score column" in mistake("evaluate", TFIDF, "--on", str(path))
    path.write_text("sentence1\tsentence2\n비\t눈\n", encoding="utf-8")
    assert "score" in mistake("evaluate", TFIDF, "--on", str(path))


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.ones((499, 2)), "499 first vectors for 500 pairs"),
        (np.where(np.arange(1000).reshape(500, 2) == 7, np.nan, 1), "NaN or infinity in row 3"),
        (np.ones((500, 3)), "3 and 2 dimensions"),
        (np.array(["a"] * 500), "no array of numbers"),
        (np.array([{}] * 500, dtype=object), "no array of numbers"),  # would need pickle
    ],
)
def test_wrong_vectors(array, sentence, vectors, tmp_path: Path) -> None:
    path = tmp_path / "wrong.npy"
    np.save(path, array, allow_pickle=True)
    assert sentence in mistake("evaluate", "--vectors", str(path), vectors[1], "--on", "sample-sts-dev")


def test_an_empty_file_of_vectors(vectors, tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    found = mistake("evaluate", "--vectors", str(tmp_path / "empty.npy"), vectors[1], "--on", "sample-sts-dev")
    assert "no array of numbers" in found


def test_too_few_pairs_to_compare(tmp_path: Path) -> None:
    path = tmp_path / "three.csv"
    path.write_text("sentence1,sentence2,score\n비,눈,1\n해,달,2\n물,불,3\n", encoding="utf-8")
    assert "has 3 pairs: to compare models takes 4 or more" in mistake("compare", TFIDF, "random", "--on", str(path))


def test_a_graph_is_a_model_and_no_set(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(KosbertError, match=r"m\.onnx") as caught:
        CliRunner().invoke(
            app, ["evaluate", str(tmp_path / "m.onnx"), "--on", "sample-sts-dev"], catch_exceptions=False
        )
    assert "no known ending" not in str(caught.value)


def test_vectors_fit_one_set(vectors) -> None:
    assert "one set" in mistake("evaluate", "--vectors", *vectors, "--on", "sample-sts-dev", "sample-sts-test")


def test_help_loads_nothing_heavy() -> None:
    """`--help` in a process of its own: the command line must not wait for torch or scipy."""
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
