"""The drawing of a network: positions that repeat, labels that never overlap, coordinates of the file where it has them."""

from __future__ import annotations

import json

import numpy as np
import powerio
import pytest
from scipy.spatial.distance import pdist

from gridveil.report.labels import GROWTH, SCALES, label_boxes, place_labels, text_widths
from gridveil.report.layout import fill_missing, graph_layout, spread
from gridveil.report.map_scale import colours
from gridveil.report.network_map import WIDTH, draw_network
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.geometry import Places
from gridveil.sectors.registry import load_case, read_places
from gridveil.sectors.view import Changes, NetworkView


def edges(case: str):
    network = load_case(case).network
    return len(network.bus.id), network.branch.from_bus, network.branch.to_bus


def view_of(ids, start, end, values) -> NetworkView:
    n = len(ids)
    return NetworkView(
        ids=ids, weight=np.nan_to_num(np.abs(values)), supplied=np.zeros(n, dtype=bool), start=start, end=end,
        marked=np.zeros(len(start), dtype=bool), marked_words="", edge_titles=["edge"] * len(start), details=[[] for _ in ids],
        changes=[Changes(name="change", unit="MW", of_edges=False, values=values)],
    )  # fmt: skip


def test_a_path_becomes_a_straight_line_across():
    position = graph_layout(8, np.arange(7), np.arange(1, 8))
    assert np.ptp(position[:, 1]) < 0.05 * np.ptp(position[:, 0])
    steps = np.linalg.norm(np.diff(position, axis=0), axis=1)
    assert steps.max() < 1.6 * steps.min()


@pytest.mark.parametrize("case", ["veil9", "case118_ieee", "case300_ieee"])
def test_neighbours_are_drawn_nearer_than_strangers_and_nobody_on_top_of_another(case):
    n, start, end = edges(case)
    position = graph_layout(n, start, end)
    assert np.array_equal(position, graph_layout(n, start, end))
    assert np.isfinite(position).all()
    along_edges = np.linalg.norm(position[start] - position[end], axis=1)
    everywhere = pdist(position)
    assert np.median(along_edges) < 0.35 * np.median(everywhere) or n < 20
    assert everywhere.min() > 0.3 * np.median(along_edges) * (0.5 if n > 20 else 1)


def test_islands_and_lone_nodes_keep_apart():
    start, end = np.array([0, 1, 2, 5]), np.array([1, 2, 0, 6])
    position = graph_layout(8, start, end)
    assert pdist(position).min() > 0.4


def test_missing_coordinates_come_from_neighbours_and_shared_ones_are_spread():
    position = np.array([[0.0, 0.0], [np.nan, np.nan], [2.0, 4.0], [2.0, 4.0]])
    filled = fill_missing(position, np.array([0, 1]), np.array([1, 2]))
    assert filled[1] == pytest.approx([1.0, 2.0])
    assert pdist(spread(filled, 0.5)).min() > 0.4


@pytest.mark.parametrize("case", ["veil9", "case118_ieee", "case300_ieee"])
def test_labels_overlap_neither_each_other_nor_nodes_at_any_zoom(case):
    n, start, end = edges(case)
    plane = graph_layout(n, start, end)
    position = (plane - plane.min(axis=0)) * 900 / np.ptp(plane[:, 0]) + 50
    frame = (1000.0, float(position[:, 1].max()) + 50)
    texts = [f"bus {k}" for k in range(n)]
    radius = np.full(n, 4.0)
    labels = place_labels(texts, position, radius, np.arange(n, dtype=float), frame)
    width = text_widths(texts)
    for scale in (*SCALES, 0.5, 1.0, 3.3):
        shown = np.flatnonzero(labels.scale <= scale)
        boxes = label_boxes(position * scale, radius * scale**GROWTH, width, labels.side)[shown]
        left, top, right, bottom = boxes.T
        apart = (left[:, None] >= right - 1e-9) | (top[:, None] >= bottom - 1e-9)
        assert np.all((apart | apart.T)[~np.eye(len(shown), dtype=bool)]), f"labels overlap at scale {scale}"
        if scale not in SCALES:
            continue
        newly = boxes[labels.scale[shown] == scale]
        assert np.all(newly >= 0) and np.all(newly[:, 2:] <= scale * np.array(frame)), "a label leaves the drawing"
        outside = np.maximum(newly[:, None, :2] - position * scale, position * scale - newly[:, None, 2:])
        gaps = np.linalg.norm(np.maximum(outside, 0), axis=2)
        assert gaps.min(initial=np.inf) > 4 * scale**GROWTH - 1, f"a label covers a node at scale {scale}"
    assert np.isfinite(labels.scale).all()


def test_enough_labels_are_shown_to_find_the_way():
    """At the size of a desk screen a third of 300 labels fit."""
    n, start, end = edges("case300_ieee")
    drawing = draw_network(view_of([str(k) for k in range(n)], start, end, np.linspace(-1, 1, n)), Places())
    assert sum(label["scale"] <= 0.8 for label in drawing.labels) > n / 3


def test_coordinates_of_the_file_are_used_with_north_up(tmp_path):
    path = tmp_path / "case.json"
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "powermodels-json", str(path))
    content = json.loads(path.read_text())
    for k, bus in content["bus"].items():
        bus |= {"lon": 4.0 + int(k) / 10, "lat": 50.0 + int(k) ** 2 / 100, "name": f"Place {k}"}
    path.write_text(json.dumps(content))
    places = read_places(str(path))
    assert places.names["3"] == "Place 3" and places.points["3"] == pytest.approx((4.3, 50.09))
    n, start, end = edges(str(path))
    ids = [str(k) for k in load_case(str(path)).network.bus.id]
    drawing = draw_network(view_of(ids, start, end, np.ones(n)), places)
    assert drawing.from_file
    by_id = {node["title"].split(" (")[1].split(")")[0]: node for node in drawing.nodes}
    assert by_id["9"]["x"] > by_id["1"]["x"] and by_id["9"]["y"] < by_id["1"]["y"]
    assert all(0 < node["x"] < WIDTH and 0 < node["y"] < drawing.height for node in drawing.nodes)


def test_gas_files_give_their_coordinates(tmp_path):
    net = tmp_path / "small.net"
    net.write_text(
        '<network xmlns:framework="f"><framework:nodes><source id="a" alias="Well &lt;1&gt;" x="3" y="4"/>'
        '<sink id="b" geoWGS84Long="6.5" geoWGS84Lat="48"/><sink id="c" x="?" y="1"/></framework:nodes></network>'
    )
    places = read_places(str(net))
    assert places == Places(names={"a": "Well <1>"}, points={"a": (3.0, 4.0), "b": (6.5, 48.0)})
    table = tmp_path / "small.m"
    table.write_text("%% j\n% id p_min lat lon\nmgc.junction = [\n1 5 48.5 6.25\n2 5 49 7\n];\n")
    assert read_places(str(table)).points == {"1": (6.25, 48.5), "2": (7.0, 49.0)}


def test_colours_run_from_falls_over_grey_to_rises():
    scale = colours()
    values = np.array([-10.0, -1.0, 0.0, np.nan, 10.0])
    drawing = draw_network(view_of(list("abcde"), np.arange(4), np.arange(1, 5), values), Places())
    bins = [node["bin"] for node in drawing.nodes]
    assert bins[0] == 0 and bins[2] == len(scale) // 2 and bins[3] == -1 and bins[4] == len(scale) - 1
