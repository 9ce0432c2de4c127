"""The charts: every mark within its axes, ticks that can be read, text that is only text."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from gridveil.bilevel.result import StepKind
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.text import MINUS
from gridveil.report import charts
from gridveil.report.svg import MOST_STEPS, MOST_TICKS, Chart, Scale, span
from gridveil.sectors.view import BarsBeforeAndAfter, SortedValues

SVG = "{http://www.w3.org/2000/svg}"
NASTY = '<script>alert("x")</script> & $a_b$'


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def chart(**more: object) -> Chart:
    axes = {"x": Scale(low=0.0, high=10.0), "y": Scale(low=-1.0, high=1.0)}
    return Chart(title="t", **(axes | more))  # type: ignore[arg-type]


def plotted(svg: str) -> np.ndarray:
    """All absolute positions of paths inside the axes, as (x, y), and the size of the axes."""
    root = ElementTree.fromstring(svg)
    marks = [path for path in root.find(f"{SVG}g") if path.tag == f"{SVG}path"][2:]  # after grid and frame
    found = [re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"]) for path in marks]
    return np.array([pair for pairs in found for pair in pairs], dtype=float)


def frame(svg: str) -> tuple[float, float]:
    height, width = re.search(r'd="M0 0V([\d.]+)H([\d.]+)', svg).groups()  # type: ignore[union-attr]
    return float(width), float(height)


@pytest.mark.parametrize(
    ("low", "high", "whole", "expected"),
    [
        (0.0, 1.0, False, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-3.0, 14.0, False, [f"{MINUS}2.5", "0.0", "2.5", "5.0", "7.5", "10.0", "12.5"]),
        (0.5, 3.5, True, ["1", "2", "3"]),
        (0.5, 30000.5, True, ["5\u2009000", "10\u2009000", "15\u2009000", "20\u2009000", "25\u2009000", "30\u2009000"]),
        (2.78e6, 2.82e6, False, ["2\u2009780\u2009000", "2\u2009790\u2009000", "2\u2009800\u2009000", "2\u2009810\u2009000",
                                 "2\u2009820\u2009000"]),
    ],
)  # fmt: skip
def test_ticks_are_round_numbers(low, high, whole, expected):
    assert Scale(low=low, high=high, whole=whole).ticks()[1] == expected


def test_ticks_of_any_range_are_few_different_and_inside():
    generator = np.random.default_rng(0)
    for exponent in range(-12, 13):
        low, length = 10.0**exponent * generator.uniform(-5, 5, 2)
        scale = Scale(low=low, high=low + abs(length))
        values, names = scale.ticks()
        assert 2 <= len(values) <= MOST_TICKS + 1 and len(set(names)) == len(names)
        assert values.min() >= scale.low - 1e-9 * abs(length) and values.max() <= scale.high + 1e-9 * abs(length)


def test_points_and_lines_lie_where_their_values_say():
    drawn = chart()
    drawn.line(np.array([0.0, 5.0, 10.0]), np.array([-1.0, 0.0, 1.0]), colour="#000000")
    width, height = frame(svg := drawn.drawn("d"))
    assert plotted(svg) == pytest.approx(np.array([[0, height], [width / 2, height / 2], [width, 0]]), abs=0.1)
    turned = chart(turned=True)
    turned.points(np.array([10.0]), np.array([1.0]), colour="#000000")
    assert plotted(turned.drawn("d")) == pytest.approx(np.array([[width, height]]), abs=0.5)


def test_a_line_breaks_where_a_value_is_missing_and_a_long_one_is_thinned():
    drawn = chart()
    drawn.line(np.arange(4.0), np.array([0.0, np.nan, 0.5, 1.0]), colour="#000000")
    assert re.search(r'd="(M[^"]*)" style="[^"]*stroke:#000000', drawn.drawn("d"))[1].count("M") == 2  # type: ignore[index]
    long = chart(x=Scale(low=0, high=1e5))
    long.line(np.arange(1e5), np.zeros(100_000), colour="#000000")
    assert MOST_STEPS / 2 < len(plotted(long.drawn("d"))) <= MOST_STEPS


def test_points_in_one_place_are_drawn_once_and_missing_ones_not_at_all():
    drawn = chart()
    drawn.points(np.array([1.0, 1.0, np.nan]), np.zeros(3), colour="#000000")
    assert len(plotted(drawn.drawn("d"))) == 1


def test_text_from_files_is_escaped_and_said_to_screen_readers():
    svg = chart(y=Scale(low=-0.6, high=0.6, names=[NASTY])).drawn(NASTY)
    root = ElementTree.fromstring(svg)
    assert NASTY in texts(svg) and root.attrib["role"] == "img" and root.attrib["aria-label"] == NASTY
    assert "<script" not in svg and not re.search(r"\bid=", svg)


def test_colours_of_text_axes_and_paper_follow_the_page():
    svg = chart(x=Scale(low=0, high=1, label="x")).drawn("d")
    assert "currentColor" in svg and "var(--quiet" in svg and "var(--line" in svg


def everything() -> dict[str, str]:
    generator = np.random.default_rng(1)
    true = generator.gamma(1.0, 30.0, 60)
    released = true + generator.normal(0, 20, 60)
    history = [
        SimpleNamespace(cost=cost, delta=delta, kind=StepKind.CUT)
        for cost, delta in [(8e3, 0.3), (np.nan, np.nan), (10.5e3, 0.6), (1.2e4, 0.9)]
    ]
    band = CostTarget(value=10557.6, beta=105.6, source=CostTargetMode.PRIVATE)
    cost, distance = charts.convergence(history, band, "$/h")  # type: ignore[arg-type]
    bars = BarsBeforeAndAfter(
        title="bars",
        axis="MW",
        labels=[f"generator {k}" for k in range(20)],
        before=np.append(true[:19], np.nan),
        after=released[:20],
        limits=(np.zeros(20), np.full(20, np.inf)),
    )
    curve = SortedValues(title="curve", axis="share", before=true / 100, after=released / 100, limit=3.0)
    return {
        "scatter": charts.demand_scatter("P", true, released, "MW", 10.0, 25.0),
        "one site": charts.demand_scatter("P", true[:1], true[:1], "MW", 1e-7, 1e-7),
        "histogram": charts.change_histogram({"P": released - true, "Q": true - released}, "MW", 10.0, 25.0),
        "no change": charts.change_histogram({"P": np.zeros(3)}, "MW", 1.0, 2.0),
        "bars": charts.before_and_after(bars),
        "curve": charts.before_and_after(curve),
        "ruler": charts.cost_ruler(band, 9.9e3, np.nan, 10.6e3, "$/h"),
        "cost": cost,
        "distance": distance,
    }


@pytest.mark.parametrize(("name", "svg"), everything().items())
def test_no_mark_leaves_its_axes(name, svg):
    width, height = frame(svg)
    places = plotted(svg)
    assert len(places) and np.all(np.isfinite(places)), name
    assert np.all(places >= -0.05) and np.all(places <= np.array([width, height]) + 0.05), name


def test_limit_and_band_are_seen_even_if_no_point_reaches_them():
    svg = everything()["curve"]
    assert "limit" in texts(svg) and {"3", "3.0"} & set(texts(svg))
    costs = [int(t.replace("\u2009", "")) for t in texts(everything()["cost"]) if re.fullmatch(r"\d+\u2009\d+", t)]
    assert min(costs) <= 8000 and max(costs) >= 12000


def test_a_margin_keeps_the_extremes_off_the_axes():
    assert span(np.array([0.0, 100.0, np.nan])) == pytest.approx((-6.0, 106.0))
    assert span(np.array([])) == pytest.approx((-0.06, 1.06))
    low, high = span(np.array([5.0, 5.0]), include=(5.0,))
    assert low < 5.0 < high


def test_a_histogram_counts_every_site():
    svg = charts.change_histogram({"P": np.array([-9.0, 0.0, 0.0, 0.0, 9.0])}, "MW", 10.0, 5.0)
    polygon = ElementTree.fromstring(svg).find(f".//{SVG}polygon")
    corners = np.array([pair.split(",") for pair in polygon.attrib["points"].split()], dtype=float)  # type: ignore[union-attr]
    _, height = frame(svg)
    tallest = (height - corners[:, 1].min()) / height
    assert tallest == pytest.approx(1 / 1.06, abs=0.01)  # three sites at zero, and the axis a little higher
    bars = (height - corners[1:-1:2, 1]) / height * 3 * 1.06
    assert round(float(bars.sum())) == 5


def test_limits_are_drawn_to_their_ends_and_the_largest_change_is_on_top():
    bars = BarsBeforeAndAfter(
        title="bars", axis="MW", labels=["a", "b", "c"], before=np.array([10.0, 20.0, 30.0]),
        after=np.array([11.0, 60.0, 25.0]), limits=(np.zeros(3), np.array([100.0, 5000.0, np.inf])),
    )  # fmt: skip
    svg = charts.before_and_after(bars)
    width, _ = frame(svg)
    assert [t for t in texts(svg) if t in "abc"] == ["b", "c", "a"]
    limits = [path for path in ElementTree.fromstring(svg).find(f"{SVG}g") if path.tag == f"{SVG}path"][2]  # type: ignore[union-attr]
    ends = [float(end) for end in re.findall(r"H([\d.]+)", limits.attrib["d"])]
    low, high = span(np.array([0.0, 5000.0]))
    expected = [
        (5000 - low) / (high - low) * width,
        width,
        (100 - low) / (high - low) * width,
    ]  # b, c without a limit, a
    assert ends == pytest.approx(expected, abs=0.1)


def test_every_tip_belongs_to_its_dot():
    drawn = chart()
    drawn.points(np.array([1.0, 2.0, np.nan, 2.0]), np.zeros(4), colour="#000000", tips=["a", "b", "missing", NASTY])
    path = next(
        one for one in ElementTree.fromstring(drawn.drawn("d")).iter(f"{SVG}path") if one.get("class") == "dots"
    )
    assert json.loads(path.attrib["data-tips"]) == ["a", "b", NASTY]
    assert len(re.findall("M", path.attrib["d"])) == 3  # dots on one spot are kept, each with its own tip
