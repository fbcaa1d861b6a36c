"""A study that is killed at random moments ends with the store of an undisturbed one, to the last digit."""

import multiprocessing
import random
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kosbert.study.store import Store, stored_runs


@pytest.fixture
def start(study_file, tmp_path):
    """A function that starts the study in a process which has torch imported already."""
    context: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        context.set_forkserver_preload(["kosbert.study.run_study", "kosbert.training"])
    script = str(Path(__file__).with_name("killed_study.py"))
    known = {"STUDY": str(study_file), "STORE": str(tmp_path / "studies")}
    started = []

    def run() -> multiprocessing.Process:
        process = context.Process(target=runpy.run_path, args=(script, known), kwargs={"run_name": "__main__"})
        process.start()
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()


def done(store: Path) -> int:
    """How far a study has come: finished runs and everything that lies in its stages."""
    return len(list(store.glob("*/runs/[0-9]*"))) + len(list(store.glob("stages/*/*")))


def test_killed_three_times_it_ends_equal(start, finished, tmp_path):
    undisturbed, _, _ = finished
    store = Store(tmp_path / "studies")
    draw = random.Random(time.time_ns())  # other moments every time: none of them may matter
    goals = sorted(draw.sample(range(1, 30), 3))
    for goal in goals:
        process = start()
        deadline = time.monotonic() + 120
        while done(store.root) < goal and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.2)
        process.kill()
        process.join()
    last = start()
    last.join(240)
    assert last.exitcode == 0, f"killed at {goals}"
    ours, theirs = (stored_runs(each.study("tiny-quick")) for each in (store, undisturbed))
    assert [run.folder.name for run in ours] == [run.folder.name for run in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.scores == other.scores, f"killed at {goals}: {one.folder.name}"
        assert one.curves() == other.curves()
        for file in (one.folder / "predictions").iterdir():
            assert file.read_bytes() == (other.folder / "predictions" / file.name).read_bytes()
    assert not list(store.root.glob("**/checkpoints"))
    assert not list((store.root / "tiny-quick" / "runs").glob(".*"))
