"""The tables of a report, once for both of its forms: the page and its Markdown twin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from kosbert.evaluation.sts import CORRELATIONS
from kosbert.study.summary import chosen_on_dev, standings


@dataclass(frozen=True)
class Cell:
    """What stands in a cell: text, something smaller behind it, a kind for the style sheet, a share for a bar."""

    text: str
    small: str = ""
    kind: str = ""
    bar: float | None = None


@dataclass(frozen=True)
class Table:
    """Headings and rows; a row may be marked."""

    heads: list[str]
    rows: list[list[Cell]]
    marked: tuple[int, ...] = ()

    def html(self) -> str:
        """In a box of its own, which scrolls where the page is narrow."""
        head = "".join(f"<th{_WIDE if each.startswith('sentence ') else ''}>{escape(each)}</th>" for each in self.heads)
        body = []
        for number, row in enumerate(self.rows):
            cells = "".join(map(_html_cell, row))
            if len(row) == 1:  # the heading of a group
                cells = f'<td class="group" colspan="{len(self.heads)}">{escape(row[0].text)}</td>'
            kind = ' class="best"' if number in self.marked else ""
            body.append(f"<tr{kind}>{cells}</tr>")
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
        return f'<div class="scroll" tabindex="0">{table}</div>'

    def markdown(self) -> str:
        """With pipes; a marked row and the best of a line are bold."""
        lines = ["| " + " | ".join(map(_plain, self.heads)) + " |"]
        lines.append("|" + "---|" * len(self.heads))
        for number, row in enumerate(self.rows):
            cells = [_plain(f"{cell.text} {cell.small}".strip()) for cell in row]
            cells = [f"**{text}**" if cell.kind == "top" else text for cell, text in zip(row, cells, strict=True)]
            cells += [""] * (len(self.heads) - len(cells))
            if number in self.marked or len(row) == 1:
                cells[0] = f"**{cells[0]}**"
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)


_WIDE = ' class="text"'  # headings of columns that hold sentences


def _html_cell(cell: Cell) -> str:
    small = f" <small>{escape(cell.small)}</small>" if cell.small else ""
    bar = "" if cell.bar is None else f'<span class="bar" style="width:{6 * cell.bar:.2f}rem"></span> '
    kind = f' class="{cell.kind}"' if cell.kind else ""
    return f"<td{kind}>{bar}{escape(cell.text)}{small}</td>"


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def hundred(value: float | None, digits: int = 2) -> str:
    """A correlation as tables show it."""
    return "–" if value is None else f"{100 * value:.{digits}f}".replace("-", "−")


def points(difference: float) -> str:
    """A difference with its sign, and a true minus."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def with_spread(seeds: Mapping[str, Any] | None) -> Cell:
    """Mean and standard deviation over seeds."""
    if seeds is None:
        return Cell("undefined", kind="dim")
    spread = f"± {hundred(seeds['deviation'])}" if seeds["deviation"] is not None else ""
    return Cell(hundred(seeds["mean"]), spread)


def main_table(found: Mapping[str, Any]) -> Table:
    """The main table: a row for each order, Pearson and Spearman, ours beside the published ones."""
    tests = [each for each in found["sets"] if each["role"] == "test"]
    published = found["published"]
    heads = ["row", "seeds"]
    for test in tests:
        heads += [f"{test['name']}: Pearson", "Spearman", "95% interval"]
    if found["accuracy"]:
        heads.append("NLI accuracy")
    if len(set(found["bytes"].values())) > 1:
        heads.append("bytes a vector")
    both = any("cosine_pearson" in theirs for theirs in published["rows"].values()) if published else False
    if published:
        heads.append(f"published, {published['set']}: {'Pearson / ' if both else ''}Spearman")
    heads.append("dev")
    dev = next((each for each in found["sets"] if each["role"] == "dev"), None)
    best = {standings(found, test["name"])[0] for test in tests[:1] if test["rows"]}
    rows, marked = [], []
    for number, name in enumerate(found["rows"]):
        some = next((test["rows"][name] for test in tests if name in test["rows"]), None)
        cells = [Cell(name), Cell(str(len(some["seeds"])) if some else "0")]
        for test in tests:
            scores = test["rows"].get(name)
            if scores is None:
                why = "undefined" if name in test["undefined"] else "not measured"
                why = "failed" if name in found["failed_rows"] else why
                cells += [Cell("–"), Cell("–", why if test is tests[0] else "", "dim"), Cell("–")]
                continue
            spearman = scores["spearman"]
            interval = f"{hundred(spearman['low'], 1)} to {hundred(spearman['high'], 1)}"
            cells += [with_spread(scores["measures"]["cosine_pearson"]), with_spread(spearman), Cell(interval)]
        if found["accuracy"]:
            cells.append(with_spread(found["accuracy"][name]) if name in found["accuracy"] else Cell("–"))
        if len(set(found["bytes"].values())) > 1:
            size = found["bytes"].get(name)
            cells.append(Cell("–" if size is None else f"{size:,}"))
        if published:
            theirs = published["rows"].get(name, {})
            measures = ("pearson", "spearman") if both else ("spearman",)
            values = [hundred(theirs.get(f"cosine_{each}"), 2) for each in measures]
            cells.append(Cell(" / ".join(values) if theirs else "–"))
        own = dev["rows"].get(name) if dev else None
        cells.append(with_spread(own["spearman"]) if own else Cell("–"))
        rows.append(cells)
        if name in best:
            marked.append(number)
    return Table(heads, rows, tuple(marked))


def eight_table(test: Mapping[str, Any], rows: Sequence[str]) -> Table:
    """Every similarity with both correlations and their average, means over seeds, ours above the published ones."""
    measures = ["average", *CORRELATIONS]
    lines = []
    for name in rows:
        if name in test["rows"]:
            own = test["rows"][name]["measures"]
            means = (own[each]["mean"] if own.get(each) else None for each in measures)
            lines.append([Cell(name), *(Cell(hundred(value)) for value in means)])
    if test["elsewhere"]:
        lines.append([Cell("published")])
        for model, own in test["elsewhere"].items():
            lines.append([Cell(model), *(Cell(hundred(own.get(each))) for each in measures)])
    return Table(["row", *(each.replace("_", ", ") for each in measures)], lines)


def verdict_table(test: Mapping[str, Any], rows: Sequence[str]) -> Table:
    """Every two rows: by how many points the row is ahead of the column, or that they are a tie."""
    known = [row for row in rows if row in test["rows"]]
    found = {}
    for each in test["comparisons"]:
        found[each["first"], each["second"]] = (each["difference"], each["verdict"], each["p"], "first")
        found[each["second"], each["first"]] = (-each["difference"], each["verdict"], each["p"], "second")
    lines = []
    for row in known:
        cells = [Cell(row)]
        for column in known:
            if row == column:
                cells.append(Cell("·", kind="self"))
                continue
            difference, verdict, p, side = found[row, column]
            small = f"p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
            if verdict == "tie":
                cells.append(Cell("tie", points(difference), "tie"))
            else:
                cells.append(Cell(points(difference), small, "won" if verdict == side else "lost"))
        lines.append(cells)
    return Table(["row less column", *known], lines)


def slice_table(entries: Sequence[Mapping[str, Any]], rows: Sequence[str]) -> Table:
    """Spearman on parts of a test set; the best of each part is bold."""
    known = [row for row in rows if any(row in each["rows"] for each in entries)]
    lines: list[list[Cell]] = []
    for kind, group in groupby(entries, key=lambda each: each["kind"]):
        lines.append([Cell(f"by {kind}")])
        for each in group:
            values = [each["rows"].get(row) for row in known]
            top = max((value for value in values if value is not None), default=None)
            cells = [
                Cell(hundred(value, 1), kind="top" if value is not None and value == top else "") for value in values
            ]
            lines.append([Cell(each["name"]), Cell(f"{each['pairs']:,}"), *cells])
    return Table(["slice", "pairs", *known], lines)


def example_table(entries: Sequence[Mapping[str, Any]], best: str, other: str) -> Table:
    """Pairs to look at, with what people, the best row and the other one say."""
    lines: list[list[Cell]] = []
    shown = [name for name in ("sentence1", "sentence2") if name in entries[0]] or ["pair"] if entries else []
    titles = {"wins": f"{best} is nearer to people than {other}", "loses": f"{best} is farther off than {other}"}
    for kind, group in groupby(entries, key=lambda each: each["kind"]):
        lines.append([Cell(titles[kind])])
        for each in group:
            scores = [Cell(f"{each[name]:.1f}") for name in ("gold", "best", "other")]
            texts = [Cell(str(each[name]), kind="text") for name in shown]
            lines.append([*texts, *scores, Cell(each["source"] or "–", kind="dim")])
    heads = [name.replace("sentence", "sentence ") for name in shown]
    return Table([*heads, "people", best, other, "source"], lines)


def cost_table(found: Mapping[str, Any]) -> Table:
    """What each row costs: training alone, and how much of it no row above had paid for."""
    most = max((each["seconds"] or 0.0 for each in found["costs"]), default=0.0) or 1.0
    lines = []
    for each in found["costs"]:
        seconds = each["seconds"]
        time = Cell("–") if seconds is None else Cell(_duration(seconds), bar=seconds / most)
        chain = " → ".join(each["chain"]) or "nothing is trained"
        lines.append(
            [Cell(each["row"]), Cell(chain), Cell(f"{each['steps']:,}" if each["steps"] else "–"), time,
             Cell(_duration(each["own"]) if each["own"] else "0 s")]
        )  # fmt: skip
    return Table(["row", "stages", "steps", "training, a seed", "own, all seeds"], lines)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def dev_note(found: Mapping[str, Any]) -> str:
    """Whether choosing on dev, as one must, would have led to the row that is best on test."""
    chosen, order = chosen_on_dev(found), standings(found)
    if not chosen or not order:
        return ""
    if chosen == order[0]:
        return f"Chosen on dev alone it would have been {chosen} as well."
    return f"Chosen on dev alone it would have been {chosen}, which is not the row that leads on test."
