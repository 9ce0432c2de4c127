"""The Python API: solve, release, frames and plots, with nothing secret where it was not asked for."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import yaml

import gridveil
import gridveil.service.keeping
import gridveil.service.series
import gridveil.study.explore
from conftest import two_bus_net
from gridveil.api.html import facts_html, grid_html
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.service.budget import ledger_of
from gridveil.solvers.batch import backends
from gridveil.solvers.batch.engine_native import missing_compiler

EVIL = "<script>alert(1)"
SECRETS = ("41.75", "13.25", "0.4175", "0.1325", "43.8")  # P and Q of the two-bus file, per unit, and |S|


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def two_bus(tmp_path):
    path = tmp_path / f"{EVIL}.m"
    path.write_text(two_bus_net().text())
    (tmp_path / "sites.csv").write_text("2\n")
    return gridveil.load(path, sites=str(tmp_path / "sites.csv"))


@pytest.fixture(scope="module")
def veil9():
    return gridveil.load("veil9")


@pytest.fixture(scope="module")
def veil9_release(veil9):
    return veil9.release(epsilon=1, alpha="0.1pu", beta="1%", seed=8)


@pytest.mark.parametrize(("formulation", "cost"), [("ac", 2178.1), ("dc", 2051.5)])
def test_solve_gives_the_published_optimum_and_a_balanced_operating_point(formulation, cost):
    case = gridveil.load("case14_ieee")
    result = case.solve(formulation=formulation)
    assert (result.status, result.cost) == ("converged", pytest.approx(cost, rel=1e-4))
    frames = result.to_pandas()
    demand = 100 * case.case.values.reveal().sum()
    losses = result.dispatch.p_mw.sum() - demand.real
    if formulation == "dc":
        assert losses == pytest.approx(0, abs=1e-3)
        return
    assert 0 < losses < 0.1 * demand.real
    assert frames["buses"].voltage_pu.between(0.94 - 1e-6, 1.06 + 1e-6).all()
    assert frames["branches"].loading.max() <= 1 + 1e-6
    assert list(frames["buses"].bus) == list(range(1, 15))


def test_gas_is_solved_and_released_too():
    case = gridveil.load("veilgas", flow_base=10)
    assert case.solve().cost == pytest.approx(6.719433, rel=1e-5)
    assert case.solve().to_pandas()["junctions"].pressure_bar.iloc[0] == pytest.approx(50)
    assert (case.solve().dispatch.ratio >= 1 - 1e-9).all()
    result = case.release(epsilon=1, alpha="1/50pu", beta="2%", seed=1)
    frame = result.to_pandas()
    assert list(frame.columns) == ["junction", "kg_per_s"]
    assert np.allclose(frame.kg_per_s, 10 * result.demand)
    assert result.solve().cost == pytest.approx(result.cost, rel=1e-5)
    with pytest.raises(InputError, match="gas network"):
        result.to_pandapower()


def test_a_seeded_release_is_that_of_the_command_line(cli, tmp_path, veil9_release):
    cli(
        "release",
        "veil9",
        "--epsilon",
        "1",
        "--alpha",
        "0.1pu",
        "--beta",
        "1%",
        "--seed",
        "8",
        "--out",
        tmp_path / "cli",
    )
    files = veil9_release.save(tmp_path / "api")
    assert files == sorted(str(p.relative_to(tmp_path / "cli")) for p in (tmp_path / "cli").rglob("*") if p.is_file())
    assert "simulation/card.yaml" in files and not (tmp_path / "api" / "public").exists()
    for name in ("network.m", "card.yaml"):
        written = [(tmp_path / side / "simulation" / name).read_text() for side in ("cli", "api")]
        assert written[0] == written[1]
    stated, made = yaml.safe_load(written[1]), yaml.safe_load(yaml.safe_dump(veil9_release.card))
    assert stated.pop("publication") == made.pop("publication") | {"network": "veil9"} and stated.pop("files")
    assert stated == made
    assert gridveil.load(tmp_path / "api" / "simulation" / "network.m").solve().cost == pytest.approx(
        veil9_release.cost, rel=1e-5
    )
    with pytest.raises(InputError, match="not an empty folder"):
        veil9_release.save(tmp_path / "api")


def test_released_demands_are_public_and_true_ones_only_on_request(veil9, veil9_release, tmp_path, ledger_home):
    truth = 100 * gridveil.load("veil9").case.values.reveal()
    public = veil9_release.to_pandas()
    assert list(public.columns) == ["bus", "p_mw", "q_mvar"]
    assert np.allclose(public.p_mw + 1j * public.q_mvar, 100 * veil9_release.demand)
    private = veil9_release.curator.to_pandas()
    assert np.allclose(private.true_p_mw + 1j * private.true_q_mvar, truth)
    assert np.allclose(private.released_p_mw, public.p_mw)
    assert veil9.release(beta="5%", seed=8, reuse=veil9_release).simulation
    assert (
        list(tmp_path.iterdir()) == list(ledger_home.iterdir()) == []
    )  # a simulation needs no ledger, and leaves none
    assert "curator" not in veil9_release.summary() and 0 < veil9_release.curator.distances.distance_released < 2


def test_nothing_shown_holds_a_true_demand_or_a_tag(two_bus):
    result = two_bus.release(epsilon=1, alpha="0.05pu", beta="10%", seed=4)
    solved = two_bus.solve()
    for thing in (two_bus, result, result.curator, solved, result.solve(), result.plot, result.curator.plot):
        shown = repr(thing) + (thing._repr_html_() if hasattr(thing, "_repr_html_") else "")
        for secret in SECRETS:
            assert secret not in shown, thing
        if hasattr(thing, "_repr_html_"):
            assert EVIL not in thing._repr_html_()
    assert "&lt;script&gt;" in two_bus._repr_html_() and "&lt;script&gt;" in result._repr_html_()
    assert "reveals true demands" in solved._repr_html_() and "reveals" not in result.solve()._repr_html_()
    assert "NOT PRIVATE" in repr(result) and "NOT PRIVATE" in result._repr_html_()
    assert (
        repr(result.curator)
        == "CuratorView(Contains true demands: do not share. to_pandas() and plot.scatter() show them.)"
    )
    assert "41.75" in result.curator.to_pandas().to_string()


def test_every_part_of_a_table_is_escaped():
    for shown in (facts_html(EVIL, {EVIL: EVIL}, EVIL), grid_html(EVIL, [EVIL], [[EVIL]], EVIL)):
        assert EVIL not in shown and shown.count("&lt;script&gt;") == 4 and "&lt;t" not in shown


def test_public_frames_show_sites_without_demands(two_bus):
    text = "".join(frame.to_string() for frame in two_bus.to_pandas().values())
    assert two_bus.to_pandas()["sites"].bus.tolist() == [2]
    assert two_bus.to_pandas()["branches"].rate_mva.tolist() == [90.0]
    for secret in SECRETS:
        assert secret not in text


def test_a_release_is_charged_and_its_draw_can_be_used_again_for_nothing(two_bus, tmp_path):
    result = two_bus.release(epsilon=0.5, alpha="0.01pu", beta="40%", budget=1, solver="ipopt")
    book = ledger_of(two_bus.case)
    assert not result.simulation and "NOT PRIVATE" not in repr(result)
    again = two_bus.release(beta="50%", reuse=result, solver="ipopt")
    result.save(tmp_path / "out")
    loaded = gridveil.load(two_bus.source, sites=str(tmp_path / "sites.csv"))
    from_folder = loaded.release(beta="45%", reuse=tmp_path / "out", solver="ipopt")
    assert np.array_equal(again.draw.noisy.values, from_folder.draw.noisy.values)
    assert two_bus.draws == [result.draw]
    history = book.history()
    assert (len(history.charges), history.spent, history.cap) == (2, Fraction(1, 2), 1)
    with pytest.raises(InputError, match=r"ε = 0.5 and α = 1 MVA"):
        two_bus.release(epsilon=1, beta="50%", reuse=result)
    with pytest.raises(InputError, match="not made from this case"):
        gridveil.load("veil9").release(beta="50%", budget=1, alpha="0.1pu", reuse=result)
    with pytest.raises(InputError, match="made from other data"):
        gridveil.load("veil9").release(beta="50%", reuse=tmp_path / "out")


def test_a_failed_release_keeps_the_draw_that_was_paid_for(two_bus, monkeypatch):
    def fail(*_, **__):
        raise NoReleaseError("no release")

    with monkeypatch.context() as patch:
        patch.setattr(gridveil.service.keeping, "repair", fail)
        with pytest.raises(NoReleaseError) as caught:
            two_bus.release(epsilon=1, alpha="0.01pu", beta="40%", budget=1, solver="ipopt")
    assert "reuse=case.draws[-1]" in caught.value.__notes__[0]
    rescued = two_bus.release(beta="40%", reuse=two_bus.draws[-1], solver="ipopt")
    assert rescued.draw is two_bus.draws[0] and len(two_bus.draws) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beta": 0.01}, "beta must be text"),
        ({"beta": "1%", "alpha": 0.1}, "has no unit: 0.1 means 10 MVA"),
        ({"beta": "1%", "method": "magic"}, "known are auto, bisection"),
        ({"beta": "1%", "epsilon": -1}, "epsilon"),
        ({"beta": "1%", "cost_target": "forecast"}, "forecast"),
        ({"beta": "1%", "cost_target": "forecast", "forecast_cost": 0.0}, "beta as an amount"),
        ({"beta": "1%", "cost_target": "public"}, "declare_cost_public=True"),
    ],
)
def test_what_cannot_be_released_is_said_before_a_ledger_is_made(two_bus, ledger_home, options, words):
    with pytest.raises(InputError, match=words):
        two_bus.release(**({"epsilon": 1, "alpha": "0.1pu", "budget": 1} | options))
    assert list(ledger_home.iterdir()) == []


def test_a_draw_without_a_ledger_or_with_undeclared_sites_is_refused(two_bus):
    with pytest.raises(InputError, match="budget"):
        two_bus.release(epsilon=1, alpha="0.1pu", beta="1%")
    with pytest.raises(InputError, match="read off their demands"):
        gridveil.load(two_bus.source).release(epsilon=1, alpha="0.1pu", beta="1%", budget=1)


def test_a_page_that_fails_does_not_take_the_release_with_it(two_bus, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ValueError("demand 41.75")

    monkeypatch.setattr("gridveil.api.released.write_curator_page", broken)
    result = two_bus.release(epsilon=1, alpha="0.05pu", beta="10%", seed=4)
    with pytest.warns(UserWarning, match=r"report could not be made \(ValueError\)") as caught:
        assert "simulation/network.m" in result.save(tmp_path / "out")
    assert "41.75" not in str(caught[0].message)


def test_plots_give_axes_of_public_quantities(veil9_release):
    truth = 100 * gridveil.load("veil9").case.values.reveal()
    bars = veil9_release.plot.demand()
    heights = np.array([patch.get_height() for patch in bars.patches])
    assert np.allclose(heights, 100 * veil9_release.demand.real)
    assert not np.isclose(heights[:, None], truth.real).any()
    costs = veil9_release.plot.convergence().lines[0].get_ydata()
    assert costs[-1] == pytest.approx(veil9_release.cost)
    assert veil9_release.plot.monotonicity().get_xlabel() == "total demand (MW)"
    axes = veil9_release.plot.network()
    assert len(axes.collections[0].get_segments()) == 13  # the branches of veil9
    assert veil9_release.plot.network(axes) is axes
    assert len(gridveil.load("veilgas").plot.network().collections[0].get_segments()) == 15  # pipes and compressors
    scatter = veil9_release.curator.plot.scatter()
    assert np.allclose(scatter.lines[1].get_xdata(), truth.real) and "do not share" in scatter.get_title("left")


def test_explore_in_a_notebook(two_bus):
    found = gridveil.load("veil2").explore(alpha=["0.1pu", "0.2pu"], beta="1%", seeds=2)
    frame = found.to_pandas()
    assert frame.alpha.tolist() == [0.1, 0.2] and (frame.cost_error_high <= 0.01).all()
    assert "public benchmark" in repr(found) and "73.1%" in found._repr_html_()
    assert len(found.plot().axes) == 2
    assert two_bus.explore(alpha="0.1pu", beta="1%", seeds=1).exploration.source.value == "simulated"
    with pytest.raises(InputError, match="paid for"):
        two_bus.explore(demands="true")


def test_loading_brings_no_plotting_and_no_pandas():
    code = (
        "import sys, gridveil; case = gridveil.load('veil9'); case._repr_html_(); "
        "print([name for name in ('matplotlib', 'pandas', 'pandapower') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_hours_and_explorations_in_batches_are_those_one_by_one(monkeypatch):
    together = []
    for module in (gridveil.service.series, gridveil.study.explore):
        monkeypatch.setattr(
            module, "run_all", lambda *given, usual=module.run_all: together.append(given[3]) or usual(*given)
        )
    frame = pd.DataFrame({"timestamp": [0, 1], "site": [2, 2], "p_mw": [80.0, 95.0], "q_mvar": [20.0, 24.0]})
    case = gridveil.load("veil2")
    alone, found = (
        case.release_series(frame, protects="hour", epsilon=1, alpha="2MVA", beta="2%", seed=3, batch=batch)
        for batch in ("structured", "native")
    )
    assert [engine.name for engine in together] == ["native"]
    columns = ["p_mw", "q_mvar"]
    assert found.to_pandas()[columns].to_numpy() == pytest.approx(alone.to_pandas()[columns].to_numpy(), rel=1e-4)
    grid = {"alpha": "0.1pu", "beta": "1%", "seeds": 3}
    one, other = case.explore(**grid).exploration.rows, case.explore(**grid, batch="native").exploration.rows
    assert together[1:] == [BatchEngine.STRUCTURED, BatchEngine.NATIVE]
    assert other[0].distance_released.mean == pytest.approx(one[0].distance_released.mean, rel=1e-3)


def test_an_engine_that_is_missing_is_said_before_a_ledger_is_made(tmp_path, monkeypatch):
    """And one that would pass over the solver that is asked for."""
    monkeypatch.setattr(backends, "engine_for", refuse_engine)
    case, frame = (
        gridveil.load("veil2"),
        pd.DataFrame({"timestamp": [0], "site": [2], "p_mw": [80.0], "q_mvar": [20.0]}),
    )
    given = {
        "protects": "hour",
        "epsilon": 1,
        "alpha": "2MVA",
        "beta": "2%",
        "budget": 3,
        "ledger": tmp_path / "l.ledger",
    }
    with pytest.raises(InputError, match="needs CuPy"):
        case.release_series(frame, **given, batch="gpu")
    with pytest.raises(InputError, match="leave out one of the two"):
        case.release_series(frame, **given, batch="native", solver="ipopt")
    with pytest.raises(InputError, match="the engine of batches 'turbo' is unknown"):
        case.explore(batch="turbo")
    assert not list(tmp_path.iterdir())


def refuse_engine(choice):
    raise InputError("the GPU batch solver needs CuPy")
