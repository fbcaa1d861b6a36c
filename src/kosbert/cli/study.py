"""`kosbert study`: run studies, show their results, publish their reports."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json, wrapped
from kosbert.errors import KosbertError, UsageError
from kosbert.progress import progress_bars

if TYPE_CHECKING:
    from kosbert.study.config import StudyConfig
    from kosbert.study.runner import StudyOutcome
    from kosbert.study.store import Store
    from kosbert.study.summary import EfficiencySummary, ReportSummary, StudySummary
    from kosbert.study.tables import Table as ReportTable

app = typer.Typer(help="Compare training variants over seeds and write a report.", no_args_is_help=True)

Keep = Literal["all", "best", "none"]
StoreOption = Annotated[Path, typer.Option("--store", help="Directory of all studies: stages, runs and reports.")]
PresetOption = Annotated[
    str,
    typer.Option(help="quick (sample set), real (public Korean data), paper (published setup), …"),
]
SeedsOption = Annotated[
    int | None, typer.Option(min=1, help="Number of seeds, if not the preset's.", show_default=False)
]
BackboneOption = Annotated[
    str, typer.Option(help="Directory or hub name of a backbone, if not the preset's.", show_default=False)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="Change a recipe key of all variants: train.batch_size=8, stages.nli.epochs=0.1; or data.ROLE, dev, test. "
        "May be repeated.",
    ),
]  # fmt: skip
LimitOption = Annotated[
    int | None,
    typer.Option(min=1, help="Shorten: random rows of every training source. Dev and test stay.", show_default=False),
]
JobsOption = Annotated[
    int, typer.Option(min=1, help="Training processes that run in parallel, each on its own GPU if there are several.")
]
KeepOption = Annotated[
    Keep, typer.Option(help="Models to keep: all, best (the one that dev selects) or none. Scores and reports stay.")
]
BudgetOption = Annotated[
    float | None,
    typer.Option("--time-budget", min=1, help="Seconds after which no new stage starts.", show_default=False),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print the stages to train and the time estimate.")]
StudyArgument = Annotated[str, typer.Argument(help="A study in the store, e.g. order-quick.", show_default=False)]
STORE = Path("studies")


@dataclass(frozen=True)
class _Options:
    """Options of the commands that run a study."""

    preset: str
    seeds: int | None
    backbone: str
    settings: list[str] | None
    limit: int | None
    jobs: int
    time_budget: float | None
    keep: Keep
    dry_run: bool
    store: Path
    data_dir: Path | None
    json: bool

    def plan(self) -> dict[str, Any]:
        """Return the arguments of `plan_study`."""
        return {
            "seeds": self.seeds, "backbone": self.backbone, "settings": self.settings or (), "limit": self.limit,
            "data_dir": self.data_dir,
        }  # fmt: skip


def _add_builtin_study(name: str, question: str) -> None:
    """Add the command of a study that ships with the package."""

    def command(
        preset: PresetOption = "quick",
        seeds: SeedsOption = None,
        backbone: BackboneOption = "",
        settings: SetOption = None,
        limit: LimitOption = None,
        jobs: JobsOption = 1,
        time_budget: BudgetOption = None,
        keep: KeepOption = "all",
        dry_run: DryRunOption = False,
        store: StoreOption = STORE,
        data_dir: DataDirOption = None,
        json: JsonOption = False,
    ) -> None:
        from kosbert.study.config import StudyConfig

        options = _Options(
            preset, seeds, backbone, settings, limit, jobs, time_budget, keep, dry_run, store, data_dir, json
        )
        _run(StudyConfig.builtin(name), options, f"kosbert study {name}")

    app.command(name, help=question)(command)


# Repeated here so that `--help` reads no YAML; a test compares them with the studies of the package.
QUESTIONS = {
    "order": "In which order should a sentence encoder be trained on NLI and STS?",
    "pooling": "Mean, max or CLS pooling?",
    "concat": "Which concatenation of u and v is best for the NLI classifier?",
    "simcse": "How good is SimCSE, unsupervised and supervised?",
    "baselines": "How good are methods that are not trained for similarity?",
    "compression": "How far can a model and its embeddings be compressed?",
}
for _name, _question in QUESTIONS.items():
    _add_builtin_study(_name, _question)


@app.command("run")
def run_file(
    file: Annotated[Path, typer.Argument(help="A study as YAML; see docs/studies.md.", show_default=False)],
    preset: PresetOption = "quick",
    seeds: SeedsOption = None,
    backbone: BackboneOption = "",
    settings: SetOption = None,
    limit: LimitOption = None,
    jobs: JobsOption = 1,
    time_budget: BudgetOption = None,
    keep: KeepOption = "all",
    dry_run: DryRunOption = False,
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Run a study of your own."""
    from kosbert.study.config import StudyConfig

    options = _Options(
        preset, seeds, backbone, settings, limit, jobs, time_budget, keep, dry_run, store, data_dir, json
    )
    _run(StudyConfig.load(file), options, f"kosbert study run {file}")


def _run(study: "StudyConfig", options: _Options, command: str) -> None:
    from kosbert.study.store import Store
    from kosbert.study.workers import refuse_torchrun

    refuse_torchrun(f"{command} --preset {options.preset} --jobs")
    store = Store(options.store)
    if options.dry_run:
        _dry_run(study, options, store)
        return
    from kosbert.study.run_study import run_study

    with progress_bars() as on_progress:
        summary, page, outcome = run_study(
            study, options.preset, store, **options.plan(), keep=options.keep, jobs=options.jobs,
            time_budget=options.time_budget, on_progress=on_progress,
        )  # fmt: skip
    if options.json:
        _print_summary_json(summary, page)
    else:
        _print_study(summary, page)
    _report_failures(outcome, bool(summary.eval_sets))


def _report_failures(outcome: "StudyOutcome", has_results: bool) -> None:
    """Print the failed runs on standard error and exit with an error if there are any."""
    for run, message in outcome.failed.items():
        err.print(f"failed: {run}: {message}", markup=False, highlight=False, soft_wrap=True)
    if outcome.failed:
        others = "the others are in the report" if has_results else "there are no results"
        raise KosbertError(
            f"{len(outcome.failed)} runs failed, {others}: fix the errors above, then run the same command again"
        )


def _dry_run(study: "StudyConfig", options: _Options, store: "Store") -> None:
    from kosbert.study.estimate import estimate_stages
    from kosbert.study.plan import plan_study
    from kosbert.study.store import StudyContext

    with err.status("reading the data and timing a few steps"):
        plan = plan_study(study, options.preset, **options.plan())
        estimates = estimate_stages(StudyContext(plan, store, options.data_dir), options.jobs)
    seconds = sum(estimate.seconds for estimate in estimates) / options.jobs
    if options.json:
        print_json(
            {
                "study": study.name,
                "preset": options.preset,
                "runs": [{"name": run.name, "stages": [stage.key for stage in run.stages]} for run in plan.runs],
                "stages": [
                    {
                        "key": estimate.stage.key,
                        "label": estimate.stage.label,
                        "seed": estimate.stage.recipe.seed,
                        "parent": estimate.stage.parent,
                        "trained": estimate.trained,
                        "steps": estimate.steps,
                        "seconds": estimate.seconds,
                        "source": estimate.source,
                    }
                    for estimate in estimates
                ],
                "seconds": seconds,
            }
        )
        return
    table = Table(
        "stage", "starts from", "seed", "variants", "steps", "seconds", "estimated from", title=study.question
    )
    labels = {estimate.stage.key: estimate.stage.label for estimate in estimates}
    for estimate in estimates:
        stage = estimate.stage
        table.add_row(
            stage.label,
            labels.get(stage.parent, "backbone"),
            str(stage.recipe.seed),
            ", ".join(sorted({run.variant for run in plan.runs if stage in run.stages})),
            f"{estimate.steps:,}",
            "trained" if estimate.trained else f"{estimate.seconds:.0f}",
            "the store" if estimate.trained else estimate.source,
        )
    out.print(table)
    trained = sum(estimate.trained for estimate in estimates)
    out.print(
        f"{len(plan.runs)} runs with {sum(len(run.stages) for run in plan.runs)} stages, {len(estimates)} of them "
        f"distinct; {trained} are already trained. About {seconds / 60:.1f} minutes"
        f"{f' with {options.jobs} processes' if options.jobs > 1 else ''}, plus evaluation.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def _print_study(summary: "StudySummary", page: Path) -> None:
    from kosbert.study.tables import results_table

    _print_report(summary, results_table(summary), f"{summary.question} (×100)", page)
    for name in summary.runs_not_started:
        err.print(f"not started, time budget used up: {name}", markup=False, highlight=False)


def _print_efficiency(summary: "EfficiencySummary", page: Path) -> None:
    from kosbert.benchmark.efficiency import speed_table

    _print_report(summary, speed_table(summary), summary.question, page)


def _print_report(summary: "ReportSummary", content: "ReportTable", title: str, page: Path) -> None:
    header = (name.replace(": ", ":\n").replace(", ", ",\n") for name in content.header)  # narrow: 80 columns
    table = Table(*map(wrapped, header), title=title, box=box.SIMPLE, pad_edge=False, collapse_padding=True)
    table.columns[0].min_width = min(14, max((len(row[0].text) for row in content.rows), default=0))
    for number, row in enumerate(content.rows):
        cells = [f"{cell.text} {cell.small}".strip() for cell in row]
        table.add_row(*cells, style="bold" if number in content.highlighted else None)
    out.print(table)
    out.print(summary.answer, style="bold", highlight=False, markup=False)
    _print_page(page)


def _print_page(page: Path) -> None:
    out.print(f"Report: {page}", soft_wrap=True, markup=False, highlight=False)


def _print_summary_json(summary: "ReportSummary", page: Path) -> None:
    print_json({"report": str(page), **summary.model_dump(mode="json")})


@app.command()
def efficiency(
    preset: PresetOption = "quick",
    model: Annotated[str, typer.Option(help="Model to measure, if not the preset's.", show_default=False)] = "",
    onnx: Annotated[
        list[Path] | None,
        typer.Option(help="Directory of an exported model to measure as well; may be repeated.", show_default=False),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Number of rounds.", show_default=False)] = None,
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """How many sentences per second, and what makes it faster?"""
    from kosbert.benchmark.efficiency import efficiency as measure
    from kosbert.study.store import Store

    with progress_bars() as on_progress:
        summary, page = measure(
            preset, Store(store), model=model, exported=onnx or (), rounds=rounds, data_dir=data_dir,
            on_progress=on_progress,
        )  # fmt: skip
    if json:
        _print_summary_json(summary, page)
    else:
        _print_efficiency(summary, page)


@app.command("list")
def list_studies(store: StoreOption = STORE, json: JsonOption = False) -> None:
    """List the studies in the store with their answers."""
    from kosbert.study.store import Store, read_json, stored_runs
    from kosbert.study.summary import load_summary

    studies: list[dict[str, Any]] = []
    for name in Store(store).names():
        directory = Store(store).study(name)
        planned = len(read_json(directory / "study.json")["runs"])
        answer = load_summary(directory).answer if (directory / "summary.json").is_file() else ""
        finished = len(stored_runs(directory))
        studies.append({"name": name, "finished_runs": finished, "planned_runs": planned, "answer": answer})
    if json:
        print_json({"store": str(store), "studies": studies})
        return
    if not studies:
        out.print(f"There are no studies in {store} yet. Run one: kosbert study order", soft_wrap=True)
        return
    table = Table(wrapped("study"), "runs", wrapped("answer"))
    for study in studies:
        runs = f"{study['finished_runs']} of {study['planned_runs']}" if study["planned_runs"] else "–"
        table.add_row(study["name"], runs, study["answer"] or "not finished")
    out.print(table)


@app.command()
def show(name: StudyArgument, store: StoreOption = STORE, json: JsonOption = False) -> None:
    """Show the table and the answer of a finished study."""
    from kosbert.study.summary import StudySummary, load_summary

    directory = _finished_study(store, name)
    summary, page = load_summary(directory), directory / "report.html"
    if json:
        _print_summary_json(summary, page)
    elif isinstance(summary, StudySummary):
        _print_study(summary, page)
    else:
        _print_efficiency(summary, page)


def _finished_study(store: Path, name: str) -> Path:
    from kosbert.study.store import Store

    directory = Store(store).find(name)
    if not (directory / "summary.json").is_file():
        raise UsageError(f"{directory.name} has not finished: run the same command again, it resumes")
    return directory


@app.command()
def publish(
    name: StudyArgument,
    to: Annotated[Path, typer.Argument(help="A directory that is empty or holds a report.", show_default=False)],
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
) -> None:
    """Write a report for others: without sentences of the data and paths of this machine."""
    from kosbert.study.run_study import publish as write

    _print_page(write(_finished_study(store, name), to, data_dir))


@app.command()
def rerun(
    name: StudyArgument,
    run: Annotated[str, typer.Argument(help="One of its runs, e.g. 02-sts-seed-1.", show_default=False)],
    store: StoreOption = STORE,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Train one run again from scratch and check that its scores are bit-identical."""
    from kosbert.study.run_study import reproduce
    from kosbert.study.store import Store

    directory = Store(store).find(name)
    with progress_bars() as on_progress:
        result = reproduce(directory, run, data_dir, on_progress)
    if json:
        print_json(asdict(result))
    else:
        table = Table("data", "Spearman before", "Spearman after", title=run)
        for dataset, scores in result.before.items():
            if "cosine_spearman" in scores:
                after = result.after[dataset]["cosine_spearman"]
                table.add_row(dataset, repr(scores["cosine_spearman"]), repr(after))
        out.print(table)
        out.print("The scores are identical." if result.equal else "The scores differ.")
    if not result.equal:
        raise KosbertError("the scores differ: compare `provenance` in run.json (versions, threads) with this machine")


@app.command()
def prune(
    name: Annotated[str, typer.Argument(help="Only models of this study; by default of all.", show_default=False)] = "",
    keep: Annotated[
        Keep, typer.Option(help="best: one model per study, selected on dev; none; all: those that a study uses.")
    ] = "best",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    store: StoreOption = STORE,
    json: JsonOption = False,
) -> None:
    """Delete models of finished studies. Scores, predictions, curves and reports stay."""
    from kosbert.study.prune import prune as delete
    from kosbert.study.store import Store

    if not store.is_dir():
        raise UsageError(f"there is no store {store}: name its directory with --store")
    with Store(store).lock():
        result = delete(Store(store), keep, name, dry_run=dry_run)
    if json:
        print_json({"store": str(store), "keep": keep, "dry_run": dry_run, **asdict(result)})
        return
    verb = "would be deleted" if dry_run else "deleted"
    models = "1 model" if len(result.stages) == 1 else f"{len(result.stages)} models"
    out.print(f"{models} {verb}, {result.bytes:,} bytes ({result.bytes / 1e9:.2f} GB) free.", highlight=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of `summary.json`."""
    from kosbert.study.summary import summary_schema

    print_json(summary_schema())
