"""`kosbert cluster`: cluster the sentences of a file."""

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
    from kosbert.search.cluster_report import ClusterReport


def cluster(
    file: FileArgument,
    method: Annotated[str, typer.Option(help="kmeans, agglomerative or hdbscan.")] = "kmeans",
    n_clusters: Annotated[int, typer.Option(min=0, help="Clusters (kmeans); 0: √(n/2), at most 50.")] = 0,
    threshold: Annotated[float, typer.Option(help="Average cosine to merge clusters (agglomerative).")] = 0.6,
    min_cluster_size: Annotated[int, typer.Option(min=1, help="For agglomerative and hdbscan.")] = 5,
    representatives: Annotated[int, typer.Option(min=1, help="Sentences to show per cluster.")] = 3,
    resamples: Annotated[int, typer.Option(min=0, help="Resamples to measure stability; 0 to skip it.")] = 5,
    map_path: Annotated[
        Path | None, typer.Option("--map", metavar="OUT.html", help="Also write a map.", show_default=False)
    ] = None,
    model: ModelOption = "builtin",
    text_column: TextColumnOption = "text",
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    json: JsonOption = False,
) -> None:
    """Cluster the sentences of a file: topics, representative sentences, outliers, stability, a map."""
    from kosbert.search.cluster_report import cluster as cluster_file
    from kosbert.search.clustering import ClusteringConfig

    config = ClusteringConfig(method, n_clusters, threshold, min_cluster_size, seed)
    with progress_bars() as on_progress:
        report = cluster_file(
            file, config=config, model=model, text_column=text_column, encoding=encoding, sheet=sheet,
            representatives=representatives, resamples=resamples, map_path=map_path, on_progress=on_progress,
        )  # fmt: skip
    if json:
        print_json(report.to_dict())
        return
    _print_report(report)


def _print_report(report: "ClusterReport") -> None:
    table = Table(
        Column("size", justify="right"), Column("stability", justify="right"),
        wrapped("topic"), wrapped("representatives"),
        box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    for cluster in report.clusters:
        stability = "–" if cluster.stability is None else f"{cluster.stability:.2f}"
        representatives = "\n".join(map(escape, cluster.representatives))
        table.add_row(f"{cluster.size:,}", stability, escape(", ".join(cluster.topic)), representatives)
    out.print(table)
    stability = "" if report.stability is None else f", stability {report.stability:.2f} (stable: ≥ 0.75)"
    out.print(
        f"{report.sentences:,} sentences, {len(report.clusters)} clusters by {report.method}, "
        f"{report.unassigned:,} unassigned{stability}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    for text in report.outliers[:5]:
        out.print(f"  outlier: {text}", highlight=False, markup=False, soft_wrap=True)
    if report.map:
        out.print(f"map: {report.map}", highlight=False, markup=False, soft_wrap=True)
