"""Checkpoints are written atomically, read back exactly, and skipped if damaged."""

import logging
import threading

import pytest
import torch

from kosbert.errors import KosbertError
from kosbert.training import checkpoint
from kosbert.training.checkpoint import Checkpoints, CheckpointWriter, optimizer_tensors, restore_optimizer

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


class Clock:
    """Time that passes only when a test says so; the thread takes `cpu` seconds for each checkpoint."""

    def __init__(self, cpu):
        self.now, self.cpu, self.thread = 0.0, cpu, 0.0

    def monotonic(self):
        return self.now

    def thread_time(self):
        self.thread += self.cpu
        return self.thread


@pytest.fixture
def writer(tmp_path, monkeypatch):
    """Return a function that makes a writer with its own clock; the writers are closed at the end."""
    writers = []

    def make(every=None, cpu=2.0):
        clock = Clock(cpu)
        monkeypatch.setattr(checkpoint, "time", clock)
        writers.append(CheckpointWriter(Checkpoints(tmp_path), every))
        return writers[-1], clock

    yield make
    for writer in writers:
        writer.close()


def save(writer, number, *arguments):
    """Save a checkpoint and wait for it. The first call of an automatic writer only allocates memory."""
    for _ in range(2):
        writer.save(number, {}, TENSORS, {}, *arguments)
        writer.wait()


def interval(writer, clock):
    """Return the seconds until the next checkpoint is due."""
    start = clock.now
    while not writer.due():
        clock.now += 1
    return clock.now - start


@pytest.mark.parametrize(("cost", "expected"), [(2.0, 100), (0.1, 30), (60.0, 1800)])
def test_checkpoints_take_two_percent_of_the_time(writer, cost, expected):
    """The first one after two minutes; then 50 times the cost of the last one, between 30 seconds and 30 minutes."""
    background, clock = writer(cpu=cost)
    assert interval(background, clock) == 120
    save(background, 1)
    assert interval(background, clock) == pytest.approx(expected, abs=1)


def test_the_time_for_which_training_stops_counts(writer, monkeypatch):
    background, clock = writer(cpu=0.0)
    copy = CheckpointWriter._copy

    def slow_copy(self, tensors):
        clock.now += 3
        return copy(self, tensors)

    monkeypatch.setattr(CheckpointWriter, "_copy", slow_copy)
    save(background, 1)
    assert interval(background, clock) == 150


def test_a_fixed_interval_stays_as_it_is(writer):
    background, clock = writer(every=7.0, cpu=100.0)
    for number in range(3):
        assert interval(background, clock) == 7
        background.save(number, {}, TENSORS, {})


@pytest.fixture
def slow_disk(monkeypatch):
    """Return an event without which no checkpoint is written."""
    ready, save = threading.Event(), Checkpoints.save

    def wait_and_save(self, *arguments):
        assert ready.wait(30)
        return save(self, *arguments)

    monkeypatch.setattr(Checkpoints, "save", wait_and_save)
    return ready


def test_weights_may_change_while_they_are_written(writer, slow_disk, tmp_path):
    background, _ = writer(every=0.0)
    tensors = {"model.a": torch.arange(6.0).view(2, 3).T}
    background.save(1, {"step": 1}, tensors, {"0.step": torch.tensor(1)}, {"best.a": torch.ones(2)})
    assert list(tmp_path.iterdir()) == []  # training goes on before anything is written
    tensors["model.a"].zero_()
    slow_disk.set()
    background.wait()
    saved_checkpoint = Checkpoints(tmp_path).newest()
    assert torch.equal(saved_checkpoint.weights["model.a"], torch.arange(6.0).view(2, 3).T)
    assert saved_checkpoint.weights.keys() == {"model.a", "best.a"}
    assert saved_checkpoint.optimizer == {"0.step": torch.tensor(1)}
    background.save(2, {"step": 2}, tensors, {})  # in the same memory
    background.wait()
    assert not Checkpoints(tmp_path).newest().weights["model.a"].any()


def test_none_is_due_while_one_is_written(writer, slow_disk):
    background, clock = writer()
    background.save(0, {}, TENSORS, {})  # allocates
    background.save(1, {}, TENSORS, {})
    clock.now = 1e6
    assert not background.due()
    slow_disk.set()
    background.wait()
    assert background.due()


def test_an_error_of_the_thread_is_raised_at_the_next_step(writer, monkeypatch, tmp_path):
    background, _ = writer()
    background.save(0, {}, TENSORS, {})  # allocates

    def fail(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkpoint, "save_file", fail)
    background.save(1, {}, TENSORS, {})
    background._executor.submit(lambda: None).result()  # the thread is done
    with pytest.raises(KosbertError, match=r"Permission denied.* --resume$"):
        background.due()
    assert not background.due()  # raised once


def test_memory_for_the_first_checkpoint_is_allocated_by_the_thread(writer, tmp_path):
    background, clock = writer()
    clock.now = 200.0
    assert background.due()
    background.save(1, {}, TENSORS, {})
    background._executor.submit(lambda: None).result()
    assert list(tmp_path.iterdir()) == []
    assert background.due()  # at once
    background.save(2, {}, TENSORS, {})
    background.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["00000002"]
