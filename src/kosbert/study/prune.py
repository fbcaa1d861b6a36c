"""Delete models of finished stages, which are most of a store: a BERT base model takes 443 MB per stage and seed.

    prune(Store(Path("studies")), "best")

Recipes, curves, scores, predictions and reports stay, so a study stays finished and its report can be written again. A
deleted model that another run needs is trained again. `best` keeps one model per study: of the trained variant with the
best mean dev score (as the report selects), the seed with the best dev score.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kosbert.study.store import Store, StoredRun, StudyContext, read_json, stored_runs
from kosbert.study.summary import StudySummary, load_summary

Keep = Literal["all", "best", "none"]


@dataclass(frozen=True)
class Pruned:
    """Stages whose models were deleted, or would be, and the bytes that this frees."""

    stages: list[str]
    bytes: int


def prune(store: Store, keep: Keep, study: str = "", *, dry_run: bool = False) -> Pruned:
    """Delete the models that nobody needs any more.

    Models that unfinished runs start from or are scored with always stay.

    Args:
        store: the store; no study may run in it.
        keep: `best`: one model per study; `none`: no model of a finished run; `all`: every model that a study uses.
        study: name of a study: delete only models that no other study uses. By default all studies.
        dry_run: delete nothing.
    """
    names = store.names()
    chosen = [store.find(study).name] if study else names
    used = {name: _used(store.study(name)) for name in names}
    kept = set().union(*(used[name] for name in names if keep == "all" or name not in chosen))
    for name in chosen:
        kept |= _unfinished(store.study(name)) | (_best(store.study(name)) if keep == "best" else set())
    trained = {path.parent.name for path in store.root.glob("stages/*/model")}
    deleted = sorted((used[chosen[0]] & trained if study else trained) - kept)
    leftovers = list(store.root.glob("stages/*/.model-*"))
    size = sum(_size(store.stage(key) / "model") for key in deleted) + sum(map(_size, leftovers))
    if not dry_run:
        for key in deleted:
            delete_model(store.stage(key))
        for path in leftovers:
            shutil.rmtree(path, ignore_errors=True)
    return Pruned(deleted, size)


def delete_model(stage: Path) -> None:
    """Delete the model of a stage. Renamed first, so that a killed process leaves no half of a model."""
    doomed = Path(tempfile.mkdtemp(prefix=".model-", dir=stage))  # the trainer and `prune` remove such leftovers
    (stage / "model").rename(doomed / "model")
    shutil.rmtree(doomed)


def delete_unneeded(context: StudyContext) -> None:
    """Delete the models of a running study that no later stage or scoring and no other study needs.

    One model per variant stays until the report is written: dev has not selected a variant yet.
    """
    store, plan = context.store, context.plan
    kept = {stage.key for run in plan.runs if not context.finished_run(run) for stage in run.stages}
    trained = [run for run in context.finished_runs() if run.record["stages"]]
    for variant in {run.variant for run in trained}:
        kept.add(_best_seed([run for run in trained if run.variant == variant], plan.preset.dev[0]))
    kept = kept.union(*(_used(store.study(name)) for name in store.names() if name != plan.name))
    for stage in plan.stages():
        if stage.key not in kept and (store.stage(stage.key) / "model").is_dir():
            delete_model(store.stage(stage.key))


def _used(study: Path) -> set[str]:
    """Return the stages of a study, trained or still to train."""
    finished = {stage["key"] for run in stored_runs(study) for stage in run.record["stages"]}
    return finished.union(*(run["stages"] for run in _planned(study).values()))


def _planned(study: Path) -> dict[str, dict[str, Any]]:
    """Return the key and the stages of each planned run."""
    runs = read_json(study / "study.json")["runs"]
    return runs if isinstance(runs, dict) else {}  # efficiency has none


def _unfinished(study: Path) -> set[str]:
    """Return the stages of the runs that are not finished, or whose result is outdated."""
    finished = {run.directory.name: run.record["key"] for run in stored_runs(study)}
    return {key for name, run in _planned(study).items() if finished.get(name) != run["key"] for key in run["stages"]}


def _best(study: Path) -> set[str]:
    """Return the stage to keep of a study; all its stages without a report or a dev set of its own."""
    summary = load_summary(study) if (study / "summary.json").is_file() else None
    if not isinstance(summary, StudySummary) or summary.dev_set is None:
        return _used(study)
    trained = [run for run in stored_runs(study) if run.record["stages"]]
    means = {name: scores.spearman.mean for name, scores in summary.dev_set.scores.items()}
    best = max({run.variant for run in trained}, key=lambda variant: means.get(variant, -1.0), default=None)
    runs = [run for run in trained if run.variant == best]
    return {_best_seed(runs, summary.dev_set.name)} if runs else set()


def _best_seed(runs: Sequence[StoredRun], dev: str) -> str:
    """Return the last stage of the run with the best dev score."""
    best = max(runs, key=lambda run: run.scores[dev]["cosine_spearman"] or -1.0)
    return str(best.record["stages"][-1]["key"])


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
