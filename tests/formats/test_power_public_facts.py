"""One list of public facts: what ``inspect`` says, what the writer's tables hold, and what a written file contains."""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np
import pytest

from conftest import Matpower
from gridveil.sectors.power.sector import POWER
from gridveil.sectors.power.tables import (
    BranchTable,
    BusTable,
    CompensatorTable,
    DcLineTable,
    GeneratorTable,
    StorageTable,
)
from gridveil.sectors.power.write import PublicTables
from gridveil.sectors.registry import describe_case, load_case, write_network

SECRET = "load_power"
TABLES = {"bus": BusTable, "branch": BranchTable, "generator": GeneratorTable}
TABLES |= {"dc_line": DcLineTable, "storage": StorageTable, "compensator": CompensatorTable}

# Every field of a MATPOWER file: the columns it is made of, or, for what the format insists on, the one neutral value.
BUS = ["bus.id", ("bus.isolated", "bus.reference", "generator.bus_id", "generator.in_service"), SECRET, SECRET]
BUS += ["bus.shunt_g", "bus.shunt_b", "bus.area", 1.0, 0.0, "bus.base_kv", "bus.zone", "bus.v_max", "bus.v_min"]
GEN = ["generator.bus_id", 0.0, 0.0, "generator.q_max", "generator.q_min", 1.0, "base_mva", "generator.in_service"]
GEN += ["generator.p_max", "generator.p_min"]
BRANCH = ["branch.from_id", "branch.to_id", "branch.r", "branch.x", ("branch.b_from", "branch.b_to"), "branch.rate"]
BRANCH += [0.0, 0.0, "branch.tap", "branch.shift", "branch.in_service", "branch.angle_min", "branch.angle_max"]
COST = ["generator.cost", 0.0, 0.0, *["generator.cost"] * 5]
FIELDS = {"bus": BUS, "gen": GEN, "branch": BRANCH, "gencost": COST}
SCALARS = {"version": "'2'", "baseMVA": None}


def allowed() -> set[str]:
    return {column for fact in POWER.public_facts for column in fact.columns}


def rich_net() -> Matpower:
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=41.75, qd=13.25, gs=0.5, bs=7.0)
    net.add_bus(3, pd=12.5, qd=3.5)
    net.add_gen(1, cost=(0.01, 12.0, 3.0))
    net.add_gen(2, cost=[(0.0, 0.0), (50.0, 400.0)])
    net.add_branch(1, 2, r=0.01, b=0.04, rate=90.0)
    net.add_branch(2, 3, r=0.01, rate=80.0, tap=0.97, shift=2.0)
    return net


def test_the_writer_s_tables_hold_the_public_facts_and_the_released_loads_and_nothing_else():
    held = {field.name for field in fields(PublicTables)} - set(TABLES)
    held |= {f"{name}.{field.name}" for name, table in TABLES.items() for field in fields(table)}
    assert held == allowed() | {SECRET}


def test_no_fact_is_told_twice():
    columns = [column for fact in POWER.public_facts for column in fact.columns]
    assert len(columns) == len(set(columns))


def test_inspect_says_what_is_published():
    shown = describe_case(load_case("veil9"))
    assert shown["public"] == [fact.words for fact in POWER.public_facts]
    assert shown["secret"] == ["active and reactive power of each load"]


@pytest.mark.parametrize("source", ["rich", "veil9"])
def test_a_written_matpower_file_holds_public_facts_released_loads_and_neutral_values_only(source, load_text, tmp_path):
    case = load_text(rich_net().text()) if source == "rich" else load_case(source)
    released = np.arange(1, len(case.field) + 1) * (0.125 + 0.0625j)
    text = write_network(case.network, released, tmp_path, "matpower", title="released").read_text()
    tables = dict(re.findall(r"mpc\.(\w+) = \[\n(.*?)\n\];", text, re.DOTALL))
    rest = re.sub(r"mpc\.\w+ = \[\n.*?\n\];", "", text, flags=re.DOTALL).split("\n")
    assert next(line for line in rest if line) == "function mpc = released"
    scalars = dict(re.fullmatch(r"mpc\.(\w+) = (.*);", line).groups() for line in rest if line.startswith("mpc."))
    assert all(line.startswith(("mpc.", "function")) for line in rest if line)
    assert scalars.keys() == SCALARS.keys() and scalars["version"] == SCALARS["version"]
    assert tables.keys() == FIELDS.keys()
    for name, body in tables.items():
        for row in body.split("\n"):
            values = [float(value) for value in row.strip().rstrip(";").split()]
            assert len(values) <= len(FIELDS[name]), f"{name} has a field that no fact covers"
            for value, held in zip(values, FIELDS[name], strict=False):
                if isinstance(held, float):
                    assert value == held, f"{name} holds {value} where it must be neutral"
                else:
                    columns = {held} if isinstance(held, str) else set(held)
                    assert columns <= allowed() | {SECRET}
