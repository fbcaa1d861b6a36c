"""`kosbert encode`: a file of sentences becomes a folder of vectors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from kosbert.cli.output import JsonOption, err, out, print_json
from kosbert.errors import UsageError

if TYPE_CHECKING:
    from kosbert.bulk.shards import Manifest

_FORMS, _PRECISIONS, _ENGINES = ("parquet", "npy"), ("float32", "float16"), ("local", "ray")


def encode(
    source: Annotated[str, typer.Argument(metavar="IN", help="Text, CSV, TSV, JSON Lines or Parquet; .gz, .zst.")],
    directory: Annotated[str, typer.Option("--out", help="A folder of its own.", show_default=False)],
    model: Annotated[
        str, typer.Option("--model", "-m", help="builtin, a directory or a Hugging Face name.")
    ] = "builtin",
    text_column: Annotated[str, typer.Option(help="The column with the sentences.")] = "text",
    id_column: Annotated[str, typer.Option(help="The column with their ids; the line without it.")] = "",
    form: Annotated[str, typer.Option("--format", help="parquet or npy.")] = "parquet",
    precision: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    dim: Annotated[int | None, typer.Option(min=1, help="Only the first dimensions.", show_default=False)] = None,
    normalize: Annotated[bool, typer.Option(help="Vectors of length 1.")] = True,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Write the sentences beside their vectors.")] = False,
    shard: Annotated[int, typer.Option(min=1, help="Rows of a shard: what a kill may cost.")] = 50_000,
    engine: Annotated[str, typer.Option(help="local, or ray: Parquet in and out, on a cluster.")] = "local",
    address: Annotated[
        str, typer.Option(help="Of the Ray cluster (auto, ray://host:10001); none starts one here.", show_default=False)
    ] = "",
    workers: Annotated[int, typer.Option(min=0, help="Ray actors; 0: as many as there is room for.")] = 0,
    json: JsonOption = False,
) -> None:
    """Encode a file of any size: kosbert encode reviews.csv.gz --out vectors. Run again, it goes on where it was."""
    from kosbert.bulk import encode_file

    for value, allowed in ((form, _FORMS), (precision, _PRECISIONS), (engine, _ENGINES)):
        if value not in allowed:
            raise UsageError(f"{value!r} is impossible here: choose {' or '.join(allowed)}")
    if engine == "ray":
        if form != "parquet" or id_column or keep_text:
            raise UsageError(
                "Ray writes Parquet with every column of the input: drop --format, --id-column, --keep-text"
            )
        _on_ray(
            source, directory, json, model=model, address=address or None, workers=workers, text=text_column, dim=dim,
            normalize=normalize, precision=precision,
        )  # fmt: skip
        return
    if address or workers:
        raise UsageError("--address and --workers belong to a cluster: add --engine ray")
    columns = (
        TextColumn("encoding"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[standing]}"),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("", total=None, standing="")

        def report(position: int, size: int, manifest: "Manifest") -> None:
            standing = f"{manifest.rows:,} vectors on disk"
            bar.update(task, completed=position, total=max(1, size), standing=standing)

        done = encode_file(
            Path(source), Path(directory), model=model, text=text_column, id=id_column, form=form, precision=precision,  # type: ignore[arg-type]
            dim=dim, normalize=normalize, keep_text=keep_text, shard=shard, report=report,
        )  # fmt: skip
    if json:
        counts = {"vectors": done.rows, "rejects": done.rejects, "shards": done.shards, "remembered": done.remembered}
        print_json({"out": str(done.path), **counts})
        return
    seen = f", {done.remembered:,} of them seen before" if done.remembered else ""
    out.print(f"{done.rows:,} vectors in {done.shards} shards{seen}: {done.path}", soft_wrap=True)
    if done.rejects:
        out.print(f"{done.rejects:,} rows were rejected: {done.path / 'rejects.jsonl'}", soft_wrap=True)


def _on_ray(source: str, directory: str, json: bool, **options: Any) -> None:
    from kosbert.bulk.ray_encode import encode_on_ray

    rows = encode_on_ray(source, directory, **options)
    if json:
        print_json({"out": directory, "rows": rows})
        return
    out.print(f"{rows:,} rows with their vectors: {directory}", soft_wrap=True)
