"""How long a plan will take, before it is begun: from stages that were trained before, or from a few timed steps."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from kosbert.study.plan import Plan, PlannedStage
from kosbert.study.runner import as_trained, is_trained, shared_processors
from kosbert.study.store import Store, read_json, stored_run

_STEPS = 6  # of which the first warms up and is not counted


@dataclass(frozen=True)
class Expected:
    """A stage that would be trained: its steps, its seconds, and how they are known."""

    stage: PlannedStage
    users: list[str]
    trained: bool
    steps: int
    seconds: float
    known_from: str


def estimates(plan: Plan, store: Store, data_dir: Path | None = None, jobs: int = 1) -> list[Expected]:
    """Every distinct stage of a plan. Dev scores and loading are counted; the report's half a minute is not.

    With several jobs, steps are timed with a job's share of the processors, while the other shares are idle.
    """
    measured: dict[str, tuple[int, float, str]] = {}
    for file in sorted(store.root.glob("stages/*/stage.json")):
        record = read_json(file)
        if record["cost"]["seconds"]:
            measured[record["kind"]] = (record["cost"]["steps"], record["cost"]["seconds"], "a finished stage")
    open_runs = [run for run in plan.runs if not stored_run(store.run(plan.name, run.name), run.identity)]
    found = []
    for stage in plan.stages():
        users = [run.name for run in open_runs if stage in run.stages]
        trained = is_trained(stage, store)
        if stage.kind not in measured:
            with shared_processors(jobs):
                measured[stage.kind] = _timed(stage, plan, data_dir)
        steps, seconds, known_from = measured[stage.kind]
        found.append(Expected(stage, users, trained, steps, 0.0 if trained or not users else seconds, known_from))
    return found


def _timed(stage: PlannedStage, plan: Plan, data_dir: Path | None) -> tuple[int, float, str]:
    """Begin the stage in a folder that is thrown away; every stage is timed on the backbone, which has its shape."""
    from kosbert.training.trainer import time_steps

    first = next(run.stages[0] for run in plan.runs if stage in run.stages)
    same = stage.recipe.model_copy(update={"backbone": first.recipe.backbone})
    with tempfile.TemporaryDirectory() as folder:
        recipe = as_trained(replace(stage, start="", recipe=same), Store(Path(folder)))
        timing = time_steps(recipe, data_dir=data_dir, steps=_STEPS)
    arguments = recipe.training_arguments(recipe.stages[0])
    evaluations = round(arguments.evals_per_epoch * (recipe.stages[0].epochs or 1.0))
    # What comes before the first step is loading and one dev score; each further dev score costs at most as much.
    seconds = timing.setup_seconds + timing.total_steps * timing.seconds_per_step
    seconds += 0.5 * timing.setup_seconds * max(0, evaluations)
    return timing.total_steps, seconds, f"{min(_STEPS, timing.total_steps) - 1} timed steps"
