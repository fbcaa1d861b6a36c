"""The command line in a real process: output, streams and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kosbert
from kosbert import data


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `kosbert` offline in its own process."""
    environ = {name: value for name, value in os.environ.items() if name not in environment}
    environ |= {"KOSBERT_OFFLINE": "1", "COLUMNS": "200", **environment}
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=environ, timeout=120, check=False)


def run_json(*arguments: str, **environment: str) -> object:
    process = run(*arguments, **environment)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_version() -> None:
    assert run("--version").stdout == f"kosbert {kosbert.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("data",), ("study",), ("data", "fetch")])
def test_help_goes_to_stdout(arguments: tuple[str, ...]) -> None:
    process = run(*arguments, "--help")
    assert process.returncode == 0
    assert "Usage" in process.stdout
    assert process.stderr == ""


def test_data_list_json() -> None:
    datasets = run_json("data", "list", "--json")
    assert {dataset["name"] for dataset in datasets} == set(data.datasets())
    korsts = next(dataset for dataset in datasets if dataset["name"] == "korsts")
    assert korsts["splits"]["test"]["rows"] == 1379
    assert korsts["splits"]["test"]["files"][0]["checksum"] == "git:d2a7c958d520ed84402c0042142a60d9a18ee3e4"


def test_data_list_filters_by_task_and_language() -> None:
    process = run("data", "list", "--task", "nli", "--language", "ko")
    assert "kornli" in process.stdout
    assert "korsts" not in process.stdout


def test_data_show_json() -> None:
    shown = run_json("data", "show", "sample", "--split", "sts-dev", "--json")
    pairs = data.load("sample-sts-dev")
    assert shown["count"] == len(shown["rows"]) == len(pairs)
    assert shown["rows"][0]["sentence1"] == pairs[0].sentence1
    assert len(run_json("data", "show", "sample-sts-dev", "--head", "2", "--json")["rows"]) == 2


@pytest.mark.real_data
def test_data_show_reads_korsts_as_published() -> None:
    shown = run_json("data", "show", "korsts", "--split", "test", "--json")
    assert shown["count"] == 1379
    assert shown["rows"][0]["sentence1"] == "한 소녀가 머리를 스타일링하고 있다."


def test_data_show_table() -> None:
    process = run("data", "show", "sample-nli-test")
    assert "entailment" in process.stdout
    assert "not for claims" in process.stdout


def test_data_check_finds_no_leakage_in_the_sample_set() -> None:
    report = run_json("data", "check", "sample-sts-train", "--against", "sample-sts-test", "--json")
    counts = {(overlap["unit"], overlap["level"]): overlap["count"] for overlap in report["overlap"]}
    assert counts["sentence", "exact"] == counts["pair", "exact"] == 0


@pytest.mark.real_data
@pytest.mark.parametrize(("first", "second", "pairs"), [("train", "test", 2), ("dev", "test", 6), ("train", "dev", 3)])
def test_data_check_counts_leaked_pairs_of_korsts(first: str, second: str, pairs: int) -> None:
    report = run_json("data", "check", f"korsts-{first}", "--against", f"korsts-{second}", "--json")
    counts = {(overlap["unit"], overlap["level"]): overlap["count"] for overlap in report["overlap"]}
    assert counts["pair", "exact"] == pairs
    assert (first, second) != ("train", "test") or counts["sentence", "exact"] == 153


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("data", "show", "korst"), 2, "did you mean korsts"),
        (("data", "show", "korsts", "--split", "tset"), 2, "korsts has no split 'tset'"),
        (("data", "fetch", "kornl"), 2, "did you mean kornli"),
        (("data", "fetch", "snli", "--offline"), 1, "kosbert data fetch snli"),
        (("data", "check", "sample-sts-dev", "--against", "nothing"), 2, "there is no data set or split 'nothing'"),
        (("data", "check", "sample-sts-dev", "--against", "sample-sts-test", "--near", "7"), 2, "near"),
        (("data", "list", "--jsno"), 2, "--json"),
        (("stduy",), 2, "study"),
    ],
)
def test_usage_errors_are_one_sentence_with_the_fix(arguments: tuple[str, ...], code: int, message: str) -> None:
    process = run(*arguments, KOSBERT_DATA="")
    assert process.returncode == code
    assert message in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""


def test_doctor_reports_versions_data_and_advice() -> None:
    report = run_json("doctor", "--json", KOSBERT_DATA="")
    assert report["kosbert"] == kosbert.__version__
    assert report["versions"]["torch"]
    assert report["hardware"]["training_dtype"] in ("float32", "bfloat16", "float16")
    assert "sample" in report["data"]["available"]
    assert report["data"]["offline"] is True
    assert any("kosbert data fetch korsts" in line for line in report["advice"])
    assert "kosbert doctor" in run("doctor").stdout


def test_doctor_reports_a_missing_data_directory(tmp_path: Path) -> None:
    report = run_json("doctor", "--json", KOSBERT_DATA=str(tmp_path / "gone"))
    assert any("does not exist" in line for line in report["advice"])


def test_data_fetch_refuses_a_file_with_a_wrong_checksum(tmp_path: Path) -> None:
    (tmp_path / "korsts").mkdir()
    (tmp_path / "korsts" / "sts-dev.tsv").write_text("cut off", encoding="utf-8")
    process = run("data", "fetch", "korsts-dev", "--data-dir", str(tmp_path))
    assert (process.returncode, "differs from the published file" in process.stdout) == (1, True)
    assert "differs from the published file: remove it" in process.stderr


def test_sample_set_is_listed_under_both_tasks() -> None:
    for task in ("sts", "nli"):
        assert "sample" in [dataset["name"] for dataset in run_json("data", "list", "--task", task, "--json")]


def test_data_show_prints_brackets_as_text(tmp_path: Path) -> None:
    assert "[garbus]" in printed_row({"sentence1": "a film by [garbus] and [/x]", "sentence2": "눈"})


def printed_row(row: dict[str, str]) -> str:
    """Return what `kosbert data show` prints for a data set of one row."""
    code = (
        "import sys\nfrom kosbert import data\nfrom kosbert.cli import main\n"
        "from kosbert.data.records import ScoredPair\n"
        f"data.load = lambda *names, **options: [ScoredPair({row['sentence1']!r}, {row['sentence2']!r}, 1.0)]\n"
        "sys.argv = ['kosbert', 'data', 'show', 'korsts-dev']; main()"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120, check=True,
        env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    return process.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and pipes")
def test_a_closed_pipe_is_not_an_error() -> None:
    command = (
        f'"{sys.executable}" -c "from kosbert.cli import main; main()" data show sample-sts-train --json | head -1'
    )
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, encoding="utf-8", check=False
    )
    assert (process.returncode, process.stdout, process.stderr.strip()) == (0, "{\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and pipes")
def test_an_interrupt_is_reported_in_one_sentence() -> None:
    code = (
        "import os, signal, sys; from kosbert import data; from kosbert.cli import main\n"
        "data.datasets = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['kosbert', 'data', 'list']; main()"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert (process.returncode, process.stdout) == (130, "")
    assert process.stderr.startswith("kosbert: interrupted; run the same command again to resume")


def test_an_unwritable_path_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a.txt").write_text("비가 온다\n", encoding="utf-8")
    process = run("index", "build", str(tmp_path / "a.txt"), "--out", str(tmp_path / "file" / "index"))
    assert (process.returncode, "Traceback" in process.stderr) == (1, False)
    assert "cannot be" in process.stderr


def test_output_is_utf8_in_the_c_locale() -> None:
    process = run(
        "data", "show", "sample-sts-dev", "--head", "1", "--json", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING=""
    )
    assert json.loads(process.stdout)["rows"][0]["sentence1"] == data.load("sample-sts-dev")[0].sentence1


def test_import_loads_no_heavy_library() -> None:
    heavy = "{'torch', 'transformers', 'sklearn', 'scipy', 'matplotlib'}"
    code = f"import sys, kosbert, kosbert.cli; print(sorted({heavy} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
