"""Charts as SVG, drawn here: a page that is sent around needs no library, no script and no network for them.

Colours are classes (``c0`` to ``c9``), which the page's style gives a value for light and for dark. Each chart says
what it is in ``title`` and ``desc``; its numbers stand in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 30
COLOURS = 10


@dataclass(frozen=True)
class Series:
    """One line of a chart, or one part of its bars."""

    name: str
    points: Sequence[tuple[float, float | None]]
    """(step, value); None breaks the line."""
    band: Sequence[tuple[float, float, float]] = ()
    """(step, low, high)."""
    colour: int = 0


def line_chart(
    title: str, series: Sequence[Series], *, low: float | None = None, high: float | None = None, unit: str = ""
) -> Markup:
    """Lines over steps.

    Args:
        low: where the axis begins; None: with the least value. ``high`` likewise.
    """
    values = [value for each in series for _, value in each.points if value is not None]
    values += [value for each in series for _, *both in each.band for value in both]
    steps = [step for each in series for step, _ in each.points]
    if not values or not steps:
        return _nothing(title)
    y = _scale(min(values) if low is None else low, max(values) if high is None else high)
    axes = _Axes(min(steps), max(steps), *y)
    parts = [axes.draw(unit)]
    for each in series:
        if each.band:
            top = [axes.at(step, upper) for step, _, upper in each.band]
            bottom = [axes.at(step, lower) for step, lower, _ in reversed(each.band)]
            parts.append(Markup('<polygon class="band c{}" points="{}"/>').format(each.colour, _path(top + bottom)))
    for each in series:
        for run in _unbroken(each.points):
            places = [axes.at(step, value) for step, value in run]
            if len(places) > 1:
                parts.append(Markup('<polyline class="line c{}" points="{}"/>').format(each.colour, _path(places)))
            if len(places) <= 60:
                parts += [
                    Markup('<circle class="dot c{}" cx="{}" cy="{}" r="2"/>').format(each.colour, *_text(place))
                    for place in places
                ]
    return _svg(title, _describe(series), parts)


def bar_chart(title: str, series: Sequence[Series], *, unit: str = "") -> Markup:
    """Bars over steps, the series on top of each other."""
    steps = sorted({step for each in series for step, _ in each.points})
    totals = {step: sum(dict(each.points).get(step) or 0.0 for each in series) for step in steps}
    if not steps or not any(totals.values()):
        return _nothing(title)
    axes = _Axes(steps[0] - 0.5, steps[-1] + 0.5, *_scale(0.0, max(totals.values())))
    width = max((axes.at(1, 0)[0] - axes.at(0, 0)[0]) * 0.85 * _gap(steps), 1.0)
    parts = [axes.draw(unit)]
    below = dict.fromkeys(steps, 0.0)
    for each in series:
        for step, value in each.points:
            if not value:
                continue
            x, top = axes.at(step, below[step] + value)
            bottom = axes.at(step, below[step])[1]
            below[step] += value
            shape = (f"{x - width / 2:.1f}", f"{top:.1f}", f"{width:.1f}", f"{bottom - top:.1f}")
            parts.append(
                Markup('<rect class="bar c{}" x="{}" y="{}" width="{}" height="{}"/>').format(each.colour, *shape)
            )
    return _svg(title, _describe(series), parts)


@dataclass(frozen=True)
class _Axes:
    first: float
    last: float
    low: float
    high: float

    def at(self, step: float, value: float) -> tuple[float, float]:
        wide = (step - self.first) / ((self.last - self.first) or 1)
        tall = (value - self.low) / ((self.high - self.low) or 1)
        tall = min(max(tall, 0.0), 1.0)
        return _LEFT + wide * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - tall * (_HEIGHT - _TOP - _BOTTOM)

    def draw(self, unit: str) -> Markup:
        parts = []
        ticks = _ticks(self.low, self.high)
        for value in ticks:
            y = self.at(self.first, value)[1]
            parts.append(
                Markup(
                    '<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>'
                    '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
                ).format(
                    _LEFT,
                    f"{y:.1f}",
                    _WIDTH - _RIGHT,
                    f"{y:.1f}",
                    _LEFT - 6,
                    f"{y + 4:.1f}",
                    f"{_tick(value, ticks)}{unit}",
                )
            )
        for step in _ticks(math.ceil(self.first), math.floor(self.last), whole=True):
            x = self.at(step, self.low)[0]
            parts.append(
                Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                    f"{x:.1f}", _HEIGHT - 10, f"{step:.0f}"
                )
            )
        return Markup("").join(parts)


def _svg(title: str, description: str, parts: Sequence[Markup]) -> Markup:
    return Markup('<svg viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>{}</svg>').format(
        _WIDTH, _HEIGHT, title, description, Markup("").join(parts)
    )


def _nothing(title: str) -> Markup:
    return Markup('<p class="none">{}: nothing to show</p>').format(title)


def _describe(series: Sequence[Series]) -> str:
    told = []
    for each in series:
        known = [(step, value) for step, value in each.points if value is not None]
        if known:
            (first, begin), (last, end) = known[0], known[-1]
            told.append(f"{each.name}: {begin:.4g} at step {first:g}, {end:.4g} at step {last:g}")
    return "; ".join(told)


def legend(series: Sequence[Series]) -> Markup:
    """The names of a chart's colours."""
    items = [Markup('<li><span class="key c{}"></span>{}</li>').format(each.colour, each.name) for each in series]
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items)) if len(items) > 1 else Markup("")


def _unbroken(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for step, value in points:
        if value is None:
            runs.append([])
        else:
            runs[-1].append((step, value))
    return [run for run in runs if run]


def _scale(low: float, high: float) -> tuple[float, float]:
    if high <= low:
        return (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    return low, high


def _ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    if high <= low:
        return [low]
    rough = (high - low) / 5
    base = 10.0 ** math.floor(math.log10(rough))
    size = next(base * factor for factor in (1, 2, 5, 10) if base * factor >= rough)
    size = max(size, 1.0) if whole else size
    first = math.ceil(low / size - 1e-9)
    return [round(number * size, 12) for number in range(first, math.floor(high / size + 1e-9) + 1)]


def _tick(value: float, ticks: Sequence[float]) -> str:
    """With as many digits as tell it from its neighbours."""
    size = abs(ticks[1] - ticks[0]) if len(ticks) > 1 else 1.0
    return f"{value:.{min(max(0, -math.floor(math.log10(size) + 1e-9)), 9)}f}"


def _gap(steps: Sequence[float]) -> float:
    return min((b - a for a, b in pairwise(steps)), default=1.0)


def _path(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(",".join(_text(place)) for place in places)


def _text(place: tuple[float, float]) -> tuple[str, str]:
    return f"{place[0]:.1f}", f"{place[1]:.1f}"
