"""`kosbert bench` on a tiny model: all methods are measured and return the same embeddings."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("onnx")


def test_bench_measures_every_method_of_a_tiny_model(tiny_bert, tmp_path):
    arguments = ["bench", str(tiny_bert), "--on", "sample-sts-dev", "--sentences", "40", "--rounds", "2", "--json"]
    arguments += ["--join", "2", "--figure", str(tmp_path / "figures" / "ratios.svg")]
    code = "from kosbert.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, encoding="utf-8", check=True)
    document = json.loads(done.stdout)
    assert document["sentences"] == 40
    assert document["peak_gflops"] > 0
    results = {result["method"]: result for result in document["methods"]}
    names = list(results)
    assert names[0] == "sentence-transformers, default"
    assert set(names[2:]) == {
        "ONNX float32, padded batches of 32 in input order", "torch, packed", "ONNX float32", "ONNX int8", "builtin",
    }  # fmt: skip
    assert results[names[0]]["ratio"] == 1
    figure = ElementTree.parse(tmp_path / "figures" / "ratios.svg").getroot()
    assert len(figure.findall(".//{*}title")) == len(names) - 1  # without builtin, another model
    for name, result in results.items():
        assert result["min_ratio"] <= result["ratio"] <= result["max_ratio"]
        assert 0 < result["p50_ms"] <= result["p99_ms"]
        if name == "ONNX int8":
            assert 0.99 < result["min_cosine"] < 1
            assert result["peak_share"] is None
        elif name != "builtin":
            assert result["min_cosine"] == pytest.approx(1, abs=1e-5)
            assert result["peak_share"] > 0
