"""`kosbert mine`: similar pairs and duplicates in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from kosbert.cli.index import FileArgument, ModelOption, TextColumnOption
from kosbert.cli.output import EncodingOption, JsonOption, SheetOption, out, print_json, wrapped
from kosbert.progress import progress_bars

if TYPE_CHECKING:
    from kosbert.search.mining_report import MiningReport

_MAX_DUPLICATES = 10


def mine(
    file: FileArgument,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of pairs.")] = 20,
    threshold: Annotated[float, typer.Option(help="Cosine from which a sentence is a duplicate.")] = 0.95,
    dedup: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write FILE without duplicates.", show_default=False)
    ] = None,
    model: ModelOption = "builtin",
    text_column: TextColumnOption = "text",
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    json: JsonOption = False,
) -> None:
    """Find the most similar pairs and the duplicates of a file; --dedup writes a copy without duplicates."""
    from kosbert.search.mining_report import mine as mine_file

    with progress_bars() as on_progress:
        report = mine_file(
            file, k=k, threshold=threshold, dedup=dedup, model=model, text_column=text_column, encoding=encoding,
            sheet=sheet, on_progress=on_progress,
        )  # fmt: skip
    if json:
        print_json(report.to_dict())
        return
    _print_report(report)


def _print_report(report: "MiningReport") -> None:
    table = Table(
        Column("cosine", justify="right"), Column("lines", justify="right"),
        wrapped("sentence 1"), wrapped("sentence 2"),
        box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    for pair in report.pairs:
        table.add_row(f"{pair.cosine:.3f}", f"{pair.lines[0]}, {pair.lines[1]}", *map(escape, pair.texts))
    out.print(table)
    out.print(
        f"{report.sentences:,} sentences, {len(report.duplicates):,} duplicates of {report.duplicate_groups:,} "
        f"sentences (cosine ≥ {report.threshold:g}), {report.exact_duplicates:,} of them exact",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if report.dedup_file:
        kept = report.sentences - len(report.duplicates)
        out.print(f"{kept:,} sentences written to {report.dedup_file}", markup=False)
    for duplicate in report.duplicates[:_MAX_DUPLICATES]:
        out.print(
            f"  line {duplicate.line}: {duplicate.text}\n"
            f"    duplicate of line {duplicate.kept_line} ({duplicate.cosine:.3f}): {duplicate.kept_text}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    if len(report.duplicates) > _MAX_DUPLICATES:
        more = len(report.duplicates) - _MAX_DUPLICATES
        out.print(f"  … and {more:,} more; --json lists all", highlight=False)
