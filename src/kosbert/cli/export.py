"""`kosbert export` and `kosbert verify`: write a model for deployment, and check it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kosbert.cli.output import DataDirOption, EncodingOption, JsonOption, SheetOption, err, out, print_json
from kosbert.errors import UsageError

_FORMATS = ("onnx", "torch", "both")


def export(
    model: Annotated[str, typer.Argument(help="A directory, a Hugging Face name or builtin.", show_default=False)],
    directory: Annotated[
        Path | None, typer.Option("--out", help="The directory to write; MODEL-onnx by default.", show_default=False)
    ] = None,
    format: Annotated[str, typer.Option("--format", help="onnx; torch: float16 for training; both.")] = "onnx",
    int8: Annotated[
        bool, typer.Option("--int8", help="Quantize weights to int8 if the quality gate passes.")
    ] = False,
    dim: Annotated[int | None, typer.Option(min=1, help="Only the first dimensions.", show_default=False)] = None,
    pca: Annotated[
        str,
        typer.Option(metavar="SET", help="Reduce to --dim by PCA on this dataset or file.", show_default=False),
    ] = "",
    gate: Annotated[str, typer.Option(metavar="SET", help="The dataset of the quality gate.")] = "korsts-dev",
    max_drop: Annotated[float, typer.Option(min=0, help="Points of Spearman that int8 may lose.")] = 0.5,
    report: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SET", help="Score the exported model on this dataset, for its card; may be repeated.",
            show_default=False,
        ),
    ] = None,
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Export a model as one ONNX graph from token ids to embedding: kosbert export runs/nli-sts/model --int8."""
    from kosbert.data import sentences_of
    from kosbert.data.loading import read_records
    from kosbert.evaluation.evaluate import read_set
    from kosbert.export import export as run

    if format not in _FORMATS:
        raise UsageError(f"there is no format {format!r}: choose {', '.join(_FORMATS)}")
    target = directory or Path(f"{Path(model).name}-{'int8' if int8 else format}")
    options: Any = {"encoding": encoding, "sheet": sheet, "data_dir": data_dir}
    gate_pairs = (gate, read_set(gate, **options).pairs) if int8 else None
    if pca and dim is None:
        raise UsageError("PCA reduces the dimensions: give their number with --dim")
    rows = read_records(pca, **options) if pca else []
    pca_sentences = [text for row in rows for text in sentences_of(row)] if pca else None
    evaluate_on = {name: read_set(name, **options).pairs for name in report or ()}
    with err.status("exporting"):
        result = run(
            model, target, format=format, int8=int8, dim=dim, gate=gate_pairs, max_drop=max_drop,  # type: ignore[arg-type]
            pca_sentences=pca_sentences, evaluate_on=evaluate_on,
        )  # fmt: skip
    quality_gate = result.quality_gate
    if json:
        gate_json = asdict(quality_gate) | {"drop": quality_gate.drop} if quality_gate else None
        print_json({"model": str(result.path), "bytes": result.bytes, "quality_gate": gate_json})
        return
    if quality_gate:
        before, after = 100 * quality_gate.spearman_before, 100 * quality_gate.spearman_after
        out.print(f"int8 on {quality_gate.dataset}: Spearman {before:.2f} → {after:.2f} ({after - before:+.2f} points)")
    out.print(f"Model: {result.path} ({result.bytes / 1e6:.1f} MB)", soft_wrap=True)


def verify(
    directory: Annotated[Path, typer.Argument(help="A directory written by kosbert export.")],
    json: JsonOption = False,
) -> None:
    """Check an exported model: checksums, no pickle and no code, same embeddings as at export."""
    from kosbert.export.verify import verify as run

    checks = run(directory)
    if json:
        print_json({"directory": str(directory), "checks": checks})
        return
    for line in checks:
        out.print(f"[green]✓[/green] {line}")
