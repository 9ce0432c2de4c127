"""DC lines, storage, limits on currents and the rest are released in the format read, without their operating points."""

from __future__ import annotations

import json

import numpy as np
import powerio
import pytest

from conftest import Matpower, data_folder, optimum
from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.sectors.registry import describe_case, load_case, write_network

OPERATING_POINTS = ("12.125", "11.375", "3.625", "4.875", "7.125", "2.375", "20.625")


def plain_net() -> Matpower:
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=60.0, qd=20.0)
    net.add_bus(3, pd=90.0, qd=30.0, gs=2.0, bs=5.0)
    net.add_gen(1, p=(0.0, 200.0), q=(-100.0, 100.0), cost=(0.02, 12.0, 5.0))
    net.add_gen(2, p=(10.0, 120.0), q=(-60.0, 60.0), cost=(0.05, 20.0, 0.0))
    net.add_branch(1, 2, r=0.01, x=0.08, b=0.02)
    net.add_branch(2, 3, r=0.015, x=0.1, b=0.03, rate=60.0)
    net.add_branch(1, 3, r=0.02, x=0.12, rate=50.0)
    return net


def with_dc_line(net: Matpower, **more) -> Matpower:
    net.add_dcline(1, 3, p=(0.0, 25.0), q_from=(-7.0, 7.0), q_to=(-8.0, 9.0), loss=(0.5, 0.02), **more)
    return net


def with_everything() -> Matpower:
    net = with_dc_line(plain_net(), cost=(0.3, 0.0))
    net.add_dcline(3, 2, p=(-6.0, -2.0), loss=(0.25, 0.01), cost=[(-9.0, 4.0), (-4.0, 0.0), (1.0, 0.0)])
    net.add_storage(3, charge=10.0, discharge=15.0, q=(-3.0, 4.0))
    net.reactive_cost = [[2, 0, 0, 3, 0.05, 0.5, 1.0], [1, 0, 0, 3, -60.0, 60.0, 0.0, 0.0, 60.0, 90.0]]
    net.currents = [0.0, 40.0, 45.0]
    net.compensators = [[3, -10.0, 25.0, 1], [2, -80.0, 80.0, 0]]
    return net


def released(case, folder):
    """The written network, read back; its optimum is that of the case."""
    path = write_network(case.network, case.values.reveal(), folder, case.file_format, title="test")
    texts = [file.read_text() for file in ([path] if path.is_file() else path.iterdir())]
    for number in OPERATING_POINTS:
        assert not any(number in text for text in texts), number
    back = load_case(str(path))
    for formulation in Formulation.AC, Formulation.DC:
        assert optimum(back, formulation).cost == pytest.approx(optimum(case, formulation).cost, rel=1e-7)
    return path, back


def converted(net: Matpower, file_format: str, folder):
    """The network in another format, by powerio."""
    source = folder / "source.m"
    source.write_text(net.text())
    information = powerio.resolve_format(file_format)
    target = folder / ("converted" if information.is_directory else f"converted.{information.extension}")
    module = powerio.parse(str(source))
    powerio.emit(module, file_format, str(target))
    return target


def test_matpower_carries_every_element(load_text, tmp_path):
    case = load_text(with_everything().text())
    _, back = released(case, tmp_path)
    for name in ("p_min", "p_max", "loss_0", "loss_1", "q_from_max", "q_to_min", "q_to_max"):
        assert getattr(back.network.dc_line, name) == pytest.approx(getattr(case.network.dc_line, name)), name
    assert back.network.branch.current == pytest.approx(case.network.branch.current)
    assert back.network.compensator.b_max == pytest.approx(case.network.compensator.b_max)
    assert back.network.storage.p_min == pytest.approx(case.network.storage.p_min)
    counts = describe_case(case)["network"] if "network" in describe_case(case) else describe_case(case)
    assert counts["dc_lines_in_service"] == 2 and counts["storage_units_in_service"] == 1
    assert counts["compensators_in_service"] == 1 and counts["branches_with_current_limit"] == 2


@pytest.mark.parametrize("file_format", ["powermodels-json", "egret-json", "pandapower-json"])
def test_dc_lines_of_other_formats(tmp_path, file_format):
    case = load_case(str(converted(with_dc_line(plain_net()), file_format, tmp_path)))
    assert case.network.dc_line.p_max == pytest.approx([0.25])
    assert case.network.dc_line.loss_1 == pytest.approx([0.02])
    released(case, tmp_path / "out")


def test_powermodels_json_carries_storage_costs_of_dc_lines_and_currents(tmp_path):
    net = with_dc_line(plain_net(), cost=(0.3, 0.0))
    net.add_storage(3, charge=10.0, discharge=15.0, q=(-3.0, 4.0))
    path = converted(net, "powermodels-json", tmp_path)
    document = json.loads(path.read_text())
    document["branch"]["3"]["c_rating_a"] = 0.45
    path.write_text(json.dumps(document))
    case = load_case(str(path))
    assert case.network.branch.current[2] == pytest.approx(0.45)
    assert case.network.dc_line.cost.stated and case.network.storage_on.sum() == 1
    released(case, tmp_path / "out")


def test_pypsa_links_are_dc_lines_with_their_marginal_costs(tmp_path):
    net = plain_net()
    folder = converted(net, "pypsa-csv", tmp_path)
    header = "name,bus0,bus1,p_nom,efficiency,p_min_pu,p_max_pu,marginal_cost,p_set\n"
    (folder / "links.csv").write_text(header + "cable,1,3,25,0.98,-0.4,1,0.3,12.125\n")
    case = load_case(str(folder))
    line = case.network.dc_line
    assert (line.p_min, line.p_max, line.loss_1) == pytest.approx((-0.1, 0.25, 0.02))
    assert line.cost.polynomial[1] == pytest.approx([30.0])
    (tmp_path / "out").mkdir()
    released(case, tmp_path / "out")


def test_pypsa_storage_units(tmp_path):
    folder = converted(plain_net(), "pypsa-csv", tmp_path)
    table, head = folder / "storage_units.csv", "name,bus,p_nom,p_set,marginal_cost\n"
    table.write_text(head + "battery,3,20,7.125,0\n")
    case = load_case(str(folder))
    assert (case.network.storage.p_min, case.network.storage.p_max) == pytest.approx((-0.2, 0.2))
    (tmp_path / "out").mkdir()
    path, _ = released(case, tmp_path / "out")
    assert "p_set" not in (path / "storage_units.csv").read_text()
    table.write_text(head + "battery,3,20,7.125,2.5\n")
    with pytest.raises(InputError, match="marginal_cost"):
        load_case(str(folder))


def test_pypsa_links_need_a_capacity_of_their_own(tmp_path):
    folder = converted(plain_net(), "pypsa-csv", tmp_path)
    (folder / "links.csv").write_text("name,bus0,bus1,p_set\ncable,1,3,12.125\n")
    with pytest.raises(InputError, match="p_nom"):
        load_case(str(folder))


def test_pandapower_dc_lines_need_a_maximum_of_their_own(tmp_path):
    path = converted(with_dc_line(plain_net()), "pandapower-json", tmp_path)
    document = json.loads(path.read_text())
    table = document["_object"]["dcline"]
    frame = json.loads(table["_object"])
    frame["data"][0][frame["columns"].index("max_p_mw")] = None
    table["_object"] = json.dumps(frame)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="max_p_mw"):
        load_case(str(path))


def edited(path, **tables):
    """A pandapower file with tables added, or columns of all rows set where a table is a mapping."""
    document = json.loads(path.read_text())
    found = document["_object"]
    for name, stated in tables.items():
        rows = stated
        if isinstance(stated, dict):
            frame = json.loads(found[name]["_object"])
            old = [dict(zip(frame["columns"], row, strict=True)) for row in frame["data"]]
            rows = [row | stated for row in old]
        content = {
            "columns": list(rows[0]),
            "index": list(range(len(rows))),
            "data": [list(row.values()) for row in rows],
        }
        plain = {"_module": "pandas.core.frame", "_class": "DataFrame", "orient": "split"}
        found[name] = plain | {"_object": json.dumps(content)}
    path.write_text(json.dumps(document))
    return path


UNIT = {"bus": 2, "p_mw": 7.125, "q_mvar": 2.375, "in_service": True}
SVC = {"bus": 2, "x_l_ohm": 2000.0, "x_cvar_ohm": -1500.0, "set_vm_pu": 1.0, "in_service": True}
SVC |= {"thyristor_firing_angle_degree": 20.625, "min_angle_degree": 90.0, "max_angle_degree": 180.0}


def test_pandapower_storage_is_an_injection_within_its_limits(tmp_path):
    """pandapower counts what a unit draws; without limits the rating of the converter counts. Free power lowers the cost."""
    stated = {"min_p_mw": -15.0, "max_p_mw": 10.0, "min_q_mvar": -4.0, "max_q_mvar": 3.0, "sn_mva": None}
    rated = {"min_p_mw": None, "max_p_mw": None, "min_q_mvar": None, "max_q_mvar": None, "sn_mva": 12.0}
    path = converted(plain_net(), "pandapower-json", tmp_path)
    without = optimum(load_case(str(path))).cost
    case = load_case(str(edited(path, storage=[UNIT | stated, UNIT | rated | {"in_service": False}])))
    unit, base = case.network.storage, case.network.base_mva
    assert base * unit.p_min == pytest.approx([-10.0, -12.0]) and base * unit.p_max == pytest.approx([15.0, 12.0])
    assert base * unit.q_min == pytest.approx([-3.0, 0.0]) and base * unit.q_max == pytest.approx([4.0, 0.0])
    assert optimum(case).cost < without - 100
    assert any("storage" in note for note in case.notes) and any("storage units" in line for line in case.unprotected)
    (tmp_path / "out").mkdir()
    _, back = released(case, tmp_path / "out")
    for name in ("bus", "p_min", "p_max", "q_min", "q_max", "in_service"):
        assert getattr(back.network.storage, name) == pytest.approx(getattr(unit, name)), name
    with pytest.raises(InputError, match="have costs"):
        load_case(str(edited(path, poly_cost=[{"et": "storage", "element": 0, "cp1_eur_per_mw": 2.5}])))


def test_egret_storage_is_read_and_written(tmp_path):
    """powerio passes it over without a word."""
    path = converted(plain_net(), "egret-json", tmp_path)
    without = optimum(load_case(str(path))).cost
    document = json.loads(path.read_text())
    unit = {"bus": "3", "max_charge_rate": 10.0, "max_discharge_rate": 15.0, "initial_state_of_charge": 0.20625}
    document["elements"]["storage"] = {"Clinic": unit | {"initial_discharge_rate": 7.125}}
    document["elements"]["interface"] = {"north": {"minimum_limit": 1.0}}
    path.write_text(json.dumps(document))
    case = load_case(str(path))
    assert case.network.base_mva * case.network.storage.p_min == pytest.approx([-10.0])
    assert optimum(case).cost < without - 100 and "Egret elements of other kinds are not read: interface" in case.notes
    (tmp_path / "out").mkdir()
    written, back = released(case, tmp_path / "out")
    assert (
        back.network.storage.p_max == pytest.approx(case.network.storage.p_max) and "Clinic" not in written.read_text()
    )
    del unit["max_charge_rate"]
    path.write_text(json.dumps(document | {"elements": document["elements"] | {"storage": {"a": unit}}}))
    with pytest.raises(InputError, match="add max_charge_rate"):
        load_case(str(path))
    path.write_text(
        json.dumps(document | {"elements": document["elements"] | {"storage": {"a": unit | {"bus": "77"}}}})
    )
    with pytest.raises(InputError, match="its bus does not exist"):
        load_case(str(path))


def test_pandapower_compensators_feed_between_the_limits_of_their_firing_angles(tmp_path):
    """At 180 degrees the capacitor alone, at 90 with the whole reactor; in between 2(π−α) + sin 2α over π of it."""
    path = edited(converted(plain_net(), "pandapower-json", tmp_path), svc=[SVC, SVC | {"min_angle_degree": 120.0}])
    case = load_case(str(path))
    device, capacitor, coil = case.network.compensator, 230.0**2 / 1500.0, 230.0**2 / 2000.0
    part = (2 * (np.pi - np.deg2rad(120)) + np.sin(np.deg2rad(240))) / np.pi
    assert 100 * device.b_max == pytest.approx([capacitor] * 2)
    assert 100 * device.b_min == pytest.approx([capacitor - coil, capacitor - part * coil])
    assert any("compensators (svc)" in note for note in case.notes)
    (tmp_path / "out").mkdir()
    _, back = released(case, tmp_path / "out")
    for name in ("bus", "b_min", "b_max", "in_service"):
        assert getattr(back.network.compensator, name) == pytest.approx(getattr(device, name)), name


def test_pandapower_lines_may_be_loaded_to_a_part_of_their_rating(tmp_path):
    """powerio passes over max_loading_percent and df; the optimum is that of a file with the lower rating."""
    path = converted(plain_net(), "pandapower-json", tmp_path)
    full = load_case(str(path)).network.branch.rate
    net = plain_net()
    for row in net.branch:
        row[5] *= 0.95 * 0.98
    lowered = optimum(load_case(str(converted(net, "matpower", tmp_path)))).cost
    case = load_case(str(edited(path, line={"max_loading_percent": 95.0, "df": 0.98})))
    assert case.network.branch.rate == pytest.approx(0.931 * full)
    assert optimum(case).cost == pytest.approx(lowered, rel=1e-6)
    (tmp_path / "out").mkdir()
    released(case, tmp_path / "out")


def test_psse_dc_lines_are_refused_because_they_have_no_limits():
    path = data_folder() / "powermodels" / "two-terminal-hvdc_test.raw"
    if not path.exists():
        pytest.skip(f"needs {path.name} from the folder named by GRIDVEIL_DATA")
    with pytest.raises(InputError, match="no rating"):
        load_case(str(path))


def test_a_second_stored_operating_point_gives_the_same_release(load_text, tmp_path):
    """What a DC line or a storage unit was set to when the file was stored leaves no trace."""
    texts = []
    for stored in (0.0, 5.5):
        net = with_everything()
        for row in net.dcline:
            row[3:7] = [stored] * 4
        for row in net.storage:
            row[1:4] = [stored] * 3
        case = load_text(net.text())
        folder = tmp_path / str(stored)
        folder.mkdir()
        texts.append(write_network(case.network, case.values.reveal(), folder, "matpower", title="test").read_text())
    assert texts[0] == texts[1]


def test_a_merged_network_is_released_as_it_is(load_text, tmp_path):
    net = plain_net()
    net.add_bus(4, pd=10.0)
    net.switch = [[3, 4, 0.0, 0.0, 1, 1000.0, 1]]
    case = load_text(net.text())
    assert case.network.bus.id.tolist() == [1, 2, 3]
    assert np.sum(case.network.load.bus == 2) == 2
    path = write_network(case.network, case.values.reveal(), tmp_path, "matpower", title="test")
    assert optimum(load_case(str(path))).cost == pytest.approx(optimum(case).cost, rel=1e-7)
