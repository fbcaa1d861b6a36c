"""The report of a study: one page that needs nothing else, and its Markdown twin with the figures beside it.

The page has no script and asks the network for nothing. All text that comes from data or names is escaped.
"""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from kosbert.study import figures
from kosbert.study.analysis import examples, sentence_map, sliced
from kosbert.study.plan import Plan
from kosbert.study.runner import Outcome
from kosbert.study.store import Store, StoredRun, stored_run, write_json
from kosbert.study.summary import finished_seeds, standings, summarize
from kosbert.study.tables import (
    Table,
    cost_table,
    dev_note,
    eight_table,
    example_table,
    main_table,
    slice_table,
    verdict_table,
)

METHOD = (
    "Spearman’s correlation of cosine and human score, over all pairs of a set at once; the checkpoint of every stage "
    "is chosen on dev. Mean ± standard deviation are over seeds. The 95% intervals and the verdicts count both sources "
    "of luck: the seeds, and the sample of test pairs (bootstrap of 1,000 resamples, the same pairs for all rows), "
    "joined by Student’s t after Welch and Satterthwaite. Rows are matched by seed. For every two rows of a table the "
    "p-values are corrected by Holm; what stays at 0.05 or above is a tie, however large the difference looks (from 3 "
    "points on the answer says that rows are not told apart)."
)
ONE_SEED = "With one seed the verdicts are about these very models: another seed may order them otherwise."


class Part:
    """One section of the report, in both forms at once."""

    def __init__(self, title: str, note: str = "") -> None:
        self.title = title
        self.html = [f"<h2>{escape(title)}</h2>"]
        self.markdown = [f"## {title}", ""]
        if note:
            self.note(note)

    def note(self, text: str) -> None:
        """A paragraph in small print."""
        self.html.append(f'<p class="note">{escape(text)}</p>')
        self.markdown += [text, ""]

    def table(self, table: Table, title: str = "") -> None:
        """A table, with a heading where there are several."""
        if title:
            self.html.append(f"<h3>{escape(title)}</h3>")
            self.markdown += [f"### {title}", ""]
        self.html.append(table.html())
        self.markdown += [table.markdown(), ""]

    def panels(self, drawn: Sequence[tuple[str, str, str]], folder: Path, wide: bool = False) -> None:
        """Figures side by side, as (file name, caption, SVG); each is also written as a file."""
        drawn = [each for each in drawn if each[2]]
        captions = (f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for _, title, svg in drawn)
        self.html.append(f'<div class="panels{" wide" if wide else ""}">{"".join(captions)}</div>')
        for name, title, svg in drawn:
            (folder / f"{name}.svg").write_text(figures.standalone(svg), encoding="utf-8")
            self.markdown += [f"![{title.replace('[', '(').replace(']', ')')}](figures/{name}.svg)", ""]


def write_report(
    plan: Plan, store: Store, outcome: Outcome, data_dir: Path | None = None, *, public: Path | None = None
) -> tuple[dict[str, Any], Path]:
    """Write `summary.json`, `report.html`, `report.md` and the figures; returns the summary and the page.

    They go beside the runs, or into the folder `public`, then without sentences of the data and paths of the machine.
    """
    folder = public or store.study(plan.name)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for old in (folder / "figures").glob("*.svg"):
        old.unlink()
    found = summarize(plan, store, outcome)
    if public:
        found["lineage"] = found["lineage"] | {"command": found["command"]}
    stored = [stored_run(store.run(plan.name, run.name), run.identity) for run in plan.runs]
    runs = [run for run in stored if run]
    parts = [_scores(found, folder / "figures")]
    if runs:
        parts.append(_verdicts(found))
        parts.append(_measures(found))
        parts += _curves(runs, found, folder / "figures")
        parts += _evidence(plan, runs, found, store, folder / "figures", data_dir, with_texts=not public)
    parts.append(_costs(found))
    found["facts"] = _facts(found)
    write_json(folder / "summary.json", found)
    return found, write_pages(found, parts, folder, METHOD)


def write_pages(found: dict[str, Any], parts: Sequence[Part], folder: Path, method: str = "") -> Path:
    """The page and its twin around some sections, ending with what was not measured and how the rest was."""
    parts = [*parts, _missing(found), _method(found, method)]
    (folder / "report.md").write_text(_markdown(found, parts), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(_page(found, parts), encoding="utf-8")
    return page


def _scores(found: dict[str, Any], folder: Path) -> Part:
    part = Part("The table", "×100. The row that leads on the first test set is marked. " + dev_note(found))
    part.table(main_table(found))
    for source, each in found["published"].get("sources", {}).items():
        caveats = each["caveats"]
        several = (f"{' · '.join(rows)}: {caveat}" for caveat, rows in caveats.items())
        told = " ".join(several if len(caveats) > 1 else caveats)
        part.note(
            f"Published: {source}. {told} Another backbone and other data than here: compare the order of the rows, "
            "not the numbers."
        )
    drawn = []
    for number, test in enumerate(each for each in found["sets"] if each["role"] == "test"):
        rows = {}
        for row in found["rows"]:
            if row in test["rows"]:
                one = test["rows"][row]["spearman"]
                rows[row] = (*(100 * one[key] for key in ("mean", "low", "high")), [100 * each for each in one["runs"]])
        letters = min(28, max((18, *map(len, rows))))  # names that begin alike must not end in the same dots
        svg = figures.forest(rows, test["name"], letters=letters)
        drawn.append((f"scores-{number + 1}", f"Spearman ×100 on {test['name']}", svg))
    part.panels(drawn, folder, wide=True)
    part.note(
        "Large dots are means, small ones single seeds, lines 95% intervals over seeds and pairs. Two lines may "
        "overlap where a difference is one: rows are compared on the same pairs, which the lines cannot show."
    )
    return part


def _verdicts(found: dict[str, Any]) -> Part:
    part = Part(
        "Which differences are differences?",
        "Points by which the row is ahead of the column, with Holm’s p; a tie is called a tie."
        + (f" {ONE_SEED}" if found["seeds"] == 1 else ""),
    )
    for test in found["sets"]:
        if test["role"] == "test":
            part.table(verdict_table(test, found["rows"]), f"{test['name']}, {test['pairs']:,} pairs")
    return part


def _measures(found: dict[str, Any]) -> Part:
    part = Part("By every similarity", "Pearson and Spearman ×100 of four similarities, means over seeds.")
    for test in found["sets"]:
        if test["role"] == "test":
            part.table(eight_table(test, found["rows"]), test["name"])
    return part


def _curves(runs: Sequence[StoredRun], found: dict[str, Any], folder: Path) -> list[Part]:
    lines: dict[str, list[list[tuple[float, float]]]] = {}
    borders: dict[str, list[tuple[float, str]]] = {}
    for run in runs:
        start, line, places = 0.0, [], []
        for stage in run.curves():
            places.append((start, stage["stage"]))
            line += [(start + each["step"], 100 * each["dev"]) for each in stage["points"] if "dev" in each]
            start += stage["points"][-1]["step"]
        if line:
            lines.setdefault(run.row, []).append(line)
            borders[run.row] = places
    if not lines:
        return []
    part = Part(
        "On the way",
        "Dev Spearman ×100 by training step, one line a seed; the other rows are gray behind it. A stage keeps its "
        "best checkpoint, so the next may start above the last point.",
    )
    drawn = []
    for number, row in enumerate(found["rows"]):
        if row in lines:
            others = [line for name, own in lines.items() if name != row for line in own]
            svg = figures.curve(lines[row], others, borders[row], number, f"dev curve of {row}")
            drawn.append((f"curve-{number + 1}", row, svg))
    part.panels(drawn, folder)
    return [part]


def _evidence(
    plan: Plan, runs: Sequence[StoredRun], found: dict[str, Any], store: Store, folder: Path, data_dir: Path | None,
    with_texts: bool,
) -> list[Part]:  # fmt: skip
    order = standings(found)
    if not order:
        return []
    by_slice = Part(
        "Where the scores come from",
        "Spearman ×100 within parts of a test set, mean over seeds, the best of each part in bold. A part has a "
        "narrower range of scores than the whole: compare along a line, not down a column.",
    )
    for test in found["sets"]:
        if test["role"] == "test":
            test["slices"] = sliced(runs, test["name"], data_dir)
            by_slice.table(slice_table(test["slices"], found["rows"]), test["name"])
    parts = [by_slice]
    if len(order) > 1:
        test = next(each for each in found["sets"] if each["role"] == "test")
        found["examples"] = examples(runs, order[0], order[1], test["name"], data_dir, with_texts=with_texts)
        looked = Part(
            f"Where {order[0]} wins and loses",
            f"Ten pairs of {test['name']}, against the next row, {order[1]}. What a row says is its rank in the units "
            "of the human scores, mean over seeds: the pair that it ranks k-th gets the k-th human score."
            + ("" if with_texts else " A pair is named by its place in the set: the sentences are not ours."),
        )
        looked.table(example_table(found["examples"], order[0], order[1]))
        parts.append(looked)
    placed = sentence_map(plan, order[0], store, data_dir)
    if placed:
        title = f"{placed['sentences']} sentences, colored by {placed['colored_by']}; t-SNE of the cosines."
        seen = Part("A map", title + " Nearness says something, distance across the map does not.")
        drawn = [
            (
                f"map-{number}",
                panel["title"],
                figures.cloud(panel["points"], placed["groups"], placed["lines"], panel["title"]),
            )
            for number, panel in enumerate(placed["panels"], 1)
        ]
        seen.panels(drawn, folder)
        marks = "".join(f"<li>{figures.key_mark(n)} {escape(name)}</li>" for n, name in enumerate(placed["names"]))
        seen.html.append(f'<ul class="legend">{marks}</ul>')
        seen.markdown += ["Groups: " + ", ".join(placed["names"]) + ".", ""]
        parts.append(seen)
    return parts


def _costs(found: dict[str, Any]) -> Part:
    machine = found["lineage"].get("machine", {})
    threads = machine.get("threads", 1)
    where = machine.get("gpu") or f"{threads} {'thread' if threads == 1 else 'threads'} of a CPU"
    distinct, chains = found["stages"]["distinct"], found["stages"]["in_chains"]
    part = Part(
        "What it cost",
        f"Time of training steps on {where}, without scoring. Rows that begin alike share stages: {distinct} fill the "
        f"{chains} places in the chains, each trained once, here or by another study of the same store.",
    )
    part.table(cost_table(found))
    return part


def _missing(found: dict[str, Any]) -> Part:
    part = Part("What was not measured")
    lines = [(each["what"], each["command"]) for each in found["not_measured"]]
    lines += [(f"{run} failed: {reason}", found["command"]) for run, reason in found.get("failed", {}).items()]
    lines += [(f"{run}: the time was up.", found["command"]) for run in found.get("not_reached", ())]
    if found.get("backbone") != found.get("backbone_wanted"):
        lines.insert(
            0, (f"The backbone {found['backbone_wanted']} is not here; this is {found['backbone']}.", found["command"])
        )
    part.html.append('<ul class="plain">' + "".join(
        f"<li>{escape(what)}<br><code>{escape(command)}</code></li>" for what, command in lines) + "</ul>")  # fmt: skip
    part.markdown += [*(f"- {what} `{command}`" for what, command in lines), ""]
    return part


def _method(found: dict[str, Any], method: str) -> Part:
    part = Part("How it was measured", method)
    lineage = json.dumps(found["lineage"] | {"data": found.get("data", {})}, ensure_ascii=False, indent=2)
    part.html.append(
        f"<details><summary>Code, libraries, machine, data</summary><pre>{escape(lineage)}</pre></details>"
    )
    part.markdown += ["```json", lineage, "```", ""]
    return part


def _facts(found: dict[str, Any]) -> list[list[str]]:
    """What stands in small print below the answer."""
    tests = ", ".join(f"{each['name']} ({each['pairs']:,})" for each in found["sets"] if each["role"] == "test")
    seeds = finished_seeds(found).removesuffix(" seeds").removesuffix(" seed")
    return [["preset", found["preset"]], ["backbone", found["backbone"]], ["seeds", seeds], ["test", tests]]


def _page(found: dict[str, Any], parts: Sequence[Part]) -> str:
    chips = "".join(f"<li>{escape(name)} <b>{escape(value)}</b></li>" for name, value in found["facts"])
    warning = f'<p class="warn">{escape(found["preset_about"])}</p>' if found["sample"] else ""
    about = "" if found["sample"] else f'<p class="note">{escape(found["preset_about"])}</p>'
    sections = "".join(f"<section>{''.join(part.html)}</section>" for part in parts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(found["question"])}</title>
<link rel="icon" href="data:,">
<style>
{figures.style("page.css", "figure.css")}
</style>
</head>
<body>
<main>
<header>
<p class="kicker">kosbert study · {escape(found["study"])}</p>
<h1>{escape(found["question"])}</h1>
<p class="answer">{escape(found["answer"])}</p>
{warning}
<ul class="chips">{chips}</ul>
<p>{escape(found["about"])}</p>
{about}
</header>
{sections}
<footer>Made by <code>{escape(found["command"])}</code></footer>
</main>
</body>
</html>
"""


def _markdown(found: dict[str, Any], parts: Sequence[Part]) -> str:
    facts = " · ".join(f"{name}: {value}" for name, value in found["facts"])
    lines = [f"# {found['question']}", "", f"**{found['answer']}**", "", facts, "", found["about"], ""]
    lines += [found["preset_about"], "", f"Made by `{found['command']}`.", ""]
    for part in parts:
        lines += part.markdown
    return "\n".join(lines).rstrip() + "\n"
