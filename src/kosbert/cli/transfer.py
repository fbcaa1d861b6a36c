"""`kosbert transfer`: a linear classifier on a model's frozen vectors, task by task."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json

if TYPE_CHECKING:
    from kosbert.evaluation.transfer import Accuracy, Outcome


def transfer(
    model: Annotated[
        str, typer.Argument(help="builtin, a directory, a hub name, or a baseline: tfidf, random, …")
    ] = "builtin",
    suite: Annotated[str, typer.Option(help="ko, or en: the seven tasks of SentEval.")] = "ko",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task, e.g. nsmc; may be repeated.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=50, help="Rows of each split, for a quick look.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of folds and draws; SentEval's own by default.")] = 1111,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Score frozen vectors on sentiment, topic, intent, paraphrase: logistic regression, by SentEval's protocol."""
    from kosbert.evaluation.transfer import transfer as run
    from kosbert.evaluation.transfer_tasks import suite as tasks_of
    from kosbert.model import load_any

    chosen = tasks_of(suite, task or ())  # a wrong name is told before a model is loaded
    with err.status(f"loading {model}"):
        loaded = load_any(model, data_dir=data_dir)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[step]}"), TimeElapsedColumn())
    with Progress(*columns, console=err) as bar:
        bars: dict[str, Any] = {}

        def report(name: str, step: str, done: int, total: int) -> None:
            if name not in bars:
                bars[name] = bar.add_task(name, step="")
            bar.update(bars[name], completed=done, total=max(total, 1), step=step if done < total else "done")

        outcome = run(
            loaded, suite, tasks=[each.name for each in chosen], folder=data_dir, limit=limit, seed=seed, report=report
        )
    if json:
        document = {"model": model, "suite": suite, "seed": seed, "limit": limit, "average": outcome.average}
        print_json(document | {"tasks": [asdict(score) for score in outcome.scores], "missing": outcome.missing})
        return
    title = f"{model}: accuracy ×100 of logistic regression on frozen vectors"
    _print_table(outcome, title if limit is None else f"{title}, at most {limit:,} rows a split: a quick look")


def _print_table(outcome: "Outcome", title: str) -> None:
    table = Table("task", "accuracy", "95% interval", "test rows", "F1", "rows not in train", "data", title=title)
    for score in outcome.scores:
        f1 = "" if score.f1 is None else f"{100 * score.f1:.2f}"
        unseen = "" if score.unseen is None else f"{100 * score.unseen.value:.2f} of {score.unseen.rows:,}"
        rows = f"{score.accuracy.rows:,}"
        table.add_row(score.task, *_cells(score.accuracy), rows, f1, unseen, ", ".join(score.data))
    for name in outcome.missing:
        table.add_row(name, "not here")
    if outcome.average is not None and len(outcome.scores) > 1:
        table.add_section()
        table.add_row("average", f"{100 * outcome.average:.2f}")
    out.print(table)
    for name, how in outcome.missing.items():
        out.print(f"{name}: {how}", soft_wrap=True, highlight=False)


def _cells(accuracy: "Accuracy") -> tuple[str, str]:
    return f"{100 * accuracy.value:.2f}", f"{100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}"
