"""Figures of a report as SVG strings.

Colors are CSS classes (`c0` to `c7`, after Okabe and Ito), so a figure in the page follows light and dark mode; as a
file it carries the same style sheet. Nothing relies on color alone: rows are labeled and groups have different shapes.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

Points = Sequence[tuple[float, float]]
COLORS = 8


def style(*names: str) -> str:
    """Return style sheets of this package, concatenated."""
    return "\n".join((files("kosbert.study") / name).read_text(encoding="utf-8") for name in names)


def standalone(svg: str) -> str:
    """Return a figure as an SVG file, with the colors of light and dark mode."""
    colors = style("page.css").split("* {", 1)[0]
    background = '<rect width="100%" height="100%" style="fill: var(--card)"/>'
    head, body = svg.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{colors}{style("figure.css")}</style>{background}{body}'


def _svg(width: float, height: float, label: str, *parts: str) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, css: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, css: str, attributes: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}" {attributes}/>'


def ticks(low: float, high: float, max_ticks: int = 5) -> list[float]:
    """Return round numbers within a range, at most `max_ticks`.

    >>> ticks(61.3, 74.9)
    [65.0, 70.0]
    """
    span = high - low
    if not span > 0:
        return [low]
    for power in range(math.floor(math.log10(span)) - 1, math.floor(math.log10(span)) + 2):
        for step in (1.0, 2.0, 5.0):
            size = step * 10.0**power
            values = [round(number * size, 10) for number in range(math.ceil(low / size), math.floor(high / size) + 1)]
            if len(values) <= max_ticks:
                return values
    return [low, high]


def _shorten(name: str, letters: int) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def forest(
    rows: Mapping[str, tuple[float, float, float, Sequence[float]]], label: str, *, letters: int = 18, digits: int = 1
) -> str:
    """Draw means with intervals and single seeds.

    Args:
        rows: name → (mean, low, high, values of the seeds).
        label: description for screen readers.
        letters: longest name that is shown in full.
        digits: decimals of the mean.
    """
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
    parts = [_line(x(tick), top, x(tick), bottom, "grid") for tick in ticks(low, high)]
    parts += [_text(x(tick), bottom + 16, f"{tick:g}", "small middle") for tick in ticks(low, high)]
    for number, (name, (mean, lower, upper, seeds)) in enumerate(rows.items()):
        y, color = top + step * (number + 0.5), f"c{number % COLORS}"
        parts.append(f"<g class='{color}'><title>{escape(name)}: {mean:.2f} ({lower:.2f} to {upper:.2f})</title>")
        parts.append(_text(left - 10, y + 4, _shorten(name, letters), "end strong"))
        parts.append(_line(x(lower), y, x(upper), y, "line", 'stroke-width="2.5" stroke-linecap="round"'))
        parts += [f'<circle cx="{x(s):.1f}" cy="{y:.1f}" r="3" class="fill" opacity=".45"/>' for s in seeds]
        parts.append(f'<circle cx="{x(mean):.1f}" cy="{y:.1f}" r="5.5" class="fill"/>')
        parts.append(_text(width - 4, y + 4, f"{mean:.{digits}f}", "end") + "</g>")
    return _svg(width, bottom + 24, label, *parts)


def curve(
    lines: Sequence[Points], others: Sequence[Points], stages: Sequence[tuple[float, str]], number: int, label: str
) -> str:
    """Draw the dev score (×100) by training step.

    Args:
        lines: (step, score) of each seed of a variant.
        others: the lines of all other variants, drawn in gray.
        stages: (first step, name) of each stage.
        number: of the variant, for its color.
        label: description for screen readers.
    """
    width, height, left, right, top, bottom = 320.0, 190.0, 34.0, 8.0, 20.0, 24.0
    points = [point for line in (*lines, *others) for point in line]
    if not points:
        return ""
    last_step = max(x for x, _ in points) or 1.0
    low, high = min(y for _, y in points), max(y for _, y in points)
    margin = max(0.05 * (high - low), 0.5)
    low, high = low - margin, high + margin

    def position(point: tuple[float, float]) -> tuple[float, float]:
        x = left + point[0] / last_step * (width - left - right)
        return x, height - bottom - (point[1] - low) / (high - low) * (height - top - bottom)

    def polyline(line: Points, css: str) -> str:
        return f'<polyline class="{css}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in map(position, line))}"/>'

    parts = []
    for tick in ticks(low, high, 4):
        y = position((0, tick))[1]
        parts.append(_line(left, y, width - right, y, "grid") + _text(left - 5, y + 4, f"{tick:g}", "small end"))
    for tick in ticks(0, last_step, 4):
        parts.append(_text(position((tick, low))[0], height - 8, f"{tick:g}", "small middle"))
    parts += [polyline(line, "ghost") for line in others]
    for step, name in stages:
        x = position((step, low))[0]
        parts.append(_line(x, top - 6, x, height - bottom, "dash") if step else "")
        parts.append(_text(x + 4, top - 7, name, "small"))
    parts.append(f'<g class="c{number % COLORS}">')
    for line in lines:
        parts.append(polyline(line, "curve line"))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" class="fill"/>' for x, y in map(position, line)]
    return _svg(width, height, label, *parts, "</g>")


def scatter(points: Points, groups: Sequence[int], links: Sequence[tuple[int, int, int]], label: str) -> str:
    """Draw the embedding map: points in the color and shape of their group; links (from, to, group) join pairs."""
    size, margin = 360.0, 12.0
    if not points:
        return ""
    xs, ys = zip(*points, strict=True)
    span = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    center = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2

    def position(point: tuple[float, float]) -> tuple[float, float]:
        x, y = ((value - middle) / span for value, middle in zip(point, center, strict=True))
        return size / 2 + x * (size - 2 * margin), size / 2 - y * (size - 2 * margin)

    positions = [position(point) for point in points]
    parts = [f'<rect x=".5" y=".5" width="{size - 1}" height="{size - 1}" rx="8" class="ghost"/>']
    for start, end, group in links:
        css = f"line c{group % COLORS}"
        parts.append(_line(*positions[start], *positions[end], css, 'stroke-width="1.1" opacity=".75"'))
    parts += [_mark(x, y, group) for (x, y), group in zip(positions, groups, strict=True)]
    return _svg(size, size, label, *parts)


def _mark(x: float, y: float, group: int) -> str:
    attributes = f'class="fill c{group % COLORS}" opacity=".82"'
    match group % 4:
        case 0:
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.1" {attributes}/>'
        case 1:
            return f'<rect x="{x - 2.7:.1f}" y="{y - 2.7:.1f}" width="5.4" height="5.4" {attributes}/>'
        case 2:
            return f'<path d="M{x:.1f} {y - 3.6:.1f}l3.4 6h-6.8z" {attributes}/>'
        case _:
            return f'<path d="M{x:.1f} {y - 3.8:.1f}l3.8 3.8l-3.8 3.8l-3.8-3.8z" {attributes}/>'


def legend_mark(group: int) -> str:
    """Return the mark of a group for a legend."""
    return f'<svg viewBox="0 0 10 10" class="key">{_mark(5, 5, group)}</svg>'
