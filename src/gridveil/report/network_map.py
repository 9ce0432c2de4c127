"""The network as a drawing: positions, sizes and colours for a template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.text import number
from gridveil.report.area_map import AreaDrawing, draw_areas
from gridveil.report.labels import FONT_SIZE, GAP, GROWTH, HEIGHT, SIDES, Labels, place_labels
from gridveil.report.layout import graph_layout, spread
from gridveil.report.map_areas import find_areas
from gridveil.report.map_plane import LEAST_HEIGHT, MARGIN, MOST_HEIGHT, WIDTH, fit, given_points
from gridveil.report.map_scale import legend, shades
from gridveil.sectors.geometry import Places
from gridveil.sectors.view import Changes, Graph, NetworkView

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LONGEST_LABEL = 14
LARGE = 400  # nodes above which areas are drawn, which open into their nodes


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
    areas: tuple[()] = ()
    """None: every node is on the page."""


def draw_network(view: NetworkView, places: Places) -> Drawing | AreaDrawing:
    """Lay the network out, by the file's coordinates where it has them, and colour what changed."""
    names = [places.names.get(node, node) for node in view.ids]
    texts = [name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…" for name in names]
    captions = [f"{name} ({node})" if name != node else node for name, node in zip(names, view.ids, strict=True)]
    if len(names) > LARGE:
        return draw_areas(view, places, texts, captions)
    position, height, from_file = _positions(view, places)
    radius = _radii(view)
    first = np.nan_to_num(view.changes[0].values)
    labels = place_labels(texts, position, radius, np.abs(first) + 1e-9 * view.weight, (WIDTH, height))
    bins = [shades(change.values) for change in view.changes]
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
        legends=[legend(change, change.values) for change in view.changes],
        data={
            "growth": GROWTH,
            "gap": GAP,
            "half_height": FONT_SIZE * HEIGHT / 2,
            "names": captions,
            "details": [[list(pair) for pair in rows] for rows in view.details],
            "views": [
                {"name": change.name, "edges": change.of_edges, "bins": classes.tolist()}
                for change, classes in zip(view.changes, bins, strict=True)
            ],
        },
        from_file=from_file,
        stations=view.marked_words,
    )


def lay_out_ahead(graph: Graph) -> None:
    """Lay a large network out before anything is drawn, which needs the graph alone; it is remembered until then."""
    if graph.n > LARGE:
        find_areas(graph.n, graph.start, graph.end)


def _positions(view: NetworkView, places: Places) -> tuple[Floats, float, bool]:
    """Find positions in the drawing (y down), its height, and whether they are the file's."""
    given = given_points(view, places)
    layout = graph_layout(len(view.ids), view.start, view.end) if given is None else given
    plane = fit(layout.min(axis=0), layout.max(axis=0))
    position = plane.of(layout)
    if given is None:
        return position, plane.height, False
    position = spread(position, _least_gap(len(position)))
    low, high = position.min(axis=0), position.max(axis=0)
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, float(high[1] - low[1]) + 2 * MARGIN))
    return position - (low + high) / 2 + np.array([WIDTH / 2, height / 2]), height, True


def _least_gap(n: int) -> float:
    return 3.2 * _base_radius(n)


def _base_radius(n: int) -> float:
    """The usual radius of a node, so that many nodes get less room each."""
    return float(np.clip(60 / math.sqrt(n), 2.2, 9))


def _radii(view: NetworkView) -> Floats:
    largest = float(np.max(view.weight, initial=0.0)) or 1.0
    share = np.sqrt(np.abs(view.weight) / largest)
    return np.asarray(_base_radius(len(view.ids)) * np.where(view.weight > 0, 0.7 + 0.6 * share, 0.45))


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
