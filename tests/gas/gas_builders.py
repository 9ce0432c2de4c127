"""Small gas networks for tests: MatGas text, GasLib files, and networks built without any file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gridveil.sectors.gas.boundary import GasBoundary, preset_boundary
from gridveil.sectors.gas.matgas import read_matgas
from gridveil.sectors.gas.network import GasNetwork, gas_network_from_tables
from gridveil.sectors.gas.tables import (
    GasProperties,
    GasTables,
    JunctionTable,
    PipeTable,
    delivery_table,
    link_table,
    receipt_table,
    station_table,
)

# name: file, preset, independent nominal cost (kg/s) under the preset's boundary conditions
STUDIES = {
    "24-pipe": ("case-30.m", 45.72),
    "gaslib-40": ("gaslib-40-E.m", 31.35),
    "gaslib-135": ("gaslib-135-F.m", 64.58),
}

SLACK, LOWEST, HIGHEST = 5.0e6, 4.0e6, 8.0e6
SOUND = 350.0

MATGAS = """function mgc = tiny
mgc.specific_heat_capacity_ratio = 1.4; % unitless
mgc.sound_speed = 350
mgc.base_flow = 7654.25;
mgc.units = 'si';
mgc.is_per_unit = 0;

%% junction data
% id p_min p_max p_nominal junction_type status pipeline_name
mgc.junction = [
1 4000000 8000000 5000000 1 1 'Line of ACME'
2 4000000 8000000 4000000 0 1 'x; % ] not the end'
3 4000000 8000000 4000000 0 1 'x'
4 4000000 8000000 4000000 0 1 'x'
];

%% pipe data
% id fr_junction to_junction diameter length friction_factor p_min p_max status is_bidirectional
mgc.pipe = [
1 2 3 0.5 40000 0.011 4000000 8000000 1 1; % a comment
2 3 4 0.4 20000 0.012 4000000 8000000 1 1
3 1 4 0.4 20000 0.012 4000000 8000000 0 1
];

%% compressor data
% id fr_junction to_junction c_ratio_min c_ratio_max power_max flow_min flow_max outlet_p_max status directionality
mgc.compressor = [
1 1 2 1 1.6 1e100 -900 900 7500000 1 0
];

%% transfer data
% id junction_id withdrawal_min withdrawal_max withdrawal_nominal is_dispatchable status bid_price
mgc.transfer = [
1 3 -5 8.765 0.0 1 1 3.21
];

%% receipt data
% id junction_id injection_min injection_max injection_nominal is_dispatchable status offer_price name
mgc.receipt = [
1 1 0 91.5 61.875 1 1 6.54 'Well of ACME'
2 3 0 20.5 10.25 0 1 6.54 'Well'
];

%% delivery data
% id junction_id withdrawal_min withdrawal_max withdrawal_nominal is_dispatchable status bid_price name
mgc.delivery = [
1 3 0 51.375 31.625 0 1 0.98 'LDC_A'
2 4 0 52.375 23.125 0 1 0.98 'LDC_B'
3 4 0 53.375 17.375 0 1 0.98 'LDC_C'
];
"""

SECRETS = ("31.625", "23.125", "17.375", "40.5")
"""The withdrawals of MATGAS, one by one and where two share a junction."""


NET = """<?xml version="1.0" encoding="UTF-8"?>
<network xmlns="http://gaslib.zib.de/Gas" xmlns:framework="http://gaslib.zib.de/Framework">
  <framework:information><framework:title>Small &amp; complete</framework:title></framework:information>
  <framework:nodes>
    <source id="well">
      <height value="10" unit="m"/>
      <pressureMin value="40" unit="bar"/><pressureMax value="70" unit="barg"/>
      <gasTemperature value="10" unit="Celsius"/>
      <normDensity value="0.8" unit="kg_per_m_cube"/>
      <molarMass value="18.5" unit="kg_per_kmol"/>
      <pseudocriticalPressure value="46" unit="bar"/><pseudocriticalTemperature value="190" unit="K"/>
    </source>
    <innode id="a"><pressureMin value="4" unit="MPa"/><pressureMax value="80" unit="bar"/></innode>
    <innode id="b"><pressureMin value="40" unit="bar"/><pressureMax value="80" unit="bar"/></innode>
    <innode id="c"><pressureMin value="40" unit="bar"/><pressureMax value="80" unit="bar"/></innode>
    <sink id="town"><pressureMin value="40" unit="bar"/><pressureMax value="80" unit="bar"/></sink>
    <sink id="port"><pressureMin value="40" unit="bar"/><pressureMax value="80" unit="bar"/></sink>
  </framework:nodes>
  <framework:connections>
    <compressorStation id="cs" from="well" to="a">
      <flowMin value="0" unit="1000m_cube_per_hour"/><flowMax value="1800" unit="1000m_cube_per_hour"/>
      <pressureInMin value="42" unit="bar"/><pressureOutMax value="75" unit="bar"/>
    </compressorStation>
    <pipe id="p" from="a" to="b">
      <flowMin value="-900" unit="1000m_cube_per_hour"/><flowMax value="900" unit="1000m_cube_per_hour"/>
      <length value="36" unit="km"/><diameter value="500" unit="mm"/><roughness value="0.05" unit="mm"/>
      <pressureMax value="78" unit="bar"/>
    </pipe>
    <shortPipe id="s" from="b" to="c"/>
    <valve id="v" from="b" to="c"/>
    <resistor id="r" from="c" to="town"><dragFactor value="7"/><diameter value="400" unit="mm"/></resistor>
    <resistor id="q" from="c" to="town"><pressureLoss value="0.2" unit="bar"/></resistor>
    <controlValve id="cv" from="c" to="port">
      <flowMin value="-50" unit="1000m_cube_per_hour"/><flowMax value="50" unit="kg_per_s"/>
      <pressureInMin value="41" unit="bar"/><pressureOutMax value="60" unit="bar"/>
    </controlValve>
  </framework:connections>
</network>
"""

SCN = """<?xml version="1.0" encoding="UTF-8"?>
<boundaryValue xmlns="http://gaslib.zib.de/Gas">
  <scenario id="one">
    <node type="entry" id="well"><flow value="360" bound="both" unit="1000m_cube_per_hour"/></node>
    <node type="exit" id="town">
      <pressure value="43" bound="lower" unit="barg"/>
      <flow value="142.3125" bound="lower" unit="1000m_cube_per_hour"/>
      <flow value="142.3125" bound="upper" unit="1000m_cube_per_hour"/>
    </node>
    <node type="exit" id="port"><flow value="48.375" bound="both" unit="kg_per_s"/></node>
  </scenario>
</boundaryValue>
"""

CS = """<?xml version="1.0" encoding="UTF-8"?>
<compressorStations xmlns="http://gaslib.zib.de/CompressorStations">
  <compressorStation id="cs">
    <compressors>
      <turboCompressor id="m1"><speedMin value="3000" unit="per_min"/><speedMax value="100" unit="per_s"/>
        <n_isoline_coeff_1 value="2"/><n_isoline_coeff_2 value="0.004"/><n_isoline_coeff_3 value="0"/>
        <n_isoline_coeff_4 value="1"/><n_isoline_coeff_5 value="0.0005"/><n_isoline_coeff_6 value="0"/>
        <n_isoline_coeff_7 value="-1"/><n_isoline_coeff_8 value="0"/><n_isoline_coeff_9 value="0"/>
      </turboCompressor>
    </compressors>
    <configurations>
      <configuration confId="1" nrOfSerialStages="1">
        <stage stageNr="1" nrOfParallelUnits="1"><compressor id="m1"/></stage>
      </configuration>
      <configuration confId="2" nrOfSerialStages="2">
        <stage stageNr="1" nrOfParallelUnits="1"><compressor id="m1"/></stage>
        <stage stageNr="2" nrOfParallelUnits="1"><compressor id="m1"/></stage>
      </configuration>
    </configurations>
  </compressorStation>
</compressorStations>
"""

GASLIB_SECRETS = ("142.3125", "48.375", "31.625")
"""The exits of SCN as written, and the first of them in kg/s."""


def write_gaslib(folder: Path, *, net: str = NET, scn: str = SCN, cs: str | None = CS) -> Path:
    """Write a GasLib network with its scenario and stations; give the path of the network."""
    (folder / "small.net").write_text(net)
    (folder / "small.scn").write_text(scn)
    if cs is not None:
        (folder / "small.cs").write_text(cs)
    return folder / "small.net"


def network_of(tables: GasTables, boundary: GasBoundary | None = None) -> tuple[GasNetwork, np.ndarray]:
    """Network and revealed demands (per unit of the flow base)."""
    network, demand = gas_network_from_tables(tables, GasBoundary() if boundary is None else boundary)
    return network, demand.reveal()


def study(name: str) -> tuple[GasNetwork, np.ndarray]:
    """One of the paper's networks; skips the test, by name, where the benchmark folder is absent."""
    folder = Path(os.environ.get("GRIDVEIL_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = folder / "gas" / STUDIES[name][0]
    if not path.exists():
        pytest.skip(f"needs gas/{path.name} from the folder named by GRIDVEIL_DATA")
    return network_of(read_matgas(path), preset_boundary(name))


def gaslib_benchmark(name: str) -> Path:
    """One of the GasLib networks in XML; skips the test where the benchmark folder is absent."""
    folder = Path(os.environ.get("GRIDVEIL_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = folder / "gas" / "gaslib" / f"{name}.net"
    if not path.exists():
        pytest.skip(f"needs gas/gaslib/{path.name} from the folder named by GRIDVEIL_DATA")
    return path


def make_tables(
    n: int,
    *,
    pipes: list[tuple[int, int, float, float, float]],
    compressors: list[tuple[int, int]] = (),
    regulators: list[tuple[int, int]] = (),
    links: list[tuple[int, int]] = (),
    receipts: list[tuple[int, float]] = (),
    deliveries: list[tuple[int, float]],
    slack: dict[int, float] | None = None,
    p_max: dict[int, float] | None = None,
) -> GasTables:
    """Tables from plain rows; pipes are (from, to, diameter, length, friction); junction 0 is the slack at SLACK."""
    slack_pressure = np.full(n, np.nan)
    for place, pressure in ({0: SLACK} if slack is None else slack).items():
        slack_pressure[place] = pressure
    highest = np.full(n, HIGHEST)
    for place, pressure in (p_max or {}).items():
        highest[place] = pressure
    columns = list(zip(*pipes, strict=True)) if pipes else [(), (), (), (), ()]

    def stations(rows, ratio_min, ratio_max, flow_min=-np.inf):
        return station_table(
            id=[str(k) for k in range(len(rows))],
            from_junction=[row[0] for row in rows],
            to_junction=[row[1] for row in rows],
            ratio_min=[ratio_min] * len(rows),
            ratio_max=[ratio_max] * len(rows),
            flow_min=[flow_min] * len(rows),
            flow_max=[np.inf] * len(rows),
        )

    return GasTables(
        junction=JunctionTable(
            id=tuple(map(str, range(n))), p_min=np.full(n, LOWEST), p_max=highest, slack_pressure=slack_pressure
        ),
        pipe=PipeTable(
            id=tuple(str(k) for k in range(len(pipes))),
            from_junction=np.array(columns[0], dtype=np.int64),
            to_junction=np.array(columns[1], dtype=np.int64),
            diameter=np.array(columns[2], dtype=float),
            length=np.array(columns[3], dtype=float),
            friction_factor=np.array(columns[4], dtype=float),
            flow_min=np.full(len(pipes), -np.inf),
            flow_max=np.full(len(pipes), np.inf),
        ),
        link=link_table([str(k) for k in range(len(links))], [a for a, _ in links], [b for _, b in links]),
        compressor=stations(compressors, 1.0, 1.8),
        regulator=stations(regulators, 0.0, 1.0, 0.0),
        receipt=receipt_table([at for at, _ in receipts], [flow for _, flow in receipts]),
        delivery=delivery_table([at for at, _ in deliveries], [flow for _, flow in deliveries]),
        gas=GasProperties(stated_sound_speed=SOUND),
        file_format="test",
        notes=(),
    )


def loss(diameter: float, length: float, friction: float, flow: float) -> float:
    """p_i² − p_j² of a pipe, from the mass flux."""
    flux = flow / (np.pi / 4 * diameter * diameter)
    return friction * length / diameter * SOUND**2 * flux * abs(flux)
