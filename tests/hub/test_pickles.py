"""Weights that are only pickles on the hub: converted once, from the official conversion if it is of the same file."""

import json
import shutil
import sys
from threading import Thread

import numpy as np
import pytest
import torch
from hub_repositories import SENTENCES, kobert, koelectra, malicious
from huggingface_hub import constants
from safetensors.torch import save_file

import kosbert
from kosbert.errors import KosbertError
from kosbert.files import cache_root
from kosbert.model import model_origin
from kosbert.model.directory import find_model

NAME = "monologg/koelectra-base-v3-discriminator"


def files_of(directory) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def pickled(repository_files) -> dict[str, bytes]:
    return files_of(repository_files(NAME))


def other_safetensors(files: dict[str, bytes], tmp_path) -> bytes:
    """Return other weights than those of the pickle, so that a test can tell which of the two was loaded."""
    (tmp_path / "weights.bin").write_bytes(files["pytorch_model.bin"])
    weights = torch.load(tmp_path / "weights.bin", weights_only=True)
    save_file({name: value.clone() * 0.5 for name, value in weights.items()}, tmp_path / "half", {"format": "pt"})
    return (tmp_path / "half").read_bytes()


def test_pickle_is_downloaded_and_read_once(hub, pickled, monkeypatch):
    commit = hub.add(NAME, pickled)
    expected = kosbert.load(NAME).encode(SENTENCES)
    assert len(hub.downloads(r"\.bin$")) == 1
    shutil.rmtree(constants.HF_HUB_CACHE + "/models--monologg--koelectra-base-v3-discriminator/blobs")
    monkeypatch.setattr(torch, "load", None)
    np.testing.assert_array_equal(kosbert.load(find_model(NAME)).encode(SENTENCES), expected)
    assert len(hub.downloads(r"\.bin$")) == 1
    (origin,) = cache_root().glob("converted/*/*/origin.json")
    record = json.loads(origin.read_text(encoding="utf-8"))
    assert record["commit"] == commit
    assert list(record["files"]) == ["pytorch_model.bin"]
    assert model_origin(NAME)["converted_from"] == f"pytorch_model.bin sha256 {record['files']['pytorch_model.bin']}"


def test_converted_model_loads_offline(hub, pickled, monkeypatch):
    hub.add(NAME, pickled)
    expected = kosbert.load(NAME).encode(SENTENCES)
    before = hub.connections
    monkeypatch.setenv("KOSBERT_OFFLINE", "1")
    np.testing.assert_array_equal(kosbert.load(NAME).encode(SENTENCES), expected)
    assert hub.connections == before


@pytest.mark.parametrize("author", ["SFconvertbot", "somebody"])
@pytest.mark.parametrize("same_pickle", [True, False])
def test_official_conversion_of_the_same_pickle_is_preferred(author, same_pickle, hub, pickled, tmp_path):
    hub.add(NAME, pickled)
    conversion = pickled | {"model.safetensors": other_safetensors(pickled, tmp_path)}
    if not same_pickle:
        conversion["pytorch_model.bin"] += b"\0"
    hub.add_pull_request(NAME, 1, conversion, author=author)
    model = kosbert.load(NAME)
    from_conversion = author == "SFconvertbot" and same_pickle
    assert bool(hub.downloads(r"\.bin$")) != from_conversion
    hub.add("the/conversion", conversion)
    differs = np.abs(model.encode(SENTENCES) - kosbert.load("the/conversion").encode(SENTENCES)).max() > 1e-3
    assert differs != from_conversion
    assert "pytorch_model.bin sha256" in model_origin(NAME)["converted_from"]


def test_requested_revision_is_never_replaced_by_a_conversion(hub, pickled, tmp_path):
    hub.add(NAME, pickled)
    conversion = pickled | {"model.safetensors": other_safetensors(pickled, tmp_path)}
    hub.add_pull_request(NAME, 1, conversion, author="SFconvertbot")
    kosbert.load(f"{NAME}@main")
    assert hub.downloads(r"pytorch_model\.bin$")
    assert not hub.downloads(r"\.safetensors$")
    kosbert.load(f"{NAME}@refs/pr/1")
    assert hub.downloads(r"\.safetensors$")


def test_malicious_pickle_is_refused_and_does_not_run(hub, tmp_path):
    (tmp_path / "evil").mkdir()
    malicious(tmp_path / "evil", tmp_path / "marker")
    hub.add("someone/evil", tmp_path / "evil")
    with pytest.raises(KosbertError, match="more than weights, which could run code, so it was not read") as caught:
        kosbert.load("someone/evil")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "marker").exists()
    assert not list(cache_root().glob("converted/*/*/origin.json"))


def test_repository_without_torch_weights_is_an_error(hub, pickled):
    hub.add(NAME, {name: content for name, content in pickled.items() if name != "pytorch_model.bin"})
    with pytest.raises(KosbertError, match="neither as safetensors nor as pytorch_model.bin"):
        kosbert.load(NAME)


def test_sentencepiece_model_without_its_package(hub, tmp_path, monkeypatch):
    """skt/kobert-base-v1 has no other tokenizer file."""
    (tmp_path / "kobert").mkdir()
    kobert(tmp_path / "kobert")
    hub.add("skt/kobert-base-v1", tmp_path / "kobert")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(KosbertError, match="is a sentencepiece model; pip install sentencepiece"):
        kosbert.load("skt/kobert-base-v1")


def test_four_threads_convert_one_model(tmp_path, monkeypatch):
    """The others wait and use the directory of the first."""
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model").mkdir()
    koelectra(tmp_path / "model")
    directories = []
    threads = [Thread(target=lambda: directories.append(find_model(str(tmp_path / "model")))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(directories)) == 1
    assert len(directories) == 4
    assert (directories[0] / "model.safetensors").is_file()
