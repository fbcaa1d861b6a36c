"""Tables of a report, for HTML, Markdown and the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from kosbert.evaluation.sts import CORRELATIONS
from kosbert.study.summarize import ranking, selected_on_dev
from kosbert.study.summary import EvalSet, Example, SeedMean, SliceScores, StudySummary, VariantMean, VariantSummary


@dataclass(frozen=True)
class Cell:
    """A table cell: text, small text after it, a CSS class, and a bar of relative length 0 to 1."""

    text: str
    small: str = ""
    css: str = ""
    bar: float | None = None


EMPTY = Cell("–")


@dataclass(frozen=True)
class Table:
    """A table; a row with a single cell is the heading of a group."""

    header: list[str]
    rows: list[list[Cell]]
    highlighted: tuple[int, ...] = ()

    def html(self) -> str:
        """Return HTML inside a box that scrolls on narrow screens."""
        header = "".join(f"<th{_text_class(name)}>{escape(name)}</th>" for name in self.header)
        body = []
        for number, row in enumerate(self.rows):
            cells = "".join(map(_html_cell, row))
            if len(row) == 1:
                cells = f'<td class="group" colspan="{len(self.header)}">{escape(row[0].text)}</td>'
            css = ' class="best"' if number in self.highlighted else ""
            body.append(f"<tr{css}>{cells}</tr>")
        table = f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        return f'<div class="scroll" tabindex="0">{table}</div>'

    def markdown(self) -> str:
        """Return a Markdown table; highlighted rows and the best value of a slice are bold."""
        lines = ["| " + " | ".join(map(_markdown_text, self.header)) + " |"]
        lines.append("|" + "---|" * len(self.header))
        for number, row in enumerate(self.rows):
            cells = [_markdown_text(f"{cell.text} {cell.small}".strip()) for cell in row]
            cells = [f"**{text}**" if cell.css == "top" else text for cell, text in zip(row, cells, strict=True)]
            cells += [""] * (len(self.header) - len(cells))
            if number in self.highlighted or len(row) == 1:
                cells[0] = f"**{cells[0]}**"
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)


def _text_class(name: str) -> str:
    return ' class="text"' if name.startswith("sentence ") else ""


def _html_cell(cell: Cell) -> str:
    small = f" <small>{escape(cell.small)}</small>" if cell.small else ""
    bar = "" if cell.bar is None else f'<span class="bar" style="width:{6 * cell.bar:.2f}rem"></span> '
    css = f' class="{cell.css}"' if cell.css else ""
    return f"<td{css}>{bar}{escape(cell.text)}{small}</td>"


def _markdown_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def percent(value: float | None, digits: int = 2) -> str:
    """Format a correlation or accuracy ×100."""
    return "–" if value is None else f"{100 * value:.{digits}f}".replace("-", "−")


def points(difference: float) -> str:
    """Format a difference in points with its sign and a true minus."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def mean_and_std(score: SeedMean | VariantMean | None) -> Cell:
    """Format mean ± standard deviation over seeds."""
    if score is None:
        return Cell("undefined", css="dim")
    return Cell(percent(score.mean), f"± {percent(score.std)}" if score.std is not None else "")


def results_table(summary: StudySummary) -> Table:
    """Return the main table: one row per variant with Pearson, Spearman and intervals, next to published scores."""
    tests, dev, published = summary.test_sets, summary.dev_set, summary.published_scores
    has_accuracy = any(variant.nli_accuracy for variant in summary.variants)
    has_sizes = len({variant.bytes_per_vector for variant in summary.variants if variant.bytes_per_vector}) > 1
    has_pearson = any("cosine_pearson" in variant.published for variant in summary.variants)
    header = ["variant", "seeds"]
    for test in tests:
        header += [f"{test.name}: Pearson", "Spearman", "95% CI"]
    if has_accuracy:
        header.append("NLI accuracy")
    if has_sizes:
        header.append("bytes per vector")
    if published:
        header.append(f"published, {published.dataset}: {'Pearson / ' if has_pearson else ''}Spearman")
    header.append("dev")
    rows = []
    for variant in summary.variants:
        name = variant.name
        seeds = next((test.scores[name].seeds for test in tests if name in test.scores), [])
        cells = [Cell(name), Cell(str(len(seeds)))]
        for test in tests:
            cells += _score_cells(test, variant, with_reason=test is tests[0])
        if has_accuracy:
            cells.append(mean_and_std(variant.nli_accuracy) if variant.nli_accuracy else EMPTY)
        if has_sizes:
            cells.append(EMPTY if variant.bytes_per_vector is None else Cell(f"{variant.bytes_per_vector:,}"))
        if published:
            metrics = ("cosine_pearson", "cosine_spearman") if has_pearson else ("cosine_spearman",)
            values = [percent(variant.published.get(metric)) for metric in metrics]
            cells.append(Cell(" / ".join(values)) if variant.published else EMPTY)
        cells.append(mean_and_std(dev.scores[name].spearman) if dev and name in dev.scores else EMPTY)
        rows.append(cells)
    best = ranking(summary)[:1]
    return Table(header, rows, tuple(n for n, name in enumerate(summary.variant_names) if name in best))


def _score_cells(test: EvalSet, variant: VariantSummary, with_reason: bool) -> list[Cell]:
    scores = test.scores.get(variant.name)
    if scores is None:
        reason = "undefined" if variant.name in test.undefined else "not measured"
        reason = "failed" if variant.failed else reason
        return [EMPTY, Cell("–", reason if with_reason else "", "dim"), EMPTY]
    spearman = scores.spearman
    interval = f"{percent(spearman.ci_low, 1)} to {percent(spearman.ci_high, 1)}"
    return [mean_and_std(scores.metrics["cosine_pearson"]), mean_and_std(spearman), Cell(interval)]


def metrics_table(test: EvalSet, variants: Sequence[str]) -> Table:
    """Return all eight STS metrics and their average, means over seeds, above the published ones."""
    names = ["average", *CORRELATIONS]
    rows = []
    for variant in variants:
        if variant in test.scores:
            metrics = test.scores[variant].metrics
            scores = [metrics.get(name) for name in names]
            rows.append([Cell(variant), *(Cell(percent(score.mean if score else None)) for score in scores)])
    if test.published:
        rows.append([Cell("published")])
        for model, values in test.published.items():
            rows.append([Cell(model), *(Cell(percent(values.get(name))) for name in names)])
    return Table(["variant", *(name.replace("_", ", ") for name in names)], rows)


def significance_table(test: EvalSet, variants: Sequence[str]) -> Table:
    """Return the difference of every two variants (row minus column); n.s. marks those that are not significant."""
    names = [variant for variant in variants if variant in test.scores]
    comparisons = {frozenset((item.first, item.second)): item for item in test.comparisons}
    rows = []
    for row in names:
        cells = [Cell(row)]
        for column in names:
            if row == column:
                cells.append(Cell("·", css="self"))
                continue
            comparison = comparisons[frozenset((row, column))]
            p_value = comparison.p_value
            difference = comparison.difference if comparison.first == row else -comparison.difference
            if comparison.significant:
                small = f"p {'< 0.001' if p_value < 0.001 else f'= {p_value:.3f}'}"
                cells.append(Cell(points(difference), small, "better" if comparison.winner == row else "worse"))
            else:
                cells.append(Cell(points(difference), "n.s.", "ns"))
        rows.append(cells)
    return Table(["row minus column", *names], rows)


def slice_table(slices: Sequence[SliceScores], variants: Sequence[str]) -> Table:
    """Return Spearman by slice of a test set; the best variant of each slice is bold."""
    names = [variant for variant in variants if any(variant in part.spearman for part in slices)]
    rows: list[list[Cell]] = []
    for kind, group in groupby(slices, key=lambda part: part.kind):
        rows.append([Cell(f"by {kind}")])
        for part in group:
            values = [part.spearman.get(name) for name in names]
            top = max((value for value in values if value is not None), default=None)
            cells = [
                Cell(percent(value, 1), css="top" if value is not None and value == top else "") for value in values
            ]
            rows.append([Cell(part.name), Cell(f"{part.pairs:,}"), *cells])
    return Table(["slice", "pairs", *names], rows)


def example_table(examples: Sequence[Example], best: str, runner_up: str) -> Table:
    """Return example pairs with the human score and the ranks of the two best variants."""
    titles = {"best": f"{best} is closer to the human score", "runner_up": f"{runner_up} is closer to the human score"}
    with_texts = any(example.sentence1 is not None for example in examples)
    rows: list[list[Cell]] = []
    for closer, group in groupby(examples, key=lambda example: example.closer):
        rows.append([Cell(titles[closer])])
        for example in group:
            texts = [example.sentence1 or "", example.sentence2 or ""] if with_texts else [str(example.pair)]
            scores = (example.gold, example.best, example.runner_up)
            rows.append(
                [*(Cell(text, css="text") for text in texts), *(Cell(f"{score:.1f}") for score in scores),
                 Cell(example.source or "–", css="dim")]
            )  # fmt: skip
    return Table(
        [*(("sentence 1", "sentence 2") if with_texts else ("pair",)), "human", best, runner_up, "source"], rows
    )


def dev_by_epoch_table(summary: StudySummary, ours: Mapping[str, Sequence[float | None]]) -> Table:
    """Return the dev score after each epoch of the last stage: the published ones above ours (means over seeds)."""
    published = {variant.name: variant.published_dev for variant in summary.variants if variant.published_dev}
    epochs = max(map(len, published.values()), default=0)
    rows = []
    for name, scores in published.items():
        for label, values in (("published", scores), ("ours", ours.get(name, ()))):
            cells = [Cell(percent(value)) for value in values]
            rows.append([Cell(name), Cell(label), *cells, *([EMPTY] * (epochs - len(cells)))])
    return Table(["variant", "", *(f"epoch {number}" for number in range(1, epochs + 1))], rows)


def cost_table(variants: Sequence[VariantSummary]) -> Table:
    """Return the training cost of each variant, and the part that no variant above shares."""
    longest = max((variant.seconds_per_seed or 0.0 for variant in variants), default=0.0) or 1.0
    rows = []
    for variant in variants:
        seconds = variant.seconds_per_seed
        rows.append(
            [
                Cell(variant.name),
                Cell(" → ".join(variant.stages) or "no training"),
                Cell(f"{variant.steps:,}") if variant.steps else EMPTY,
                EMPTY if seconds is None else Cell(_duration(seconds), bar=seconds / longest),
                Cell(_duration(variant.new_seconds) if variant.new_seconds else "0 s"),
            ]
        )
    return Table(["variant", "stages", "steps", "time per seed", "not shared, all seeds"], rows)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def dev_note(summary: StudySummary) -> str:
    """Return whether selection on dev leads to the variant that is best on test."""
    selected, order = selected_on_dev(summary), ranking(summary)
    if not selected or not order:
        return ""
    if selected == order[0]:
        return f"Selection on dev picks {selected} as well."
    return f"Selection on dev picks {selected}, which is not the best variant on test."
