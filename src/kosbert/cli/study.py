"""`kosbert study`: questions answered with evidence and a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json, whole
from kosbert.errors import KosbertError, UsageError

if TYPE_CHECKING:
    from kosbert.study.config import Study
    from kosbert.study.runner import Outcome, Report
    from kosbert.study.store import Store

app = typer.Typer(help="Studies: a question, its runs, a report.", no_args_is_help=True)

StoreOption = Annotated[Path, typer.Option("--store", help="Where stages, runs and reports are kept, for all studies.")]
PresetOption = Annotated[str, typer.Option(help="How large: quick (sample set), real (data at hand), paper.")]
SeedsOption = Annotated[
    int | None, typer.Option(min=1, help="How many seeds, instead of the preset's.", show_default=False)
]
BackboneOption = Annotated[
    str, typer.Option(help="A directory or a hub name to begin with, instead of the preset's.", show_default=False)
]
JobsOption = Annotated[int, typer.Option(min=1, help="Processes that train at the same time.")]
BudgetOption = Annotated[
    float | None,
    typer.Option("--time-budget", min=1, help="Seconds after which no further stage is begun.", show_default=False),
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be trained, and how long it would take.")]
STORE = Path("studies")


@app.callback()
def _studies() -> None:
    pass


def _command(name: str, question: str) -> None:
    """A command for a study that comes with the package."""

    def command(
        preset: PresetOption = "quick",
        seeds: SeedsOption = None,
        backbone: BackboneOption = "",
        jobs: JobsOption = 1,
        time_budget: BudgetOption = None,
        dry_run: DryOption = False,
        store: StoreOption = STORE,
        data_dir: DataDirOption = None,
        json: JsonOption = False,
    ) -> None:
        from kosbert.study.config import Study

        _go(Study.named(name), preset, seeds, backbone, jobs, time_budget, dry_run, store, data_dir, json)

    app.command(name, help=question)(command)


# Named here so that the help needs no YAML; a test sees that these are the studies of the package.
QUESTIONS = {
    "order": "In which order should an encoder see NLI and STS data?",
    "pooling": "Mean, max or CLS: how should token vectors become one?",
    "concat": "Which concatenation should the NLI classifier see?",
    "simcse": "How far does SimCSE get, without labels and with them?",
    "baselines": "How far does a method get that is not trained for similarity?",
    "compression": "How much of a model and of its vectors can be left out?",
}
for _name, _question in QUESTIONS.items():
    _command(_name, _question)


@app.command("run")
def run_file(
    file: Annotated[Path, typer.Argument(help="A study of your own as YAML; see docs/studies.md.", show_default=False)],
    preset: PresetOption = "quick",
    seeds: SeedsOption = None,
    backbone: BackboneOption = "",
    jobs: JobsOption = 1,
    time_budget: BudgetOption = None,
    dry_run: DryOption = False,
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """A study of your own."""
    from kosbert.study.config import Study

    _go(Study.read(file), preset, seeds, backbone, jobs, time_budget, dry_run, store, data_dir, json)


def _go(
    study: "Study", preset: str, seeds: int | None, backbone: str, jobs: int, time_budget: float | None, dry_run: bool,
    root: Path, data_dir: Path | None, json: bool,
) -> None:  # fmt: skip
    from kosbert.study.store import Store

    store = Store(root)
    if dry_run:
        _dry_run(study, preset, seeds, backbone, jobs, store, data_dir, json)
        return
    from kosbert.study.run_study import conduct

    with _progress() as report:
        found, page, outcome = conduct(
            study, preset, store, seeds=seeds, backbone=backbone, jobs=jobs, time_budget=time_budget,
            data_dir=data_dir, report=report,
        )  # fmt: skip
    if json:
        print_json({"report": str(page)} | found)
    else:
        _print(found, page)
    _judge(outcome, bool(found["sets"]))


def _judge(outcome: "Outcome", something: bool) -> None:
    """Say on standard error what failed; it is an error of the whole where nothing came of it."""
    for run, reason in outcome.failed.items():
        err.print(f"failed: {run}: {reason}", markup=False, highlight=False, soft_wrap=True)
    if outcome.failed:
        kept = "the others are in the report" if something else "nothing could be measured"
        raise KosbertError(
            f"{len(outcome.failed)} runs failed and {kept}: mend what they say, then run the same command"
        )


@contextmanager
def _progress() -> Iterator["Report"]:
    """Two bars on standard error: the runs of the study, and the steps of the stage that is being trained."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            is_stage = what.islower() and what not in ("runs", "rounds", "writing the report")
            kind = "stage" if is_stage else "study"
            if kind not in tasks:
                tasks[kind] = bar.add_task(what, total=total)
            bar.update(tasks[kind], description=what, completed=done, total=total)

        yield report


def _dry_run(
    study: "Study", preset: str, seeds: int | None, backbone: str, jobs: int, store: "Store", data_dir: Path | None,
    json: bool,
) -> None:  # fmt: skip
    from kosbert.study.estimate import estimates
    from kosbert.study.plan import plan

    with err.status("reading the data and timing a few steps"):
        planned = plan(study, preset, seeds=seeds, backbone=backbone, data_dir=data_dir)
        expected = estimates(planned, store, data_dir, jobs)
    seconds = sum(each.seconds for each in expected) / jobs
    chains = sum(len(run.stages) for run in planned.runs)
    if json:
        print_json(
            {
                "study": study.name,
                "preset": preset,
                "runs": [{"name": run.name, "stages": [stage.key for stage in run.stages]} for run in planned.runs],
                "stages": [
                    {
                        "hash": each.stage.key,
                        "label": each.stage.label,
                        "seed": each.stage.recipe.seed,
                        "start": each.stage.start,
                        "trained": each.trained,
                        "steps": each.steps,
                        "seconds": each.seconds,
                        "known_from": each.known_from,
                    }
                    for each in expected
                ],
                "seconds": seconds,
            }
        )
        return
    table = Table("stage", "starts from", "seed", "for", "steps", "seconds", "known from", title=study.question)
    labels = {each.stage.key: each.stage.label for each in expected}
    for each in expected:
        start = labels.get(each.stage.start, "backbone")
        rows = {run.row for run in planned.runs if each.stage in run.stages}
        time = "trained" if each.trained else f"{each.seconds:.0f}"
        table.add_row(each.stage.label, start, str(each.stage.recipe.seed), ", ".join(sorted(rows)), f"{each.steps:,}",
                      time, "the store" if each.trained else each.known_from)  # fmt: skip
    out.print(table)
    out.print(
        f"{len(planned.runs)} runs, {chains} places in their chains, {len(expected)} stages to train once each, of "
        f"which {sum(each.trained for each in expected)} are in the store. About {seconds / 60:.1f} minutes"
        f"{f' with {jobs} processes' if jobs > 1 else ''}, and what the scores take.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def _print(found: dict[str, Any], page: Path) -> None:
    from kosbert.study.tables import main_table

    made = main_table(found)
    table = Table(*(whole(head) for head in made.heads), title=f"{found['question']} (×100)")
    for number, row in enumerate(made.rows):
        cells = [f"{cell.text} {cell.small}".strip() for cell in row]
        table.add_row(*cells, style="bold" if number in made.marked else None)
    out.print(table)
    out.print(found["answer"], style="bold", highlight=False, markup=False)
    for name in found["not_reached"]:
        err.print(f"not reached in time: {name}", markup=False, highlight=False)
    out.print(f"Report: {page}", soft_wrap=True, markup=False, highlight=False)


@app.command()
def efficiency(
    preset: PresetOption = "quick",
    model: Annotated[str, typer.Option(help="Another model than the preset's.", show_default=False)] = "",
    onnx: Annotated[
        list[Path] | None, typer.Option(help="An exported model to time as well; may be repeated.", show_default=False)
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Instead of the preset's.", show_default=False)] = None,
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """How many sentences a second, and what makes it faster?"""
    from kosbert.benchmark.efficiency import efficiency as measure
    from kosbert.study.store import Store

    with _progress() as report:
        found, page = measure(
            preset, Store(store), model=model, exported=onnx or (), rounds=rounds, data_dir=data_dir, report=report
        )
    if json:
        print_json({"report": str(page)} | found)
    else:
        _print_speeds(found, page)


def _print_speeds(found: dict[str, Any], page: Path) -> None:
    table = Table("way", "sentences a second", "ratio", "spread", title=found["question"])
    for row in found["rows"]:
        speed, spread = f"{row['sentences_per_second']:,.0f}", f"{row['low']:.2f} to {row['high']:.2f}"
        table.add_row(row["way"], speed, f"{row['ratio']:.2f}×", spread)
    out.print(table)
    out.print(found["answer"], style="bold", highlight=False, markup=False)
    out.print(f"Report: {page}", soft_wrap=True, markup=False, highlight=False)


@app.command("list")
def list_studies(store: StoreOption = STORE, json: JsonOption = False) -> None:
    """Studies that are in the store, with their answers."""
    from kosbert.study.store import Store, read_json, stored_runs

    here = Store(store)
    found: list[dict[str, Any]] = []
    for name in here.names():
        folder = here.study(name)
        done, wanted = len(stored_runs(folder)), len(read_json(folder / "study.json")["runs"])
        summary = folder / "summary.json"
        answer = read_json(summary)["answer"] if summary.is_file() else ""
        found.append({"name": name, "runs": done, "of": wanted, "answer": answer})
    if json:
        print_json({"store": str(store), "studies": found})
        return
    if not found:
        out.print(f"There is no study in {store} yet: kosbert study order", soft_wrap=True)
        return
    table = Table("study", "runs", whole("answer"))
    for each in found:
        runs = f"{each['runs']} of {each['of']}" if each["of"] else "–"
        table.add_row(each["name"], runs, each["answer"] or "not finished")
    out.print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A study of the store, e.g. order-quick.", show_default=False)],
    store: StoreOption = STORE,
    json: JsonOption = False,
) -> None:
    """The table and the answer of a finished study."""
    from kosbert.study.summary import open_summary

    folder = _finished(store, name)
    found, page = open_summary(folder), folder / "report.html"
    if json:
        print_json({"report": str(page)} | found)
    elif "sets" in found:
        _print(found, page)
    else:
        _print_speeds(found, page)


def _finished(store: Path, name: str) -> Path:
    from kosbert.study.store import Store

    folder = Store(store).find(name)
    if not (folder / "summary.json").is_file():
        raise UsageError(f"{folder.name} has not finished: run the same command again, it goes on where it was")
    return folder


@app.command()
def publish(
    name: Annotated[str, typer.Argument(help="A study of the store, e.g. order-real.", show_default=False)],
    to: Annotated[Path, typer.Argument(help="A folder that is empty or holds a report.", show_default=False)],
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
) -> None:
    """Write a finished report elsewhere, fit for others: without sentences of the data and paths of this machine."""
    from kosbert.study.run_study import publish as write

    page = write(_finished(store, name), to, data_dir)
    out.print(f"Report: {page}", soft_wrap=True, markup=False, highlight=False)


@app.command()
def rerun(
    name: Annotated[str, typer.Argument(help="A study of the store, e.g. order-quick.", show_default=False)],
    run: Annotated[str, typer.Argument(help="One of its runs, e.g. 02-sts-seed-1.", show_default=False)],
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Train one run again from nothing and see whether its scores are equal to the last digit."""
    from kosbert.study.run_study import again
    from kosbert.study.store import Store

    folder = Store(store).find(name)
    with _progress() as report:
        found = again(folder, run, data_dir, report)
    if json:
        print_json(found)
    else:
        table = Table("data", "Spearman before", "Spearman again", title=run)
        for name, scores in found["before"].items():
            if "cosine_spearman" in scores:
                again_now = found["after"][name]["cosine_spearman"]
                table.add_row(name, repr(scores["cosine_spearman"]), repr(again_now))
        out.print(table)
        out.print("Equal to the last digit." if found["equal"] else "They differ.")
    if not found["equal"]:
        raise KosbertError("the scores differ: compare the lineage in run.json (versions, threads) with this machine")
