"""`kosbert bench`: speed of a model on this machine with every inference method."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from kosbert.cli.output import DataDirOption, EncodingOption, JsonOption, SheetOption, out, print_json, wrapped
from kosbert.progress import progress_bars

if TYPE_CHECKING:
    from kosbert.benchmark.bench import BenchmarkResult


def bench(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A directory or a Hugging Face name; the shape of BERT-base by default.", show_default=False
        ),
    ] = None,
    on: Annotated[str, typer.Option(help="Sentences of this split or file.")] = "korsts-test",
    sentences: Annotated[int, typer.Option(min=32, help="Number of texts, sampled at random.")] = 500,
    join: Annotated[int, typer.Option(min=1, help="Sentences per text; more give long documents.")] = 1,
    rounds: Annotated[int, typer.Option(min=2, help="Measurements of each method.")] = 5,
    figure: Annotated[Path | None, typer.Option(help="Draw the ratios into this SVG file.", show_default=False)] = None,
    encoding: EncodingOption = "",
    sheet: SheetOption = "",
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Compare torch, ONNX and int8 with sentence-transformers and the machine's peak (takes minutes)."""
    import numpy as np

    from kosbert.benchmark.bench import bench as run
    from kosbert.data.loading import read_records
    from kosbert.data.records import sentences_of

    rows = read_records(on, encoding=encoding, sheet=sheet, data_dir=data_dir)
    distinct = list(dict.fromkeys(text for row in rows for text in sentences_of(row) if text.strip()))
    shuffled = [distinct[index] for index in np.random.default_rng(0).permutation(len(distinct))]
    texts = [" ".join(shuffled[start : start + join]) for start in range(0, len(shuffled), join)][:sentences]
    with progress_bars() as on_progress:
        result = run(texts, model, rounds=rounds, on_progress=on_progress)
    if json:
        print_json({"on": on, **asdict(result)})
    else:
        _print_table(result, on)
    if figure:
        _draw_ratios(result, figure)  # last: an error here does not lose the measurements


def _draw_ratios(result: "BenchmarkResult", file: Path) -> None:
    """Draw the ratios of all methods that run this model; builtin is another model."""
    from kosbert.study.figures import forest, standalone

    rows: dict[str, tuple[float, float, float, list[float]]] = {
        method.method: (method.ratio, method.min_ratio, method.max_ratio, [])
        for method in result.methods
        if method.min_cosine is not None
    }
    label = f"Speed relative to {result.methods[0].method}; {result.model}, {result.threads} threads"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(standalone(forest(rows, label, letters=52, digits=2)), encoding="utf-8")


def _print_table(result: "BenchmarkResult", on: str) -> None:
    title = (
        f"{result.model}: {result.parameters / 1e6:.1f}M parameters, {result.sentences} texts of {on}, "
        f"{result.tokens_per_sentence:.1f} tokens each, {result.threads} threads, peak {result.peak_gflops:.0f} GFLOP/s"
    )
    table = Table(wrapped("method"), title=title, box=box.SIMPLE, collapse_padding=True, pad_edge=False)
    for heading in ("texts/s", "ratio", "min to max", "of peak", "min cosine", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right")
    for method in result.methods:
        table.add_row(
            method.method,
            f"{method.sentences_per_second:,.0f}",
            f"{method.ratio:.2f}×",
            f"{method.min_ratio:.2f} to {method.max_ratio:.2f}",
            "–" if method.peak_share is None else f"{method.peak_share:.2f}",
            "–" if method.min_cosine is None else f"{method.min_cosine:.5f}",
            f"{method.p50_ms:.2f}",
            f"{method.p99_ms:.2f}",
        )
    out.print(table)
