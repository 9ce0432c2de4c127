"""Figures of a study: the band, one curve per run, points in order, and the runs that the paper would show."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import typer
from matplotlib.colors import to_hex
from typer.testing import CliRunner

from gridveil.cli.study_output_commands import register
from gridveil.core.errors import InputError
from gridveil.report.study_figures import convergence_figure, distance_figure, monotonicity_figure
from gridveil.report.study_runs import FigureKind, figure_networks, network_runs, path, typical_trace
from gridveil.report.style import Role
from gridveil.study.tables import build_tables
from study_samples import AT_ONCE, SEARCH, crashed, frame, outcome, step, unverified, write_store

LONGER = (
    *SEARCH[:4],
    step("bisection", 0.0625, 98.9),
    step("bisection", 0.075, 99.1),
    step("verification", 0.075, 99.1),
)


def sample():
    """Two searches, a longer one, a high point that was enough, a run without a release and a crash."""
    searches = [outcome(0), outcome(1), outcome(2, steps=LONGER)]
    return frame([*searches, outcome(3, steps=AT_ONCE), unverified(4), crashed(5)])


def run_lines(axes):
    return [line for line in axes.lines if line.get_gid() == "run"]


def band_of(axes):
    (band,) = [patch for patch in axes.patches if patch.get_label() == "feasible costs"]
    return band


def test_the_band_is_shaded_from_f_minus_beta_to_f_plus_beta():
    for figure in (
        monotonicity_figure(network_runs(sample(), "case14_ieee", FigureKind.MONOTONICITY)),
        convergence_figure(network_runs(sample(), "case14_ieee", FigureKind.CONVERGENCE)),
    ):
        band = band_of(figure.axes[0])
        assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((99.0, 101.0))
        assert to_hex(band.get_facecolor()) == Role.BAND.lower() and band.get_alpha() < 0.5


def test_monotonicity_has_one_curve_per_run():
    axes = monotonicity_figure(network_runs(sample(), "case14_ieee", FigureKind.MONOTONICITY)).axes[0]
    lines = run_lines(axes)
    assert sorted(len(line.get_xdata()) for line in lines) == [
        1,
        1,
        4,
        4,
        6,
    ]  # the crash has none, the lone ones a point
    for line in lines:
        assert np.all(np.diff(line.get_xdata()) >= 0)
    curve = max(lines, key=lambda line: -len(line.get_xdata()) if len(line.get_xdata()) != 4 else 1)
    assert curve.get_xdata() == pytest.approx([0.1, 0.2, 0.3, 0.4])  # √δ, not δ
    assert curve.get_ydata() == pytest.approx([90.0, 96.0, 99.2, 100.5])
    assert "5 of 6 runs" in axes.get_title(loc="right")
    assert len({to_hex(line.get_color()) for line in lines if len(line.get_xdata()) > 1}) == 3


def test_fifty_runs_are_fifty_curves():
    runs = network_runs(frame([outcome(seed) for seed in range(50)]), "case14_ieee", FigureKind.MONOTONICITY)
    lines = run_lines(monotonicity_figure(runs).axes[0])
    assert len(lines) == 50 and len({to_hex(line.get_color()) for line in lines}) == 50


def test_convergence_shows_cost_and_distance_over_iterations():
    figure = convergence_figure(network_runs(sample(), "case14_ieee", FigureKind.CONVERGENCE))
    left, right = figure.axes
    (cost,) = [line for line in left.lines if line.get_label() == "optimal cost O(d)"]
    (distance,) = [line for line in right.lines if line.get_label() == "distance of d"]
    assert list(cost.get_xdata()) == [0, 1, 2, 3]  # without the verification
    assert list(cost.get_ydata()) == [90.0, 96.0, 100.5, 99.2]
    assert distance.get_ydata() == pytest.approx([0.1, 0.2, 0.4, 0.3])
    for axes, height in ((left, 99.2), (right, 0.3)):
        (ring,) = [line for line in axes.lines if line.get_label() == "released"]
        assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (3, pytest.approx(height))


def test_a_typical_run_is_a_verified_search_of_median_length():
    runs = network_runs(sample(), "case14_ieee", FigureKind.CONVERGENCE)
    assert typical_trace(runs).seed == 1
    nothing_else = replace(runs, traces=runs.traces[3:4])
    assert typical_trace(nothing_else).seed == 3
    with pytest.raises(InputError, match="nothing to draw"):
        typical_trace(replace(runs, traces=()))


def test_a_solve_that_failed_is_a_gap_and_no_point_of_the_path():
    steps = [step("highpoint", 0.01, 90.0), step("doubling", 0.04, None), step("price cut", 0.02, 99.0)]
    (trace,) = network_runs(frame([outcome(0, steps=steps)]), "case14_ieee", FigureKind.CONVERGENCE).traces
    assert math.isnan(trace.costs[1])
    distances, costs = path(trace)
    assert (list(distances), list(costs)) == ([0.1], [90.0])  # cuts are not points of O↑


def test_the_papers_settings_and_networks_are_preferred():
    gas = {"network": "24-pipe", "kind": "gas", "solver": "ipopt"}
    outcomes = [outcome(0, alpha=a, beta=b, **gas) for a, b in ((0.1, 0.01), (0.1, 0.1), (1.0, 0.01))]
    outcomes += [outcome(0, method="auto", **gas), outcome(0, network="mine", alpha=2.0, beta=0.05)]
    rows = frame(outcomes)
    assert network_runs(rows, "24-pipe", FigureKind.MONOTONICITY).setting == "ε = 1, α = 0.1, β = 10 %, bisection"
    assert network_runs(rows, "24-pipe", FigureKind.CONVERGENCE).setting == "ε = 1, α = 0.1, β = 1 %, bisection"
    assert network_runs(rows, "mine", FigureKind.CONVERGENCE).half_width == pytest.approx(5.0)
    assert figure_networks(rows, FigureKind.MONOTONICITY) == ["24-pipe"]
    assert figure_networks(rows[rows["network"] == "mine"], FigureKind.MONOTONICITY) == ["mine"]
    assert figure_networks(frame([crashed(0)]), FigureKind.CONVERGENCE) == []
    with pytest.raises(InputError, match="no run of network case39"):
        network_runs(rows, "case39", FigureKind.CONVERGENCE)


def test_distances_beside_the_papers():
    rows = frame([outcome(seed, alpha=alpha, released_distance=0.5) for alpha in (0.1, 1.0) for seed in range(3)])
    (table,) = build_tables(rows, ["V"])
    panels = distance_figure(table).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["α = 0.1", "α = 1"]
    rings = [line.get_xdata()[0] for line in panels[0].lines if line.get_label() == "paper"]
    assert rings == [0.67, 0.67, 0.71]


def test_the_command_writes_every_format(tmp_path):
    store = write_store(tmp_path / "s.sqlite", [outcome(seed, network="a/b <c>") for seed in range(3)])
    app = typer.Typer(pretty_exceptions_enable=False)
    register(app)
    call = ["figure", str(store), "--out", str(tmp_path / "figures"), "--kind", "monotonicity", "--json"]
    files = json.loads(CliRunner().invoke(app, call).stdout)["files"]
    names = sorted(file.rpartition("/")[2] for file in files)
    assert names == [f"monotonicity-a_b_c_.{form}" for form in ("pdf", "png", "svg")]
    starts = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
    for name in names:
        assert (tmp_path / "figures" / name).read_bytes().startswith(starts[name[-3:]])
    for arguments, message in [(["--format", "gif"], "figure format 'gif'"), (["--network", "other"], "network other")]:
        error = CliRunner().invoke(app, [*call, *arguments]).exception
        assert isinstance(error, InputError) and message in str(error)
