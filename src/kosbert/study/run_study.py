"""From a question to its report in one call, and the same run again to see that it gives the same.

found, page, outcome = conduct(Study.named("order"), "quick", Store(Path("studies")))
print(found["answer"], page)
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.study.config import Study
from kosbert.study.plan import Plan, plan
from kosbert.study.report import write_report
from kosbert.study.runner import Outcome, Report, carry_out
from kosbert.study.store import Store, read_json, stored_run, write_json


def conduct(
    study: Study,
    preset: str,
    store: Store,
    *,
    seeds: int | None = None,
    backbone: str = "",
    jobs: int = 1,
    time_budget: float | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
    report: Report | None = None,
) -> tuple[dict[str, Any], Path, Outcome]:
    """Do what is not done yet and write the report; the arguments are those of `plan` and `carry_out`."""
    planned = plan(study, preset, seeds=seeds, backbone=backbone, data_dir=data_dir)
    note_study(planned, store)
    with store.alone():
        outcome = carry_out(
            planned, store, jobs=jobs, time_budget=time_budget, data_dir=data_dir, checkpoint_every=checkpoint_every,
            report=report,
        )  # fmt: skip
        if report:
            report("writing the report", len(planned.runs), len(planned.runs))
        found, page = write_report(planned, store, outcome, data_dir)
    return found, page, outcome


def publish(folder: Path, target: Path, data_dir: Path | None = None) -> Path:
    """Write the report of a finished study into another folder, fit for others; returns the page.

    Sentences of the data are left out, and of a file or folder of this machine only its name is told.
    """
    before = read_json(folder / "summary.json")
    if target.exists() and not (target / "summary.json").is_file() and any(target.iterdir()):
        raise UsageError(f"{target} holds something else than a report: choose another folder")
    if "sets" not in before:  # a study of speed, which shows no sentence and no path
        target.mkdir(parents=True, exist_ok=True)
        for name in ("summary.json", "report.md", "report.html"):
            shutil.copy(folder / name, target / name)
        return target / "report.html"
    outcome = Outcome(failed=before["failed"], not_reached=before["not_reached"])
    planned = planned_again(folder, data_dir)
    page = write_report(planned, Store(folder.parent), outcome, data_dir, public=target)[1]
    asked = [planned.instead, planned.study.presets[planned.preset].model_dump(mode="json")]
    _name_paths({Path(text) for text in _texts(asked) if Path(text).is_absolute()}, target)
    return page


def _texts(value: object) -> Iterator[str]:
    """Every text within dictionaries and lists."""
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _name_paths(paths: Iterable[Path], folder: Path) -> None:
    """In every file of a report, what stands for a path becomes its last part."""
    for file in (each for each in folder.rglob("*") if each.is_file()):
        text = file.read_text(encoding="utf-8")
        for path in sorted(paths, key=lambda each: -len(str(each))):  # a folder after what it holds
            text = text.replace(str(path), path.name)
        file.write_text(text, encoding="utf-8")


def note_study(planned: Plan, store: Store) -> None:
    """Say in the store what is asked, before anything is trained."""
    content = {
        "study": planned.study.model_dump(mode="json"),
        "preset": planned.preset,
        "seeds": planned.seeds,
        "backbone": planned.instead,
        "runs": [run.name for run in planned.runs],
    }
    try:
        write_json(store.study(planned.name) / "study.json", content)
    except OSError as error:
        raise UsageError(f"{store.root} cannot be written ({error.strerror}): choose another --store") from error


def planned_again(folder: Path, data_dir: Path | None) -> Plan:
    """The plan of a study in the store."""
    content = read_json(folder / "study.json")
    if content["study"] == "efficiency":
        raise UsageError(f"{folder.name} has no runs to train again: measure anew with kosbert study efficiency")
    study = Study.model_validate(content["study"])
    backbone = content.get("backbone", "")  # stores of before it could be named have none
    return plan(study, content["preset"], seeds=content["seeds"], backbone=backbone, data_dir=data_dir)


def again(folder: Path, run: str, data_dir: Path | None = None, report: Report | None = None) -> dict[str, Any]:
    """Train and score one run from nothing, elsewhere, and hold the scores against the stored ones."""
    planned = planned_again(folder, data_dir)
    wanted = next((each for each in planned.runs if each.name == run), None)
    if wanted is None:
        raise UsageError(f"{folder.name} has no run {run!r}: {did_you_mean(run, [each.name for each in planned.runs])}")
    before = stored_run(folder / "runs" / run, wanted.identity)
    if before is None:
        raise UsageError(f"the run {run} has not finished, or its data has changed: run the study first")
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(Path(scratch))
        only = replace(planned, runs=(wanted,))
        outcome = carry_out(only, store, data_dir=data_dir, report=report)
        if outcome.failed:
            raise KosbertError(outcome.failed[run])
        after = stored_run(store.run(only.name, run))
        assert after is not None
        equal = after.scores == before.scores
        return {"run": run, "equal": equal, "before": before.scores, "after": after.scores}
