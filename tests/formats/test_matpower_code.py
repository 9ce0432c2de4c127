"""Code in MATPOWER files: evaluated where it is arithmetic on tables, else refused with its line; no demand in a message."""

from __future__ import annotations

import math
import re

import numpy as np
import powerio
import pytest

from conftest import two_bus_net
from gridveil.core.errors import InputError
from gridveil.sectors.power.matpower_code import CONSTANTS, plain_matpower
from gridveil.sectors.power.read import read_power_file

INDEX = """
[PQ, PV, REF, NONE, BUS_I, BUS_TYPE, PD, QD, GS, BS, BUS_AREA, VM, ...
    VA, BASE_KV, ZONE, VMAX, VMIN] = idx_bus; %% names
[F_BUS, T_BUS, BR_R, BR_X] = idx_brch;
"""
OHMS = """
Vbase = mpc.bus(1, BASE_KV) * 1e3;      %% in Volts
Sbase = mpc.baseMVA * 1e6;              %% in VA
mpc.branch(:, [BR_R BR_X]) = mpc.branch(:, [BR_R BR_X]) / (Vbase^2 / Sbase);
"""
KILOWATTS = "mpc.bus(:, [PD, QD]) = mpc.bus(:, [PD, QD]) / 1e3;\n"
POWER_FACTOR = """
pf = 0.85;
mpc.bus(:, QD) = mpc.bus(:, PD) * sin(acos(pf));
mpc.bus(:, PD) = mpc.bus(:, PD) * pf;
"""


def read(tmp_path, text):
    path = tmp_path / "case.m"
    path.write_text(text)
    return read_power_file(path)


def refusal(tmp_path, text) -> str:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    message = str(error.value)
    assert not re.search(r"41\.?75|13\.?25", message) and "\n" not in message
    return message


def test_the_conversions_of_feeders(tmp_path):
    """case141 does all of this: ohms, kilowatts and a power factor. Its conversions were left out in silence."""
    tables = read(tmp_path, two_bus_net().text() + INDEX + OHMS + KILOWATTS + POWER_FACTOR)
    ohm = 230e3**2 / 100e6
    assert tables.branch.r[0] == pytest.approx(0.01 / ohm, rel=1e-15)
    assert tables.branch.x[0] == pytest.approx(0.1 / ohm, rel=1e-15)
    expected = 41.75 / 1e3 * complex(0.85, math.sin(math.acos(0.85)))
    assert tables.load.power.reveal()[0] == pytest.approx(expected, rel=1e-15)
    assert any("code in the file was evaluated (lines 2" in note for note in tables.notes)


def test_what_powerio_evaluates_itself_gives_the_same(tmp_path):
    """Two evaluators that share nothing."""
    text = two_bus_net().text() + INDEX + OHMS + KILOWATTS
    theirs = powerio.parse(text.encode(), format="matpower").value
    ours = read(tmp_path, text)
    assert (ours.branch.r[0], ours.branch.x[0]) == (theirs.branches[0]["r"], theirs.branches[0]["x"])
    assert ours.load.power.reveal()[0] == complex(theirs.loads[0]["p"], theirs.loads[0]["q"])


def test_formulas_for_numbers(tmp_path):
    """case533mt: a base of 50/3, and cells such as 135/sqrt(3)."""
    text = two_bus_net().text().replace("100.0;", "50/3;", 1).replace("\t230\t", "\t135/sqrt(3)\t")
    tables = read(tmp_path, text)
    assert tables.base_mva == 50 / 3
    assert np.all(tables.bus.base_kv == 135 / math.sqrt(3))


def test_a_file_without_code_is_left_as_it_is():
    text = two_bus_net().text() + "% mpc.bus(2, 3) = 7;\n%{\nfor k = 1:3\n%}\n"
    plain = plain_matpower(text)
    assert plain.text == text and plain.lines == ()


def test_a_block_that_is_switched_off_is_passed_over(tmp_path):
    block = "if fixed\n  k = find(isinf(mpc.gen(:, 4)));\n  if k\n    x = 1;\n  end\nend\n"
    assert read(tmp_path, "fixed = 0;\n" + two_bus_net().text() + block).generator.p_max[0] == 1000.0
    line = two_bus_net().text().count("\n") + 2
    assert f"line {line}:" in refusal(tmp_path, "fixed = 1;\n" + two_bus_net().text() + block)


@pytest.mark.parametrize(
    "code",
    [
        "for k = 1:2\n  mpc.bus(k, 3) = 41.75;\nend",
        "mpc = scale_load(1.5, mpc);",
        "mpc.bus(find(mpc.bus(:, 3) > 41.75), 3) = 0;",
        "mpc.bus(2, 3) = mpc.bus(2, 3) * unknown;",
        "mpc.bus(7, 3) = 41.75;",
        "mpc.bus(:, 3) = mpc.bus(:, 3) * mpc.bus(:, 4);",
        "mpc.gencost = [mpc.gencost; mpc.gencost];",
        "mpc.branch(1, 6) = mpc.bus(2, 3);",
        "limit = mpc.bus(2, 3);",
        "mpc.bus(2, 3) = 41.75",
    ],
)
def test_other_code_is_refused_with_its_line(tmp_path, code):
    """A loop or scale_load at the end was ignored. What a demand would flow into must be a demand."""
    text = two_bus_net().text()
    if code == "mpc.bus(2, 3) = 41.75":  # this one is arithmetic
        assert read(tmp_path, text.replace("41.75", "7.5") + code).load.power.reveal()[0] == 41.75 + 13.25j
        return
    assert refusal(tmp_path, text + code + "\n").startswith(f"line {text.count(chr(10)) + 1}: ")


def test_nothing_is_stated_twice(tmp_path):
    text = two_bus_net().text()
    assert "bus is stated twice" in refusal(tmp_path, text + text[text.index("mpc.bus") : text.index("mpc.gen ")])


@pytest.mark.parametrize(
    "body", ["(" * 100_000, "[" * 100_000, "'" * 99_999, "{" * 50_000 + "'a'" * 50_000, "mpc.x(" * 9_999]
)
def test_hostile_text_is_refused_at_once(tmp_path, body):
    """Nested quantifiers took longer than the universe lasts."""
    refusal(tmp_path, two_bus_net().text() + "mpc.extra = " + body)
    refusal(tmp_path, two_bus_net().text() + "mpc.bus(2, 3) = " + body)


@pytest.mark.parametrize(("table", "column", "kind"), [("gen", 7, "generator 1"), ("branch", 10, "branch 1")])
@pytest.mark.parametrize("status", [2, -1, float("nan"), 0.5])
def test_a_status_is_zero_or_one(tmp_path, table, column, kind, status):
    net = two_bus_net()
    getattr(net, table)[0][column] = status
    assert refusal(tmp_path, net.text().replace("nan", "NaN")).startswith(f"{kind}: its status is neither 0 nor 1")


def test_what_powerio_passes_over_is_refused_or_noted(tmp_path):
    net = two_bus_net()
    net.gen[0] += [10.0, 20.0, -5.0, 5.0, -5.0, 5.0]
    text = net.text()
    notes = read(tmp_path, text + "mpc.genfuel = {'coal'};\nmpc.weather = [1 2];\n").notes
    assert "not read: weather" in notes and any("capability curves of generators 1" in note for note in notes)
    assert "user-defined" in refusal(tmp_path, text + "mpc.A = [1 0 0];\n")
    assert "three-phase" in refusal(tmp_path, text + "mpc.load3p = [1 2 3];\n")


def test_constants_are_those_of_matpower():
    """Columns by the case format: PD 3, QD 4, BASE_KV 10, VMIN 13; ANGMIN 12 stands after MU_ST 19 in idx_brch."""
    pairs = {name: dict(pair.split("=") for pair in text.split()) for name, text in CONSTANTS.items()}
    assert [pairs["idx_bus"][name] for name in ("PD", "QD", "BASE_KV", "VMIN")] == ["3", "4", "10", "13"]
    assert [pairs["idx_brch"][name] for name in ("BR_R", "RATE_A", "ANGMIN", "ANGMAX")] == ["3", "6", "12", "13"]
    assert [pairs["idx_gen"][name] for name in ("PMAX", "PMIN", "PC1", "APF")] == ["9", "10", "11", "21"]
    for name, values in pairs.items():
        columns = [
            int(number) for word, number in values.items() if word not in {"PQ", "PV", "REF", "NONE", "POLYNOMIAL"}
        ]
        assert len(set(columns)) == len(columns) - (name == "idx_cost"), name
