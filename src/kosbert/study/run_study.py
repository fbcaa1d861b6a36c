"""Run a study from its configuration to its report, publish the report, and reproduce a single run.

summary, page, outcome = run_study(StudyConfig.builtin("order"), "quick", Store(Path("studies")))
print(summary.answer, page)
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.progress import ProgressCallback
from kosbert.study.config import StudyConfig
from kosbert.study.plan import plan_study
from kosbert.study.prune import Keep, delete_unneeded, prune
from kosbert.study.report import write_report
from kosbert.study.runner import StudyOutcome, execute
from kosbert.study.store import Store, StudyContext, read_json, stored_run, write_json
from kosbert.study.summary import EfficiencySummary, StudySummary, load_summary
from kosbert.study.workers import refuse_torchrun


def run_study(
    study: StudyConfig,
    preset: str,
    store: Store,
    *,
    seeds: int | None = None,
    backbone: str = "",
    settings: Sequence[str] = (),
    limit: int | None = None,
    keep: Keep = "all",
    jobs: int = 1,
    time_budget: float | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float | None = None,
    on_progress: ProgressCallback | None = None,
) -> tuple[StudySummary, Path, StudyOutcome]:
    """Train and score what the store does not have yet, and write the report.

    The arguments are those of `plan_study` and `execute`; `keep` is that of `prune`: models are deleted as soon as no
    later stage needs them. Returns the summary, the HTML page and the outcome.
    """
    refuse_torchrun("kosbert study … --jobs")
    plan = plan_study(study, preset, seeds=seeds, backbone=backbone, settings=settings, limit=limit, data_dir=data_dir)
    context = StudyContext(plan, store, data_dir)
    _record_study(context)
    with store.lock():
        outcome = execute(
            context, jobs=jobs, time_budget=time_budget, checkpoint_every=checkpoint_every, on_progress=on_progress,
            on_run_scored=None if keep == "all" else partial(delete_unneeded, context),
        )  # fmt: skip
        summary, page = write_report(context, outcome)
        if keep != "all":
            prune(store, keep, plan.name)
    return summary, page, outcome


def publish(directory: Path, target: Path, data_dir: Path | None = None) -> Path:
    """Write the report of a finished study to another directory, without sentences of the data; return the page.

    Paths of this machine are shortened to the name of the file or directory.
    """
    summary = load_summary(directory)
    if target.exists() and not (target / "summary.json").is_file() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty and holds no report: choose another directory")
    if isinstance(summary, EfficiencySummary):  # contains no sentences and no paths
        target.mkdir(parents=True, exist_ok=True)
        for name in ("summary.json", "report.md", "report.html"):
            shutil.copy(directory / name, target / name)
        return target / "report.html"
    outcome = StudyOutcome(failed=summary.failed_runs, not_started=summary.runs_not_started)
    context = stored_context(directory, data_dir)
    page = write_report(context, outcome, public=target)[1]
    plan = context.plan
    values = [plan.backbone_override, plan.preset.model_dump(mode="json")]
    values += [setting.partition("=")[2] for setting in plan.settings]
    values += [summary.provenance.backbone["name"]] if summary.provenance and summary.provenance.backbone else []
    _shorten_paths({Path(text) for text in _strings(values) if Path(text).is_absolute()}, target)
    return page


def _strings(value: object) -> Iterator[str]:
    """Yield every string in nested dictionaries and lists."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _shorten_paths(paths: Iterable[Path], directory: Path) -> None:
    """Replace paths by their last part in every file of a report."""
    for file in (path for path in directory.rglob("*") if path.is_file()):
        text = file.read_text(encoding="utf-8")
        for path in sorted(paths, key=lambda path: -len(str(path))):  # a file before its directory
            text = text.replace(str(path), path.name)
        file.write_text(text, encoding="utf-8")


def _record_study(context: StudyContext) -> None:
    """Write `study.json`, which `stored_context` reads, before training starts."""
    plan = context.plan
    content = {
        "study": plan.study.model_dump(mode="json"),
        "preset": plan.preset_name,
        "seeds": len(plan.seeds),
        "backbone_override": plan.backbone_override,
        "settings": plan.settings,
        "limit": plan.limit,
        "runs": {
            run.name: {"key": run.key, "stages": [stage.key for stage in run.stages]} for run in plan.runs
        },  # what `prune` may not delete
    }
    try:
        write_json(context.directory / "study.json", content)
    except OSError as error:
        message = f"{context.store.root} cannot be written ({error.strerror}): choose another --store"
        raise UsageError(message) from error


def stored_context(directory: Path, data_dir: Path | None = None) -> StudyContext:
    """Plan a study of the store again from its `study.json`."""
    content = read_json(directory / "study.json")
    if content["study"] == "efficiency":
        raise UsageError(f"{directory.name} has no training runs: measure again with kosbert study efficiency")
    study = StudyConfig.model_validate(content["study"])
    plan = plan_study(
        study, content["preset"], seeds=content["seeds"], backbone=content["backbone_override"],
        settings=content.get("settings", ()), limit=content.get("limit"), data_dir=data_dir,
    )  # fmt: skip
    return StudyContext(plan, Store(directory.parent), data_dir)


@dataclass(frozen=True)
class Reproduction:
    """Scores of a run before and after it was trained again."""

    run: str
    equal: bool
    before: dict[str, Any]
    after: dict[str, Any]


def reproduce(
    directory: Path, name: str, data_dir: Path | None = None, on_progress: ProgressCallback | None = None
) -> Reproduction:
    """Train and score one run of a study from scratch in a temporary store, and compare the scores.

    Args:
        directory: the study.
        name: name of the run.
        data_dir: directory with the data files; `KOSBERT_DATA` by default.
        on_progress: called while it trains.
    """
    context = stored_context(directory, data_dir)
    runs = {run.name: run for run in context.plan.runs}
    if name not in runs:
        raise UsageError(f"{directory.name} has no run {name!r}: {did_you_mean(name, runs)}")
    before = context.finished_run(runs[name])
    if before is None:
        raise UsageError(f"the run {name} has not finished, or its data has changed: run the study first")
    with tempfile.TemporaryDirectory() as scratch:
        single = StudyContext(replace(context.plan, runs=(runs[name],)), Store(Path(scratch)), data_dir)
        outcome = execute(single, on_progress=on_progress)
        if outcome.failed:
            raise KosbertError(outcome.failed[name])
        after = stored_run(single.store.run(single.plan.name, name))
        assert after is not None
        return Reproduction(name, after.scores == before.scores, before.scores, after.scores)
