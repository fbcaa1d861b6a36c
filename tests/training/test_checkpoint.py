"""Checkpoints are written atomically, read back exactly, and skipped if damaged."""

import logging

import pytest
import torch

from kosbert.errors import KosbertError
from kosbert.training import checkpoint
from kosbert.training.checkpoint import Checkpoints, optimizer_tensors, restore_optimizer

TENSORS = {"model.a": torch.arange(6.0).view(2, 3).T, "model.b": torch.tensor(2)}  # one that is not contiguous


def saved(directory, *numbers):
    checkpoints = Checkpoints(directory)
    for number in numbers:
        checkpoints.save(number, {"step": number, "이름": 0.1 + number}, TENSORS, {"0.step": torch.tensor(number)})
    return checkpoints


def test_newest_is_read_back_exactly_and_two_are_kept(tmp_path):
    newest = saved(tmp_path, 1, 2, 10, 9).newest()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000002",
        "00000009",
    ]  # 10 was from a run before the resume
    assert newest.state == {"step": 9, "이름": 9.1}
    assert newest.weights.keys() == TENSORS.keys()
    assert all(torch.equal(newest.weights[name], TENSORS[name]) for name in TENSORS)
    assert newest.optimizer == {"0.step": torch.tensor(9)}


def test_newest_is_none_without_checkpoints(tmp_path):
    assert Checkpoints(tmp_path / "missing").newest() is None


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "state.json", "sha256.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "remove"])
def test_a_damaged_checkpoint_is_skipped(tmp_path, caplog, file, damage):
    checkpoints = saved(tmp_path, 1, 2)
    path = tmp_path / "00000002" / file
    content = bytearray(path.read_bytes())
    match damage:
        case "flip":
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        case "cut":
            path.write_bytes(content[:-3])
        case "empty":
            path.write_bytes(b"")
        case "remove":
            path.unlink()
    with caplog.at_level(logging.WARNING):
        assert checkpoints.newest().state["step"] == 1
    assert "00000002 is damaged" in caplog.text
    saved(tmp_path, 2)
    assert checkpoints.newest().state["step"] == 2


@pytest.mark.parametrize(
    "use", [lambda checkpoints: checkpoints.newest(), lambda checkpoints: saved(checkpoints.directory, 5)]
)
def test_leftovers_of_a_killed_process_are_removed(tmp_path, use):
    checkpoints = saved(tmp_path, 1)
    (tmp_path / ".00000002").mkdir()
    (tmp_path / ".00000002" / "weights.safetensors").write_bytes(b"half")
    use(checkpoints)
    assert not (tmp_path / ".00000002").exists()
    assert (tmp_path / "00000001").exists()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "the disk is full"),
        (checkpoint.SafetensorError("Error while serializing: I/O error: No space left on device"), "the disk is full"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_a_failed_write_keeps_the_previous_checkpoint(tmp_path, monkeypatch, error, reason):
    checkpoints = saved(tmp_path, 1)

    def fail(*_):
        raise error

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(KosbertError, match=rf"\({reason}\), and the previous one is kept: .* --resume$"):
        saved(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]
    assert checkpoints.newest().state["step"] == 1


def test_a_restored_optimizer_continues_identically():
    def steps(parameters, optimizer, numbers):
        for number in numbers:
            for parameter in parameters[:2]:  # the third never gets a gradient
                parameter.grad = torch.full_like(parameter, 0.1 * number)
            optimizer.step()

    def fresh(values):
        parameters = [torch.nn.Parameter(value.clone()) for value in values]
        return parameters, torch.optim.AdamW(parameters, lr=0.1, fused=True)

    values = [torch.ones(3), torch.ones(2, 2), torch.ones(1)]
    parameters, optimizer = fresh(values)
    steps(parameters, optimizer, range(3))
    restored, restored_optimizer = fresh(parameters)
    restore_optimizer(restored_optimizer, {name: value.clone() for name, value in optimizer_tensors(optimizer).items()})
    for pair in ((parameters, optimizer), (restored, restored_optimizer)):
        steps(*pair, range(3, 6))
    assert all(torch.equal(first, second) for first, second in zip(parameters, restored, strict=True))
