"""A large network as a drawing of areas, each of which opens into its nodes when a reader zooms in.

Areas are part of the page; nodes and lines are numbers for ``static/network_map.js``, which draws what is in sight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.text import number
from gridveil.report.labels import FONT_SIZE, GAP, HEIGHT, text_widths
from gridveil.report.map_areas import Areas, find_areas
from gridveil.report.map_plane import fit, given_points
from gridveil.report.map_scale import legend, shades
from gridveil.sectors.geometry import Places
from gridveil.sectors.view import Changes, NetworkView

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NODE_RADIUS = 0.3  # in units of the layout, in which nodes of an area stand about 1.4 apart
THICKEST = 7.0  # px: the link between two areas with the most lines
LINES_OF_THICKEST = 12


@dataclass(frozen=True, eq=False, kw_only=True)
class AreaDrawing:
    """Areas and the links between them for the template; nodes and lines as numbers for its script."""

    height: float
    areas: list[dict[str, object]]
    links: list[dict[str, object]]
    legends: list[dict[str, object]]
    """Of the areas; ``node_legends`` are those of what is seen after zooming in."""
    node_legends: list[dict[str, object]]
    data: dict[str, object]
    from_file: bool
    stations: str


def draw_areas(view: NetworkView, places: Places, names: Sequence[str], captions: Sequence[str]) -> AreaDrawing:
    """Lay a large network out as areas, by the file's coordinates where it has them, and colour what changed."""
    given = given_points(view, places)
    areas = find_areas(len(view.ids), view.start, view.end, given)
    reach = areas.radius[:, None]
    plane = fit((areas.centre - reach).min(axis=0), (areas.centre + reach).max(axis=0))
    centre, radius, position = plane.of(areas.centre), plane.scale * areas.radius, plane.of(areas.position)
    unit = plane.scale if given is None else float(np.median(radius / np.sqrt(np.bincount(areas.member))))
    totals = [_of_areas(change, view, areas) for change in view.changes]
    return AreaDrawing(
        height=plane.height,
        areas=_area_values(view, areas, centre, radius, names, totals),
        links=_link_values(view, areas, centre),
        legends=[legend(change, values, ", by area") for change, values in zip(view.changes, totals, strict=True)],
        node_legends=[legend(change, change.values) for change in view.changes],
        data={
            "gap": GAP,
            "half_height": FONT_SIZE * HEIGHT / 2,
            "names": list(captions),
            "labels": list(names),
            "x": _rounded(position[:, 0]),
            "y": _rounded(position[:, 1]),
            "r": _rounded(unit * NODE_RADIUS * _sizes(view), 2),
            "area": areas.member.tolist(),
            "ring": np.flatnonzero(view.supplied).tolist(),
            "start": view.start.tolist(),
            "end": view.end.tolist(),
            "details": _by_name(view.details),
            "views": [
                {"name": change.name, "edges": change.of_edges, "bins": _letters(shades(change.values)),
                 "areas": _letters(shades(values))}
                for change, values in zip(view.changes, totals, strict=True)
            ],
        },
        from_file=given is not None,
        stations=view.marked_words,
    )  # fmt: skip


def _of_areas(change: Changes, view: NetworkView, areas: Areas) -> Floats:
    """A change of every area (NaN: none): the sum over its nodes where changes add up, else the mean of nodes or lines."""
    member = areas.member
    if change.of_edges:
        inside = member[view.start] == member[view.end]
        place, values = member[view.start[inside]], change.values[inside]
    else:
        place, values = member, change.values
    known = np.isfinite(values)
    total = np.bincount(place[known], values[known], len(areas))
    count = np.bincount(place[known], minlength=len(areas))
    return np.where(count > 0, total if change.adds_up else total / np.maximum(count, 1), np.nan)


def _area_values(
    view: NetworkView, areas: Areas, centre: Floats, radius: Floats, names: Sequence[str], totals: Sequence[Floats]
) -> list[dict[str, object]]:
    """What the template draws of each area. An area is called by its node of the largest demand."""
    classes = [shades(values) for values in totals]
    found = []
    for k in range(len(areas)):
        nodes = np.flatnonzero(areas.member == k)
        name = names[nodes[np.argmax(view.weight[nodes])]]
        rows = [
            (change.name if change.adds_up else f"{change.name}, mean", f"{number(values[k], 3)} {change.unit}")
            for change, values in zip(view.changes, totals, strict=True)
            if math.isfinite(values[k])
        ]
        found.append(
            {
                "x": round(float(centre[k, 0]), 1),
                "y": round(float(centre[k, 1]), 1),
                "r": round(float(radius[k]), 1),
                "bin": int(classes[0][k]),
                "name": name,
                "width": round(float(text_widths([name])[0])),
                "count": len(nodes),
                "rows": rows,
            }
        )
    return found


def _link_values(view: NetworkView, areas: Areas, centre: Floats) -> list[dict[str, object]]:
    """Lines between areas, the number of real lines as their width."""
    ends = np.sort(np.column_stack([areas.member[view.start], areas.member[view.end]]), axis=1)
    pairs, count = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0, return_counts=True)
    width = 1 + (THICKEST - 1) * np.minimum(count / LINES_OF_THICKEST, 1)
    return [
        {"from": centre[i].round(1).tolist(), "to": centre[j].round(1).tolist(), "width": round(float(wide), 1)}
        for (i, j), wide in zip(pairs, width, strict=True)
    ]


def _sizes(view: NetworkView) -> Floats:
    """Radii of nodes over the usual one: they grow with the demand, and nodes without one are small."""
    largest = float(np.quantile(view.weight[view.weight > 0], 0.95)) if np.any(view.weight > 0) else 1.0
    share = np.minimum(np.sqrt(np.abs(view.weight) / largest), 1.2)
    return np.asarray(np.where(view.weight > 0, 0.6 + 0.6 * share, 0.45))


def _by_name(details: Sequence[Sequence[tuple[str, str]]]) -> dict[str, dict[str, object]]:
    """What the side box says of all nodes, each name once: nodes that have it, and their texts."""
    columns: dict[str, tuple[list[int], list[str]]] = {}
    for node, rows in enumerate(details):
        for name, text in rows:
            nodes, texts = columns.setdefault(name, ([], []))
            nodes.append(node)
            texts.append(text)
    return {name: {"nodes": _steps(nodes), "texts": texts} for name, (nodes, texts) in columns.items()}


def _steps(ascending: list[int]) -> list[int]:
    """Differences of ascending numbers, which are shorter to write."""
    return np.diff(ascending, prepend=0).tolist()


def _letters(classes: Ints) -> str:
    """One character for each class, a hyphen for none."""
    return "".join("-" if k < 0 else str(k) for k in classes.tolist())


def _rounded(values: Floats, digits: int = 1) -> list[float]:
    return np.round(values, digits).tolist()  # type: ignore[no-any-return]
