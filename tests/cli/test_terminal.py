"""What the terminal shows: suggestions, errors as JSON, groups of options, and the files of ``solve --out``."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from conftest import two_bus_net
from gridveil.privacy.curator import Curator
from gridveil.sectors.registry import load_case
from gridveil.service.solved_files import STAMP


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("solve", "veil8"), "veil9"),
        (("solve", "case118_iee"), "case118_ieee"),
        (("relese", "veil9"), "release"),
        (("release", "veil9", "--alfa", "1MVA"), "--alpha"),
        (("study", "run", "smal"), "small"),
        (("release", "veil9", "--alpha", "1mva", "--seed", "1", "--out", "x"), "MVA"),
    ],
)
def test_a_wrong_word_gets_a_suggestion(cli, words, meant):
    told = cli(*words)
    assert told.code == 2 and meant in told.err.split("mean")[-1].split("Possible options")[-1]


def test_a_wrong_path_gets_the_file_beside_it(cli, tmp_path):
    (tmp_path / "town.m").write_text(two_bus_net().text())
    assert f"did you mean {tmp_path / 'town.m'}?" in cli("inspect", tmp_path / "twon.m").err


@pytest.mark.parametrize(
    ("words", "code"),
    [(("solve", "veil8"), 2), (("solve", "veil9", "--solvr", "x"), 2), (("nosuch",), 2), (("release", "veil9"), 2)],
)
def test_errors_are_json_on_standard_output_if_that_was_asked_for(cli, words, code):
    told = cli(*words, "--json")
    found = json.loads(told.out)
    assert told.code == code == found["error"]["exit_code"] and found["schema"] == "gridveil/1"
    assert found["error"]["message"] in told.err and told.err.count("\n") == 1


def test_a_failure_has_its_own_code_in_json(cli, tmp_path):
    net = two_bus_net()
    net.gen[0][8] = 10.0
    (tmp_path / "short.m").write_text(net.text())
    told = cli(
        "release", tmp_path / "short.m", "--seed", "1", "--declare-cost-public", "--out", tmp_path / "o", "--json"
    )
    assert told.code == 3 and json.loads(told.out)["error"]["exit_code"] == 3


def test_numbers_of_a_ledger_are_numbers(cli):
    made = json.loads(cli("ledger", "create", "veil2", "--alpha", "1/3MVA", "--budget", "2/3", "--json").out)
    assert (made["alpha"], made["cap"], made["spent"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3), 0.0)
    assert made["exact"] == {"alpha": "1/3", "cap": "2/3", "spent": "0", "remaining": "2/3"}


def test_options_of_special_cases_stand_under_headings_of_their_own(cli):
    shown = cli("release", "--help").out
    options, gas, series, card = (
        shown.index(f"{word}:\n") for word in ("Options", "Gas networks", "Time series", "Statements on the card")
    )
    assert (
        options
        < shown.index("--alpha", options)
        < gas
        < shown.index("--slack")
        < series
        < shown.index("--protects", series)
        < card
    )
    assert "Gas: " not in shown and "--help" in shown[options:gas]


def test_solve_writes_tables(cli, tmp_path):
    report = json.loads(cli("solve", "veil9", "--out", tmp_path / "s.csv", "--json").out)
    assert report["may_be_published"] is True and report["units"]["cost"] == "$/h"
    dispatch, buses, branches, prices = (
        pd.read_csv(tmp_path / f"s-{name}.csv") for name in ("generators", "buses", "branches", "prices")
    )
    case = load_case("veil9")
    demand = case.values.reveal().real.sum() * case.field.base
    assert demand < dispatch["p_mw"].sum() < 1.05 * demand and len(branches) == 13
    assert {"bus", "voltage_pu", "angle_deg"} <= set(buses)
    # Prices are what one more unit costs: compare with a difference of two solves.
    more = np.array(case.values.reveal())
    more[0] += 0.001
    from gridveil.core.secret import SecretValues

    dearer = Curator(case.with_values(SecretValues(more))).optimum().cost - report["cost"]
    assert prices["price"][0] == pytest.approx(dearer / (0.001 * case.field.base), rel=1e-3)


def test_a_solved_case_is_a_power_flow_and_says_whose_demands_it_holds(cli, tmp_path):
    import powerio

    source = tmp_path / "town.m"
    source.write_text(two_bus_net().text())
    assert json.loads(cli("solve", source, "--out", tmp_path / "solved.m", "--json").out)["may_be_published"] is False
    text = (tmp_path / "solved.m").read_text()
    assert text.startswith("function mpc = NOT_PRIVATE")
    net = powerio.parse(str(tmp_path / "solved.m")).value
    voltage = np.array([bus["vm"] * np.exp(1j * np.deg2rad(bus["va"])) for bus in net.buses])
    injected = voltage * np.conj(net.calc_admittance_matrix() @ voltage) * net.base_mva
    unit = net.generators[0]
    assert injected[0] == pytest.approx(complex(unit["pg"], unit["qg"]), abs=1e-4)
    assert injected[1] == pytest.approx(-(41.75 + 13.25j), abs=1e-4)
    cli("solve", source, "--out", tmp_path / "t.parquet")
    assert set(pd.read_parquet(tmp_path / "t-generators.parquet")["stamp"]) == {STAMP}


def test_released_demands_are_not_stamped(cli, tmp_path):
    cli("release", "veil2", "--alpha", "1MVA", "--beta", "20%", "--budget", "2", "--out", tmp_path / "out")
    network = tmp_path / "out" / "public" / "network.m"
    assert json.loads(cli("solve", network, "--out", tmp_path / "s.m", "--json").out)["may_be_published"] is True
    network.write_text(network.read_text() + "\n")  # no longer the file that the card lists
    assert json.loads(cli("solve", network, "--out", tmp_path / "s.m", "--json").out)["may_be_published"] is False


def test_a_file_of_another_kind_is_refused_before_the_solve(cli, tmp_path):
    assert "ends in .csv, .parquet" in cli("solve", "veil9", "--out", tmp_path / "s.xlsx").err
    assert "power networks" in cli("solve", "veilgas", "--out", tmp_path / "s.m").err


def test_warnings_of_libraries_stay_off_the_screen():
    code = (
        "import sys, warnings; sys.argv = ['gridveil', 'inspect', 'veil2', '--json']\n"
        "import gridveil.sectors.registry as r; load = r.load_case\n"
        "def noisy(*a, **k):\n    warnings.warn('a library speaks'); return load(*a, **k)\n"
        "r.load_case = noisy\nfrom gridveil.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "" and json.loads(done.stdout)["case"] == "veil2"


def test_casadi_is_silent_where_a_function_is_not_defined(capfd):
    import casadi as ca

    from gridveil.programs.nlp import _IPOPT_OPTIONS

    x = ca.MX.sym("x")
    solver = ca.nlpsol(
        "s", "ipopt", {"x": x, "f": ca.sqrt(x), "g": ca.log(x)}, {**_IPOPT_OPTIONS, "ipopt.print_level": 0}
    )
    solver(x0=-1.0, lbg=-5, ubg=5)
    assert capfd.readouterr().err == ""
