"""`kosbert mine`: the most similar pairs of a file, and what is in it twice."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from kosbert.cli.index import FileArgument, ModelOption, TextColumnOption
from kosbert.cli.output import JsonOption, out, print_json, whole

if TYPE_CHECKING:
    from kosbert.search.mining_report import Mined


def mine(
    file: FileArgument,
    k: Annotated[int, typer.Option("-k", min=1, help="How many pairs.")] = 20,
    threshold: Annotated[float, typer.Option(help="Cosine from which a sentence repeats an earlier one.")] = 0.95,
    dedup: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write FILE without what repeats.", show_default=False)
    ] = None,
    model: ModelOption = "builtin",
    text_column: TextColumnOption = "text",
    json: JsonOption = False,
) -> None:
    """Find the most similar pairs and near-duplicate groups of a file; --dedup writes it without them."""
    from kosbert.search.mining_report import mine as run

    found = run(file, k=k, threshold=threshold, dedup=dedup, model=model, text_column=text_column, progress=True)
    if json:
        print_json(found.to_dict())
        return
    _show(found)


def _show(found: "Mined") -> None:
    table = Table(
        Column("cosine", justify="right"), Column("lines", justify="right"), whole("one"), whole("other"),
        box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    for pair in found.pairs:
        lines = f"{pair.lines[0]}, {pair.lines[1]}"
        table.add_row(f"{pair.cosine:.3f}", lines, *map(escape, pair.texts))
    out.print(table)
    out.print(
        f"{found.sentences:,} sentences, {found.equal:,} of them equal to an earlier one, {len(found.dropped):,} "
        f"in all with a cosine of {found.threshold:g} or more to one that is kept, in {found.groups:,} groups",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if found.written:
        out.print(f"{found.sentences - len(found.dropped):,} sentences written to {found.written}", markup=False)
    for each in found.dropped[:10]:
        out.print(
            f"  line {each.line}: {each.text}\n    repeats line {each.kept_line} ({each.cosine:.3f}): {each.kept_text}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    if len(found.dropped) > 10:
        out.print(f"  … and {len(found.dropped) - 10:,} more; --json lists all", highlight=False)
