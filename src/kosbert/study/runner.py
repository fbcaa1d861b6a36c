"""Execute a study plan: train every distinct stage once and score every run, in one process or several.

A finished stage is never trained again; an interrupted one resumes exactly. A failed run is recorded and the others
continue. When the time budget is used up no new stage starts, so that every score stays reproducible.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kosbert.errors import KosbertError
from kosbert.progress import ProgressCallback, ProgressEvent, nested
from kosbert.study.plan import PlannedRun, PlannedStage
from kosbert.study.store import Store, StudyContext, current_provenance, read_json, write_json
from kosbert.study.workers import process_pool, thread_share
from kosbert.training.recipe import Recipe


@dataclass
class StudyOutcome:
    """Runs that did not finish, and how many stages were trained or reused."""

    failed: dict[str, str] = field(default_factory=dict)
    not_started: list[str] = field(default_factory=list)
    trained: int = 0
    reused: int = 0


def train_stage(
    stage: PlannedStage,
    store: Store,
    data_dir: Path | None = None,
    checkpoint_every: float | None = None,
    on_progress: ProgressCallback | None = None,
) -> None:
    """Train a stage into the store; resumes an interrupted one, does nothing for a finished one.

    Args:
        stage: the stage.
        store: where it is written.
        data_dir: directory with the data files; `KOSBERT_DATA` by default.
        checkpoint_every: seconds between two checkpoints; by default they take at most 2% of the time.
        on_progress: called after every step.
    """
    from kosbert.training import train
    from kosbert.training.trainer import finished_run

    out, recipe = store.stage(stage.key), resolved_recipe(stage, store)
    cost: dict[str, float] = {}
    if not finished_run(out):
        if (out / "recipe.json").is_file() and read_json(out / "recipe.json") != recipe.model_dump(mode="json"):
            shutil.rmtree(out)  # the store was moved while this stage was half trained: its backbone path changed

        result = train(
            recipe, out, resume=True, data_dir=data_dir, checkpoint_every=checkpoint_every, on_progress=on_progress
        )
        for name, seconds in result.seconds.items():  # a single stage
            cost = {"seconds": seconds, "steps": result.curves[name][-1]["step"]}
    if cost or not (out / "stage.json").is_file():
        record = {
            "label": stage.label,
            "cost_key": stage.cost_key,
            "data": stage.data,
            "cost": {"seconds": cost.get("seconds"), "steps": cost.get("steps")},
            "provenance": current_provenance().model_dump(),
        }
        write_json(out / "stage.json", record)


def resolved_recipe(stage: PlannedStage, store: Store) -> Recipe:
    """Return the recipe of a stage with the directory of the model that it starts from."""
    if not stage.parent:
        return stage.recipe
    return stage.recipe.model_copy(update={"backbone": str(store.stage(stage.parent) / "model")})


def is_trained(stage: PlannedStage, store: Store) -> bool:
    """Return whether a stage has finished training and its model was not deleted by `prune`."""
    path = store.stage(stage.key)
    return (path / "stage.json").is_file() and (path / "model").is_dir()


def missing_stages(run: PlannedRun, store: Store) -> list[PlannedStage]:
    """Return the stages to train before a run can be scored: those after the last one that has a model."""
    trained = [number for number, stage in enumerate(run.stages, 1) if is_trained(stage, store)]
    return list(run.stages[trained[-1] :] if trained else run.stages)


def stage_cost(key: str, store: Store) -> dict[str, Any]:
    """Return seconds and steps of a finished stage; empty if it is not there."""
    path = store.stage(key) / "stage.json"
    return {} if not path.is_file() else dict(read_json(path)["cost"])


def execute(
    context: StudyContext,
    *,
    jobs: int = 1,
    time_budget: float | None = None,
    checkpoint_every: float | None = None,
    on_progress: ProgressCallback | None = None,
    on_run_scored: Callable[[], None] | None = None,
) -> StudyOutcome:
    """Train and score everything that the store does not have yet.

    Args:
        context: plan, store and data directory.
        jobs: number of processes; each gets an equal share of the CPUs.
        time_budget: seconds after which no new stage starts. A stage known to take longer than what is left does not
            start either.
        checkpoint_every: seconds between two checkpoints; by default they take at most 2% of the time.
        on_progress: called with the finished runs (level 0) and, in a single process, the training steps (level 1).
        on_run_scored: called when the scores of a run are written.
    """
    plan, store = context.plan, context.store
    runs = [run for run in plan.runs if not context.finished_run(run)]
    needed = {run.name: missing_stages(run, store) for run in runs}
    missing = {stage.key: stage for stages in needed.values() for stage in stages}
    distinct = {stage.key for run in runs for stage in run.stages}
    outcome = StudyOutcome(trained=len(missing), reused=len(distinct) - len(missing))
    budget = _TimeBudget(time_budget, store)

    def report_runs(done: int) -> None:
        if on_progress:
            on_progress(ProgressEvent(f"study {plan.name}", done, len(runs), "runs"))

    report_runs(0)
    on_run_scored = on_run_scored or (lambda: None)
    if jobs > 1:
        _Pool(context, needed, jobs, budget, checkpoint_every).execute(outcome, report_runs, on_run_scored)
        return outcome
    errors: dict[str, str] = {}
    for number, run in enumerate(runs, 1):
        try:
            for stage in needed[run.name]:
                if stage.key in errors:
                    raise KosbertError(errors[stage.key])
                if stage.key in missing:
                    if not budget.allows(stage):
                        raise _BudgetUsedUpError
                    task = f"{run.variant}, seed {run.seed}: stage {stage.label}"
                    try:
                        train_stage(stage, store, context.data_dir, checkpoint_every, nested(on_progress, task))
                    except Exception as error:
                        errors[stage.key] = _message(error)
                        raise
                    del missing[stage.key]
            _score(run, context)
            on_run_scored()
        except _BudgetUsedUpError:
            outcome.not_started.append(run.name)
        except Exception as error:  # any failure concerns this run only
            outcome.failed[run.name] = _message(error)
        report_runs(number)
    return outcome


class _BudgetUsedUpError(Exception):
    pass


class _TimeBudget:
    """Decides whether a stage may still start."""

    def __init__(self, seconds: float | None, store: Store) -> None:
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.measured: dict[str, float] = {}
        if seconds is not None:
            for path in store.root.glob("stages/*/stage.json"):
                record = read_json(path)
                if record["cost"]["seconds"]:
                    self.measured[record["cost_key"]] = record["cost"]["seconds"]

    def allows(self, stage: PlannedStage) -> bool:
        return self.deadline is None or time.monotonic() + self.measured.get(stage.cost_key, 0.0) < self.deadline


def _score(run: PlannedRun, context: StudyContext) -> None:
    from kosbert.study.scoring import score_run

    score_run(run, context)


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, KosbertError) else f"{type(error).__name__}: {text}"


class _Pool:
    """Executes runs in several processes. A stage starts once its parent is trained; scoring goes first."""

    def __init__(
        self,
        context: StudyContext,
        needed: dict[str, list[PlannedStage]],
        jobs: int,
        budget: _TimeBudget,
        checkpoint_every: float | None,
    ) -> None:
        self.context, self.jobs, self.budget, self.checkpoint_every = context, jobs, budget, checkpoint_every
        self.total, self.needed = len(needed), needed
        self.open_runs = {run.name: run for run in context.plan.runs if run.name in needed}
        # not started or in training
        self.queued_stages = {stage.key: stage for stages in needed.values() for stage in stages}
        self.untrained = set(self.queued_stages)  # the same, and those that failed
        self.stage_errors: dict[str, str] = {}
        self.tasks: dict[Future[None], str] = {}  # name of a run or key of a stage

    def execute(self, outcome: StudyOutcome, report_runs: Any, on_run_scored: Callable[[], None]) -> None:
        executor = process_pool(self.jobs)
        try:
            while self.open_runs:
                self._submit(executor, outcome)
                if not self.tasks:
                    outcome.not_started += list(self.open_runs)
                    return
                for future in wait(self.tasks, return_when=FIRST_COMPLETED).done:
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):  # a process was killed; its task is not known
                        error = KosbertError("its process was killed, perhaps out of memory: run the command again")
                        executor.shutdown(cancel_futures=True)
                        executor = process_pool(self.jobs)
                    task = self.tasks.pop(future)
                    scored = task in self.open_runs and error is None
                    self._finish(task, error, outcome)
                    if scored:
                        on_run_scored()
                    report_runs(self.total - len(self.open_runs))
        finally:
            executor.shutdown(cancel_futures=True)

    def _submit(self, executor: ProcessPoolExecutor, outcome: StudyOutcome) -> None:
        """Give free processes work: runs that are ready to be scored, then stages whose parent is trained."""
        for run in list(self.open_runs.values()):
            stages = self.needed[run.name]
            errors = [self.stage_errors[stage.key] for stage in stages if stage.key in self.stage_errors]
            ready = not any(stage.key in self.untrained for stage in stages)
            if errors:
                outcome.failed[run.name] = errors[0]
                del self.open_runs[run.name]
            elif ready and run.name not in self.tasks.values() and len(self.tasks) < self.jobs:
                self.tasks[executor.submit(_score, run, self.context)] = run.name
        for key, stage in self.queued_stages.items():
            if key in self.tasks.values() or stage.parent in self.untrained:
                continue
            if len(self.tasks) < self.jobs and self.budget.allows(stage):
                arguments = stage, self.context.store, self.context.data_dir, self.checkpoint_every
                self.tasks[executor.submit(train_stage, *arguments)] = key

    def _finish(self, task: str, error: BaseException | None, outcome: StudyOutcome) -> None:
        if task in self.open_runs:
            del self.open_runs[task]
            if error:
                outcome.failed[task] = _message(error)
            return
        del self.queued_stages[task]
        if error:
            self.stage_errors[task] = _message(error)
        else:
            self.untrained.remove(task)


@contextmanager
def limited_threads(jobs: int) -> Iterator[None]:
    """Limit torch to the threads that one of `jobs` processes gets."""
    import torch

    before = torch.get_num_threads()
    if jobs > 1:
        torch.set_num_threads(thread_share(jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)
