"""A study that is killed at random moments resumes and ends with the same files as an uninterrupted one."""

import multiprocessing
import random
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kosbert.study.store import Store, stored_runs

pytestmark = pytest.mark.slow


@pytest.fixture
def start(study_file, tmp_path):
    """Return a function that starts the study in a process that has already imported torch."""
    context: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        context.set_forkserver_preload(["kosbert.study.run_study", "kosbert.training.trainer"])
    script = str(Path(__file__).with_name("killed_study.py"))
    script_globals = {"STUDY": str(study_file), "STORE": str(tmp_path / "studies")}
    processes = []

    def run() -> multiprocessing.Process:
        process = context.Process(target=runpy.run_path, args=(script, script_globals), kwargs={"run_name": "__main__"})
        process.start()
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()


def files_written(store: Path) -> int:
    """Return how far a study has come: the number of finished runs and of files in its stages."""
    return len(list(store.glob("*/runs/[0-9]*"))) + len(list(store.glob("stages/*/*")))


def test_study_killed_three_times_gives_identical_results(start, finished, tmp_path):
    uninterrupted, _, _ = finished
    store = Store(tmp_path / "studies")
    rng = random.Random(time.time_ns())  # different moments every time: none of them may matter
    goals = sorted(rng.sample(range(1, 30), 3))
    for goal in goals:
        process = start()
        deadline = time.monotonic() + 120
        while files_written(store.root) < goal and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.2)
        process.kill()
        process.join()
    last = start()
    last.join(240)
    assert last.exitcode == 0, f"killed at {goals}"
    actual, expected = (stored_runs(source.study("tiny-quick")) for source in (store, uninterrupted))
    assert [run.directory.name for run in actual] == [run.directory.name for run in expected]
    for run, reference in zip(actual, expected, strict=True):
        assert run.scores == reference.scores, f"killed at {goals}: {run.directory.name}"
        assert run.curves() == reference.curves()
        for file in (run.directory / "predictions").iterdir():
            assert file.read_bytes() == (reference.directory / "predictions" / file.name).read_bytes()
    assert not list(store.root.glob("**/checkpoints"))
    assert not list(store.root.glob("stages/*/*model*"))
    assert not list((store.root / "tiny-quick" / "runs").glob(".*"))
