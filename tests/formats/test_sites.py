"""Attacks on the list of sites: whether somebody draws 0 or 0.3 MW must not show in which sites a file has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import powerio
import pytest

from conftest import Matpower
from gridveil.core.errors import InputError
from gridveil.sectors.power.case import power_case
from gridveil.sectors.power.export import public_tables
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.read import read_power_file
from gridveil.sectors.power.write import write_power_network
from gridveil.sectors.sites import SiteKind, SiteRule, listed_sites, site_rule

LOAD_TABLE_FORMATS = {
    "psse": "case.raw",
    "powermodels-json": "case.json",
    "egret-json": "case.json",
    "pandapower-json": "case.json",
    "powerworld": "case.aux",
    "pypsa-csv": "case",
}
ALL = SiteRule(kind=SiteKind.ALL)


def small_net(*, at_3: float) -> Matpower:
    """Buses 1 to 4; nobody lives at 1 and 4."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=41.75, qd=13.25)
    net.add_bus(3, pd=at_3)
    net.add_bus(4)
    net.add_gen(1)
    for bus in (2, 3, 4):
        net.add_branch(bus - 1, bus, rate=90.0)
    return net


def write(folder: Path, *, at_3: float) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "case.m"
    path.write_text(small_net(at_3=at_3).text())
    return path


def written(folder: Path, file_format: str, *, at_3: float) -> Path:
    """The network with loads of its own at buses 2 and 3, in a format that has a table of loads."""
    case = power_case("small", read_power_file(write(folder, at_3=0.0), listed_sites(["2", "3"])))
    assert isinstance(case.network, PowerNetwork)
    sites = np.array([41.75 + 13.25j, at_3]) / case.network.base_mva
    return write_power_network(public_tables(case.network, sites), folder, file_format, title="small")


def test_a_demand_of_zero_removes_a_site_only_where_the_sites_are_not_declared(tmp_path):
    """0.3 MW at bus 3 gave two sites and 0 MW gave one, with an exact zero in the published file, at any epsilon."""
    nothing, something = write(tmp_path / "a", at_3=0.0), write(tmp_path / "b", at_3=0.3)
    for path, found in ((nothing, [2]), (something, [2, 3])):
        tables = read_power_file(path)
        assert tables.load.bus_id.tolist() == found
        assert not tables.sites_declared and not power_case("small", tables).sites_declared
    for rule, buses in ((ALL, [1, 2, 3, 4]), (listed_sites(["3", "2"]), [2, 3])):
        for path in (nothing, something):
            case = power_case("small", read_power_file(path, rule))
            assert case.sites_declared
            assert case.field.places == tuple(map(str, buses))
            assert case.network.load.in_service.all()
    silent = power_case("small", read_power_file(nothing, listed_sites(["2", "3"])))
    assert silent.values.reveal().tolist() == [0.4175 + 0.1325j, 0]


def test_a_list_must_cover_every_demand_and_name_places_that_exist(tmp_path):
    path = write(tmp_path, at_3=7.125)
    with pytest.raises(InputError, match=r"^bus 3 has a demand but is not in the list of sites") as refusal:
        read_power_file(path, listed_sites(["2"]))
    assert "7.1" not in str(refusal.value)
    with pytest.raises(InputError, match="bus 77, which does not exist"):
        read_power_file(path, listed_sites(["2", "3", "77"]))


@pytest.mark.parametrize("file_format", LOAD_TABLE_FORMATS)
def test_formats_with_a_table_of_loads_keep_rows_of_zeros(tmp_path, file_format):
    """Checked in each format, because only then may its rows be called a declared list of sites."""
    for name, demand in (("a", 0.0), ("b", 0.3)):
        path = written(tmp_path / name, file_format, at_3=demand)
        assert powerio.parse(str(path)).value.source_format == file_format
        tables = read_power_file(path)
        assert tables.sites_declared
        assert tables.load.bus_id.tolist() == [2, 3]
        assert tables.load.power.reveal() == pytest.approx([41.75 + 13.25j, demand])


@pytest.mark.parametrize("released", [0.0, 1e-14, -2.5])
def test_a_released_matpower_file_gives_the_same_sites_back(tmp_path, released):
    """A released demand of exactly 0 came back as no site at all."""
    path = written(tmp_path, "matpower", at_3=released)
    again = read_power_file(path, listed_sites(["2", "3"]))
    assert again.load.bus_id.tolist() == [2, 3]
    assert again.load.power.reveal()[1] == pytest.approx(released)


@pytest.mark.parametrize("demand", [float("nan"), float("inf"), 1e10, 1e308])
def test_demands_that_no_solver_could_take_are_refused_by_position(tmp_path, demand):
    """1e308 MW was read as it stood and handed to the solver, whose failure would have told of it."""
    path = tmp_path / "case.m"
    path.write_text(small_net(at_3=demand).text().replace("nan", "NaN").replace("inf", "Inf"))
    with pytest.raises(InputError, match=r"^load 2: its demand") as refusal:
        power_case("small", read_power_file(path))
    assert "1e" not in str(refusal.value)


@pytest.mark.parametrize("text", ["2\n3\n", "bus_id,name\n2,town # here\n\n# hill\n3,hill\n", '"2"\r\n3;x\r\n'])
def test_lists_of_sites(tmp_path, text):
    path = tmp_path / "sites.csv"
    path.write_bytes(text.encode())
    assert site_rule(str(path)) == SiteRule(kind=SiteKind.LISTED, places=("2", "3"))
    assert site_rule("all") == ALL


@pytest.mark.parametrize(
    ("text", "hint"), [("", "empty"), ("bus\n", "empty"), ("2\n2\n", "twice"), ("2\n,x\n", "without")]
)
def test_bad_lists_of_sites(tmp_path, text, hint):
    path = tmp_path / "sites.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=hint):
        site_rule(str(path))
    with pytest.raises(InputError, match="no such list"):
        site_rule(str(tmp_path / "none"))
