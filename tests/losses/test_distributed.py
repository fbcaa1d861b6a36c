"""Two processes (gloo, DDP) with parts of a batch give the gradients of one process with the whole batch."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("step_of_one_process.py")


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("processes")
    # The store of this process finds a free port.
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    workers = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(directory), str(rank), "2", str(store.port)],
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for rank in (0, 1)
    ]
    runpy.run_path(str(SCRIPT))["main"](directory, 0, 1, store.port)  # the single process
    try:
        for process in workers:
            _, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors
    finally:
        for process in workers:
            process.kill()
    return [load_file(directory / f"{processes}-{rank}.safetensors") for processes, rank in ((1, 0), (2, 0), (2, 1))]


@pytest.mark.parametrize("case", ["multiple-negatives-ranking", "symmetric", "gradcache", "simcse", "simcse gradcache"])
def test_two_processes_give_the_gradients_of_one(steps, case):
    single, first, second = [{k: v for k, v in step.items() if k.startswith(f"{case}:")} for step in steps]
    assert len(single) == (5 if case.startswith("simcse") else 3)
    assert single.keys() == first.keys() == second.keys()
    for name, gradient in single.items():
        assert gradient.abs().sum() > 0, name
        torch.testing.assert_close(first[name], gradient, atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(second[name], gradient, atol=1e-6, rtol=1e-4)
