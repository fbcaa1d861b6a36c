"""The model that ships: it is there, whole, small, and knows rain from shares."""

import shutil

import numpy as np
import pytest

import kosbert
from kosbert.errors import KosbertError, UsageError
from kosbert.export import verify
from kosbert.model import builtin
from kosbert.model.builtin import BUILTIN_MODELS, builtin_directory
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.torch_loading import load_torch

try:
    builtin_directory()
except UsageError:
    pytest.skip("this copy has no built-in model", allow_module_level=True)

SENTENCES = ["비가 많이 온다", "폭우가 쏟아진다", "주식이 올랐다", "이 영화 정말 재미있어요!"]


def test_rain_is_rain():
    model = kosbert.load()
    assert isinstance(model, OnnxEncoder)
    rain, shares = model.similarity("비가 많이 온다", ["폭우가 쏟아진다", "주식이 올랐다"])[0]
    assert rain > shares + 0.2
    assert model.encode("비가 온다", dim=128).shape == (128,)
    assert model.card["scores"]["korsts-test"]["spearman"] > 0.78  # what it was to reach
    assert model.card["scores"]["klue-sts-dev"]["spearman"] > 0.82


@pytest.mark.parametrize("name", BUILTIN_MODELS)
def test_it_is_whole_and_can_be_trained_on(name):
    assert verify(builtin_directory(name))
    model = load_torch(name)
    assert sum(each.numel() for each in model.sentence_transformer.parameters()) < 10_000_000
    vectors = model.encode(SENTENCES, normalize=True)
    assert np.isfinite(vectors).all()
    if name == "builtin":
        assert (vectors * kosbert.load().encode(SENTENCES)).sum(axis=1).min() > 0.995


def test_the_base_has_seen_no_labels():
    card = load_torch("builtin-base").card
    assert [stage["objective"] for stage in card["recipe"]["stages"]] == ["distillation"]


def test_both_are_small():
    files = [file for name in BUILTIN_MODELS for file in builtin_directory(name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 40_000_000
    assert not [file for file in files if file.suffix in (".bin", ".pt", ".pkl", ".py")]


def test_a_damaged_copy_is_refused(tmp_path, monkeypatch):
    home = tmp_path / "model"
    shutil.copytree(builtin_directory("builtin"), home / "builtin_models" / "builtin")
    monkeypatch.setattr(builtin, "__file__", str(home / "builtin.py"))
    fresh = builtin_directory.__wrapped__
    assert fresh("builtin") == home / "builtin_models" / "builtin"
    graph = home / "builtin_models" / "builtin" / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"x")
    with pytest.raises(KosbertError, match=r"model\.onnx is not the file that was written: export or install it again"):
        fresh("builtin")
    with pytest.raises(UsageError, match="has no built-in model"):
        fresh("builtin-base")
