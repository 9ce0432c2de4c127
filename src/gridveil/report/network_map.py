"""The network as a drawing: positions, sizes and colours for a template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.text import number
from gridveil.report.labels import FONT_SIZE, GAP, GROWTH, HEIGHT, SIDES, Labels, place_labels
from gridveil.report.layout import fill_missing, graph_layout, spread
from gridveil.report.style import HIGH, LOW, MIDDLE
from gridveil.sectors.geometry import Places
from gridveil.sectors.view import Changes, NetworkView

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDTH, LEAST_HEIGHT, MOST_HEIGHT, MARGIN = 1000.0, 360.0, 720.0, 34.0
CLASSES = 9  # of the colour scale; odd, so that one of them is "no change"
LONGEST_LABEL = 14
SHARE_WITH_POINTS = 0.5  # of the nodes that must have coordinates for these to be used


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawing:
    """A view with everything in the drawing's units: plain values for the template and its script."""

    height: float
    nodes: list[dict[str, object]]
    edges: list[dict[str, object]]
    labels: list[dict[str, object]]
    legends: list[dict[str, object]]
    data: dict[str, object]
    from_file: bool
    stations: str
    """What the squares are, in words; empty where there are none."""


def draw_network(view: NetworkView, places: Places) -> Drawing:
    """Lay the network out, by the file's coordinates where it has them, and colour what changed."""
    position, height, from_file = _positions(view, places)
    radius = _radii(view)
    names = [places.names.get(node, node) for node in view.ids]
    texts = [name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…" for name in names]
    first = np.nan_to_num(view.changes[0].values)
    labels = place_labels(texts, position, radius, np.abs(first) + 1e-9 * view.weight, (WIDTH, height))
    bins = [_bins(change.values) for change in view.changes]
    limits = [_limit(change.values) for change in view.changes]
    captions = [f"{name} ({node})" if name != node else node for name, node in zip(names, view.ids, strict=True)]
    places_xy = [(round(float(x), 1), round(float(y), 1)) for x, y in position]
    return Drawing(
        height=height,
        nodes=[
            {"x": x, "y": y, "r": round(float(size), 1), "bin": int(shade), "ring": bool(ring), "title": title}
            for (x, y), size, shade, ring, title in zip(
                places_xy, radius, bins[0], view.supplied, _titles(captions, view.changes[0]), strict=True
            )
        ],
        edges=[
            {"from": places_xy[i], "to": places_xy[j], "station": bool(station), "title": title}
            for i, j, station, title in zip(view.start, view.end, view.marked, view.edge_titles, strict=True)
        ],
        labels=_label_values(labels, texts, places_xy, radius),
        legends=[
            {
                "name": change.name,
                "least": f"{number(-limit, 3)} {change.unit}",
                "most": f"+{number(limit, 3)} {change.unit}",
            }
            for change, limit in zip(view.changes, limits, strict=True)
        ],
        data={
            "growth": GROWTH,
            "gap": GAP,
            "half_height": FONT_SIZE * HEIGHT / 2,
            "names": captions,
            "details": [[list(pair) for pair in rows] for rows in view.details],
            "views": [
                {"name": change.name, "edges": change.of_edges, "bins": shades.tolist()}
                for change, shades in zip(view.changes, bins, strict=True)
            ],
        },
        from_file=from_file,
        stations=view.marked_words,
    )


def colours() -> list[str]:
    """List the colours of the scale, from the largest fall over grey to the largest rise."""
    low, middle, high = (np.array([int(code[k : k + 2], 16) for k in (1, 3, 5)]) for code in (LOW, MIDDLE, HIGH))
    half = CLASSES // 2
    mixed = [low + (middle - low) * k / half for k in range(half)] + [
        middle + (high - middle) * k / half for k in range(half + 1)
    ]
    return ["#" + "".join(f"{round(channel):02x}" for channel in colour) for colour in mixed]


def _positions(view: NetworkView, places: Places) -> tuple[Floats, float, bool]:
    """Find positions in the drawing (y down), its height, and whether they are the file's."""
    found = np.array([places.points.get(node, (np.nan, np.nan)) for node in view.ids], dtype=float).reshape(-1, 2)
    known = np.asarray(np.isfinite(found).all(axis=1))
    from_file = bool(known.mean() >= SHARE_WITH_POINTS) and bool(np.all(np.ptp(found[known], axis=0) > 0))
    if from_file:
        if np.all(np.abs(found[known]) <= (180, 90)):  # degrees: a degree of longitude is shorter than one of latitude
            found[:, 0] *= math.cos(math.radians(float(found[known, 1].mean())))
        plane = fill_missing(found, view.start, view.end)
    else:
        plane = graph_layout(len(view.ids), view.start, view.end)
    plane = plane * (1, -1)
    plane -= plane.min(axis=0)
    size = np.maximum(np.ptp(plane, axis=0), 1e-9)
    room = np.array([WIDTH, MOST_HEIGHT]) - 2 * MARGIN
    plane = plane * float(np.min(room / size))
    plane = spread(plane, _least_gap(len(plane))) if from_file else plane
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, float(np.ptp(plane[:, 1])) + 2 * MARGIN))
    middle = (plane.max(axis=0) + plane.min(axis=0)) / 2
    return plane - middle + np.array([WIDTH / 2, height / 2]), height, from_file


def _least_gap(n: int) -> float:
    return 3.2 * _base_radius(n)


def _base_radius(n: int) -> float:
    """The usual radius of a node, so that many nodes get less room each."""
    return float(np.clip(60 / math.sqrt(n), 2.2, 9))


def _radii(view: NetworkView) -> Floats:
    largest = float(np.max(view.weight, initial=0.0)) or 1.0
    share = np.sqrt(np.abs(view.weight) / largest)
    return np.asarray(_base_radius(len(view.ids)) * np.where(view.weight > 0, 0.7 + 0.6 * share, 0.45))


def _limit(values: Floats) -> float:
    """The change that gets the strongest colour: the 98th percentile, so that one outlier does not pale all others."""
    changes = np.abs(values[np.isfinite(values)])
    return float(np.quantile(changes, 0.98)) or float(changes.max()) or 1.0 if changes.size else 1.0


def _bins(values: Floats) -> Ints:
    """Find the colour class of each change, −1 where there is none."""
    half = CLASSES // 2
    scaled = np.clip(np.nan_to_num(values) / _limit(values), -1, 1)
    return np.where(np.isfinite(values), np.rint(half * scaled).astype(np.int64) + half, -1)


def _titles(captions: Sequence[str], change: Changes) -> list[str]:
    return [
        f"{caption}: {number(value, 3)} {change.unit}" if math.isfinite(value) else caption
        for caption, value in zip(captions, change.values, strict=True)
    ]


def _label_values(
    labels: Labels, texts: Sequence[str], position: Sequence[tuple[float, float]], radius: Floats
) -> list[dict[str, object]]:
    """List the labels that are ever shown, those for the smallest scale first."""
    shown = [k for k in np.argsort(labels.scale, kind="stable") if math.isfinite(labels.scale[k])]
    return [
        {
            "text": texts[k],
            "x": position[k][0],
            "y": position[k][1],
            "r": round(float(radius[k]), 1),
            "side": SIDES[labels.side[k]].tolist(),
            "scale": math.ceil(1000 * labels.scale[k]) / 1000,  # never shown before there is room
        }
        for k in shown
    ]
