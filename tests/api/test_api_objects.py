"""pandapower and PyPSA objects in and out, without a trace on disk."""

from __future__ import annotations

import logging
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import gridveil
from gridveil.api import objects
from gridveil.core.choices import Names
from gridveil.core.errors import InputError
from gridveil.sectors.registry import load_case

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def pandapower():
    package = pytest.importorskip("pandapower", reason="needs pandapower")
    logging.getLogger("pandapower").setLevel(logging.CRITICAL)
    return package


@pytest.fixture
def only_private(tmp_path, monkeypatch):
    """Temporary files go to a folder of the test, and whatever is read from it must be private."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    def load(path: str, names: Names | None):
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
        return load_case(path, names)

    monkeypatch.setattr(objects, "load_case", load)
    yield folder
    assert list(folder.iterdir()) == []


def test_pandapower_there_and_back(pandapower, only_private):
    """Case 9 of MATPOWER, whose optimum is 5296.69 $/h; pandapower's own solver judges what comes back."""
    net = pandapower.networks.case9()
    net.name, net.bus.loc[3, "name"], net.load["name"] = EVIL, EVIL, EVIL
    case = gridveil.load(net)
    assert case.solve().cost == pytest.approx(5296.69, rel=1e-6)
    assert EVIL not in case._repr_html_() and "&lt;script&gt;" in case._repr_html_()
    assert case.case.values.reveal().sum() == pytest.approx(3.15 + 1.15j)

    result = case.release(epsilon=1, alpha="0.1pu", beta="1%", seed=2)
    assert EVIL not in result._repr_html_()
    back = result.to_pandapower()
    assert np.allclose(back.load.p_mw + 1j * back.load.q_mvar, 100 * result.demand)
    assert back.bus.name.isna().all() and back.name == "SIMULATION_NOT_PRIVATE"
    pandapower.runopp(back)
    assert back.res_cost == pytest.approx(result.cost, rel=1e-5)
    assert gridveil.load(back).solve().cost == pytest.approx(result.cost, rel=1e-6)


def test_a_returned_net_can_be_saved_and_read_by_pandapower(pandapower, tmp_path):
    result = gridveil.load(pandapower.networks.case14()).release(epsilon=1, alpha="0.01pu", beta="1%", seed=1)
    pandapower.to_json(result.to_pandapower(), str(tmp_path / "net.json"))
    again = pandapower.from_json(str(tmp_path / "net.json"))
    pandapower.runopp(again)
    assert again.res_cost == pytest.approx(result.cost, rel=1e-5)


def test_a_net_has_no_ledger_beside_it(pandapower):
    with pytest.raises(InputError, match="no ledger yet"):
        gridveil.load(pandapower.networks.case9()).release(epsilon=1, alpha="0.1pu", beta="1%")


@pytest.fixture
def pypsa_network():
    pypsa = pytest.importorskip("pypsa", reason="needs pypsa, whose new versions cannot share pandas with pandapower")
    net = pypsa.Network(name=EVIL)
    net.add("Bus", ["1", "2", "3"], v_nom=110.0, v_mag_pu_min=0.9, v_mag_pu_max=1.1)
    net.add("Generator", ["a", "b"], bus=["1", "3"], p_nom=[200.0, 150.0], marginal_cost=[10.0, 30.0])
    for k, (start, end) in enumerate((("1", "2"), ("2", "3"), ("1", "3"))):
        net.add("Line", f"line{k}", bus0=start, bus1=end, x=5.0, r=0.1, s_nom=90.0)
    net.add("Load", ["x", "y"], bus=["2", "3"], q_set=[5.0, 8.0])
    net.set_snapshots(["noon"])
    net.loads_t.p_set["x"], net.loads_t.p_set["y"] = [80.0], [70.0]
    return net


def test_pypsa_there_and_back(pypsa_network, only_private):
    case = gridveil.load(pypsa_network)
    assert np.allclose(case.case.values.reveal(), [80 + 5j, 70 + 8j]) and case.network.base_mva == 1
    assert "Slack" not in set(pypsa_network.generators.control)  # the user's object stays as it was
    result = case.release(epsilon=1, alpha="2pu", beta="1%", seed=2)
    back = result.to_pypsa()
    assert np.allclose(back.loads.p_set, result.demand.real)
    assert gridveil.load(back).solve(formulation="dc").cost == pytest.approx(
        result.solve(formulation="dc").cost, rel=1e-6
    )
    back.optimize(solver_name="highs", log_to_console=False)
    assert back.objective == pytest.approx(result.solve(formulation="dc").cost, rel=1e-4)
    assert gridveil.load(back).solve(formulation="dc").converged  # results of PyPSA do not get in the way


@pytest.mark.parametrize("kind", ["object", "folder", "netCDF"])
def test_pypsa_snapshots_are_a_series(pypsa_network, tmp_path, kind):
    """Loads as PyPSA itself has them at each snapshot; a static load is constant."""
    pypsa_network.set_snapshots(["noon", "night"])
    pypsa_network.loads_t.p_set = pypsa_network.loads_t.p_set.reindex(pypsa_network.snapshots)[["x"]]
    pypsa_network.loads_t.p_set["x"] = [80.0, 35.5]
    pypsa_network.loads.loc["y", "p_set"] = 70.0
    source = {"object": pypsa_network, "folder": tmp_path / "case", "netCDF": tmp_path / "case.nc"}[kind]
    if kind == "folder":
        pypsa_network.export_to_csv_folder(str(source))
    elif kind == "netCDF":
        pytest.importorskip("netCDF4")
        pypsa_network.export_to_netcdf(str(source))
    case = gridveil.load(source)
    parts = [pypsa_network.get_switchable_as_dense("Load", name).to_numpy() for name in ("p_set", "q_set")]
    hours = np.stack([hour.reveal() for hour in case.case.over_time.values])
    assert case.case.over_time.timestamps == ("noon", "night") and np.array_equal(hours, parts[0] + 1j * parts[1])
    with pytest.raises(InputError, match="2 snapshots"):
        case.solve()
    made = case.release_series("snapshots", protects="hour", epsilon=1, alpha="1MVA", beta="2%", seed=4)
    assert list(made.to_pandas().timestamp) == ["noon", "noon", "night", "night"]


@pytest.mark.parametrize("name", ["pandapower", "pypsa"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    result = gridveil.load("veil2").release(epsilon=1, alpha="0.1pu", beta="5%", seed=1)
    with pytest.raises(InputError, match=rf"gridveil\[{name}\]"):
        getattr(result, f"to_{name}")()


def test_other_objects_are_refused():
    with pytest.raises(InputError, match="cannot load a dict"):
        gridveil.load({"bus": []})
