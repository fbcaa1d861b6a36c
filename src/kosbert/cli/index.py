"""`kosbert index build|add|delete|info|evaluate`: search indexes."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kosbert.cli.output import DataDirOption, EncodingOption, JsonOption, SheetOption, out, print_json
from kosbert.progress import progress_bars

app = typer.Typer(help="Build, change and evaluate search indexes.", no_args_is_help=True)

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A .txt, .csv, .tsv, .json, .jsonl, .parquet or .xlsx file.", show_default=False
    ),
]
DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="An index.", show_default=False)]
IndexOption = Annotated[Path, typer.Option("--index", metavar="DIR", help="An index.", show_default=False)]
ModelOption = Annotated[
    str, typer.Option("--model", help="builtin, a directory, a Hugging Face name or a baseline such as random-words.")
]
TextColumnOption = Annotated[str, typer.Option("--text-column", help="The column with the sentences.")]
IdColumnOption = Annotated[
    str, typer.Option("--id-column", help="The column with the ids; 0, 1, 2, … by default.", show_default=False)
]


@app.command()
def build(
    file: FileArgument,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="A new or empty directory.", show_default=False)
    ],
    model: ModelOption = "builtin",
    backend: Annotated[
        str,
        typer.Option(
            help="exact, hnsw, binary or milvus; by default exact up to 100,000 sentences, hnsw beyond.",
            show_default=False,
        ),
    ] = "",
    precision: Annotated[str, typer.Option(help="float32, float16 or int8 (hnsw).")] = "float32",
    uri: Annotated[
        str, typer.Option(help="http://host:19530 (milvus); by default a local file in DIR.", show_default=False)
    ] = "",
    text_column: TextColumnOption = "text",
    id_column: IdColumnOption = "",
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Also index BM25, for search --hybrid.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing index.")] = False,
    json: JsonOption = False,
) -> None:
    """Encode the sentences of a file into a new index; all other columns become metadata for filters."""
    from kosbert.search.build import build as build_index

    with progress_bars() as on_progress:
        summary = build_index(
            file, directory, model=model, backend=backend, precision=precision, uri=uri, text_column=text_column,
            id_column=id_column, encoding=encoding, sheet=sheet, hybrid=hybrid, overwrite=overwrite,
            on_progress=on_progress,
        )  # fmt: skip
    if json:
        print_json(asdict(summary))
        return
    out.print(
        f"{summary.count:,} sentences in {summary.directory} ({summary.backend}, {summary.seconds:.1f} s): "
        f'kosbert search "…" --index {summary.directory}',
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


@app.command()
def add(
    file: FileArgument,
    directory: IndexOption,
    upsert: Annotated[bool, typer.Option("--upsert", help="Replace sentences whose id is already there.")] = False,
    text_column: TextColumnOption = "text",
    id_column: IdColumnOption = "",
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    json: JsonOption = False,
) -> None:
    """Add the sentences of a file atomically: after a crash the index has all of them or none."""
    from kosbert.search.build import add as add_to_index

    with progress_bars() as on_progress:
        summary = add_to_index(
            file, directory, upsert=upsert, text_column=text_column, id_column=id_column, encoding=encoding,
            sheet=sheet, on_progress=on_progress,
        )  # fmt: skip
    if json:
        print_json(asdict(summary))
        return
    out.print(f"{summary.added:,} added, {summary.count:,} sentences in {directory}", highlight=False, markup=False)


@app.command()
def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of sentences.", show_default=False)],
    directory: IndexOption,
    json: JsonOption = False,
) -> None:
    """Delete sentences by id; with an unknown id nothing is deleted."""
    from kosbert.search.index import Index

    with Index.edit(directory) as index:
        deleted = index.delete(ids)
        count = index.count()
    if json:
        print_json({"deleted": deleted, "count": count})
        return
    out.print(f"{deleted:,} deleted, {count:,} sentences in {directory}", highlight=False, markup=False)


@app.command()
def info(directory: DirectoryArgument, json: JsonOption = False) -> None:
    """Show the contents and the model of an index, and verify its checksums."""
    from kosbert.search.build import describe

    summary = asdict(describe(directory))
    if json:
        print_json(summary)
        return
    for name, value in summary.items():
        text = f"{value:,}" if isinstance(value, int) else ", ".join(value) if isinstance(value, list) else value
        out.print(f"{name:<10} {text}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def evaluate(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="An index to compare with exact search.", show_default=False),
    ] = None,
    model: ModelOption = "builtin",
    task: Annotated[str, typer.Option(help="Without DIR: parakqc, klue-nli or kornli.")] = "parakqc",
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Also score BM25 alone and hybrid search.")] = False,
    queries: Annotated[int, typer.Option(min=1, help="Sentences of DIR to use as queries.")] = 1_000,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Score an index against exact search, or a model on a retrieval task (paraphrases or entailment)."""
    from kosbert.evaluation.retrieval import evaluate_retrieval, load_task, rank_dense
    from kosbert.model import load_any
    from kosbert.search.index_evaluation import against_exact, rank_hybrid

    if directory:
        results = {"index": against_exact(directory, queries=queries)}
    else:
        retrieval_task = load_task(task, data_dir)
        encoder = load_any(model, data_dir=data_dir)
        with progress_bars() as on_progress:
            ranker = rank_hybrid if hybrid else rank_dense
            results = evaluate_retrieval(encoder, retrieval_task, ranker=ranker, on_progress=on_progress)
    if json:
        print_json(
            {
                "model": None if directory else model,
                "task": None if directory else task,
                "scores": {method: asdict(scores) for method, scores in results.items()},
            }
        )
        return
    for method, scores in results.items():
        metrics = ", ".join(f"{metric} {value:.4f}" for metric, value in scores.metrics.items())
        out.print(f"{method:<8} {metrics} ({scores.queries:,} queries)", highlight=False, markup=False, soft_wrap=True)
