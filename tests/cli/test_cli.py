"""The command line as a real process: what it prints, where, and with which exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kosbert
from kosbert import data


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `kosbert` in a process of its own, offline."""
    settings = {name: value for name, value in os.environ.items() if name not in environment}
    settings |= {"KOSBERT_OFFLINE": "1", "COLUMNS": "200", **environment}
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=settings, timeout=120, check=False)


def document(*arguments: str, **environment: str) -> object:
    done = run(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_version() -> None:
    assert run("--version").stdout == f"kosbert {kosbert.__version__}\n"


@pytest.mark.parametrize("arguments", [(), ("data",), ("study",), ("data", "fetch")])
def test_help_reads_well(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout
    assert done.stderr == ""


def test_list_as_json() -> None:
    listed = document("data", "list", "--json")
    assert {each["name"] for each in listed} == set(data.datasets())
    korsts = next(each for each in listed if each["name"] == "korsts")
    assert korsts["splits"]["test"]["rows"] == 1379
    assert korsts["splits"]["test"]["files"][0]["checksum"] == "git:d2a7c958d520ed84402c0042142a60d9a18ee3e4"


def test_list_as_table_and_filtered() -> None:
    done = run("data", "list", "--task", "nli", "--language", "ko")
    assert "kornli" in done.stdout
    assert "korsts" not in done.stdout


def test_show_as_json() -> None:
    shown = document("data", "show", "sample", "--split", "sts-dev", "--json")
    pairs = data.load("sample-sts-dev")
    assert shown["count"] == len(shown["rows"]) == len(pairs)
    assert shown["rows"][0]["sentence1"] == pairs[0].sentence1
    assert len(document("data", "show", "sample-sts-dev", "--head", "2", "--json")["rows"]) == 2


@pytest.mark.skipif(not os.environ.get("KOSBERT_DATA"), reason="KOSBERT_DATA is not set")
def test_show_korsts_test() -> None:
    shown = document("data", "show", "korsts", "--split", "test", "--json")
    assert shown["count"] == 1379
    assert shown["rows"][0]["sentence1"] == "한 소녀가 머리를 스타일링하고 있다."


def test_show_as_table() -> None:
    done = run("data", "show", "sample-nli-test")
    assert "entailment" in done.stdout
    assert "never for claims" in done.stdout


def test_check_as_json() -> None:
    found = document("data", "check", "sample-sts-train", "--against", "sample-sts-test", "--json")
    counts = {(each["unit"], each["level"]): each["count"] for each in found["overlap"]}
    assert counts["sentence", "exact"] == counts["pair", "exact"] == 0


@pytest.mark.skipif(not os.environ.get("KOSBERT_DATA"), reason="KOSBERT_DATA is not set")
@pytest.mark.parametrize(("first", "second", "pairs"), [("train", "test", 2), ("dev", "test", 6), ("train", "dev", 3)])
def test_check_korsts(first: str, second: str, pairs: int) -> None:
    found = document("data", "check", f"korsts-{first}", "--against", f"korsts-{second}", "--json")
    counts = {(each["unit"], each["level"]): each["count"] for each in found["overlap"]}
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
def test_a_mistake_is_one_sentence_with_the_fix(arguments: tuple[str, ...], code: int, message: str) -> None:
    done = run(*arguments, KOSBERT_DATA="")
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_doctor() -> None:
    report = document("doctor", "--json", KOSBERT_DATA="")
    assert report["kosbert"] == kosbert.__version__
    assert report["versions"]["torch"]
    assert "sample" in report["data"]["here"]
    assert report["data"]["offline"] is True
    assert any("kosbert data fetch korsts" in line for line in report["advice"])
    assert "kosbert doctor" in run("doctor").stdout


def test_doctor_names_a_data_folder_that_is_not_there(tmp_path: Path) -> None:
    report = document("doctor", "--json", KOSBERT_DATA=str(tmp_path / "gone"))
    assert any("does not exist" in line for line in report["advice"])


def test_a_wrong_file_is_not_fetched_silently(tmp_path: Path) -> None:
    (tmp_path / "korsts").mkdir()
    (tmp_path / "korsts" / "sts-dev.tsv").write_text("cut off", encoding="utf-8")
    done = run("data", "fetch", "korsts-dev", "--data-dir", str(tmp_path))
    assert (done.returncode, "differs from the published file" in done.stdout) == (1, True)
    assert "differs from the published file: remove it" in done.stderr


def test_the_sample_set_is_listed_under_both_of_its_tasks() -> None:
    for task in ("sts", "nli"):
        assert "sample" in [each["name"] for each in document("data", "list", "--task", task, "--json")]


def test_brackets_are_text(tmp_path: Path) -> None:
    assert "[garbus]" in shown({"sentence1": "a film by [garbus] and [/x]", "sentence2": "눈"})


def shown(row: dict[str, str]) -> str:
    """What `data show` prints of a row, by way of a data set of one row."""
    code = (
        "import sys\nfrom kosbert import data\nfrom kosbert.cli import main\n"
        "from kosbert.data.records import ScoredPair\n"
        f"data.load = lambda *names, **options: [ScoredPair({row['sentence1']!r}, {row['sentence2']!r}, 1.0)]\n"
        "sys.argv = ['kosbert', 'data', 'show', 'korsts-dev']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120, check=True,
                          env=os.environ | {"COLUMNS": "200"})  # fmt: skip
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are those of POSIX")
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = (
        f'"{sys.executable}" -c "from kosbert.cli import main; main()" data show sample-sts-train --json | head -1'
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (0, "{\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are those of POSIX")
def test_stopped_by_the_user_is_one_sentence() -> None:
    code = (
        "import os, signal, sys; from kosbert import data; from kosbert.cli import main\n"
        "data.datasets = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['kosbert', 'data', 'list']; main()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("kosbert: stopped; the same command goes on")


def test_a_path_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a.txt").write_text("비가 온다\n", encoding="utf-8")
    done = run("index", "build", str(tmp_path / "a.txt"), "--out", str(tmp_path / "file" / "index"))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "cannot be" in done.stderr


def test_output_is_utf8_even_in_the_c_locale() -> None:
    done = run(
        "data", "show", "sample-sts-dev", "--head", "1", "--json", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING=""
    )
    assert json.loads(done.stdout)["rows"][0]["sentence1"] == data.load("sample-sts-dev")[0].sentence1


def test_importing_kosbert_is_light() -> None:
    heavy = "{'torch', 'transformers', 'sklearn', 'scipy', 'matplotlib'}"
    code = f"import sys, kosbert, kosbert.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
