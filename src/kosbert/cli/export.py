"""`kosbert export` and `kosbert verify`: a model for others to run."""

from pathlib import Path
from typing import Annotated

import typer

from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json
from kosbert.errors import UsageError

_FORMS = ("onnx", "torch", "both")


def export(
    model: Annotated[str, typer.Argument(help="A directory, a Hugging Face name or builtin.", show_default=False)],
    directory: Annotated[
        Path | None, typer.Option("--out", help="A directory of its own; MODEL-onnx without it.", show_default=False)
    ] = None,
    form: Annotated[str, typer.Option("--format", help="onnx; torch: float16 for training; both.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Whole numbers for the weights, if the gate lets it.")] = False,
    dim: Annotated[int | None, typer.Option(min=1, help="Only the first dimensions.", show_default=False)] = None,
    pca: Annotated[
        str,
        typer.Option(metavar="SET", help="For --dim: main axes of this text (a data set or file).", show_default=False),
    ] = "",
    gate: Annotated[str, typer.Option(help="The set on which the cost of int8 is measured.")] = "korsts-dev",
    max_drop: Annotated[float, typer.Option(min=0, help="Points of Spearman that int8 may cost.")] = 0.5,
    report: Annotated[
        list[str] | None,
        typer.Option(help="Score what is written on this set, for its card; may be repeated.", show_default=False),
    ] = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Write one ONNX graph from token ids to the vector: kosbert export runs/nli-sts/model --int8."""
    from kosbert.data import sentences_of
    from kosbert.data.loading import read_records
    from kosbert.evaluation.evaluate import read_set
    from kosbert.export import export as write

    if form not in _FORMS:
        raise UsageError(f"there is no format {form!r}: choose {', '.join(_FORMS)}")
    target = directory or Path(f"{Path(model).name}-{'int8' if int8 else form}")
    pairs = (gate, read_set(gate, folder=data_dir).pairs) if int8 else None
    if pca and dim is None:
        raise UsageError("main axes are for fewer dimensions: say how many with --dim")
    rows = read_records(pca, data_dir=data_dir) if pca else []
    axes_of = [text for row in rows for text in sentences_of(row)] if pca else None
    reported = {name: read_set(name, folder=data_dir).pairs for name in report or ()}
    with err.status("writing the graph"):
        made = write(
            model, target, form=form, int8=int8, dim=dim, gate=pairs, max_drop=max_drop, axes_of=axes_of,  # type: ignore[arg-type]
            report=reported,
        )  # fmt: skip
    cost = made.gate
    if json:
        note = {"on": cost.on, "before": cost.before, "after": cost.after, "drop": cost.drop} if cost else None
        print_json({"model": str(made.path), "bytes": made.bytes, "gate": note})
        return
    if cost:
        out.print(f"int8 on {cost.on}: {100 * cost.before:.2f} → {100 * cost.after:.2f}, {cost.drop:+.2f} points lost")
    out.print(f"Model: {made.path} ({made.bytes / 1e6:.1f} MB)", soft_wrap=True)


def verify(
    directory: Annotated[Path, typer.Argument(help="What kosbert export wrote.")],
    json: JsonOption = False,
) -> None:
    """Check an exported model: checksums, no pickle and no code, the same vectors as when it was written."""
    from kosbert.export.verify import verify as check

    found = check(directory)
    if json:
        print_json({"directory": str(directory), "checks": found})
        return
    for line in found:
        out.print(f"[green]✓[/green] {line}")
