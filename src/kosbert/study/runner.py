"""Carry a plan out: train each stage once, score each run, in one process or several, and lose nothing.

A stage that is finished is never trained again; one that was interrupted goes on exactly where it was. A run that fails
is noted and the others go on. When the time is up no further stage is started, so that every score is repeatable.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from kosbert.errors import KosbertError
from kosbert.files import wait_lock
from kosbert.study.plan import Plan, PlannedStage, Run
from kosbert.study.provenance import lineage
from kosbert.study.store import Store, read_json, stored_run, whole_folder, write_json
from kosbert.training.recipe import Recipe

Report = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and of how much."""


@dataclass
class Outcome:
    """What became of the runs that are not in the store."""

    failed: dict[str, str] = field(default_factory=dict)
    not_reached: list[str] = field(default_factory=list)
    trained: int = 0
    reused: int = 0


def train_stage(
    stage: PlannedStage,
    store: Store,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
    report: Report | None = None,
) -> None:
    """Train a stage into the store, or go on with it, or do nothing if it is there."""
    from kosbert.training import train
    from kosbert.training.run_dir import finished

    out, recipe = store.stage(stage.key), as_trained(stage, store)
    seen: dict[str, float] = {}
    if not finished(out):
        if (out / "recipe.json").is_file() and read_json(out / "recipe.json") != recipe.model_dump(mode="json"):
            shutil.rmtree(out)  # the store was moved while this stage was half done: its backbone has another path

        def tell(_: Any, progress: Any, total: int, point: dict[str, float]) -> None:
            seen.update(seconds=progress.seconds, steps=progress.step)
            if report:
                report(stage.label, progress.step, total)

        train(recipe, out, resume=True, data_dir=data_dir, checkpoint_every=checkpoint_every, report=tell)
    if not (out / "stage.json").is_file():
        cost = {"seconds": seen.get("seconds"), "steps": seen.get("steps")}
        write_json(
            out / "stage.json",
            {"label": stage.label, "kind": stage.kind, "data": stage.data, "cost": cost, "lineage": lineage()},
        )


def as_trained(stage: PlannedStage, store: Store) -> Recipe:
    """A stage's recipe with the directory that it starts from."""
    backbone = stage.recipe.backbone
    if stage.start:
        backbone = str(store.stage(stage.start) / "model")
    elif stage.dropout is not None and isinstance(backbone, str):
        backbone = str(_with_dropout(backbone, stage.dropout, store))
    return stage.recipe.model_copy(update={"backbone": backbone})


def _with_dropout(name: str, dropout: float, store: Store) -> Path:
    """A copy of a backbone that drops: SimCSE has no other noise, and the built-in backbone was distilled without."""
    from kosbert.model.directory import directory_checksum, find_model

    source = find_model(name)
    target = store.root / "backbones" / f"{source.name}-{directory_checksum(source)[:12]}-dropout-{dropout:g}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with wait_lock(target.with_name(f".{target.name}.lock"), target):  # several processes begin with the same one
        if not target.is_dir():
            with whole_folder(target) as folder:
                shutil.copytree(source, folder, dirs_exist_ok=True)
                for graph in folder.glob("*.onnx"):
                    graph.unlink()  # it has no dropout to set
                config = read_json(folder / "config.json")
                for key in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
                    config[key] = dropout
                write_json(folder / "config.json", config)
    return target


def is_trained(stage: PlannedStage, store: Store) -> bool:
    """Whether a stage needs no more training."""
    return (store.stage(stage.key) / "stage.json").is_file()


def stage_cost(key: str, store: Store) -> dict[str, Any]:
    """Seconds and steps of a finished stage; empty where nobody could measure them."""
    file = store.stage(key) / "stage.json"
    return {} if not file.is_file() else dict(read_json(file)["cost"])


def carry_out(
    plan: Plan,
    store: Store,
    *,
    jobs: int = 1,
    time_budget: float | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
    report: Report | None = None,
) -> Outcome:
    """Train and score what is not in the store yet.

    Args:
        plan: what to do.
        store: where everything goes, and where finished stages are found.
        jobs: processes; each gets its share of the processors.
        time_budget: seconds after which no further stage is started, nor one that is known to take longer than is left.
        data_dir: a folder with the data sets' files; by default `KOSBERT_DATA`.
        checkpoint_every: seconds between two checkpoints.
        report: called as the work goes on.
    """
    runs = [run for run in plan.runs if not stored_run(store.run(plan.name, run.name), run.identity)]
    stages = {stage.key: stage for run in runs for stage in run.stages}
    missing = {key: stage for key, stage in stages.items() if not is_trained(stage, store)}
    outcome = Outcome(trained=len(missing), reused=len(stages) - len(missing))
    clock = _Clock(time_budget, store)
    if jobs > 1:
        _in_processes(plan, runs, missing, store, jobs, clock, data_dir, checkpoint_every, report, outcome)
        return outcome
    trouble: dict[str, str] = {}
    for number, run in enumerate(runs):
        if report:
            report(f"{run.row}, seed {run.seed}", number, len(runs))
        try:
            for stage in run.stages:
                if stage.key in trouble:
                    raise KosbertError(trouble[stage.key])
                if stage.key in missing:
                    if not clock.allows(stage):
                        raise _TimeIsUpError
                    try:
                        train_stage(stage, store, data_dir, checkpoint_every, report)
                    except Exception as error:
                        trouble[stage.key] = _said(error)
                        raise
                    del missing[stage.key]
            _score(run, plan.name, store, data_dir)
        except _TimeIsUpError:
            outcome.not_reached.append(run.name)
        except Exception as error:  # whatever it is, it is this run's and stops no other
            outcome.failed[run.name] = _said(error)
    return outcome


class _TimeIsUpError(Exception):
    pass


class _Clock:
    """Whether a stage may still be started."""

    def __init__(self, budget: float | None, store: Store) -> None:
        self.end = None if budget is None else time.monotonic() + budget
        self.known: dict[str, float] = {}
        if budget is not None:
            for file in store.root.glob("stages/*/stage.json"):
                record = read_json(file)
                if record["cost"]["seconds"]:
                    self.known[record["kind"]] = record["cost"]["seconds"]

    def allows(self, stage: PlannedStage) -> bool:
        return self.end is None or time.monotonic() + self.known.get(stage.kind, 0.0) < self.end


def _score(run: Run, study: str, store: Store, data_dir: Path | None) -> None:
    from kosbert.study.scoring import score_run

    score_run(run, study, store, data_dir)


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, KosbertError) else f"{type(error).__name__}: {text}"


def _in_processes(
    plan: Plan, runs: list[Run], missing: dict[str, PlannedStage], store: Store, jobs: int, clock: _Clock,
    data_dir: Path | None, checkpoint_every: float, report: Report | None, outcome: Outcome,
) -> None:  # fmt: skip
    """The same with several processes: a stage is begun once the one that it starts from is there, scores go first."""
    trouble: dict[str, str] = {}
    left, open_stages = {run.name: run for run in runs}, dict(missing)
    running: dict[Future[None], str] = {}
    pool = _pool(jobs)
    try:
        while left:
            for run in list(left.values()):
                bad = next((trouble[stage.key] for stage in run.stages if stage.key in trouble), None)
                ready = not any(stage.key in open_stages for stage in run.stages)
                if bad:
                    outcome.failed[run.name] = bad
                    del left[run.name]
                elif ready and run.name not in running.values() and len(running) < jobs:
                    running[pool.submit(_score, run, plan.name, store, data_dir)] = run.name
            busy = set(running.values())
            for key, stage in list(missing.items()):
                if key in busy or stage.start in open_stages or stage.start in trouble:
                    continue
                if len(running) < jobs and clock.allows(stage):
                    running[pool.submit(train_stage, stage, store, data_dir, checkpoint_every)] = key
            if not running:
                outcome.not_reached += [name for name in left if name not in outcome.failed]
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                what = running.pop(done)
                error = done.exception()
                if isinstance(error, BrokenProcessPool):  # a process was killed; nobody can say which task it had
                    error = KosbertError("its process was killed, perhaps for lack of memory: run it again")
                    pool.shutdown(cancel_futures=True)
                    pool = _pool(jobs)
                if what in left:
                    del left[what]
                    if error:
                        outcome.failed[what] = _said(error)
                else:
                    missing.pop(what)
                    if error:
                        trouble[what] = _said(error)
                    else:
                        open_stages.pop(what)
                if report:
                    report("runs", len(runs) - len(left), len(runs))
    finally:
        pool.shutdown(cancel_futures=True)


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(jobs,))


def _begin(jobs: int) -> None:
    """A worker takes its share of the processors, and ends with the process that it works for, however that ends."""
    _share_processors(jobs)
    Thread(target=_end_with_the_boss, daemon=True).start()


def _end_with_the_boss() -> None:
    boss = parent_process()
    if boss:
        boss.join()
        os._exit(1)


def _share_processors(jobs: int) -> None:
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // jobs))


@contextmanager
def shared_processors(jobs: int) -> Iterator[None]:
    """In here torch has as many threads as one of some jobs."""
    import torch

    before = torch.get_num_threads()
    if jobs > 1:
        _share_processors(jobs)
    try:
        yield
    finally:
        torch.set_num_threads(before)
