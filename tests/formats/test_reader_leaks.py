"""Attacks on the reading door: nothing may pass that a reader made up from operating values, or left out in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import powerio
import pytest

from conftest import two_bus_net
from gridveil.core.errors import InputError
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.power.case import power_case
from gridveil.sectors.power.read import read_power_file
from gridveil.sectors.power.tables import PowerTables

SET_POINT = 33.34375
Rows = list[dict[str, Any]]


def frame(rows: Rows) -> dict[str, Any]:
    columns = list(rows[0]) if rows else []
    content = {"columns": columns, "index": list(range(len(rows))), "data": [list(row.values()) for row in rows]}
    return {"_module": "pandas.core.frame", "_class": "DataFrame", "_object": json.dumps(content), "orient": "split"}


def pandapower(path: Path, **tables: Rows) -> Path:
    """Three buses, a line between each two, a grid connection, one load; further tables as given."""
    line = {"length_km": 10.0, "r_ohm_per_km": 0.1, "x_ohm_per_km": 0.4, "c_nf_per_km": 10.0, "max_i_ka": 0.5}
    usual: dict[str, Rows] = {
        "bus": [{"vn_kv": 110.0, "in_service": True} for _ in range(3)],
        "line": [{"from_bus": k, "to_bus": k + 1, "in_service": True} | line for k in range(2)],
        "load": [{"bus": 1, "p_mw": 41.75, "q_mvar": 13.25, "scaling": 1.0, "in_service": True}],
        "ext_grid": [{"bus": 0, "vm_pu": 1.0, "va_degree": 0.0, "in_service": True}],
    }
    content = {"name": "", "f_hz": 50.0, "sn_mva": 1.0, "version": "3.0.0"}
    content |= {name: frame(rows) for name, rows in (usual | tables).items()}
    path.write_text(json.dumps({"_module": "pandapower.auxiliary", "_class": "pandapowerNet", "_object": content}))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as error:
        power_case("attack", read_power_file(path))
    message = str(error.value)
    assert str(SET_POINT) not in message and "\n" not in message
    return message


def published_numbers(path: Path) -> list[float]:
    tables = read_power_file(path)
    columns = [*vars(tables.bus).values(), *vars(tables.branch).values(), *vars(tables.generator).values()]
    costs = [value for curve in tables.generator.cost if curve for value in curve.polynomial]
    numbers = [float(v) for column in columns for v in column if isinstance(v, float | int) or hasattr(v, "dtype")]
    return [*numbers, *costs, tables.base_mva]


@pytest.mark.parametrize("limit", [{}, {"max_p_mw": None}, {"max_p_mw": "90"}, {"max_p_mw": True}])
@pytest.mark.parametrize("table", ["gen", "sgen"])
@pytest.mark.parametrize("in_service", [True, False])
def test_pandapower_generators_without_a_stated_maximum(tmp_path, table, limit, in_service):
    """The set-point p_mw was read as the maximum active power, and published as it."""
    row = {"bus": 2, "p_mw": SET_POINT, "in_service": in_service}
    path = pandapower(tmp_path / "case.json", **{table: [row | {"max_p_mw": 90.0}, row | limit]})
    if limit in ({}, {"max_p_mw": None}):
        filled = pandapower(tmp_path / "alone.json", **{table: [row | limit]})
        assert SET_POINT in [row["pmax"] for row in powerio.parse(str(filled)).value.generators]
        assert refusal(filled).startswith("generator 0 (bus 2): the file states no maximum active power")
    if limit:
        assert (
            f"generator 1 (bus 2): the file states no maximum active power; add max_p_mw to the pandapower {table}"
            in (refusal(path))
        )


def test_pandapower_with_stated_limits_publishes_no_set_point(tmp_path):
    """A grid connection without limits is unlimited: no set-point stands in for them."""
    unit = {"bus": 2, "p_mw": SET_POINT, "q_mvar": SET_POINT, "vm_pu": SET_POINT, "sn_mva": None, "in_service": True}
    grid = {"bus": 0, "vm_pu": SET_POINT, "va_degree": SET_POINT, "in_service": True}
    path = pandapower(
        tmp_path / "case.json", gen=[unit | {"max_p_mw": 90.0}], sgen=[unit | {"max_p_mw": 8.0}], ext_grid=[grid]
    )
    assert SET_POINT not in published_numbers(path)
    generator = read_power_file(path).generator
    assert sorted(generator.p_max.tolist()) == [8.0, 90.0, float("inf")]
    assert read_power_file(path).unprotected == (
        "1 static generators (generators at buses 3): published with their limits",
    )


def pypsa(folder: Path, generators: str) -> Path:
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "pypsa-csv", str(folder))
    (folder / "generators.csv").write_text(generators)
    return folder


@pytest.mark.parametrize("p_nom", [None, "", "abc", "9_0", "nan"])
def test_pypsa_generators_without_a_stated_size(tmp_path, p_nom):
    """The size of p_set was read as p_nom, so as the maximum active power, and published as it."""
    if p_nom is None:
        text = f"name,bus,control,p_set\ng1,1,Slack,{SET_POINT}\n"
    else:
        text = f"name,bus,control,p_nom,p_set\ng1,1,Slack,{p_nom},{SET_POINT}\n"
    folder = pypsa(tmp_path / "case", text)
    if p_nom != "nan":
        assert powerio.parse(str(folder)).value.generators[0]["pmax"] == SET_POINT
    message = refusal(folder)
    assert message == "generator 1 (bus 1): the file states no maximum active power; add p_nom to generators.csv"


def test_pypsa_with_stated_sizes_publishes_no_set_point(tmp_path):
    text = f"name,bus,control,p_nom,p_set,q_set\ng1,1,Slack,9e1,{SET_POINT},{SET_POINT}\n"
    folder = pypsa(tmp_path / "case", text)
    assert SET_POINT not in published_numbers(folder)
    (folder / "stores.csv").write_text("name,bus,e_nom\ns,1,4\n")
    assert "1 rows of stores.csv are not modelled" in refusal(folder)


def test_other_formats_fill_missing_limits_with_constants_only(tmp_path):
    """What they fill in is useless (0) or no limit, but the same for every set-point."""
    source = powerio.parse(str(resolve_case("veil9")))
    for token, block, limits in (
        ("powermodels-json", ("gen",), ("pmax", "pmin", "qmax", "qmin", "pg", "qg", "vg")),
        ("egret-json", ("elements", "generator"), ("p_max", "p_min", "q_max", "q_min", "pg", "qg", "vg")),
    ):
        path = tmp_path / f"{token}.json"
        powerio.emit(source, token, str(path))
        document = json.loads(path.read_text())
        units = document
        for name in block:
            units = units[name]
        for name in limits:
            units["1"].pop(name)
            if name in ("pg", "qg", "vg"):
                units["1"][name] = SET_POINT
        path.write_text(json.dumps(document))
        unit = powerio.parse(str(path)).value.generators[0]
        assert SET_POINT in (unit["vg"], unit["pg"])
        assert not {SET_POINT, SET_POINT * 100} & set(published_numbers(path))


@pytest.mark.parametrize(
    ("token", "changes"),
    [
        (
            "psse",
            [
                ("1, '1', 0.0, 0.0, 120.0, -80.0, 1.0, 0, 100.0,", f"1, '1', {SET_POINT}, {SET_POINT} /"),
                ("2, 1, 1, 1, 1.0, 0.0, 1.06, 0.94, 1.06, 0.94", f"2, 1, 1, 1, {SET_POINT}, {SET_POINT}"),
            ],
        ),
        (
            "powerworld",
            [
                ("GenMWMax, GenMWMin, GenMVRMax, GenMVRMin", "A, B, C, D"),
                ('1 "1" 0 0 190', f'1 "1" {SET_POINT} {SET_POINT} 190'),
                ("BusVMax, BusVMin", "E, F"),
                ("220 1 0 1 1", f"220 {SET_POINT} {SET_POINT} 1 1"),
            ],
        ),
    ],
)
def test_text_formats_fill_missing_limits_with_constants_only(tmp_path, token, changes):
    path = tmp_path / ("case.raw" if token == "psse" else "case.aux")
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), token, str(path))
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    network = powerio.parse(str(path)).value
    assert network.generators[0]["pg"] == SET_POINT and SET_POINT in [bus["vm"] for bus in network.buses]
    assert network.generators[0]["pmax"] == 0
    assert SET_POINT not in published_numbers(path)


def test_formats_whose_readers_were_not_examined_are_refused(tmp_path):
    path = tmp_path / "case.xiidm"
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "xiidm", str(path))
    assert "the format xiidm is not read" in refusal(path)


LEFT_OUT = {
    "ward": {"bus": 1, "ps_mw": 3.0, "qs_mvar": 1.0, "pz_mw": 0.0, "qz_mvar": 0.0},
    "xward": {"bus": 1, "ps_mw": 3.0, "qs_mvar": 1.0, "r_ohm": 1.0, "x_ohm": 2.0},
    "motor": {"bus": 1, "pn_mech_mw": 3.0, "cos_phi": 0.9},
    "asymmetric_load": {"bus": 1, "p_a_mw": 1.0, "p_b_mw": 1.0, "p_c_mw": 1.0},
    "asymmetric_sgen": {"bus": 1, "p_a_mw": 1.0, "p_b_mw": 1.0, "p_c_mw": 1.0},
    "impedance": {"from_bus": 0, "to_bus": 2, "rft_pu": 0.1, "xft_pu": 0.1, "sn_mva": 100.0},
    "trafo3w": {"hv_bus": 0, "mv_bus": 1, "lv_bus": 2},
    "ssc": {"bus": 1, "r_ohm": 1.0, "x_ohm": 1.0},
    "table_of_tomorrow": {"bus": 1, "p_mw": 3.0},
}


@pytest.mark.parametrize("table", LEFT_OUT)
def test_pandapower_tables_that_powerio_passes_over(tmp_path, table):
    """Customers in these tables vanished without a word, and with them a part of the network."""
    path = tmp_path / "case.json"
    pandapower(path, **{table: [LEFT_OUT[table] | {"in_service": on} for on in (True, False, True)]})
    assert f"2 rows of the pandapower table {table} are in service" in refusal(path)
    pandapower(path, **{table: [LEFT_OUT[table] | {"in_service": False}], "res_bus": [{"p_mw": 3.0}]})
    notes = read_power_file(path).notes
    assert len(notes) == 1 and "table ignored" in notes[0]


def test_pandapower_switches(tmp_path):
    """Open switches were not applied, and closed ones between buses did not join them."""
    line = {"bus": 0, "element": 0, "et": "l", "closed": True, "z_ohm": 0.0}
    path = tmp_path / "case.json"

    def read(**change: Any) -> PowerTables:
        return read_power_file(pandapower(path, switch=[line, line | change]))

    assert power_case("fine", read()).sites_declared
    cut = read(closed=False)
    assert cut.branch.in_service.tolist() == [False, True] and any("open switch" in note for note in cut.notes)
    apart = read(et="b", element=2, closed=False)
    assert apart.bus.id.tolist() == [1, 2, 3] and apart.branch.in_service.all()
    joined = read(et="b", element=2)
    assert joined.bus.id.tolist() == [1, 2] and set(joined.branch.from_id) | set(joined.branch.to_id) == {1, 2}
    for change in ({"et": "b", "element": 2, "z_ohm": 0.5}, {"et": "t3", "closed": False}):
        pandapower(path, switch=[line, line | change])
        assert "1 rows of the pandapower table switch have an impedance" in refusal(path)
    pandapower(path, switch=[{"bus": None, "element": 0, "et": "b", "closed": True}])
    assert "switch is malformed" in refusal(path)


def test_storage_without_limits_is_refused(tmp_path):
    """powerio takes the set-point for the rating."""
    unit = {"bus": 1, "p_mw": SET_POINT, "max_e_mwh": 10.0, "in_service": True}
    path = pandapower(tmp_path / "case.json", storage=[unit | {"in_service": False}, unit])
    assert "storage 1 (bus 1): the file states no limits of its active power" in refusal(path)


def test_psse_machines_that_powerio_passes_over(tmp_path):
    """Induction machines draw power; they vanished without a word."""
    path = tmp_path / "case.raw"
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "psse", str(path))
    head = "BEGIN INDUCTION MACHINE DATA\n"
    text = path.read_text()
    assert head in text
    path.write_text(text.replace(head, head + f"5, '1', 1, 1, 1, 1, 1, 1, 1, 10.0, 0, 1, {SET_POINT}, 1.0\n"))
    assert "the PSS/E section INDUCTION MACHINE has records" in refusal(path)


def test_warnings_of_the_reader_become_notes_without_numbers(tmp_path):
    """powerio warned of tables it passed over, and nobody looked at the warnings."""
    path = pandapower(tmp_path / "case.json", motor=[LEFT_OUT["motor"] | {"in_service": False}] * 77)
    assert read_power_file(path).notes == ("`motor` table ignored (<hidden> rows): motors are not mapped",)


def test_loads_that_depend_on_the_voltage_are_noted(tmp_path):
    """They were read as constant ones without a word."""
    load = {"bus": 1, "p_mw": 41.75, "q_mvar": 13.25, "const_z_percent": 55.5, "in_service": True}
    path = pandapower(tmp_path / "case.json", load=[load])
    assert read_power_file(path).notes == ("loads that depend on the voltage are taken as constant (rows 1)",)
    pandapower(path, load=[load | {"const_z_percent": 0.0}])
    assert read_power_file(path).notes == ()


def test_what_draws_power_outside_the_table_of_loads_is_named(tmp_path):
    """Dispatchable loads and conducting shunts go out exactly as the file states them; nothing said so."""
    net = two_bus_net()
    path = tmp_path / "case.m"
    path.write_text(net.text())
    assert power_case("two", read_power_file(path)).unprotected == ()
    net.add_gen(2, p=(-12.5, 0.0))
    net.add_gen(1, p=(-7.5, -2.0), status=0)
    net.add_gen(1, p=(-5.0, 5.0))
    net.bus[1][4] = 0.5
    path.write_text(net.text())
    assert power_case("two", read_power_file(path)).unprotected == (
        "2 dispatchable loads (generators at buses 1, 2): published with their limits",
        "1 shunts that draw active power (shunts at buses 2): published exactly",
    )
