"""`kosbert transfer`: a linear classifier on frozen embeddings, task by task."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json
from kosbert.progress import progress_bars

if TYPE_CHECKING:
    from kosbert.evaluation.transfer import TransferResult


def transfer(
    model: Annotated[
        str, typer.Argument(help="builtin, a directory, a Hugging Face name, or a baseline: tfidf, random, …")
    ] = "builtin",
    suite: Annotated[str, typer.Option(help="ko, or en: the seven tasks of SentEval.")] = "ko",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task, e.g. nsmc; may be repeated.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=50, help="Rows per split, for a quick look.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of folds and samples; SentEval's by default.")] = 1111,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Score frozen embeddings on sentiment, topic, intent and paraphrase tasks by SentEval's protocol."""
    from kosbert.evaluation.transfer import transfer as run
    from kosbert.evaluation.transfer_tasks import suite_tasks
    from kosbert.model import load_any

    names = [selected.name for selected in suite_tasks(suite, task or ())]  # before loading: reports a wrong name
    with err.status(f"loading {model}"):
        encoder = load_any(model, data_dir=data_dir)
    with progress_bars() as on_progress:
        result = run(encoder, suite, tasks=names, data_dir=data_dir, limit=limit, seed=seed, on_progress=on_progress)
    if json:
        document = {"model": model, "suite": suite, "seed": seed, "limit": limit, "average": result.average}
        print_json(document | {"tasks": [asdict(score) for score in result.scores], "missing": result.missing})
        return
    title = f"{model}: accuracy ×100 of logistic regression"
    _print_table(result, title if limit is None else f"{title}, at most {limit:,} rows per split")


def _print_table(result: "TransferResult", title: str) -> None:
    table = Table(title=title, box=box.SIMPLE, collapse_padding=True, pad_edge=False)
    table.add_column("task")
    for heading in ("accuracy", "95% CI", "rows", "F1", "unseen rows"):
        table.add_column(heading, justify="right")
    table.add_column("data", overflow="fold")
    for score in result.scores:
        accuracy = score.accuracy
        table.add_row(
            score.task,
            f"{100 * accuracy.value:.2f}",
            f"{100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}",
            f"{accuracy.rows:,}",
            "" if score.f1 is None else f"{100 * score.f1:.2f}",
            "" if score.unseen is None else f"{100 * score.unseen.value:.2f} of {score.unseen.rows:,}",
            ", ".join(score.data),
        )
    for name in result.missing:
        table.add_row(name, "no data")
    if result.average is not None and len(result.scores) > 1:
        table.add_section()
        table.add_row("average", f"{100 * result.average:.2f}")
    out.print(table)
    if any(score.unseen for score in result.scores):
        out.print("Unseen rows: accuracy without test rows whose text is also in train.", style="dim")
    for name, message in result.missing.items():
        out.print(f"{name}: {message}", soft_wrap=True, highlight=False)
