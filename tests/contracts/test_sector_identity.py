"""The identity of a data set: the same whatever units, limits and files, another for another network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import powerio
import pytest

from conftest import two_bus_net
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.registry import load_case, sector_of, write_network


def identity(case):
    return sector_of(case.network).identity(case.network)


def test_it_lists_nodes_and_edges_once_each(load_text):
    net = two_bus_net()
    net.add_branch(2, 1, x=0.2)
    assert identity(load_text(net.text())) == ("edge 1--2", "node 1", "node 2")


def test_base_limits_names_states_and_demands_do_not_enter(load_text):
    first = identity(load_text(two_bus_net().text()))
    other = two_bus_net()
    other.base, other.bus[1][2:4], other.branch[0][5] = 10.0, [7.0, 1.0], 55.0
    other.gen[0][8] = 777.0
    other.add_branch(1, 2, x=0.3, status=0)
    assert identity(load_text(other.text(), "renamed.m")) == first


@pytest.mark.parametrize(
    ("token", "name"),
    [("powermodels-json", "a.json"), ("pandapower-json", "b.json"), ("psse", "c.raw"), ("powerworld", "d.aux")],
)
def test_the_format_of_a_power_file_does_not_enter(tmp_path, token, name):
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), token, str(tmp_path / name))
    assert identity(load_case(str(tmp_path / name))) == identity(load_case("veil9"))


@pytest.mark.parametrize("file_format", ["matgas", "gaslib"])
def test_flow_base_and_format_of_a_gas_network_do_not_enter(tmp_path, file_format):
    case = load_case("veilgas")
    path = write_network(case.network, np.ones(len(case.field)), tmp_path, file_format, title="other")
    assert identity(load_case(str(path), GasBoundary(flow_base=7.0))) == identity(case)


def test_another_network_has_another_identity(load_text):
    first = load_text(two_bus_net().text())
    wider = two_bus_net()
    wider.add_bus(3)
    wider.add_branch(2, 3)
    found = {identity(first), identity(load_text(wider.text())), identity(load_case("veilgas"))}
    assert len(found) == 3


def test_a_dc_line_is_an_edge_whatever_its_direction_and_state(load_text):
    plain, line, back = two_bus_net(), two_bus_net(), two_bus_net()
    for net in (plain, line, back):
        net.add_bus(3)
        net.add_branch(2, 3)
    line.add_dcline(1, 3)
    back.add_dcline(3, 1, status=0)
    found = [identity(load_text(net.text())) for net in (plain, line, back)]
    assert set(found[1]) - set(found[0]) == {"edge 1--3"} and found[1] == found[2]


def test_the_list_of_sites_does_not_enter(load_text):
    """Otherwise whoever declares another list of sites would draw from the same demands on a fresh budget."""
    first = load_text(two_bus_net().text())
    moved = replace(first.network, load=replace(first.network.load, bus=np.array([0])))
    assert sector_of(moved).identity(moved) == identity(first)
