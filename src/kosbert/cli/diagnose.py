"""`kosbert diagnose`: which Korean phenomena a model distinguishes, and how its embeddings use their space."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from kosbert import data
from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json
from kosbert.progress import progress_bars

if TYPE_CHECKING:
    from kosbert.evaluation.diagnostics import Diagnosis, EmbeddingSpaceStats


def diagnose(
    model: Annotated[
        str, typer.Argument(help="builtin, a directory, a Hugging Face name, or a baseline such as tfidf.")
    ] = "builtin",
    on: Annotated[
        str,
        typer.Option("--on", help="Measure the space on this split, e.g. korsts-dev; on the minimal pairs by default."),
    ] = "",
    examples: Annotated[int, typer.Option(min=0, help="Failures to show per phenomenon, worst first.")] = 1,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Test a model on Korean minimal pairs (negation, particles, spelling, …); alignment, uniformity, anisotropy."""
    from kosbert.evaluation.diagnostics import diagnose as run
    from kosbert.evaluation.diagnostics import positive_pairs
    from kosbert.model import load_any

    sentences, positives = None, None
    if on:
        with progress_bars() as on_progress:
            rows = data.load(on, data_dir=data_dir, on_progress=on_progress)
        sentences = [text for row in rows for text in data.sentences_of(row)]
        positives = positive_pairs(rows)
    with err.status(f"encoding with {escape(model)}"):
        diagnosis = run(load_any(model, data_dir=data_dir), sentences=sentences, positives=positives)
    if json:
        print_json({"model": model, "on": on or None, **diagnosis.to_dict(examples)})
        return
    _print_phenomena(diagnosis, model)
    _print_space(diagnosis.space, on)
    _print_examples(diagnosis, examples)


def _print_phenomena(diagnosis: "Diagnosis", model: str) -> None:
    from kosbert.data.minimal_pairs import CHANGES_MEANING

    table = Table(
        title=f"{escape(model)}: minimal pairs whose paraphrase has the higher cosine (chance 50%)",
        box=box.SIMPLE, collapse_padding=True, pad_edge=False,
    )  # fmt: skip
    table.add_column("phenomenon")
    table.add_column("meaning")
    for heading in ("n", "accuracy", "95% CI", "ties", "paraphrase", "changed", "margin"):
        table.add_column(heading, justify="right")
    for result in (*diagnosis.phenomena, *([diagnosis.overall] if diagnosis.overall else [])):
        meaning = "changes" if result.phenomenon in CHANGES_MEANING else "stays"
        table.add_row(
            result.phenomenon,
            "" if result is diagnosis.overall else meaning,
            str(result.count),
            f"{result.accuracy.value:.0%}",
            f"{100 * result.accuracy.low:.0f}–{result.accuracy.high:.0%}",
            str(result.tied),
            f"{result.paraphrase_cosine:.3f}",
            f"{result.changed_cosine:.3f}",
            f"{result.margin.value:+.3f}",
            end_section=result is diagnosis.phenomena[-1],
        )
    out.print(table)


def _print_space(space: "EmbeddingSpaceStats", on: str) -> None:
    source = on or "the minimal pairs"
    table = Table(
        "space", "value", "how to read it",
        title=f"{space.sentences:,} sentences and {space.positive_pairs:,} paraphrases of {source}",
        box=box.SIMPLE, collapse_padding=True, pad_edge=False,
    )  # fmt: skip
    for name, value, meaning in (
        ("alignment", space.alignment, "squared distance of paraphrases: 0 is best, 4 worst"),
        ("uniformity", space.uniformity, "lower is more uniform; 0 is a single point"),
        ("mean cosine", space.mean_cosine, "of all pairs; 0 is isotropic, 1 a single point"),
        ("top component", space.top_1_variance, "share of the variance"),
        ("top 10 components", space.top_10_variance, f"share of the variance, of {space.dimensions:,} dimensions"),
        ("IsoScore", space.iso_score, "how evenly dimensions are used: 0 one, 1 all"),
    ):
        table.add_row(name, "undefined" if value is None else f"{value:.3f}", meaning)
    out.print(table)


def _print_examples(diagnosis: "Diagnosis", limit: int) -> None:
    for phenomenon in diagnosis.phenomena:
        for result in phenomenon.worst(limit):
            item = result.item
            out.print(f"[bold]{escape(phenomenon.phenomenon)}[/] [dim]({escape(item.note)})[/] {escape(item.anchor)}")
            out.print(f"  paraphrase {result.paraphrase_cosine:6.3f}  {escape(item.paraphrase)}", highlight=False)
            out.print(f"  changed    {result.changed_cosine:6.3f}  {escape(item.changed)}", highlight=False)
