"""`kosbert encode`: encode a file of sentences into a directory of vectors."""

from typing import Annotated, Any

import typer

from kosbert.cli.output import EncodingOption, JsonOption, ModelOption, SheetOption, out, print_json
from kosbert.errors import UsageError
from kosbert.progress import progress_bars

_FORMATS, _PRECISIONS, _ENGINES = ("parquet", "npy"), ("float32", "float16"), ("local", "ray")


def encode(
    source: Annotated[str, typer.Argument(metavar="IN", help="Text, CSV, TSV, JSON Lines, Parquet, .xlsx; .gz, .zst.")],
    directory: Annotated[str, typer.Option("--out", help="Output directory, new or empty.", show_default=False)],
    model: ModelOption = "builtin",
    text_column: Annotated[str, typer.Option(help="Column with the sentences.")] = "text",
    id_column: Annotated[str, typer.Option(help="Column with ids; default: the line number.")] = "",
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    format: Annotated[str, typer.Option(help="parquet or npy.")] = "parquet",
    precision: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    dim: Annotated[int | None, typer.Option(min=1, help="Keep only the first dimensions.", show_default=False)] = None,
    normalize: Annotated[bool, typer.Option(help="Scale vectors to length 1.")] = True,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Write the sentences next to their vectors.")] = False,
    shard_size: Annotated[int, typer.Option(min=1, help="Rows per shard (work lost if interrupted).")] = 50_000,
    engine: Annotated[str, typer.Option(help="local, or ray: Parquet in and out, on a cluster.")] = "local",
    address: Annotated[
        str, typer.Option(help="Ray cluster (auto, ray://host:10001); default: start a local one.", show_default=False)
    ] = "",
    workers: Annotated[int, typer.Option(min=0, help="Ray actors; 0: as many as the cluster has CPUs for.")] = 0,
    json: JsonOption = False,
) -> None:
    """Encode a file of any size: kosbert encode reviews.csv.gz --out vectors. Run it again to resume."""
    from kosbert.bulk import encode_file

    options = (("--format", format, _FORMATS), ("--precision", precision, _PRECISIONS), ("--engine", engine, _ENGINES))
    for option, value, choices in options:
        if value not in choices:
            raise UsageError(f"{option} {value} does not exist: choose {' or '.join(choices)}")
    if engine == "ray":
        if format != "parquet" or id_column or keep_text or encoding or sheet:
            raise UsageError(
                "Ray reads and writes Parquet with every column of the input: drop --format, --id-column, --keep-text, "
                "--encoding, --sheet"
            )
        _encode_on_ray(
            source, directory, json, model=model, address=address or None, workers=workers, text_column=text_column,
            truncate_dim=dim, normalize_embeddings=normalize, precision=precision,
        )  # fmt: skip
        return
    if address or workers:
        raise UsageError("--address and --workers are for a cluster: add --engine ray")
    with progress_bars() as on_progress:
        summary = encode_file(
            source, directory, model=model, text_column=text_column, id_column=id_column,
            encoding=encoding, sheet=sheet, format=format,  # type: ignore[arg-type]
            precision=precision, truncate_dim=dim, normalize_embeddings=normalize, keep_text=keep_text,  # type: ignore[arg-type]
            shard_size=shard_size, on_progress=on_progress,
        )  # fmt: skip
    if json:
        print_json(
            {
                "out": str(summary.path),
                "vectors": summary.rows,
                "rejects": summary.rejects,
                "shards": summary.shards,
                "cache_hits": summary.cache_hits,
            }
        )
        return
    cached = f", {summary.cache_hits:,} of them duplicates" if summary.cache_hits else ""
    out.print(f"{summary.rows:,} vectors in {summary.shards} shards{cached}: {summary.path}", soft_wrap=True)
    if summary.rejects:
        out.print(f"{summary.rejects:,} rows were rejected: {summary.path / 'rejects.jsonl'}", soft_wrap=True)


def _encode_on_ray(source: str, directory: str, json: bool, **options: Any) -> None:
    from kosbert.bulk.ray_encode import encode_on_ray

    rows = encode_on_ray(source, directory, **options)
    if json:
        print_json({"out": directory, "rows": rows})
        return
    out.print(f"{rows:,} rows with their vectors: {directory}", soft_wrap=True)
