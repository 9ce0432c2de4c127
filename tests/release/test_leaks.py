"""Nothing of the source but public fields reaches a released folder, and attacks on it do no better than the noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from conftest import optimum
from gridveil.core.secret import SecretValues
from gridveil.privacy.attacks import comments_of, power_flow_attack, reading_attack, values_in_text
from gridveil.privacy.limits import equal_numbers, in_words
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.power.export import public_tables
from gridveil.sectors.power.write import write_power_network
from gridveil.sectors.registry import load_case


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
    size = np.linalg.norm(case.values.reveal()) / np.sqrt(len(case.values)) * case.field.base
    assert cli("release", source, "--out", tmp_path / "out", "--seed", 1).code == 0
    released = tmp_path / "out" / "simulation" / "network.m"
    card = yaml.safe_load((released.parent / "card.yaml").read_text())
    noise = card["mechanisms"][0]["root_mean_square_noise"]
    solved, after = (power_flow_attack(case, case.network, path, noise) for path in (source, released))
    assert solved.error < 0.01 * size and not solved.passed
    assert after.error > 0.9 * size and after.passed
    read = reading_attack(case, released, noise)
    assert 0.5 * noise < read.error < 2 * noise and read.passed


def test_comments_names_and_demands_of_the_source_do_not_pass(cli, tmp_path):
    """An api case lists the original loads in its comments: the source shows them, the release shows none."""
    name = "case30_ieee__api"
    source = resolve_case(name)
    case = load_case(name)
    assert len(values_in_text(case, source.read_text())) > 10
    assert cli("release", name, "--out", tmp_path / "out", "--seed", 1).code == 0
    written = (tmp_path / "out/simulation/network.m").read_text()
    assert comments_of(tmp_path / "out/simulation/network.m") == ""
    empty = case.with_values(SecretValues(np.zeros(len(case.values), dtype=complex)))
    public = write_power_network(public_tables(empty.network, empty.values.reveal()), tmp_path, "matpower", title="x")
    assert values_in_text(case, written, explained=public.read_text()) == []
    assert "pglib" not in written and "api" not in written


def test_the_search_would_find_a_leak():
    """A saboteur that writes one true demand into the file is found."""
    case = load_case("case14_ieee")
    site = int(np.argmax(case.values.reveal().real))
    leak = f"mpc.bus = [ 1 {100 * case.values.reveal().real[site]:g} ];"
    assert values_in_text(case, leak) == [site]
    assert values_in_text(case, leak, explained=leak) == []


def test_limits_derived_from_demand_are_reported_to_the_curator(cli, tmp_path):
    from conftest import two_bus_net

    net = two_bus_net()
    net.gen[0][8] = 41.75 * 2
    net.branch[0][5] = 43.8
    assert findings_of(net, tmp_path) == []
    net.gen[0][3] = 13.25
    findings = findings_of(net, tmp_path)
    assert len(findings) == 2  # the one load is also the total
    assert all("maximum reactive power, row 1" in text and "13.25" not in text for text in findings)
    net.gen[0][3], net.branch[0][5] = 500.0, 0.0
    path = tmp_path / "case.m"
    net.base = 41.75
    path.write_text(net.text())
    assert any("base MVA" in text for text in in_words(equal_numbers(load_case(str(path)))))
    assert cli("release", path, "--out", tmp_path / "out", "--seed", 1, "--beta", "20%").code == 0
    assert json.loads((tmp_path / "out/curator/report.json").read_text())["public_numbers_that_equal_a_secret"]


def findings_of(net, folder: Path) -> list[str]:
    path = folder / "limits.m"
    path.write_text(net.text())
    return in_words(equal_numbers(load_case(str(path))))


@pytest.mark.parametrize("token", ["matpower", "powermodels-json", "pandapower-json"])
def test_no_timestamps_or_uncontrolled_content(tmp_path, token):
    """Writing the same network twice gives the same bytes."""
    case = load_case("veil9")
    texts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        tables = public_tables(case.network, case.values.reveal())
        texts.append(write_power_network(tables, tmp_path / name, token, title="x").read_bytes())
    assert texts[0] == texts[1]
