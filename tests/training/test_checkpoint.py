"""Checkpoints: whole or not at all, read back exactly, passed over where damaged."""

import logging

import pytest
import torch

from kosbert.errors import KosbertError
from kosbert.training import checkpoint
from kosbert.training.checkpoint import Checkpoints, optimizer_tensors, restore_optimizer

TENSORS = {"model.a": torch.arange(6.0).view(2, 3).T, "model.b": torch.tensor(2)}  # one that is not contiguous


def saved(folder, *numbers):
    checkpoints = Checkpoints(folder)
    for number in numbers:
        checkpoints.save(number, {"step": number, "이름": 0.1 + number}, TENSORS, {"0.step": torch.tensor(number)})
    return checkpoints


def test_the_newest_is_read_back_and_two_are_kept(tmp_path):
    found = saved(tmp_path, 1, 2, 10, 9).newest()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["00000002", "00000009"]  # 10 was another future
    assert found.state == {"step": 9, "이름": 9.1}
    assert found.weights.keys() == TENSORS.keys()
    assert all(torch.equal(found.weights[name], TENSORS[name]) for name in TENSORS)
    assert found.optimizer == {"0.step": torch.tensor(9)}


def test_none_where_there_is_none(tmp_path):
    assert Checkpoints(tmp_path / "nowhere").newest() is None


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "state.json", "sha256.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "remove"])
def test_a_damaged_one_is_passed_over(tmp_path, caplog, file, damage):
    checkpoints = saved(tmp_path, 1, 2)
    path = tmp_path / "00000002" / file
    whole = bytearray(path.read_bytes())
    match damage:
        case "flip":
            whole[len(whole) // 2] ^= 1
            path.write_bytes(whole)
        case "cut":
            path.write_bytes(whole[:-3])
        case "empty":
            path.write_bytes(b"")
        case "remove":
            path.unlink()
    with caplog.at_level(logging.WARNING):
        assert checkpoints.newest().state["step"] == 1
    assert "00000002 is damaged" in caplog.text
    saved(tmp_path, 2)
    assert checkpoints.newest().state["step"] == 2


@pytest.mark.parametrize("use", [lambda them: them.newest(), lambda them: saved(them.directory, 5)])
def test_what_a_killed_process_left_is_removed(tmp_path, use):
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
def test_what_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch, error, reason):
    checkpoints = saved(tmp_path, 1)

    def fail(*_):
        raise error

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(KosbertError, match=rf"\({reason}\), and the previous one is kept: .* --resume$"):
        saved(tmp_path, 2)
    assert [each.name for each in tmp_path.iterdir()] == ["00000001"]
    assert checkpoints.newest().state["step"] == 1


def test_an_optimizer_goes_on_where_it_was():
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
    others, other = fresh(parameters)
    restore_optimizer(other, {name: value.clone() for name, value in optimizer_tensors(optimizer).items()})
    for each in ((parameters, optimizer), (others, other)):
        steps(*each, range(3, 6))
    assert all(torch.equal(one, two) for one, two in zip(parameters, others, strict=True))
