"""Charts as inline SVG, drawn by a few lines of our own: a plotting library takes seconds where a release takes one.

A ``Chart`` has two axes and collects marks; ``drawn`` makes the SVG. Text stays text, colours follow the page's light or dark
scheme, and the same chart gives the same bytes. Units are CSS pixels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from gridveil.core.text import fixed, number
from gridveil.report.style import GRID, INK, PAPER, QUIET, page_colour

Floats = NDArray[np.float64]

WIDTH, HEIGHT = 460.0, 307.0
FONT, SMALL, LARGE = 12.0, 11.3, 13.3
CHARACTER, NARROW = 0.6, 0.54  # widths of digits and of words in font sizes: only room is reserved by them
TITLE_ROOM, TICK_ROOM, LABEL_ROOM, LEGEND_ROOM, EDGE = 28.0, 20.0, 18.0, 18.0, 8.0
LEGEND_GAP = 6.0
MOST_TICKS = 7
LONGEST_DECIMALS = 6  # beyond it ticks are written with powers of ten
MOST_STEPS = 1500  # points of a curve: a page has no room for more
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # between ticks, times a power of ten


@dataclass(frozen=True, kw_only=True)
class Scale:
    """One axis: its range, its label, and whether its ticks are whole numbers. ``names`` replace the ticks 0, 1, 2, …"""

    low: float
    high: float
    label: str = ""
    whole: bool = False
    names: Sequence[str] | None = None

    def ticks(self) -> tuple[Floats, list[str]]:
        """Round numbers within the range, and their texts."""
        if self.names is not None:
            return np.arange(len(self.names), dtype=float), list(self.names)
        step = _step(self.high - self.low, whole=self.whole)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        decimals = next((d for d in range(16) if abs(round(step, d) - step) < 1e-9 * step), 15)
        values = step * np.arange(first, last + 1, dtype=np.float64)
        largest = max(abs(self.low), abs(self.high))
        extreme = largest >= 1e9 or decimals > LONGEST_DECIMALS
        return values, [number(float(v), 4) if extreme else fixed(float(v) + 0.0, decimals) for v in values]


def _step(length: float, *, whole: bool) -> float:
    """The smallest round step that leaves no more than MOST_TICKS ticks."""
    least = length / MOST_TICKS
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in STEPS if power * factor >= least * (1 - 1e-9))
    return max(1.0, float(math.ceil(step))) if whole else step


def span(values: Floats, *, include: Sequence[float] = (), margin: float = 0.06) -> tuple[float, float]:
    """The range of finite values and of what else must be seen, with a margin, so that no mark is cut at the axis."""
    seen = np.concatenate([values[np.isfinite(values)], np.asarray(include, dtype=float)])
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
    room = margin * (high - low) or 0.1 * abs(high) or 1.0
    return low - room, high + room


@dataclass(kw_only=True)
class Chart:
    """Two axes and their marks, in the order in which they are drawn. A mark with a ``label`` appears in the legend."""

    title: str
    x: Scale
    y: Scale
    width: float = WIDTH
    height: float = HEIGHT
    turned: bool = False
    """Whether y points down, as for rows of names."""
    _marks: list[str] = field(default_factory=list)
    _legend: list[tuple[str, str]] = field(default_factory=list)

    def line(
        self,
        x: Floats,
        y: Floats,
        *,
        colour: str,
        label: str = "",
        width: float = 2.1,
        dashes: str = "",
        steps: bool = False,
        read: bool = False,
    ) -> None:
        """A line through points, interrupted where one is not finite; with ``steps``, each value half a unit either way.

        With ``read``, pointing at the chart tells the line's value there.
        """
        every = max(1, -(-len(x) // MOST_STEPS))
        x, y = np.asarray(x, dtype=float)[::every], np.asarray(y, dtype=float)[::every]
        if steps and len(x):
            half = 0.5 * every
            x, y = np.column_stack([x - half, x + half]).ravel(), np.repeat(y, 2)
            x = np.clip(x, self.x.low, self.x.high)
        path, pen = "", "M"
        for across, down in zip(*self._at(x, y), strict=True):
            if math.isfinite(across + down):
                path += f"{pen}{across:.1f} {down:.1f}"
                pen = "L"
            else:
                pen = "M"
        look = _pen(colour, width, dashes)
        named = f' class="curve" data-name="{escape(label)}"' if read else ""
        self._add(
            f'<path{named} d="{path}" style="{look}"/>' if path else "", label, f'<path d="M0 0h20" style="{look}"/>'
        )

    def points(
        self, x: Floats, y: Floats, *, colour: str, label: str = "", size: float = 6.0, hollow: bool = False,
        diamond: bool = False, opacity: float = 1.0, tips: Sequence[str] | str = (),
    ) -> None:  # fmt: skip
        """Dots, hollow dots or diamonds of one size (px).

        ``tips`` are told where a reader points at a dot: a text for each, or the name of a table of the page (``parts.data``)
        that has a row for each, none of them missing. Without tips, dots that would cover each other exactly are drawn once.
        """
        where = np.column_stack(self._at(np.asarray(x, dtype=float), np.asarray(y, dtype=float)))
        finite = np.asarray(np.isfinite(where).all(axis=1))
        if tips and not isinstance(tips, str):
            tips = [tip for tip, kept in zip(tips, finite, strict=True) if kept]
        where = where[finite]
        if not tips:
            where = np.unique(np.round(where * 2) / 2, axis=0)
        draw, look = _marker(colour, size, hollow=hollow, diamond=diamond, opacity=opacity)
        path = "".join(draw.format(across, down) for across, down in where)
        told = tips if isinstance(tips, str) else json.dumps(list(tips), ensure_ascii=False)
        named = f' class="dots" data-tips="{escape(told)}"' if tips else ""
        mark = f'<path{named} d="{path}" style="{look}"/>' if path else ""
        self._add(mark, label, f'<path d="{draw.format(10.0, 0.0)}" style="{look}"/>')

    def spans(self, y: Floats, start: Floats, end: Floats, *, colour: str, label: str = "", width: float = 1.6) -> None:
        """Lines across, one from ``start`` to ``end`` at each y."""
        (left, down), (right, _) = self._at(start, y), self._at(end, y)
        finite = np.isfinite(left + right + down)
        ends = zip(left[finite], right[finite], down[finite], strict=True)
        path = "".join(f"M{a:.1f} {h:.1f}H{b:.1f}" for a, b, h in ends)
        look = _pen(colour, width)
        mark = f'<path d="{path}" style="{look}"/>' if path else ""
        self._add(mark, label, f'<path d="M0 0h20" style="{look}"/>')

    def across(self, y: float, *, colour: str, width: float = 1.3, dashes: str = "", note: str = "") -> None:
        """A line over the whole width, with a note at its right end."""
        self.line(np.array([self.x.low, self.x.high]), np.array([y, y]), colour=colour, width=width, dashes=dashes)
        (_, down) = self._at(np.array([self.x.high]), np.array([y]))
        if note:
            self._marks.append(
                _text(self._plot_width, float(down[0]) - 4, note, size=SMALL, colour=colour, anchor="end")
            )

    def upright(self, x: float, *, colour: str, label: str = "", width: float = 1.6, dashes: str = "") -> None:
        """A line over the whole height."""
        ends = np.array([self.y.low, self.y.high])
        self.line(np.array([x, x]), ends, colour=colour, label=label, width=width, dashes=dashes)

    def area(self, x: Floats, y: Floats, *, colour: str, opacity: float, label: str = "") -> None:
        """A filled polygon, cut where it leaves the axes."""
        corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(*self._at(x, y), strict=True))
        look = f"fill:{page_colour(colour)};fill-opacity:{opacity:g}"
        shape = f'<polygon points="{corners}" style="{look}"/>'
        mark = f'<svg width="{self._plot_width:.1f}" height="{self._plot_height:.1f}">{shape}</svg>'
        self._add(mark, label, f'<path d="M0 -5h20v10h-20z" style="{look}"/>')

    def bars(self, edges: Floats, counts: Floats, *, colour: str, label: str, filled: bool) -> None:
        """A histogram: filled, or its outline alone."""
        x = np.repeat(edges, 2)
        y = np.concatenate([[0.0], np.repeat(counts.astype(float), 2), [0.0]])
        if filled:
            self.area(x, y, colour=colour, opacity=0.45, label=label)
        else:
            self.line(x, y, colour=colour, label=label, width=2.4)

    def drawn(self, description: str) -> Markup:
        """The chart as SVG; ``description`` is what screen readers say."""
        left, top = self._left, TITLE_ROOM
        rows = self._legend_rows()
        height = self.height + (LEGEND_ROOM * len(rows) + LEGEND_GAP if rows else 0.0)
        parts = [
            _text(left, LARGE + 3, self.title, size=LARGE, bold=True),
            f'<g transform="translate({left:.1f} {top:.1f})">{self._axes()}{"".join(self._marks)}</g>',
            *(self._legend_row(row, self.height + LEGEND_GAP + LEGEND_ROOM * (k + 0.5)) for k, row in enumerate(rows)),
        ]
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {self.width:g} {height:g}" role="img" '
            f'data-axes="{self._axes_numbers()}" '
            f'aria-label="{escape(description)}" stroke-linejoin="round" '
            f'style="width:100%;max-width:{self.width:g}px;height:auto">'
        )
        return Markup(head + "".join(parts) + "</svg>")

    def _axes_numbers(self) -> str:
        """Corner and size of the axes (px) and their ranges, from which a script reads values off the chart."""
        box = (self._left, TITLE_ROOM, self._plot_width, self._plot_height)
        return " ".join(f"{value:.6g}" for value in (*box, self.x.low, self.x.high, self.y.low, self.y.high))

    @property
    def _left(self) -> float:
        longest = max((len(text) for text in self.y.ticks()[1]), default=0)
        return EDGE + CHARACTER * SMALL * longest + 6 + (LABEL_ROOM if self.y.label else 0.0)

    @property
    def _plot_width(self) -> float:
        return self.width - self._left - 2 * EDGE

    @property
    def _plot_height(self) -> float:
        return self.height - TITLE_ROOM - TICK_ROOM - (LABEL_ROOM if self.x.label else 0.0)

    def _at(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Pixels from the upper left corner of the axes."""
        share_x = (np.asarray(x, dtype=float) - self.x.low) / (self.x.high - self.x.low)
        share_y = (np.asarray(y, dtype=float) - self.y.low) / (self.y.high - self.y.low)
        return share_x * self._plot_width, (share_y if self.turned else 1 - share_y) * self._plot_height

    def _axes(self) -> str:
        wide, high = self._plot_width, self._plot_height
        (x_ticks, x_texts), (y_ticks, y_texts) = self.x.ticks(), self.y.ticks()
        across = self._at(x_ticks, np.full(len(x_ticks), self.y.low))[0]
        down = self._at(np.full(len(y_ticks), self.x.low), y_ticks)[1]
        lines = "".join(f"M{a:.1f} 0V{high:.1f}" for a in across)
        if self.y.names is None:
            lines += "".join(f"M0 {b:.1f}H{wide:.1f}" for b in down)
        ticks = "".join(f"M{a:.1f} {high:.1f}v4" for a in across) + "".join(f"M0 {b:.1f}h-4" for b in down)
        shown, end = [], -math.inf  # of two texts that would meet, the first is written
        for a, text in zip(across, x_texts, strict=True):
            half = CHARACTER * SMALL * len(text) / 2
            if a - half > end:
                shown.append(_text(a, high + 16, text, size=SMALL, anchor="middle"))
                end = a + half + 4
        return "".join(
            [
                f'<path d="{lines}" style="{_pen(GRID, 0.9)}"/>',
                f'<path d="M0 0V{high:.1f}H{wide:.1f}{ticks}" style="{_pen(QUIET, 1.0)}"/>',
                *shown,
                *(_text(-7, b + 4, text, size=SMALL, anchor="end") for b, text in zip(down, y_texts, strict=True)),
                _text(wide / 2, high + TICK_ROOM + 14, self.x.label, anchor="middle"),
                _text(-high / 2, 12 - self._left, self.y.label, anchor="middle", turned=True),
            ]
        )

    def _legend_rows(self) -> list[list[tuple[str, str, float]]]:
        """Marks and texts with the room they need, in as many rows as it takes."""
        rows: list[list[tuple[str, str, float]]] = []
        free = 0.0
        for sample, text in self._legend:
            room = 26 + NARROW * SMALL * len(text) + 12
            if room > free:
                rows.append([])
                free = self.width - 2 * EDGE
            rows[-1].append((sample, text, room))
            free -= room
        return rows

    def _legend_row(self, row: list[tuple[str, str, float]], down: float) -> str:
        start, parts = (self.width - sum(room for *_, room in row)) / 2, []
        for sample, text, room in row:
            words = _text(26, 4, text, size=SMALL)
            parts.append(f'<g transform="translate({start:.1f} {down:.1f})">{sample}{words}</g>')
            start += room
        return "".join(parts)

    def _add(self, mark: str, label: str, sample: str) -> None:
        self._marks.append(mark)
        if label:
            self._legend.append((sample, label))


def _pen(colour: str, width: float, dashes: str = "") -> str:
    dashed = f";stroke-dasharray:{dashes}" if dashes else ""
    return f"fill:none;stroke:{page_colour(colour)};stroke-width:{width:g}{dashed}"


def _marker(colour: str, size: float, *, hollow: bool, diamond: bool, opacity: float) -> tuple[str, str]:
    """A path around (x, y) to be formatted, and its style."""
    shade = f";opacity:{opacity:g}" if opacity < 1 else ""
    half = size / 2
    if diamond:
        side = f"{half * 1.2:.1f}"
        shape = f"M{{:.1f}} {{:.1f}}m-{side} 0l{side} -{side} {side} {side} -{side} {side}z"
        return shape, f"fill:{page_colour(colour)};stroke:none{shade}"
    if hollow:
        ring = f"a{half:.1f} {half:.1f} 0 1 0"
        shape = f"M{{:.1f}} {{:.1f}}m-{half:.1f} 0{ring} {size:.1f} 0{ring} -{size:.1f} 0z"
        return shape, f"fill:{page_colour(PAPER)};stroke:{page_colour(colour)};stroke-width:1.5{shade}"
    # A line of no length with round ends is a dot, and the shortest way to write one.
    return "M{:.1f} {:.1f}h0", f"{_pen(colour, size)};stroke-linecap:round{shade}"


def _text(
    x: float, y: float, text: str, *, size: float = FONT, colour: str = INK, anchor: str = "start", bold: bool = False,
    turned: bool = False,
) -> str:  # fmt: skip
    if not text:
        return ""
    weight, turn = (";font-weight:bold" if bold else ""), (' transform="rotate(-90)"' if turned else "")
    style = f"font-size:{size:g}px;fill:{page_colour(colour)};text-anchor:{anchor}{weight}"
    return f'<text x="{x:.1f}" y="{y:.1f}"{turn} style="{style}">{escape(text)}</text>'
