"""`kosbert diagnose`: which Korean a model understands, and how it uses its space."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kosbert import data
from kosbert.cli.output import DataDirOption, JsonOption, err, out, print_json
from kosbert.progress import progress_bars

if TYPE_CHECKING:
    from kosbert.evaluation.diagnostics import Diagnosis, Space


def diagnose(
    model: Annotated[
        str, typer.Argument(help="builtin, a directory, a Hugging Face name, or a baseline such as tfidf.")
    ] = "builtin",
    on: Annotated[
        str,
        typer.Option("--on", help="Measure the space on this split, e.g. korsts-dev; on our own sentences without it."),
    ] = "",
    examples: Annotated[
        int, typer.Option(min=0, help="How many of the worst failures to show for each phenomenon.")
    ] = 1,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Test a model on Korean minimal pairs (negation, particles, spelling, …); alignment, uniformity, anisotropy."""
    from kosbert.evaluation.diagnostics import diagnose as run
    from kosbert.evaluation.diagnostics import positives_of
    from kosbert.model import load_any

    sentences, positives = None, None
    if on:
        with progress_bars() as on_progress:
            rows = data.load(on, data_dir=data_dir, on_progress=on_progress)
        sentences = [text for row in rows for text in data.sentences_of(row)]
        positives = positives_of(rows)
    with err.status(f"encoding with {escape(model)}"):
        found = run(load_any(model, data_dir=data_dir), sentences=sentences, positives=positives)
    if json:
        print_json({"model": model, "on": on or None, **found.to_dict(examples)})
        return
    _show_phenomena(found, model)
    _show_space(found.space, on)
    _show_examples(found, examples)


def _show_phenomena(found: "Diagnosis", model: str) -> None:
    from kosbert.data.minimal_pairs import CHANGES_MEANING

    table = Table(
        "phenomenon", "meaning", "n", "passed", "95% interval", "ties", "similar if kept", "if changed", "difference",
        title=f"{escape(model)}: is the same meaning nearer? Chance is 50%; a tie fails",
    )  # fmt: skip
    for each in (*found.findings, *([found.overall] if found.overall else [])):
        share, margin = each.share, each.margin
        meaning = "" if each is found.overall else "changes" if each.phenomenon in CHANGES_MEANING else "stays"
        table.add_row(
            each.phenomenon,
            meaning,
            str(each.count),
            f"{share.value:.0%}",
            f"{share.low:.0%} to {share.high:.0%}",
            str(each.tied),
            f"{each.similarity_kept:.3f}",
            f"{each.similarity_changed:.3f}",
            f"{margin.value:+.3f} ({margin.low:+.3f} to {margin.high:+.3f})",
            end_section=each is found.findings[-1],
        )
    out.print(table)


def _show_space(space: "Space", on: str) -> None:
    where = on or "our own sentences"
    table = Table("space", "value", "reads", title=f"{space.sentences:,} sentences, {space.positives:,} pairs: {where}")
    for name, value, meaning in (
        ("alignment", space.alignment, "squared distance of pairs that say the same: 0 is best, 4 worst"),
        ("uniformity", space.uniformity, "how crowded the sphere is: less is better, 0 is one point"),
        ("mean cosine", space.mean_cosine, "of all pairs: 0 has no preferred direction, 1 is one point"),
        ("top component", space.top_1_share, "share of the variance"),
        ("top 10 components", space.top_10_share, f"share of the variance, of {space.dimensions:,} dimensions"),
        ("IsoScore", space.iso_score, "how evenly the dimensions are used: 0 one, 1 all"),
    ):
        table.add_row(name, "undefined" if value is None else f"{value:.3f}", meaning)
    out.print(table)


def _show_examples(found: "Diagnosis", most: int) -> None:
    for each in found.findings:
        for outcome in each.worst(most):
            item = outcome.item
            out.print(f"[bold]{escape(each.phenomenon)}[/] [dim]({escape(item.note)})[/] {escape(item.anchor)}")
            out.print(f"  kept    {outcome.kept:6.3f}  {escape(item.kept)}", highlight=False)
            out.print(f"  changed {outcome.changed:6.3f}  {escape(item.changed)}", highlight=False)
