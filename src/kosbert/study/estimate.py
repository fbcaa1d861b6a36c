"""Estimate the training time of a plan before it starts: from finished stages, or from a few timed steps."""

from dataclasses import dataclass
from pathlib import Path

from kosbert.study.plan import PlannedStage, StudyPlan
from kosbert.study.runner import limited_threads, missing_stages
from kosbert.study.store import StudyContext, read_json


@dataclass(frozen=True)
class StageEstimate:
    """Expected steps and seconds of a stage, and where the numbers come from; 0 seconds if nothing is left to train."""

    stage: PlannedStage
    trained: bool
    steps: int
    seconds: float
    source: str


def estimate_stages(context: StudyContext, jobs: int = 1) -> list[StageEstimate]:
    """Estimate every distinct stage of a plan. Loading and dev scores are counted; the report (half a minute) is not.

    With several jobs, steps are timed with the threads of one job while the other CPUs are idle.
    """
    plan, store = context.plan, context.store
    costs: dict[str, tuple[int, float, str]] = {}
    for path in sorted(store.root.glob("stages/*/stage.json")):
        record = read_json(path)
        if record["cost"]["seconds"]:
            costs[record["cost_key"]] = (record["cost"]["steps"], record["cost"]["seconds"], "a finished stage")
    open_runs = [run for run in plan.runs if not context.finished_run(run)]
    needed = {stage.key for run in open_runs for stage in missing_stages(run, store)}
    estimates = []
    for stage in plan.stages():
        if stage.cost_key not in costs:
            with limited_threads(jobs):
                costs[stage.cost_key] = _time(stage, plan, context.data_dir)
        steps, seconds, source = costs[stage.cost_key]
        trained = stage.key not in needed
        estimates.append(StageEstimate(stage, trained, steps, 0.0 if trained else seconds, source))
    return estimates


def _time(stage: PlannedStage, plan: StudyPlan, data_dir: Path | None) -> tuple[int, float, str]:
    """Time a few steps of a stage, starting from the backbone: its shape is the same as after earlier stages."""
    from kosbert.training.trainer import time_steps

    first = next(run.stages[0] for run in plan.runs if stage in run.stages)
    recipe = stage.recipe.model_copy(update={"backbone": first.recipe.backbone})
    timing = time_steps(recipe, data_dir=data_dir, steps=6)
    evaluations = round(recipe.training_arguments(recipe.stages[0]).evals_per_epoch * (recipe.stages[0].epochs or 1.0))
    # The setup is loading and one dev score; each further dev score is estimated at half of it.
    seconds = timing.setup_seconds * (1 + 0.5 * evaluations) + timing.total_steps * timing.seconds_per_step
    return timing.total_steps, seconds, "timed steps"
