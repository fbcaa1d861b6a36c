"""Workers: one GPU each, set before torch is imported; a study refuses torchrun."""

import os
import subprocess
import sys
from multiprocessing import get_context

import pytest
import torch

from kosbert.errors import UsageError
from kosbert.study import workers


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("0,1", ["0", "1"]),
        ("3", ["3"]),
        (" 2 , 0", ["2", "0"]),
        ("GPU-8f6c,GPU-11ab", ["GPU-8f6c", "GPU-11ab"]),
        ("MIG-1c2d", ["MIG-1c2d"]),
        ("", []),
        ("-1", []),
        ("1,-1,0", ["1"]),  # CUDA ignores what follows an invalid name
    ],
)
def test_restricted_gpus_are_respected(monkeypatch, value, names):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    assert workers.visible_gpus() == names


def test_all_gpus_are_visible_by_default(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert workers.visible_gpus() == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        (2, ["0", "1", "2"], ["0", "1"]),
        (5, ["0", "GPU-8f6c"], ["0", "GPU-8f6c", "0", "GPU-8f6c", "0"]),
        (2, [], [None, None]),
    ],
)
def test_gpus_are_assigned_in_turn(monkeypatch, jobs, gpus, expected):
    monkeypatch.setattr(workers, "visible_gpus", lambda: gpus)
    pool = workers.process_pool(jobs)
    count, queue = pool._initargs
    assert (count, [queue.get() for _ in range(jobs)]) == (jobs, expected)
    assert pool._initializer is workers.start_worker


def test_worker_sets_its_gpu_before_torch_is_imported():
    script = (
        "import builtins, os, sys\nfrom multiprocessing import get_context\n"
        "from kosbert.study.workers import start_worker\n"
        "assert 'torch' not in sys.modules\n"
        "seen, imported = [], builtins.__import__\n"
        "def spy(name, *rest):\n"
        "    if name == 'torch': seen.append(os.environ.get('CUDA_VISIBLE_DEVICES'))\n"
        "    return imported(name, *rest)\n"
        "builtins.__import__ = spy\n"
        "queue = get_context('spawn').SimpleQueue()\nqueue.put('MIG-7')\nstart_worker(1, queue)\nprint(seen[0])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", env=environment)
    assert (done.stdout.strip(), done.stderr) == ("MIG-7", "")


def test_worker_without_gpu_leaves_the_environment(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    queue = get_context("spawn").SimpleQueue()
    queue.put(None)
    before = torch.get_num_threads()
    workers.start_worker(1000, queue)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


@pytest.mark.parametrize(("variable", "value", "jobs"), [("WORLD_SIZE", "2", 2), ("TORCHELASTIC_RUN_ID", "none", 1)])
def test_torchrun_is_refused(monkeypatch, variable, value, jobs):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"run `kosbert study order --jobs {jobs}` without torchrun"):
        workers.refuse_torchrun("kosbert study order --jobs")


def test_a_single_process_is_not_torchrun(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    workers.refuse_torchrun("kosbert study order")
