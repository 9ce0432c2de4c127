"""Nothing of the source but public fields reaches a released folder, and attacks on it do no better than the noise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import optimum
from gridveil.core.secret import SecretDemand
from gridveil.privacy.attacks import comments_of, demands_in_text, power_flow_attack, reading_attack
from gridveil.privacy.limits import limits_from_demand
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.load import load_case
from gridveil.sectors.power.export import public_tables
from gridveil.sectors.power.write import write_power_network


def solved_matpower_file(folder: Path, name: str) -> Path:
    """The case with its optimal set-points written into Vm, Va, Pg and Qg, as a solver would save it."""
    case = load_case(name)
    grid, x = case.network.grid, optimum(case).x
    n, n_gen = grid.n_bus, len(grid.generator.bus)
    angle, magnitude, p, q = np.split(x[: 2 * n + 2 * n_gen], [n, 2 * n, 2 * n + n_gen])
    lines = resolve_case(name).read_text().splitlines()
    out, table, row = [], None, 0
    for line in lines:
        code = line.split("%")[0].strip()
        if code.startswith("mpc."):
            table, row = code.split()[0].removeprefix("mpc."), 0
        if table in {"bus", "gen"} and code.endswith(";") and not code.startswith(("]", "mpc.")):
            cells = code.rstrip(";").split()
            if table == "bus":
                cells[7], cells[8] = repr(float(magnitude[row])), repr(float(np.rad2deg(angle[row])))
            else:
                cells[1], cells[2] = repr(float(100 * p[row])), repr(float(100 * q[row]))
            code, row = "\t".join(cells) + ";", row + 1
        out.append(code)
    path = folder / "solved.m"
    path.write_text("\n".join(out) + "\n")
    return path


def test_reconstruction_from_set_points(cli, tmp_path):
    source = solved_matpower_file(tmp_path, "case14_ieee")
    case = load_case(str(source))
    assert power_flow_attack(case, case.network, source).relative_error < 0.01
    assert cli("release", source, "--out", tmp_path / "out", "--seed", 1).code == 0
    released = tmp_path / "out" / "simulation" / "network.m"
    assert power_flow_attack(case, case.network, released).relative_error > 0.9
    assert reading_attack(case, released).relative_error > 0.3


def test_comments_names_and_demands_of_the_source_do_not_pass(cli, tmp_path):
    """An api case lists the original loads in its comments: the source shows them, the release shows none."""
    name = "case30_ieee__api"
    source = resolve_case(name)
    case = load_case(name)
    assert len(demands_in_text(case, source.read_text())) > 10
    assert cli("release", name, "--out", tmp_path / "out", "--seed", 1).code == 0
    written = (tmp_path / "out/simulation/network.m").read_text()
    assert comments_of(tmp_path / "out/simulation/network.m") == ""
    empty = replace(case, demand=SecretDemand(np.zeros(len(case.demand), dtype=complex)))
    public = write_power_network(public_tables(empty.network, empty.demand.reveal()), tmp_path, "matpower", title="x")
    assert demands_in_text(case, written, explained=public.read_text()) == []
    assert "pglib" not in written and "api" not in written


def test_the_search_would_find_a_leak():
    """A saboteur that writes one true demand into the file is found."""
    case = load_case("case14_ieee")
    site = int(np.argmax(case.demand.reveal().real))
    leak = f"mpc.bus = [ 1 {100 * case.demand.reveal().real[site]:g} ];"
    assert demands_in_text(case, leak) == [site]
    assert demands_in_text(case, leak, explained=leak) == []


def test_limits_derived_from_demand_are_reported_to_the_curator(cli, tmp_path):
    from conftest import two_bus_net

    net = two_bus_net()
    net.gen[0][8] = 41.75 * 2
    net.branch[0][5] = 43.8
    assert limits_from_demand_of(net, tmp_path) == []
    net.gen[0][3] = 13.25
    findings = limits_from_demand_of(net, tmp_path)
    assert len(findings) == 2  # the one load is also the total
    assert all("maximum reactive power, row 1" in text and "13.25" not in text for text in findings)
    net.gen[0][3], net.branch[0][5] = 500.0, 0.0
    path = tmp_path / "case.m"
    net.base = 41.75
    path.write_text(net.text())
    assert any("base MVA" in text for text in limits_from_demand(load_case(str(path))))
    assert cli("release", path, "--out", tmp_path / "out", "--seed", 1, "--beta", "20%").code == 0
    assert json.loads((tmp_path / "out/curator/report.json").read_text())["limits_that_reveal_demand"]


def limits_from_demand_of(net, folder: Path) -> list[str]:
    path = folder / "limits.m"
    path.write_text(net.text())
    return limits_from_demand(load_case(str(path)))


@pytest.mark.parametrize("token", ["matpower", "powermodels-json", "pandapower-json"])
def test_no_timestamps_or_uncontrolled_content(tmp_path, token):
    """Writing the same network twice gives the same bytes."""
    case = load_case("veil9")
    texts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        tables = public_tables(case.network, case.demand.reveal())
        texts.append(write_power_network(tables, tmp_path / name, token, title="x").read_bytes())
    assert texts[0] == texts[1]
