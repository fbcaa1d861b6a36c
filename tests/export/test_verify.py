"""`verify` sees what was changed."""

import json
import shutil

import pytest

from kosbert.errors import KosbertError, UsageError
from kosbert.export import export, verify

pytest.importorskip("onnx")


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copy")


def test_what_is_untouched_passes(copy):
    lines = verify(copy)
    assert lines[0] == "3 files have the checksums that were noted"
    assert lines[1] == "no pickle, no code"
    assert "4 sentences" in lines[2]


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "probe.json"])
def test_a_changed_or_missing_file(copy, name):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1] + b"x")
    with pytest.raises(KosbertError, match=f"{name} is not the file that was written"):
        verify(copy)
    (copy / name).unlink()
    with pytest.raises(KosbertError, match=f"{name} is missing"):
        verify(copy)


@pytest.mark.parametrize("name", ["weights.pkl", "1_Dense/pytorch_model.bin", "modeling.py"])
def test_pickle_and_code(copy, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_bytes(b"")
    with pytest.raises(KosbertError, match=r"can carry code"):
        verify(copy)


def test_other_vectors(copy):
    """Checksums that fit, as someone would make them who changes a model on purpose."""
    import hashlib

    probe = json.loads((copy / "probe.json").read_text(encoding="utf-8"))
    probe[1]["vector"] = probe[1]["vector"][::-1]
    (copy / "probe.json").write_text(json.dumps(probe), encoding="utf-8")
    card = json.loads((copy / "kosbert.json").read_text(encoding="utf-8"))
    card["export"]["sha256"]["probe.json"] = hashlib.sha256((copy / "probe.json").read_bytes()).hexdigest()
    (copy / "kosbert.json").write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(KosbertError, match="gives other vectors than when it was exported"):
        verify(copy)


def test_no_export_at_all(tmp_path, tiny_bert):
    for folder in (tmp_path, tiny_bert, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="holds no exported model"):
            verify(folder)


def test_weights_alone(tiny_bert, tmp_path):
    path = export(tiny_bert, tmp_path / "torch", form="torch").path
    assert verify(path)[1:] == ["no pickle, no code"]
    (path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(KosbertError, match="is not the file that was written"):
        verify(path)
