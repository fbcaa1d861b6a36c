"""`kosbert cluster`: what the sentences of a file are about."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from kosbert.cli.index import FileArgument, ModelOption, TextColumnOption
from kosbert.cli.output import JsonOption, err, out, print_json, whole

if TYPE_CHECKING:
    from kosbert.search.cluster_report import Grouped


def cluster(
    file: FileArgument,
    method: Annotated[str, typer.Option(help="kmeans, agglomerative or hdbscan.")] = "kmeans",
    clusters: Annotated[int, typer.Option("--clusters", min=0, help="How many, of kmeans; 0: √(n/2), at most 50.")] = 0,
    threshold: Annotated[float, typer.Option(help="Average cosine that joins groups, of agglomerative.")] = 0.6,
    smallest: Annotated[
        int, typer.Option(min=1, help="Sentences of the smallest group, of agglomerative and hdbscan.")
    ] = 5,
    representatives: Annotated[int, typer.Option(min=1, help="Typical sentences to show of each.")] = 3,
    resamples: Annotated[int, typer.Option(min=0, help="Groupings anew that measure stability; 0 for none.")] = 5,
    page: Annotated[
        Path | None, typer.Option("--map", metavar="OUT.html", help="Also draw a map to look at.", show_default=False)
    ] = None,
    model: ModelOption = "builtin",
    text_column: TextColumnOption = "text",
    seed: Annotated[int, typer.Option(help="Seed of what is random.")] = 0,
    json: JsonOption = False,
) -> None:
    """Group the sentences of a file: topics, typical sentences, outliers, stability, and a map."""
    from kosbert.search.cluster_report import cluster as run
    from kosbert.search.clustering import Settings

    settings = Settings(method, clusters, threshold, smallest, seed)
    found = run(
        file, settings=settings, model=model, text_column=text_column, representatives=representatives,
        resamples=resamples, page=page, progress=True, report=lambda doing: err.print(doing, style="dim"),
    )  # fmt: skip
    if json:
        print_json(found.to_dict())
        return
    _show(found)


def _show(found: "Grouped") -> None:
    table = Table(
        Column("size", justify="right"), Column("stability", justify="right"), whole("topic"), whole("typical"),
        box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    for each in found.groups:
        stability = "–" if each.stability is None else f"{each.stability:.2f}"
        typical = "\n".join(map(escape, each.representatives))
        table.add_row(f"{each.size:,}", stability, escape(", ".join(each.topic)), typical)
    out.print(table)
    overall = "" if found.stability is None else f", stability {found.stability:.2f} (0.75 and more is stable)"
    out.print(
        f"{found.sentences:,} sentences, {len(found.groups)} groups by {found.method}, "
        f"{found.unassigned:,} in none{overall}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    for text in found.outliers[:5]:
        out.print(f"  far from all: {text}", highlight=False, markup=False, soft_wrap=True)
    if found.map:
        out.print(f"map: {found.map}", highlight=False, markup=False, soft_wrap=True)
