"""`kosbert bench` on a tiny model: every way is there, and gives the same vectors."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

pytest.importorskip("onnx")


def test_every_way_of_a_tiny_model(tiny_bert, tmp_path):
    arguments = ["bench", str(tiny_bert), "--on", "sample-sts-dev", "--sentences", "40", "--rounds", "2", "--json"]
    arguments += ["--join", "2", "--figure", str(tmp_path / "figures" / "ways.svg")]
    code = "from kosbert.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, encoding="utf-8", check=True)
    found = json.loads(done.stdout)
    assert found["sentences"] == 40
    assert found["limit_gflops"] > 0
    drawn = ElementTree.parse(tmp_path / "figures" / "ways.svg").getroot()
    assert len(drawn.findall(".//{*}title")) == len([each for each in found["costs"] if each["way"] != "builtin"])
    ways = {each["way"]: each for each in found["costs"]}
    names = list(ways)
    assert names[0] == "sentence-transformers, as it comes"
    assert {"packed, torch", "ONNX, float32", "ONNX, int8", "ONNX, float32, batches of 32 in the order given"} < set(
        names
    )
    assert ways[names[0]]["ratio"] == 1
    for name, each in ways.items():
        assert each["lowest"] <= each["ratio"] <= each["highest"]
        assert 0 < each["p50_milliseconds"] <= each["p99_milliseconds"]
        if name == "ONNX, int8":
            assert 0.99 < each["least_cosine"] < 1
        elif name != "builtin":
            assert each["least_cosine"] == pytest.approx(1, abs=1e-5)
            assert each["share_of_limit"] > 0
