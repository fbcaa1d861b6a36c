"""`verify` passes an unchanged export and finds every kind of change."""

import json
import shutil

import pytest

from kosbert.errors import KosbertError, UsageError
from kosbert.export import export, verify

pytest.importorskip("onnx")


@pytest.fixture
def copy(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copy")


def test_unchanged_export_passes(copy):
    checks = verify(copy)
    assert checks[0] == "3 files have the recorded checksums"
    assert checks[1] == "no pickle, no code"
    assert "4 sentences" in checks[2]


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "probe.json"])
def test_changed_or_missing_file_is_found(copy, name):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1] + b"x")
    with pytest.raises(KosbertError, match=f"{name} is not the file that was written"):
        verify(copy)
    (copy / name).unlink()
    with pytest.raises(KosbertError, match=f"{name} is missing"):
        verify(copy)


@pytest.mark.parametrize("name", ["weights.pkl", "1_Dense/pytorch_model.bin", "modeling.py"])
def test_pickle_and_code_are_found(copy, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_bytes(b"")
    with pytest.raises(KosbertError, match=r"can contain code"):
        verify(copy)


def test_changed_embeddings_are_found(copy):
    """The checksums fit, as after a deliberate manipulation."""
    import hashlib

    probe = json.loads((copy / "probe.json").read_text(encoding="utf-8"))
    probe[1]["vector"] = probe[1]["vector"][::-1]
    (copy / "probe.json").write_text(json.dumps(probe), encoding="utf-8")
    card = json.loads((copy / "kosbert.json").read_text(encoding="utf-8"))
    card["export"]["sha256"]["probe.json"] = hashlib.sha256((copy / "probe.json").read_bytes()).hexdigest()
    (copy / "kosbert.json").write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(KosbertError, match="the embeddings differ from those at export"):
        verify(copy)


def test_other_directories_are_usage_errors(tmp_path, tiny_bert):
    for folder in (tmp_path, tiny_bert, tmp_path / "missing"):
        with pytest.raises(UsageError, match="holds no exported model"):
            verify(folder)


def test_torch_format_is_verified_by_checksums_only(tiny_bert, tmp_path):
    path = export(tiny_bert, tmp_path / "torch", format="torch").path
    assert verify(path)[1:] == ["no pickle, no code"]
    (path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(KosbertError, match="is not the file that was written"):
        verify(path)
