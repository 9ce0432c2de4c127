"""Written GasLib files read back as the same physics, and hold nothing beyond the allow-list."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from gas_builders import (
    GASLIB_SECRETS,
    LOWEST,
    NET,
    SCN,
    SLACK,
    STUDIES,
    gaslib_benchmark,
    make_tables,
    network_of,
    study,
)
from gas_builders import write_gaslib as write_source
from hypothesis import given, settings
from hypothesis import strategies as st

from gridveil.core.errors import InputError
from gridveil.programs import Follower
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.gaslib import read_gaslib
from gridveil.sectors.gas.gaslib_write import write_gaslib
from gridveil.sectors.gas.generator import BUILT_IN
from gridveil.sectors.gas.network import public_gas_tables
from gridveil.sectors.gas.ogf import optimal_gas_flow
from gridveil.sectors.gas.read import read_gas_file
from gridveil.sectors.gas.tables import GasProperties, station_table

PIPE = (0.5, 60e3, 0.011)
RESISTOR = (0.4, 0.4, 7.0)
LOOSE = '<pressureMin value="0" unit="bar"/><pressureMax value="70" unit="barg"/>'
GASLIB_SLACKS = {"GasLib-11": {"entry01": 5e6}, "GasLib-40": {"source_1": 5e6}, "GasLib-135": {"source_1": 4e6}}

# Every element of a written file with its attributes; nothing else may appear.
MEASURED = {"value", "unit"}
EDGE = {"id", "from", "to"}
ALLOWED = {
    "network": set(),
    "information": set(),
    "title": set(),
    "nodes": set(),
    "connections": set(),
    **{kind: {"id"} for kind in ("source", "sink", "innode")},
    **dict.fromkeys(("pipe", "resistor", "shortPipe", "controlValve"), EDGE),
    "compressorStation": EDGE,
    **dict.fromkeys(("pressureMin", "pressureMax", "gasTemperature", "normDensity", "molarMass"), MEASURED),
    **dict.fromkeys(("pseudocriticalPressure", "pseudocriticalTemperature"), MEASURED),
    **dict.fromkeys(("length", "diameter", "roughness", "dragFactor", "flowMin", "flowMax", "speedMax"), MEASURED),
    "boundaryValue": set(),
    "scenario": {"id"},
    "node": {"type", "id"},
    **dict.fromkeys(("pressure", "flow"), MEASURED | {"bound"}),
    "compressorStations": set(),
    "compressors": set(),
    "turboCompressor": {"id"},
    "configurations": set(),
    "configuration": {"confId", "nrOfSerialStages"},
    "stage": {"stageNr", "nrOfParallelUnits"},
    "compressor": {"id"},
    **{f"n_isoline_coeff_{k}": MEASURED for k in range(1, 10)},
}


def written(network, demand, folder):
    return write_gaslib(public_gas_tables(network, demand), folder, title="released")


def reread(network, path):
    """Read as a stranger would who states the slack pressures, which the format keeps as limits only."""
    slack = {network.junction.id[k]: float(network.junction.slack_pressure[k]) for k in network.slack}
    return network_of(read_gas_file(path), GasBoundary(slack=slack, flow_base=network.flow_base))


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=0.0)


def assert_round_trip(network, demand, folder):
    """All arrays of the network, in their order, and the demands come back."""
    found, found_demand = reread(network, written(network, demand, folder))
    assert found.junction.id == network.junction.id
    same(found.sound_speed, network.sound_speed)
    assert found.gas.heat_capacity_ratio == network.gas.heat_capacity_ratio
    same(found.resistance, network.resistance)
    for column in ("diameter", "length", "friction_factor", "flow_min", "flow_max"):
        same(getattr(found.pipe, column), getattr(network.pipe, column))
    for column in ("ratio_min", "ratio_max", "flow_min", "flow_max"):
        same(getattr(found.station, column), getattr(network.station, column))
    for kind in ("pipe", "link", "compressor", "regulator"):
        for end in ("from_junction", "to_junction"):
            np.testing.assert_array_equal(getattr(getattr(found, kind), end), getattr(getattr(network, kind), end))
    free = np.isnan(network.junction.slack_pressure)
    for column in ("p_min", "p_max"):
        same(getattr(found.junction, column)[free], getattr(network.junction, column)[free])
    same(found.junction.slack_pressure, network.junction.slack_pressure)
    np.testing.assert_array_equal(found.receipt.junction, network.receipt.junction)
    same(found.receipt.injection, network.receipt.injection)
    np.testing.assert_array_equal(found.site_junction, network.site_junction)
    same(found_demand, demand)
    return found


def assert_same_optimum(network, demand, folder):
    found = assert_round_trip(network, demand, folder)
    costs = [Follower(optimal_gas_flow(each)).solve(demand) for each in (network, found)]
    assert all(solution.converged for solution in costs)
    assert costs[0].cost > 0.1
    assert costs[1].cost == pytest.approx(costs[0].cost, rel=1e-6)


def everything():
    """All kinds of elements, limits on all flows, two slacks, sites that share junctions and one negative demand."""
    tables = make_tables(
        7,
        pipes=[(1, 2, *PIPE), (3, 2, *PIPE), (2, 5, *RESISTOR)],
        compressors=[(0, 1), (6, 5)],
        regulators=[(3, 4)],
        links=[(3, 2)],
        receipts=[(2, 4.5), (2, 7.25)],
        deliveries=[(4, 20.0), (2, 15.5), (4, -0.75), (5, 31.0), (2, 8.0), (0, 3.0)],
        slack={0: SLACK, 6: LOWEST * (1 - 1e-10)},
    )
    return replace(
        tables,
        pipe=replace(tables.pipe, flow_min=np.array([-90.0, 0.0, -np.inf]), flow_max=np.array([np.inf, 70.0, 80.0])),
        compressor=replace(
            tables.compressor,
            ratio_max=np.array([1.0, 1.6]),
            flow_min=np.array([-5.0, -np.inf]),
            flow_max=np.array([np.inf, 200.0]),
        ),
        regulator=replace(tables.regulator, flow_min=np.array([1.5]), flow_max=np.array([60.0])),
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_networks(name, tmp_path):
    assert_same_optimum(*network_of(BUILT_IN[name]()), tmp_path)


@pytest.mark.parametrize("speed", [None, 312.806])
@pytest.mark.parametrize("name", GASLIB_SLACKS)
def test_gaslib_networks(name, speed, tmp_path):
    tables = read_gaslib(gaslib_benchmark(name))
    network, demand = network_of(tables, GasBoundary(slack=GASLIB_SLACKS[name], sound_speed=speed, flow_base=40.0))
    assert_same_optimum(network, demand, tmp_path)
    assert_round_trip(network, demand - np.median(demand) - 0.01, tmp_path)  # noise makes some demands negative
    gas = read_gaslib(tmp_path / "network.net").gas
    same([gas.temperature, gas.molar_mass], [tables.gas.temperature, tables.gas.molar_mass])
    if speed is None:
        same(gas.compressibility, tables.gas.compressibility)


@pytest.mark.parametrize("name", STUDIES)
def test_matgas_networks(name, tmp_path):
    assert_same_optimum(*study(name), tmp_path)


def test_every_kind_of_element_limit_and_site(tmp_path):
    network, demand = network_of(everything())
    assert_round_trip(network, demand, tmp_path)
    kinds = [item.tag.rpartition("}")[2] for item in ElementTree.parse(tmp_path / "network.net").iter()]
    assert {kind: kinds.count(kind) for kind in ("pipe", "resistor")} == {"pipe": 2, "resistor": 1}


def test_slack_junctions_are_entries_of_fixed_pressure_and_free_flow(tmp_path):
    path = written(*network_of(everything()), tmp_path)
    entries = [node for node in ElementTree.parse(path.with_suffix(".scn")).iter() if node.get("type") == "entry"]
    pressures = {node.get("id"): node.find("{*}pressure") for node in entries if node.find("{*}pressure") is not None}
    assert {name: item.get("bound") for name, item in pressures.items()} == {"0": "both", "6": "both"}
    same([float(item.get("value")) * 1e5 for item in pressures.values()], [SLACK, LOWEST * (1 - 1e-10)])
    limits = read_gaslib(path).junction
    same(limits.p_min[[0, 6]], limits.p_max[[0, 6]])
    assert read_gaslib(path).receipt.injection[2:].tolist() == [0.0, 0.0]


def test_a_ratio_that_only_the_pressure_limits_bound_needs_no_machine(tmp_path):
    """Without machine data and without a least pressure the reader's ratio is beyond what it takes for a machine."""
    net = NET.replace('<pressureMin value="40" unit="bar"/><pressureMax value="70" unit="barg"/>', LOOSE).replace(
        '<pressureInMin value="42" unit="bar"/>', ""
    )
    tables = read_gaslib(write_source(tmp_path, net=net, cs=None))
    assert tables.compressor.ratio_max[0] == pytest.approx(7.5e6)
    assert_round_trip(*network_of(tables, GasBoundary(slack={"well": 45e5})), tmp_path)


def test_without_compressors_there_is_no_station_file(tmp_path):
    network, demand = network_of(make_tables(2, pipes=[(0, 1, *PIPE)], deliveries=[(1, 10.0)]))
    assert_round_trip(network, demand, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.net", "network.scn"]


@settings(max_examples=60, deadline=None)
@given(
    pipe=st.tuples(st.floats(0.02, 5.0), st.just(0.0) | st.floats(1e-3, 1e6), st.floats(1e-5, 1e4)),
    speed=st.floats(200.0, 420.0),
    temperature=st.none() | st.floats(263.0, 330.0),
    molar_mass=st.none() | st.floats(0.010, 0.016),
    ratio=st.floats(1.0, 50.0),
    flows=st.lists(st.floats(1e-6, 1e4) | st.floats(-1e4, -1e-6) | st.just(0.0), min_size=1, max_size=4),
    name=st.text(
        st.characters(codec="utf-8", exclude_categories=("Cc",)) | st.sampled_from("\t\n\r<>&\"'"), min_size=2
    ),
)
def test_any_network_comes_back(tmp_path_factory, pipe, speed, temperature, molar_mass, ratio, flows, name):
    tables = make_tables(
        3, pipes=[(1, 2, *pipe)], compressors=[(0, 1)], receipts=[(1, 3.0)], deliveries=[(2, flow) for flow in flows]
    )
    tables = replace(
        tables,
        junction=replace(tables.junction, id=("0", "1", name)),
        compressor=replace(tables.compressor, ratio_max=np.array([ratio])),
        gas=GasProperties(stated_sound_speed=speed, temperature=temperature, molar_mass=molar_mass),
    )
    if re.search("[\ufffe\uffff]", name):
        with pytest.raises(InputError, match="XML cannot hold"):
            assert_round_trip(*network_of(tables), tmp_path_factory.mktemp("any"))
    else:
        assert_round_trip(*network_of(tables), tmp_path_factory.mktemp("any"))


def loud_source(folder, scn=SCN):
    """A source full of what must not be published."""
    net = NET.replace("<framework:nodes>", "<!-- by Jane Comment -->\n<framework:nodes>")
    net = net.replace(
        '<source id="well">', '<source id="well" alias="ACME" x="123.456" y="654.321" geoWGS84Lat="48.96">'
    )
    net = net.replace("</framework:title>", "</framework:title><framework:date>2013-09-05</framework:date>")
    net = net.replace(
        '<height value="10" unit="m"/>', '<height value="98.7" unit="m"/><flowMax value="77.7" unit="kg_per_s"/>'
    )
    net = net.replace('id="p"', 'id="Jane-Street"').replace('id="cs"', 'id="ACME-Station"')
    return write_source(folder, net=net, scn=scn)


def released_bytes(source, folder, demand):
    network, _ = network_of(read_gaslib(source), GasBoundary(slack={"well": 45e5}))
    return [written(network, demand, folder).with_suffix(ending).read_bytes() for ending in (".net", ".scn", ".cs")]


def test_nothing_of_the_source_beyond_the_allow_list(tmp_path):
    files = released_bytes(loud_source(tmp_path), tmp_path, np.array([30.5, -0.125]))
    text = b"".join(files).decode()
    banned = ("Comment", "ACME", "Jane", "123.456", "654.321", "48.96", "98.7", "77.7", "2013", "complete", "<!--")
    assert not [word for word in (*banned, *GASLIB_SECRETS) if word in text]
    for content in files:
        for item in ElementTree.fromstring(content).iter():
            tag = item.tag.rpartition("}")[2]
            assert item.attrib.keys() <= ALLOWED[tag], tag
            assert (item.text or "").strip() == ("released" if tag == "title" else "")
    ids = set(re.findall(r'\bid="([^"]*)"', text)) - {"well", "a", "b", "c", "town", "port"}
    assert all(re.fullmatch(r"[A-Za-z]+_\d+", name) for name in ids)


def test_files_depend_on_released_demands_only(tmp_path):
    released = np.array([30.5, -0.125])
    other = SCN.replace("142.3125", "155.5").replace("48.375", "40.25").replace('value="360"', 'value="390"')
    first = released_bytes(loud_source(tmp_path), tmp_path, released)
    assert released_bytes(loud_source(tmp_path, scn=other), tmp_path, released) == first


def test_the_title_is_kept(tmp_path):
    network, demand = network_of(everything())
    write_gaslib(public_gas_tables(network, demand), tmp_path, title="A & <B>")
    titles = [e.text for e in ElementTree.parse(tmp_path / "network.net").iter() if e.tag.endswith("}title")]
    assert titles == ["A & <B>"]


def station(**limits):
    columns = {"ratio_min": 1.0, "ratio_max": 1.6, "flow_min": 0.0, "flow_max": np.inf} | limits
    return station_table(id=["S"], from_junction=[0], to_junction=[1], **{key: [val] for key, val in columns.items()})


def refusals():
    """Changes of a network of two pipes, and what the writer says to each."""
    pipe, junction = TWO_PIPES.pipe, TWO_PIPES.junction
    return {
        "compressor S has a least pressure ratio other than 1": {"compressor": station(ratio_min=1.1)},
        "compressor S has a largest pressure ratio beyond any machine": {"compressor": station(ratio_max=1e9)},
        "regulator S has limits of its pressure ratio": {"regulator": station(ratio_min=0.2, ratio_max=1.0)},
        "regulator S lets gas flow back": {"regulator": station(ratio_min=0.0, ratio_max=1.0, flow_min=-1.0)},
        "ratio of heat capacities": {"gas": GasProperties(stated_sound_speed=350.0, heat_capacity_ratio=1.3)},
        "no compressibility factor": {"gas": GasProperties(stated_sound_speed=900.0, molar_mass=0.0185)},
        "the speed of sound is unknown": {"gas": GasProperties()},
        "pipe 0 has a friction factor that no roughness gives": {
            "pipe": replace(pipe, friction_factor=np.array([1e-7, 0.01]))
        },
        "pipe_1: flowMax is not a finite number": {"pipe": replace(pipe, flow_max=np.array([np.nan, 1.0]))},
        "junction 2 has no finite pressure limits": {"junction": replace(junction, p_max=np.array([8e6, 8e6, np.inf]))},
        "no slack junction": {"junction": replace(junction, slack_pressure=np.full(3, np.nan))},
        "node 2: flow is not a finite number": {"withdrawal": np.array([np.inf])},
        "XML cannot hold": {"junction": replace(junction, id=("0", "1", "a\x00b"))},
    }


TWO_PIPES = public_gas_tables(*network_of(make_tables(3, pipes=[(0, 1, *PIPE), (1, 2, *PIPE)], deliveries=[(2, 9.0)])))


@pytest.mark.parametrize("problem", refusals())
def test_what_the_format_cannot_hold_is_refused_before_anything_is_written(problem, tmp_path):
    with pytest.raises(InputError, match=problem):
        write_gaslib(replace(TWO_PIPES, **refusals()[problem]), tmp_path, title="released")
    assert not list(tmp_path.iterdir())
