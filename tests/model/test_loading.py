"""`load` and `load_any`: names, options, and one-sentence errors."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

from kosbert.errors import KosbertError, UsageError
from kosbert.files import sha256_file
from kosbert.model import Encoder, load, load_any, model_origin


def test_first_last_is_the_average_of_two_layers(tiny_bert, sentences):
    encoder = load(tiny_bert, pooling="first-last")
    backbone = load(tiny_bert).sentence_transformer[0]
    for sentence in sentences:
        ids = backbone.tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            layers = backbone.model(**ids, output_hidden_states=True).hidden_states
        expected = ((layers[1] + layers[-1]) / 2).mean(1)[0]  # (tokens, 32) -> (32,)
        np.testing.assert_allclose(encoder.encode(sentence), expected.numpy(), atol=1e-5)
    assert not any(p.requires_grad for n, p in encoder.sentence_transformer.named_parameters() if "layer_weights" in n)


def test_poolings_differ(tiny_bert, sentences):
    embeddings = [
        load(tiny_bert, pooling=pooling).encode(sentences) for pooling in ("mean", "max", "cls", "first-last")
    ]
    for index, left in enumerate(embeddings):
        for right in embeddings[index + 1 :]:
            assert np.abs(left - right).max() > 1e-2
    np.testing.assert_array_equal(load(tiny_bert).encode(sentences), embeddings[0])


def test_pooling_of_a_saved_model_can_be_changed(tiny_bert, sentences, tmp_path):
    for saved in ("mean", "first-last"):
        load(tiny_bert, pooling=saved).save(tmp_path / saved)
        for pooling in ("cls", "mean", "first-last"):
            expected = load(tiny_bert, pooling=pooling).encode(sentences)
            np.testing.assert_allclose(load(tmp_path / saved, pooling=pooling).encode(sentences), expected, atol=1e-5)


def test_max_length_truncates(tiny_bert, tiny_roberta, caplog):
    assert load(tiny_bert).max_length == 64
    assert load(tiny_roberta).max_length == 64
    encoder = load(tiny_bert, max_length=5)
    np.testing.assert_allclose(encoder.encode("비가 온다. 눈이 온다."), encoder.encode("비가 온다"), atol=1e-5)
    for max_length in (65, 2, -1):
        with pytest.raises(UsageError):
            load(tiny_roberta, max_length=max_length)


def test_roberta_is_truncated_at_the_end_of_its_position_table(tiny_roberta, tmp_path):
    directory = shutil.copytree(tiny_roberta, tmp_path / "unlimited")
    settings = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["model_max_length"] = 10**30
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    encoder = load(directory)
    assert encoder.max_length == 64  # sentence-transformers alone says 66, and fails at the 65th token
    assert np.isfinite(encoder.encode("비가 온다. " * 100)).all()


def test_properties_of_an_encoder(tiny_bert):
    encoder = load(str(tiny_bert), device="cpu")
    assert encoder.device == torch.device("cpu")
    assert encoder.dim == 32
    assert encoder.tokenizer.cls_token == "[CLS]"
    assert "packed" in repr(encoder)


def message_of(caught) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message
    return message


def test_hub_name_that_is_not_cached_is_an_error_offline():
    with pytest.raises(KosbertError) as caught:
        load("klue/no-such-model-for-kosbert-tests")
    assert "HF_HUB_OFFLINE forbids downloads" in message_of(caught)


@pytest.mark.parametrize("name", ["no/such/directory/anywhere", "../nothing-here", "", "a b"])
def test_impossible_names_are_errors(name):
    with pytest.raises(KosbertError) as caught:
        load(name)
    message_of(caught)


def test_directory_without_a_model_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError) as caught:
            load(path)
        message_of(caught)


def test_unknown_pooling_is_an_error(tiny_bert):
    with pytest.raises(UsageError, match="did you mean"):
        load(tiny_bert, pooling="meen")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def with_pickle(directory, file="model.safetensors"):
    """Replace the safetensors of a folder by a pickle."""
    torch.save(load_file(directory / file), directory / "pytorch_model.bin")
    (directory / file).unlink()


def test_directory_with_pickle_is_converted_once(tiny_bert, sentences, tmp_path, cache, monkeypatch):
    directory = shutil.copytree(tiny_bert, tmp_path / "pickled@home")  # not a revision
    with_pickle(directory)
    expected = load(tiny_bert).encode(sentences)
    np.testing.assert_array_equal(load(directory).encode(sentences), expected)
    monkeypatch.setattr(torch, "load", None)
    np.testing.assert_array_equal(load(directory).encode(sentences), expected)
    assert not (directory / "model.safetensors").exists()
    origin = model_origin(str(directory))
    assert origin["name"] == str(directory)
    assert origin["converted_from"] == f"pytorch_model.bin sha256 {sha256_file(directory / 'pytorch_model.bin')}"
    assert len(origin["sha256"]) == 64


def test_changed_pickle_is_converted_again(tiny_bert, tmp_path, cache):
    directory = shutil.copytree(tiny_bert, tmp_path / "pickled")
    with_pickle(directory)
    before = load(directory).encode("비가 온다")
    weights = torch.load(directory / "pytorch_model.bin", weights_only=True)
    weights["embeddings.LayerNorm.bias"] += 1
    torch.save(weights, directory / "pytorch_model.bin")
    assert np.abs(load(directory).encode("비가 온다") - before).max() > 0.01


def test_pickle_in_a_later_module_is_converted(tiny_bert, sentences, tmp_path, cache):
    modules = [Transformer(str(tiny_bert)), Pooling(32), Dense(32, 8)]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save(str(tmp_path / "model"))
    with_pickle(tmp_path / "model" / "2_Dense")
    save_file({"x": torch.zeros(1)}, tmp_path / "model" / "2_Dense" / "decoy.safetensors")  # a name that is not loaded
    np.testing.assert_allclose(load(tmp_path / "model").encode(sentences), model.encode(sentences), atol=1e-5)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"not a pickle"])
def test_damaged_pickle_is_a_one_sentence_error(content, tiny_bert, tmp_path, cache):
    directory = shutil.copytree(tiny_bert, tmp_path / "pickled")
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(KosbertError) as caught:
        load(directory)
    message_of(caught)
    assert not list(cache.glob("converted/local/*/*"))


def test_shards_outside_of_the_directory_are_not_read(tiny_bert, tmp_path, cache):
    directory = shutil.copytree(tiny_bert, tmp_path / "sharded")
    with_pickle(directory)
    shutil.move(directory / "pytorch_model.bin", tmp_path / "pytorch_model.bin")
    index = {"weight_map": {"x": "../pytorch_model.bin"}}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(KosbertError):
        load(directory)


def test_code_that_comes_with_a_model_is_not_run(tiny_bert, tmp_path):
    load(tiny_bert).save(tmp_path / "model")
    file = tmp_path / "model" / "modules.json"
    modules = json.loads(file.read_text(encoding="utf-8"))
    modules[1]["type"] = "evil.Evil"
    file.write_text(json.dumps(modules), encoding="utf-8")
    (tmp_path / "model" / "evil.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    with pytest.raises(KosbertError) as caught:
        load(tmp_path / "model")
    message_of(caught)


@pytest.mark.parametrize("damage", ["modules.json", "config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_one_sentence_errors(damage, tiny_bert, tmp_path):
    load(tiny_bert).save(tmp_path / "model")
    (tmp_path / "model" / damage).write_text("{", encoding="utf-8")
    with pytest.raises(KosbertError) as caught:
        load(tmp_path / "model")
    message_of(caught)


def test_damaged_card_is_ignored(tiny_bert, tmp_path, caplog):
    load(tiny_bert).save(tmp_path / "model")
    (tmp_path / "model" / "kosbert.json").write_text("{", encoding="utf-8")
    assert load(tmp_path / "model").card == {}
    assert "damaged" in caplog.text


LIGHT_SCRIPT = """
import sys, kosbert, kosbert.model
model = kosbert.model.load_any("builtin")
model.similarity(kosbert.load().encode_query("비"), model.encode(["눈", "해"], normalize_embeddings=True))
print([name for name in ("torch", "transformers", "sklearn", "scipy", "pandas", "datasets") if name in sys.modules])
"""


def test_builtin_model_imports_neither_torch_nor_scikit_learn():
    done = subprocess.run(
        [sys.executable, "-c", LIGHT_SCRIPT], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_load_any_loads_models_and_baselines(tiny_bert, sentences, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = load(tiny_bert).encode(sentences)
    model = load_any(str(tiny_bert))
    assert isinstance(model, Encoder)
    np.testing.assert_array_equal(model.encode(sentences), expected)
    assert not isinstance(load_any("random"), Encoder)
    shutil.copytree(tiny_bert, tmp_path / "random")
    np.testing.assert_array_equal(load_any("./random").encode(sentences), expected)


@pytest.mark.parametrize("name", ["tfidf", "random-words", "mean:builtin", "graph.onnx"])
def test_load_refuses_baselines(name):
    with pytest.raises(UsageError, match="is a baseline and not a model: give builtin"):
        load(name)


def test_exported_model_with_torch_options_uses_torch(tiny_bert):
    with pytest.raises(UsageError, match="holds no model.onnx: kosbert export it, or give backend torch"):
        load(tiny_bert, backend="onnx")
    with pytest.raises(UsageError, match="has a fixed pooling and runs on the CPU, or give backend torch"):
        load("builtin", backend="onnx", pooling="cls")
    assert load("builtin", pooling="cls").tokenizer.cls_token == "[CLS]"
    with pytest.raises(UsageError, match="did you mean torch"):
        load("builtin", backend="torhc")
