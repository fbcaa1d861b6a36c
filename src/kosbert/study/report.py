"""The report of a study: a self-contained HTML page, and Markdown with the figures as files.

The page has no script and loads nothing from the network. All text from data or names is escaped.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from kosbert.files import write_text
from kosbert.study import figures
from kosbert.study.analysis import EmbeddingMap, embedding_map
from kosbert.study.runner import StudyOutcome
from kosbert.study.store import StoredRun, StudyContext, write_json
from kosbert.study.summarize import ranking, summarize
from kosbert.study.summary import Machine, Provenance, ReportSummary, StudySummary
from kosbert.study.tables import (
    Table,
    cost_table,
    dev_by_epoch_table,
    dev_note,
    example_table,
    metrics_table,
    results_table,
    significance_table,
    slice_table,
)

METHOD = (
    "Scores are Spearman correlations between cosine similarity and human score, computed over all pairs of a set at "
    "once. The checkpoint of every stage is selected on dev. Mean ± standard deviation are over seeds. The 95% "
    "confidence intervals and the significance tests count both sources of variance: the seeds, and the sample of test "
    "pairs (bootstrap with 1,000 resamples, the same pairs for all variants), combined in Student’s t with "
    "Welch–Satterthwaite degrees of freedom. Variants are matched by seed. P-values are Holm-corrected over all pairs "
    "of variants of a test set. A difference with p ≥ 0.05 is not significant (n.s.), however large it looks; the "
    "answer calls such variants tied if they are less than 3 points apart."
)
SINGLE_SEED = "With one seed the tests hold for these models only: another seed may rank the variants differently."


@dataclass(frozen=True)
class Figure:
    """A figure of the report: file name without suffix, caption, SVG."""

    name: str
    caption: str
    svg: str


class Section:
    """One section of the report in HTML and Markdown."""

    def __init__(self, title: str, note: str = "") -> None:
        self.title = title
        self.html = [f"<h2>{escape(title)}</h2>"]
        self.markdown = [f"## {title}", ""]
        self.figures: list[Figure] = []
        if note:
            self.add_note(note)

    def add_note(self, text: str) -> None:
        """Add a paragraph in small print."""
        self.html.append(f'<p class="note">{escape(text)}</p>')
        self.markdown += [text, ""]

    def add_table(self, table: Table, title: str = "") -> None:
        """Add a table, with a heading if there are several."""
        if title:
            self.html.append(f"<h3>{escape(title)}</h3>")
            self.markdown += [f"### {title}", ""]
        self.html.append(table.html())
        self.markdown += [table.markdown(), ""]

    def add_figures(self, panels: Sequence[Figure], wide: bool = False) -> None:
        """Add figures side by side; an empty SVG is left out."""
        panels = [panel for panel in panels if panel.svg]
        self.figures += panels
        html = (f"<figure><figcaption>{escape(panel.caption)}</figcaption>{panel.svg}</figure>" for panel in panels)
        self.html.append(f'<div class="panels{" wide" if wide else ""}">{"".join(html)}</div>')
        for panel in panels:
            caption = panel.caption.replace("[", "(").replace("]", ")")
            self.markdown += [f"![{caption}](figures/{panel.name}.svg)", ""]


def write_report(
    context: StudyContext, outcome: StudyOutcome, *, public: Path | None = None
) -> tuple[StudySummary, Path]:
    """Write `summary.json`, `report.html`, `report.md` and the figures; return the summary and the HTML page.

    Args:
        context: plan, store and data directory.
        outcome: runs that failed or did not start.
        public: write here instead of the study's directory, without sentences of the data and paths of this machine.
    """
    summary = summarize(context, outcome, with_texts=public is None)
    if public and summary.provenance:
        summary.provenance.command = summary.command
    runs = context.finished_runs()
    sections = [differences_section(summary)] if summary.differences else []
    sections.append(results_section(summary))
    if runs:
        sections += [significance_section(summary), metrics_section(summary)]
        curves = curve_figures(summary, runs)
        sections += [curve_section(curves, summary, runs)] if curves else []
        sections += detail_sections(summary)
        order = ranking(summary)
        drawn = embedding_map(context, order[0]) if order else None
        sections += [map_section(drawn)] if drawn else []
    sections.append(cost_section(summary))
    return summary, write_pages(summary, sections, public or context.directory, METHOD)


def write_pages(summary: ReportSummary, sections: Sequence[Section], directory: Path, method: str = "") -> Path:
    """Write the summary, the figures, `report.md` and `report.html`; return the HTML page.

    The sections are followed by what was not measured and by the method.
    """
    sections = [*sections, _not_measured_section(summary), _method_section(summary, method)]
    for outdated in (directory / "figures").glob("*.svg"):
        outdated.unlink()
    for figure in (figure for section in sections for figure in section.figures):
        (directory / "figures").mkdir(parents=True, exist_ok=True)
        write_text(directory / "figures" / f"{figure.name}.svg", figures.standalone(figure.svg))
    write_json(directory / "summary.json", summary.model_dump(mode="json"))
    write_text(directory / "report.md", _markdown(summary, sections))
    page = directory / "report.html"
    write_text(page, _html(summary, sections))
    return page


def results_section(summary: StudySummary) -> Section:
    """Scores of all variants, with published scores and a figure per test set."""
    section = Section(
        "Results", f"All scores ×100. The best variant on the first test set is marked. {dev_note(summary)}"
    )
    section.add_table(results_table(summary))
    for source in summary.published_scores.sources if summary.published_scores else ():
        by_variant = (f"{' · '.join(names)}: {caveat}" for caveat, names in source.caveats.items())
        caveats = " ".join(by_variant if len(source.caveats) > 1 else source.caveats)
        section.add_note(
            f"Published: {source.name}. {caveats} Backbone and data differ from ours: compare the ranking of the "
            "variants, not the absolute scores."
        )
    panels = []
    for number, test in enumerate(summary.test_sets, 1):
        rows = {}
        for name in summary.variant_names:
            if name in test.scores:
                score = test.scores[name].spearman
                values = (100 * score.mean, 100 * score.ci_low, 100 * score.ci_high)
                rows[name] = (*values, [100 * value for value in score.per_seed])
        letters = min(28, max((18, *map(len, rows))))  # long names with a common prefix must stay distinct
        svg = figures.forest(rows, test.name, letters=letters)
        panels.append(Figure(f"scores-{number}", f"Spearman ×100 on {test.name}", svg))
    section.add_figures(panels, wide=True)
    section.add_note(
        "Large dots are means, small dots single seeds, lines 95% confidence intervals over seeds and test pairs. "
        "Intervals may overlap although a difference is significant: the tests compare variants on the same pairs."
    )
    return section


def differences_section(summary: StudySummary) -> Section:
    """What differs from the published experiment that the preset repeats."""
    section = Section("Differences from the published experiment")
    items = "".join(f"<li>{escape(item)}</li>" for item in summary.differences)
    section.html.append(f'<ul class="plain">{items}</ul>')
    section.markdown += [*(f"- {item}" for item in summary.differences), ""]
    return section


def significance_section(summary: StudySummary) -> Section:
    """Differences of every two variants on each test set."""
    section = Section(
        "Which differences are significant?",
        "Difference in points, row minus column, with the Holm-corrected p-value; n.s. = not significant (p ≥ 0.05)."
        + (f" {SINGLE_SEED}" if summary.seeds == 1 else ""),
    )
    for test in summary.test_sets:
        section.add_table(significance_table(test, summary.variant_names), f"{test.name}, {test.pairs:,} pairs")
    return section


def metrics_section(summary: StudySummary) -> Section:
    """All eight STS metrics on each test set."""
    section = Section(
        "All similarity functions", "Pearson and Spearman ×100 for four similarity functions, means over seeds."
    )
    for test in summary.test_sets:
        section.add_table(metrics_table(test, summary.variant_names), test.name)
    return section


def curve_figures(summary: StudySummary, runs: Sequence[StoredRun]) -> list[Figure]:
    """Draw the dev score by training step, one figure per variant."""
    lines: dict[str, list[list[tuple[float, float]]]] = {}
    stage_starts: dict[str, list[tuple[float, str]]] = {}
    for run in runs:
        start, line, starts = 0.0, [], []
        for stage in run.curves():
            starts.append((start, stage["stage"]))
            line += [(start + point["step"], 100 * point["dev"]) for point in stage["points"] if "dev" in point]
            start += stage["points"][-1]["step"]
        if line:
            lines.setdefault(run.variant, []).append(line)
            stage_starts[run.variant] = starts
    panels = []
    for number, name in enumerate(summary.variant_names):
        if name in lines:
            others = [line for variant, group in lines.items() if variant != name for line in group]
            svg = figures.curve(lines[name], others, stage_starts[name], number, f"dev score of {name}")
            panels.append(Figure(f"curve-{number + 1}", name, svg))
    return panels


def dev_by_epoch(runs: Sequence[StoredRun]) -> dict[str, list[float | None]]:
    """Return the dev score of each variant after every epoch of its last stage, mean over seeds.

    None for an epoch after which it was not measured.
    """
    scores: dict[str, list[list[float | None]]] = {}
    for run in runs:
        epochs = run.record["recipes"][-1]["stages"][0]["epochs"] if run.record["recipes"] else None
        if epochs and epochs == int(epochs):
            points = run.curves()[-1]["points"]
            dev = {point["step"]: point["dev"] for point in points if "dev" in point}
            ends = [round(points[-1]["step"] * (epoch + 1) / epochs) for epoch in range(int(epochs))]
            scores.setdefault(run.variant, []).append([dev.get(end) for end in ends])
    return {
        variant: [None if None in values else sum(values) / len(values) for values in zip(*per_seed, strict=True)]
        for variant, per_seed in scores.items()
    }


def curve_section(panels: Sequence[Figure], summary: StudySummary, runs: Sequence[StoredRun]) -> Section:
    """Dev score during training, with the published score of every epoch."""
    section = Section(
        "Dev score during training",
        "Dev Spearman ×100 by training step, one line per seed; gray lines are the other variants. A stage ends with "
        "its best checkpoint, so the next stage may start above the last point.",
    )
    section.add_figures(panels)
    if any(variant.published_dev for variant in summary.variants):
        table = dev_by_epoch_table(summary, dev_by_epoch(runs))
        section.add_table(table, "Dev score after each epoch of the last stage")
    return section


def detail_sections(summary: StudySummary) -> list[Section]:
    """Scores by slice, and example pairs of the two best variants."""
    if not ranking(summary):
        return []
    slices = Section(
        "Scores by slice",
        "Spearman ×100 within parts of a test set, mean over seeds; the best variant of each slice is bold. A slice "
        "has a narrower range of human scores than the whole set: compare within a row, not within a column.",
    )
    for test in summary.test_sets:
        slices.add_table(slice_table(test.slices, summary.variant_names), test.name)
    sections = [slices]
    if summary.examples:
        best, runner_up = ranking(summary)[:2]
        without_texts = all(example.sentence1 is None for example in summary.examples)
        examples = Section(
            f"Example pairs: {best} vs. {runner_up}",
            f"{len(summary.examples)} pairs of {summary.test_sets[0].name} on which the two best variants differ most. "
            "Predictions are shown on the human scale: the pair that a variant ranks k-th gets the k-th human score "
            "(mean over seeds)."
            + (" Pairs are given by position: the sentences may not be redistributed." if without_texts else ""),
        )
        examples.add_table(example_table(summary.examples, best, runner_up))
        sections.append(examples)
    return sections


def map_section(drawn: EmbeddingMap) -> Section:
    """The embedding map before and after training."""
    panels = [
        Figure(f"map-{number}", panel.title, figures.scatter(panel.points, drawn.groups, drawn.links, panel.title))
        for number, panel in enumerate(drawn.panels, 1)
    ]
    return map_panels_section(panels, drawn.sentences, drawn.colored_by, drawn.group_names)


def map_panels_section(panels: Sequence[Figure], sentences: int, colored_by: str, names: Sequence[str]) -> Section:
    """Section with the map's panels and the legend of its groups."""
    section = Section(
        "Embedding map",
        f"t-SNE of {sentences} sentence embeddings (cosine), colored by {colored_by}. Neighborhoods are meaningful, "
        "large distances are not.",
    )
    section.add_figures(panels)
    legend = "".join(f"<li>{figures.legend_mark(number)} {escape(name)}</li>" for number, name in enumerate(names))
    section.html.append(f'<ul class="legend">{legend}</ul>')
    section.markdown += ["Groups: " + ", ".join(names) + ".", ""]
    return section


def cost_section(summary: StudySummary) -> Section:
    """Training time of each variant."""
    device = _device(summary.provenance.machine if summary.provenance else None)
    stages = summary.stages
    section = Section(
        "Training cost",
        f"Time of the training steps on {device}, without evaluation. Variants share common stages: the {stages.total} "
        f"stages of all runs are {stages.distinct} distinct ones, each trained once, in this or another study of the "
        "same store.",
    )
    section.add_table(cost_table(summary.variants))
    return section


def _not_measured_section(summary: ReportSummary) -> Section:
    section = Section("What was not measured")
    items = [(item.what, item.command) for item in summary.not_measured]
    if isinstance(summary, StudySummary):
        items += [(f"{run} failed: {message}", summary.command) for run, message in summary.failed_runs.items()]
        items += [(f"{run} did not start: time budget used up.", summary.command) for run in summary.runs_not_started]
        if summary.backbone != summary.preferred_backbone:
            missing = f"The backbone {summary.preferred_backbone} is not available; {summary.backbone} was used."
            items.insert(0, (missing, summary.command))
    html = "".join(f"<li>{escape(what)}<br><code>{escape(command)}</code></li>" for what, command in items)
    section.html.append(f'<ul class="plain">{html}</ul>')
    section.markdown += [*(f"- {what} `{command}`" for what, command in items), ""]
    return section


def _method_section(summary: ReportSummary, method: str) -> Section:
    section = Section("Method and environment", method)
    if summary.provenance:
        section.add_note(environment(summary.provenance))
    details = summary.provenance.model_dump(mode="json") if summary.provenance else {}
    if isinstance(summary, StudySummary):
        details["datasets"] = {name: item.model_dump(exclude_none=True) for name, item in summary.datasets.items()}
    text = json.dumps(details, ensure_ascii=False, indent=2)
    section.html.append(
        f"<details><summary>Code, libraries, machine, data</summary><pre>{escape(text)}</pre></details>"
    )
    section.markdown += ["```json", text, "```", ""]
    return section


def environment(provenance: Provenance) -> str:
    """Return device, number format, versions and backbone behind the scores in one line."""
    machine = provenance.machine
    parts = [_device(machine)] + ([machine.training_dtype] if machine.training_dtype else [])
    parts += [f"kosbert {provenance.kosbert}", f"Python {provenance.python}"]
    parts += [f"{name} {version}" for name, version in provenance.libraries.items()]
    if provenance.backbone:
        parts.append("backbone " + " ".join([provenance.backbone["name"], *_version(provenance.backbone)]))
    return f"Environment: {', '.join(parts)}."


def _version(backbone: dict[str, str]) -> list[str]:
    """Return what tells the weights of a backbone from those of other versions: its commit or its checksum."""
    return [f"({key} {backbone[key][:12]})" for key in ("commit", "sha256") if key in backbone]


def _device(machine: Machine | None) -> str:
    threads = machine.threads if machine else 1
    return (machine.gpu if machine else None) or f"{threads} CPU {'thread' if threads == 1 else 'threads'}"


def _shortened(summary: ReportSummary) -> str:
    """Return what the user changed for this run; empty for a study as its preset describes it."""
    if not isinstance(summary, StudySummary):
        return ""
    parts = []
    if summary.limit:
        parts.append(
            f"This is a shortened run: at most {summary.limit:,} random rows of every training source; dev and test "
            "sets are complete. Its scores do not answer the question."
        )
    if summary.settings:
        parts.append(f"Changed settings: {', '.join(summary.settings)}.")
    return " ".join(parts)


def _html(summary: ReportSummary, sections: Sequence[Section]) -> str:
    facts = "".join(f"<li>{escape(name)} <b>{escape(value)}</b></li>" for name, value in summary.facts.items())
    css = "warn" if summary.synthetic_data else "note"
    preset = f'<p class="{css}">{escape(summary.preset_description)}</p>'
    description = f"<p>{escape(summary.description)}</p>" if summary.description else ""
    shortened = f'<p class="warn">{escape(_shortened(summary))}</p>' if _shortened(summary) else ""
    body = "".join(f"<section>{''.join(section.html)}</section>" for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(summary.question)}</title>
<link rel="icon" href="data:,">
<style>
{figures.style("page.css", "figure.css")}
</style>
</head>
<body>
<main>
<header>
<p class="kicker">kosbert study · {escape(summary.study)}</p>
<h1>{escape(summary.question)}</h1>
<p class="answer">{escape(summary.answer)}</p>
{shortened}
{preset if summary.synthetic_data else ""}
<ul class="chips">{facts}</ul>
{description}
{"" if summary.synthetic_data else preset}
</header>
{body}
<footer>Created by <code>{escape(summary.command)}</code></footer>
</main>
</body>
</html>
"""


def _markdown(summary: ReportSummary, sections: Sequence[Section]) -> str:
    facts = " · ".join(f"{name}: {value}" for name, value in summary.facts.items())
    paragraphs = [f"# {summary.question}", f"**{summary.answer}**", _shortened(summary), facts, summary.description]
    paragraphs += [summary.preset_description, f"Created by `{summary.command}`."]
    lines = [line for paragraph in paragraphs if paragraph for line in (paragraph, "")]
    for section in sections:
        lines += section.markdown
    return "\n".join(lines).rstrip() + "\n"
