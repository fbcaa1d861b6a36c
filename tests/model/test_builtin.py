"""The built-in models: complete, small, trainable, with the expected scores."""

import shutil

import numpy as np
import pytest

import kosbert
from kosbert.errors import KosbertError, UsageError
from kosbert.export import verify
from kosbert.model import directory
from kosbert.model.directory import BUILTIN_MODELS, builtin_directory
from kosbert.model.onnx_encoder import OnnxEncoder
from kosbert.model.torch_loading import load_torch

try:
    builtin_directory()
except UsageError:
    pytest.skip("this copy has no built-in model", allow_module_level=True)

SENTENCES = ["비가 많이 온다", "폭우가 쏟아진다", "주식이 올랐다", "이 영화 정말 재미있어요!"]


def test_builtin_model_separates_similar_from_unrelated():
    model = kosbert.load()
    assert isinstance(model, OnnxEncoder)
    similar, unrelated = model.similarity("비가 많이 온다", ["폭우가 쏟아진다", "주식이 올랐다"])[0]
    assert similar > unrelated + 0.2
    assert model.encode("비가 온다", truncate_dim=128).shape == (128,)
    assert model.normalizes
    np.testing.assert_allclose(np.linalg.norm(model.encode(SENTENCES), axis=1), 1, atol=1e-5)
    assert model.encode_query("비가 온다").shape == (256,)
    assert repr(model) == "Encoder('builtin', dim=256, max_length=128, onnx, normalized)"
    np.testing.assert_array_equal(model.encode("비", device="cpu"), model.encode("비"))
    with pytest.raises(UsageError, match="runs on the CPU, not on cuda"):
        model.encode("비", device="cuda")
    assert model.card["scores"]["korsts-test"]["spearman"] > 0.78
    assert model.card["scores"]["klue-sts-dev"]["spearman"] > 0.82


@pytest.mark.parametrize("name", BUILTIN_MODELS)
def test_files_are_complete_and_load_in_torch(name):
    assert verify(builtin_directory(name))
    model = load_torch(name)
    assert sum(parameter.numel() for parameter in model.sentence_transformer.parameters()) < 10_000_000
    vectors = model.encode(SENTENCES, normalize_embeddings=True)
    assert np.isfinite(vectors).all()
    if name == "builtin":
        assert (vectors * kosbert.load().encode(SENTENCES)).sum(axis=1).min() > 0.995


def test_builtin_base_was_trained_without_labels():
    card = load_torch("builtin-base").card
    assert [stage["loss"] for stage in card["recipe"]["stages"]] == ["distillation"]


def test_models_are_small_and_hold_no_pickle():
    files = [file for name in BUILTIN_MODELS for file in builtin_directory(name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 40_000_000
    assert not [file for file in files if file.suffix in (".bin", ".pt", ".pkl", ".py")]


def test_damaged_files_are_an_error(tmp_path, monkeypatch):
    home = tmp_path / "model"
    shutil.copytree(builtin_directory("builtin"), home / "builtin_models" / "builtin")
    monkeypatch.setattr(directory, "__file__", str(home / "directory.py"))
    uncached = builtin_directory.__wrapped__
    assert uncached("builtin") == home / "builtin_models" / "builtin"
    graph = home / "builtin_models" / "builtin" / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"x")
    with pytest.raises(KosbertError, match=r"model\.onnx is not the file that was written: export or install it again"):
        uncached("builtin")
    with pytest.raises(UsageError, match="has no built-in model"):
        uncached("builtin-base")
