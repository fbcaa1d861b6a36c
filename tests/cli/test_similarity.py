"""The commands `similarity`, `export`, `verify` and `soup`."""

import json
import subprocess
import sys

import pytest

from kosbert.model.torch_loading import load_torch


def kosbert(*arguments, code=0):
    """Run the command in a subprocess; return standard output, or standard error if an error is expected."""
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_similarity_prints_cosines(tiny_bert):
    output = json.loads(
        kosbert("similarity", "비가 온다.", "비가 온다.", "커피를 마신다.", "--model", tiny_bert, "--json")
    )
    assert output["sentence"] == "비가 온다."
    assert output["others"][0] == {"text": "비가 온다.", "cosine": 1.0}
    expected = load_torch(tiny_bert).similarity("비가 온다.", "커피를 마신다.")[0, 0]
    assert output["others"][1]["cosine"] == pytest.approx(float(expected), abs=1e-5)
    table = kosbert("similarity", "비가 온다.", "눈이 온다.", "--model", tiny_bert)
    assert "눈이 온다." in table
    assert "█" in table
    assert "[/b] 눈 [red]" in kosbert("similarity", "비가 온다.", "[/b] 눈 [red]", "--model", tiny_bert)


def test_wrong_usage_is_a_one_sentence_error(tiny_bert, tmp_path):
    assert "one of the sentences is empty" in kosbert("similarity", " ", "비", "--model", tiny_bert, code=2)
    assert "truncate_dim 99 is impossible" in kosbert(
        "similarity", "눈", "비", "--model", tiny_bert, "--dim", 99, code=2
    )
    assert "there is no format 'gguf'" in kosbert("export", tiny_bert, "--format", "gguf", code=2)
    assert "holds no exported model" in kosbert("verify", tmp_path, code=2)


@pytest.mark.slow
def test_average_export_and_verify(tiny_bert, tmp_path):
    """The last steps of `make builtin`: average weights, export with the quality gate, verify."""
    pytest.importorskip("onnx")
    for number in (1, 2):
        load_torch(tiny_bert).save(tmp_path / f"seed-{number}")
    seeds = [tmp_path / "seed-1", tmp_path / "seed-2"]
    averaged = json.loads(kosbert("soup", *seeds, "--dev", "sample-sts-dev", "--out", tmp_path / "soup", "--json"))
    assert len(averaged["ingredients"]) == 2
    assert averaged["score"] == max(averaged["dev"].values())
    weights = ("--weight", 4, "--weight", 1)
    weighted = kosbert("soup", *seeds, *weights, "--dev", "sample-sts-dev", "--out", tmp_path / "mixed")
    assert "evaluated on sample-sts-dev" in weighted
    arguments = ("export", tmp_path / "soup", "--int8", "--gate", "sample-sts-dev", "--max-drop", 20)
    exported = json.loads(kosbert(*arguments, "--format", "both", "--out", tmp_path / "out", "--json"))
    assert exported["quality_gate"]["dataset"] == "sample-sts-dev"
    assert exported["quality_gate"]["spearman_before"] == pytest.approx(averaged["score"])
    assert exported["bytes"] == sum(file.stat().st_size for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert "no pickle, no code" in kosbert("verify", tmp_path / "out")
    assert json.loads(kosbert("similarity", "비", "눈", "--model", tmp_path / "out", "--json"))["others"]
