"""`kosbert index build|add|delete|info|evaluate`: sentences of a file, ready to be searched."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kosbert.cli.output import DataDirOption, JsonOption, out, print_json
from kosbert.progress import progress_bars

app = typer.Typer(help="Keep sentences ready to be searched by meaning.", no_args_is_help=True)

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A .txt, .csv, .tsv, .json, .jsonl or .parquet file.", show_default=False)
]
DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="An index.", show_default=False)]
ModelOption = Annotated[
    str, typer.Option("--model", help="builtin, a directory, a Hugging Face name or a baseline such as random-words.")
]
TextColumnOption = Annotated[str, typer.Option("--text-column", help="The column of the sentences.")]
IdColumnOption = Annotated[
    str, typer.Option("--id-column", help="The column of the ids; running numbers without it.", show_default=False)
]


@app.command()
def build(
    file: FileArgument,
    directory: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to.", show_default=False)],
    model: ModelOption = "builtin",
    kind: Annotated[
        str,
        typer.Option(
            help="exact, hnsw, binary or milvus; exact up to 100,000 sentences, hnsw beyond.", show_default=False
        ),
    ] = "",
    precision: Annotated[str, typer.Option(help="Of hnsw: float32, float16 or int8.")] = "float32",
    address: Annotated[
        str, typer.Option(help="Of milvus: http://host:19530; a local file in DIR without it.", show_default=False)
    ] = "",
    text_column: TextColumnOption = "text",
    id_column: IdColumnOption = "",
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Also keep words, for search --hybrid.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index that is there.")] = False,
    json: JsonOption = False,
) -> None:
    """Encode the sentences of a file into a new index; all other columns become metadata to filter by."""
    from kosbert.search.build import build as run

    done = run(
        file, directory, model=model, kind=kind, precision=precision, address=address, text_column=text_column,
        id_column=id_column, hybrid=hybrid, overwrite=overwrite, progress=True,
    )  # fmt: skip
    if json:
        print_json(asdict(done))
        return
    out.print(
        f"{done.count:,} sentences in {done.directory} ({done.kind}, {done.seconds:.1f} s): "
        f'kosbert search "…" --index {done.directory}',
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


@app.command()
def add(
    file: FileArgument,
    directory: Annotated[Path, typer.Option("--index", metavar="DIR", help="An index.", show_default=False)],
    upsert: Annotated[bool, typer.Option("--upsert", help="Replace sentences whose id is there already.")] = False,
    text_column: TextColumnOption = "text",
    id_column: IdColumnOption = "",
    json: JsonOption = False,
) -> None:
    """Add the sentences of a file: all of them or, should the computer fail, none."""
    from kosbert.search.build import add as run

    done = run(
        file, directory, upsert=upsert, text_column=text_column, id_column=id_column, progress=True
    )  # fmt: skip
    if json:
        print_json(asdict(done))
        return
    out.print(f"{done.added:,} added, {done.count:,} sentences in {directory}", highlight=False, markup=False)


@app.command()
def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, as search shows them.", show_default=False)],
    directory: Annotated[Path, typer.Option("--index", metavar="DIR", help="An index.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Delete sentences by their ids; with an unknown id among them, none."""
    from kosbert.search.index import Index

    with Index.change(directory) as index:
        deleted = index.delete(ids)
        count = index.count()
    if json:
        print_json({"deleted": deleted, "count": count})
        return
    out.print(f"{deleted:,} deleted, {count:,} sentences in {directory}", highlight=False, markup=False)


@app.command()
def info(directory: DirectoryArgument, json: JsonOption = False) -> None:
    """Show what an index holds and which model made it, and check its files."""
    from kosbert.search.build import describe

    found = describe(directory)
    if json:
        print_json(asdict(found))
        return
    for name, value in asdict(found).items():
        shown = f"{value:,}" if isinstance(value, int) else ", ".join(value) if isinstance(value, list) else value
        out.print(f"{name:<10} {shown}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def evaluate(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="An index: is what it finds what exact search finds?", show_default=False),
    ] = None,
    model: ModelOption = "builtin",
    on: Annotated[str, typer.Option(help="Without DIR: parakqc, klue-nli or kornli.")] = "parakqc",
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Also score BM25 alone and hybrid search.")] = False,
    queries: Annotated[int, typer.Option(min=1, help="Sentences of DIR that are searched for.")] = 1_000,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Retrieval scores: of an index against exact search, or of a model: find paraphrases, or what is entailed."""
    from kosbert.evaluation.retrieval import evaluate_retrieval, load_task, rank_dense
    from kosbert.model import load_any
    from kosbert.search.index_evaluation import against_exact, rank_hybrid

    if directory:
        results = {"index": against_exact(directory, queries=queries)}
    else:
        task = load_task(on, data_dir)
        encoder = load_any(model, data_dir=data_dir)
        with progress_bars() as on_progress:
            ranker = rank_hybrid if hybrid else rank_dense
            results = evaluate_retrieval(encoder, task, ranker=ranker, on_progress=on_progress)
    if json:
        print_json(
            {
                "model": None if directory else model,
                "on": None if directory else on,
                "scores": {method: asdict(scores) for method, scores in results.items()},
            }
        )
        return
    for method, scores in results.items():
        metrics = ", ".join(f"{metric} {value:.4f}" for metric, value in scores.metrics.items())
        out.print(f"{method:<8} {metrics} ({scores.queries:,} queries)", highlight=False, markup=False, soft_wrap=True)
