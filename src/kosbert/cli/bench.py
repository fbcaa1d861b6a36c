"""`kosbert bench`: what a model costs to run on this machine, in every way there is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json, whole

if TYPE_CHECKING:
    from kosbert.benchmark.bench import Bench


def bench(
    model: Annotated[
        str | None, typer.Argument(help="A directory or a hub name; BERT-base's shape without it.", show_default=False)
    ] = None,
    on: Annotated[str, typer.Option(help="Whose sentences: a split, or a file.")] = "korsts-test",
    sentences: Annotated[int, typer.Option(min=32, help="How many texts, drawn at random.")] = 500,
    join: Annotated[int, typer.Option(min=1, help="So many of them make one text: long documents.")] = 1,
    rounds: Annotated[int, typer.Option(min=2, help="How often each way has its turn.")] = 5,
    figure: Annotated[Path | None, typer.Option(help="Draw the ratios into this SVG file.", show_default=False)] = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Run a model in every way, in turns, beside sentence-transformers and the machine's limit (minutes)."""
    import numpy as np

    from kosbert.benchmark.bench import bench as run
    from kosbert.data.loading import read_records
    from kosbert.data.records import sentences_of

    rows = read_records(on, data_dir=data_dir)
    texts = list(dict.fromkeys(text for row in rows for text in sentences_of(row) if text.strip()))
    drawn = [texts[number] for number in np.random.default_rng(0).permutation(len(texts))]
    chosen = [" ".join(drawn[start : start + join]) for start in range(0, len(drawn), join)][:sentences]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("preparing", total=None)

        def report(doing: str, done: int, total: int) -> None:
            bar.update(task, description=doing, completed=done, total=total)

        found = run(chosen, model, rounds=rounds, report=report)
    if json:
        print_json({"on": on, **found.document()})
    else:
        _print(found, on)
    if figure:
        _draw(found, figure)  # last: what was measured is not lost where it cannot be written


def _draw(found: "Bench", file: Path) -> None:
    """The ways of running this one model; the built-in one, where it was beside it, is another model."""
    from kosbert.study.figures import forest, standalone

    rows: dict[str, tuple[float, float, float, list[float]]] = {
        each.way: (each.ratio, each.lowest, each.highest, []) for each in found.costs if each.least_cosine is not None
    }
    label = f"Speed as a multiple of {found.costs[0].way}; {found.model}, {found.threads} threads"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(standalone(forest(rows, label, letters=48, digits=2)), encoding="utf-8")


def _print(found: "Bench", on: str) -> None:
    title = (
        f"{found.model}: {found.parameters / 1e6:.1f}M parameters, {found.sentences} sentences of {on} with "
        f"{found.tokens_per_sentence:.1f} tokens, {found.threads} threads, {found.limit_gflops:.0f} GFLOP/s at most"
    )
    table = Table(
        whole("way"), "sentences/s", "ratio", "spread", "of the limit", "least cosine", "p50 ms", "p99 ms", title=title
    )
    for each in found.costs:
        table.add_row(
            each.way,
            f"{each.sentences_per_second:,.0f}",
            f"{each.ratio:.2f}×",
            f"{each.lowest:.2f} to {each.highest:.2f}",
            "–" if each.share_of_limit is None else f"{each.share_of_limit:.2f}",
            "–" if each.least_cosine is None else f"{each.least_cosine:.5f}",
            f"{each.p50_milliseconds:.2f}",
            f"{each.p99_milliseconds:.2f}",
        )
    out.print(table)
