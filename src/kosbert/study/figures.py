"""The figures of a report as SVG, written by hand: small, sharp at every width, and in the colors of the page.

Colors are classes (`c0` to `c7`, after Okabe and Ito), so that a figure inside the page follows light and dark; as a
file of its own it carries the same style sheet. Nothing is told by color alone: rows are labeled, topics have shapes.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

Points = Sequence[tuple[float, float]]
COLORS = 8


def style(*names: str) -> str:
    """The style sheets of this folder."""
    return "\n".join((files("kosbert.study") / name).read_text(encoding="utf-8") for name in names)


def standalone(svg: str) -> str:
    """A figure as a file of its own, with the colors of both light and dark."""
    colors = style("page.css").split("* {", 1)[0]
    background = '<rect width="100%" height="100%" style="fill: var(--card)"/>'
    head, body = svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{colors}{style("figure.css")}</style>{background}{body}'


def _svg(width: float, height: float, label: str, *parts: str) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}" {more}/>'


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers within a range, at most so many (two at least where they fit).

    >>> ticks(61.3, 74.9)
    [65.0, 70.0]
    """
    span = high - low
    if not span > 0:
        return [low]
    for power in range(math.floor(math.log10(span)) - 1, math.floor(math.log10(span)) + 2):
        for step in (1.0, 2.0, 5.0):
            size = step * 10.0**power
            found = [round(number * size, 10) for number in range(math.ceil(low / size), math.floor(high / size) + 1)]
            if len(found) <= most:
                return found
    return [low, high]


def _short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def forest(
    rows: Mapping[str, tuple[float, float, float, Sequence[float]]], label: str, *, letters: int = 18, digits: int = 1
) -> str:
    """Means with their intervals and the single seeds: name → (mean, low, high, seeds); names of so many letters."""
    if not rows:
        return ""
    left, right, step, top = 14.0 + 6.8 * letters, 52.0, 30.0, 8.0
    width = left + 312.0
    values = [value for mean, low, high, seeds in rows.values() for value in (mean, low, high, *seeds)]
    low, high = min(values), max(values)
    margin = max(0.06 * (high - low), 5.0 * 10.0**-digits)
    low, high = low - margin, high + margin

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - right)

    bottom = top + step * len(rows)
    parts = [_line(x(each), top, x(each), bottom, "grid") for each in ticks(low, high)]
    parts += [_text(x(each), bottom + 16, f"{each:g}", "small middle") for each in ticks(low, high)]
    for number, (name, (mean, lower, upper, seeds)) in enumerate(rows.items()):
        y, color = top + step * (number + 0.5), f"c{number % COLORS}"
        parts.append(f"<g class='{color}'><title>{escape(name)}: {mean:.2f} ({lower:.2f} to {upper:.2f})</title>")
        parts.append(_text(left - 10, y + 4, _short(name, letters), "end strong"))
        parts.append(_line(x(lower), y, x(upper), y, "line", 'stroke-width="2.5" stroke-linecap="round"'))
        parts += [f'<circle cx="{x(s):.1f}" cy="{y:.1f}" r="3" class="fill" opacity=".45"/>' for s in seeds]
        parts.append(f'<circle cx="{x(mean):.1f}" cy="{y:.1f}" r="5.5" class="fill"/>')
        parts.append(_text(width - 4, y + 4, f"{mean:.{digits}f}", "end") + "</g>")
    return _svg(width, bottom + 24, label, *parts)


def curve(
    own: Sequence[Points], others: Sequence[Points], borders: Sequence[tuple[float, str]], number: int, label: str
) -> str:
    """Dev score (×100) by step: one row's seeds in its color, all other rows behind them; borders begin a stage."""
    width, height, left, right, top, bottom = 320.0, 190.0, 34.0, 8.0, 20.0, 24.0
    everything = [point for line in (*own, *others) for point in line]
    if not everything:
        return ""
    most = max(x for x, _ in everything) or 1.0
    low, high = min(y for _, y in everything), max(y for _, y in everything)
    margin = max(0.05 * (high - low), 0.5)
    low, high = low - margin, high + margin

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x = left + point[0] / most * (width - left - right)
        return x, height - bottom - (point[1] - low) / (high - low) * (height - top - bottom)

    parts = []
    for each in ticks(low, high, 4):
        y = at((0, each))[1]
        parts.append(_line(left, y, width - right, y, "grid") + _text(left - 5, y + 4, f"{each:g}", "small end"))
    for each in ticks(0, most, 4):
        parts.append(_text(at((each, low))[0], height - 8, f"{each:g}", "small middle"))
    parts += [_polyline(line, at, "ghost") for line in others]
    for place, name in borders:
        x = at((place, low))[0]
        parts.append(_line(x, top - 6, x, height - bottom, "dash") if place else "")
        parts.append(_text(x + 4, top - 7, name, "small"))
    parts.append(f'<g class="c{number % COLORS}">')
    for line in own:
        parts.append(_polyline(line, at, "curve line"))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" class="fill"/>' for x, y in map(at, line)]
    return _svg(width, height, label, *parts, "</g>")


def _polyline(points: Points, at: object, kind: str) -> str:
    assert callable(at)
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, points))}"/>'


def cloud(points: Points, groups: Sequence[int], lines: Sequence[tuple[int, int, int]], label: str) -> str:
    """A map of sentences: points in the color and shape of their group; lines (from, to, group) join pairs."""
    size, margin = 360.0, 12.0
    xs, ys = [x for x, _ in points], [y for _, y in points]
    span = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x, y = ((value - center) / span for value, center in zip(point, middle, strict=True))
        return size / 2 + x * (size - 2 * margin), size / 2 - y * (size - 2 * margin)

    placed = [at(point) for point in points]
    parts = [f'<rect x=".5" y=".5" width="{size - 1}" height="{size - 1}" rx="8" class="ghost"/>']
    for start, end, group in lines:
        kind = f"line c{group % COLORS}"
        parts.append(_line(*placed[start], *placed[end], kind, 'stroke-width="1.1" opacity=".75"'))
    parts += [_mark(x, y, group) for (x, y), group in zip(placed, groups, strict=True)]
    return _svg(size, size, label, *parts)


def _mark(x: float, y: float, group: int) -> str:
    kind = f'class="fill c{group % COLORS}" opacity=".82"'
    match group % 4:
        case 0:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.1" {kind}/>'
        case 1:
            return f'<rect x="{x - 2.7:.1f}" y="{y - 2.7:.1f}" width="5.4" height="5.4" {kind}/>'
        case 2:
            return f'<path d="M{x:.1f} {y - 3.6:.1f}l3.4 6h-6.8z" {kind}/>'
        case _:
            return f'<path d="M{x:.1f} {y - 3.8:.1f}l3.8 3.8l-3.8 3.8l-3.8-3.8z" {kind}/>'


def key_mark(group: int) -> str:
    """The mark of a group, for a legend."""
    return f'<svg viewBox="0 0 10 10" class="key">{_mark(5, 5, group)}</svg>'
