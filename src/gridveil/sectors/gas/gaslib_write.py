"""Write GasLib networks (.net, .scn, .cs) from an allow-list: topology, parameters, limits and released demands.

Nothing is copied from a source file: no names but those of junctions, no coordinates, heights, comments or dates. What the
format has no field for is written as what our reader makes the same physics of:

- A friction factor as the roughness that gives it by Nikuradse's formula; the pipes that stand for resistors (at the end of
  the table, as long as they are wide) as resistors.
- The speed of sound as a gas: temperature and molar mass as they are known, critical values that give the compressibility
  factor by the AGA formula. So these values are effective ones, not those of a real gas.
- The largest ratio of a compressor as a machine with that head at every flow. Where the pressure limits alone bound the
  ratio there is no machine.
- A slack junction as an entry of fixed pressure and free flow.
- Several deliveries at one junction as several exits there, in their order; a negative withdrawal as an exit of negative flow.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.sectors.gas.gaslib_stations import COEFFICIENTS, HIGHEST_HEAD
from gridveil.sectors.gas.tables import (
    DEFAULT_HEAT_CAPACITY_RATIO,
    GAS_CONSTANT,
    Floats,
    GasProperties,
    Ints,
    JunctionTable,
    PipeTable,
    PublicGasTables,
    StationTable,
)

BAR, MILLIMETRE, KILOMETRE, PER_KILOMOLE = 1e5, 1e-3, 1e3, 1e-3
NORMAL_PRESSURE, NORMAL_TEMPERATURE = 101325.0, 273.15  # Pa, K
USUAL_TEMPERATURE = 283.15  # K
CRITICAL_PRESSURE, CRITICAL_TEMPERATURE = 46e5, 190.0  # Pa, K: about those of natural gas
LEAST_HEAD = 1e-9  # J/kg: the reader takes no head at all for a missing machine
FREE_FLOW = 1e100
EXACT = 1e-9  # relative: what must come back when the file is read

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAMESPACES = {"xmlns": "http://gaslib.zib.de/Gas", "xmlns:framework": "http://gaslib.zib.de/Framework"}
_STATION_NAMESPACES = {"xmlns": "http://gaslib.zib.de/CompressorStations"}
_ELSE = "GasLib cannot hold this: convert the case to MatGas (.m) first"


@dataclass(frozen=True, kw_only=True)
class _Gas:
    """A gas in the terms of the format: K, kg/mol, kg/m³ at normal conditions, and a² in J/kg."""

    temperature: float
    molar_mass: float
    critical_temperature: float
    normal_density: float
    specific_energy: float

    def flow(self, mass_flow: float) -> float:
        """Convert a flow (kg/s) to 1000 m³/h at normal conditions."""
        return mass_flow / self.normal_density * 3.6


def write_gaslib(tables: PublicGasTables, folder: Path, *, title: str) -> Path:
    """Write network.net, network.scn and, if there are compressors, network.cs; return the path of network.net.

    What the format cannot hold is an InputError, and then nothing is written.
    """
    for text in (title, *tables.junction.id):
        if _NOT_XML.search(text):
            raise InputError("the title or the id of a junction has a character that XML cannot hold; rename it")
    junction = _limits_around_slacks(tables.junction)
    gas = _gas(tables.gas, float(np.mean((junction.p_min + junction.p_max) / 2)))
    roots = {
        "net": _network(tables, junction, gas, title),
        "scn": _scenario(tables, gas),
        "cs": _stations(tables.compressor, junction, gas),
    }
    if not tables.compressor.id:
        del roots["cs"]
    for suffix, root in roots.items():
        indent(root)
        (folder / f"network.{suffix}").write_bytes(tostring(root, encoding="UTF-8", xml_declaration=True) + b"\n")
    return folder / "network.net"


def _limits_around_slacks(junction: JunctionTable) -> JunctionTable:
    """Make room for regulated pressures that lie on a limit but for rounding; refuse networks without pressures."""
    slack = junction.slack_pressure
    if not np.any(np.isfinite(slack)):
        raise InputError("the network regulates no pressure (no slack junction); state one before writing it")
    _refuse("junction", junction.id, ~np.isfinite(junction.p_min + junction.p_max), "has no finite pressure limits")
    return replace(junction, p_min=np.fmin(junction.p_min, slack), p_max=np.fmax(junction.p_max, slack))


def _gas(gas: GasProperties, mean_pressure: float) -> _Gas:
    """Find the gas whose AGA compressibility at this pressure (Pa) gives the speed of sound."""
    speed = gas.sound_speed
    if speed is None:
        raise InputError("the speed of sound is unknown; state it, for example --sound-speed 350m/s")
    if gas.heat_capacity_ratio != DEFAULT_HEAT_CAPACITY_RATIO:
        raise InputError(f"the ratio of heat capacities is not {DEFAULT_HEAT_CAPACITY_RATIO}; {_ELSE}")
    temperature = USUAL_TEMPERATURE if gas.temperature is None else gas.temperature
    reduced = mean_pressure / CRITICAL_PRESSURE
    if gas.molar_mass is None:
        critical_temperature = CRITICAL_TEMPERATURE
        compressibility = 1 + reduced * (0.257 - 0.533 * critical_temperature / temperature)
        molar_mass = compressibility * GAS_CONSTANT * temperature / speed**2
    else:
        molar_mass = gas.molar_mass
        compressibility = speed**2 * molar_mass / (GAS_CONSTANT * temperature)
        critical_temperature = temperature * (0.257 - (compressibility - 1) / reduced) / 0.533
    if compressibility <= 0 or critical_temperature <= 0:
        raise InputError(f"no compressibility factor gives this speed of sound at these pressures; {_ELSE}")
    return _Gas(
        temperature=temperature,
        molar_mass=molar_mass,
        critical_temperature=critical_temperature,
        normal_density=molar_mass * NORMAL_PRESSURE / (GAS_CONSTANT * NORMAL_TEMPERATURE),
        specific_energy=speed**2,
    )


def _network(tables: PublicGasTables, junction: JunctionTable, gas: _Gas, title: str) -> Element:
    root = Element("network", _NAMESPACES)
    SubElement(SubElement(root, "framework:information"), "framework:title").text = title
    nodes = SubElement(root, "framework:nodes")
    kinds = np.full(len(junction.id), "innode", dtype=object)
    kinds[tables.delivery_junction] = "sink"
    kinds[tables.receipt.junction] = "source"
    kinds[np.isfinite(junction.slack_pressure)] = "source"
    for name, kind, p_min, p_max in zip(
        junction.id, kinds.tolist(), junction.p_min.tolist(), junction.p_max.tolist(), strict=True
    ):
        node = SubElement(nodes, kind, id=name)
        _measure(node, "pressureMin", p_min / BAR, "bar")
        _measure(node, "pressureMax", p_max / BAR, "bar")
        if kind == "source":
            _measure(node, "gasTemperature", gas.temperature, "K")
            _measure(node, "normDensity", gas.normal_density, "kg_per_m_cube")
            _measure(node, "molarMass", gas.molar_mass / PER_KILOMOLE, "kg_per_kmol")
            _measure(node, "pseudocriticalPressure", CRITICAL_PRESSURE / BAR, "bar")
            _measure(node, "pseudocriticalTemperature", gas.critical_temperature, "K")
    connections = SubElement(root, "framework:connections")
    _pipes(connections, tables.pipe, junction.id, gas)
    link = tables.link
    _edges(connections, "shortPipe", link.from_junction, link.to_junction, junction.id)
    _compressors(connections, tables.compressor, junction.id, gas)
    _regulators(connections, tables.regulator, junction.id, gas)
    return root


def _pipes(connections: Element, pipe: PipeTable, names: tuple[str, ...], gas: _Gas) -> None:
    resistors = int(np.cumprod((pipe.length == pipe.diameter)[::-1]).sum())
    n = len(pipe.id) - resistors
    edges = _edges(connections, "pipe", pipe.from_junction[:n], pipe.to_junction[:n], names)
    edges += _edges(connections, "resistor", pipe.from_junction[n:], pipe.to_junction[n:], names)
    _flow_limits(edges, pipe.flow_min, pipe.flow_max, gas)
    roughness = _roughness(pipe.friction_factor[:n], pipe.diameter[:n], pipe.id)
    for edge, length in zip(edges, pipe.length[:n].tolist(), strict=False):
        _measure(edge, "length", length / KILOMETRE, "km")
    for edge, drag in zip(edges[n:], pipe.friction_factor[n:].tolist(), strict=True):
        _measure(edge, "dragFactor", drag)
    for edge, diameter in zip(edges, pipe.diameter.tolist(), strict=True):
        _measure(edge, "diameter", diameter / MILLIMETRE, "mm")
    for edge, rough in zip(edges, roughness.tolist(), strict=False):
        _measure(edge, "roughness", rough / MILLIMETRE, "mm")


def _roughness(friction: Floats, diameter: Floats, ids: tuple[str, ...]) -> Floats:
    """Solve λ = (2 log10(D / k) + 1.138)⁻² for k (m)."""
    with np.errstate(divide="ignore", over="ignore"):
        roughness = diameter * 10 ** (0.569 - friction**-0.5 / 2)
        found = (2 * np.log10(diameter / roughness) + 1.138) ** -2
    lost = ~np.isclose(found, friction, rtol=EXACT, atol=0.0)
    _refuse("pipe", ids, lost, "has a friction factor that no roughness gives")
    return np.asarray(roughness)


def _compressors(connections: Element, table: StationTable, names: tuple[str, ...], gas: _Gas) -> None:
    _refuse("compressor", table.id, table.ratio_min != 1, "has a least pressure ratio other than 1")
    edges = _edges(connections, "compressorStation", table.from_junction, table.to_junction, names)
    _flow_limits(edges, table.flow_min, table.flow_max, gas)


def _regulators(connections: Element, table: StationTable, names: tuple[str, ...], gas: _Gas) -> None:
    limited = (table.ratio_min != 0) | (table.ratio_max != 1)
    _refuse("regulator", table.id, limited, "has limits of its pressure ratio other than 0 and 1")
    _refuse("regulator", table.id, table.flow_min < 0, "lets gas flow back")
    edges = _edges(connections, "controlValve", table.from_junction, table.to_junction, names)
    _flow_limits(edges, table.flow_min, table.flow_max, gas)


def _stations(table: StationTable, junction: JunctionTable, gas: _Gas) -> Element:
    """Render the .cs file: for each station, a machine that reaches its largest ratio, or none."""
    exponent = (DEFAULT_HEAT_CAPACITY_RATIO - 1) / DEFAULT_HEAT_CAPACITY_RATIO
    head = np.maximum(gas.specific_energy * (table.ratio_max**exponent - 1) / exponent, LEAST_HEAD)
    # What the reader assumes of a station without machines.
    widest = np.maximum(junction.p_max[table.to_junction] / np.maximum(junction.p_min[table.from_junction], 1.0), 1.0)
    machine = ~np.isclose(table.ratio_max, widest, rtol=EXACT / 1e3, atol=0.0)
    _refuse(
        "compressor", table.id, machine & ~(head <= HIGHEST_HEAD), "has a largest pressure ratio beyond any machine"
    )
    root = Element("compressorStations", _STATION_NAMESPACES)
    for number, (needed, value) in enumerate(zip(machine.tolist(), head.tolist(), strict=True), start=1):
        station = SubElement(root, "compressorStation", id=f"compressorStation_{number}")
        if needed:
            _machine(station, f"compressor_{number}", value)
    return root


def _machine(station: Element, name: str, head: float) -> None:
    """Add a machine with this head (J/kg) at every speed and flow: all coefficients but the first are 0."""
    machine = SubElement(SubElement(station, "compressors"), "turboCompressor", id=name)
    _measure(machine, "speedMax", 1.0, "per_min")
    for place, value in enumerate([head / 1e3, *[0.0] * (COEFFICIENTS - 1)], start=1):
        _measure(machine, f"n_isoline_coeff_{place}", value)
    configuration = SubElement(SubElement(station, "configurations"), "configuration", confId="1", nrOfSerialStages="1")
    SubElement(SubElement(configuration, "stage", stageNr="1", nrOfParallelUnits="1"), "compressor", id=name)


def _scenario(tables: PublicGasTables, gas: _Gas) -> Element:
    root = Element("boundaryValue", _NAMESPACES)
    scenario = SubElement(root, "scenario", id="scenario_1")
    names, receipt, slack_pressure = tables.junction.id, tables.receipt, tables.junction.slack_pressure
    for place, flow in zip(receipt.junction.tolist(), receipt.injection.tolist(), strict=True):
        _bound(SubElement(scenario, "node", type="entry", id=names[place]), "both", gas.flow(flow))
    for place in np.flatnonzero(np.isfinite(slack_pressure)).tolist():
        node = SubElement(scenario, "node", type="entry", id=names[place])
        _measure(node, "pressure", float(slack_pressure[place]) / BAR, "bar").set("bound", "both")
        _bound(node, "lower", -FREE_FLOW)
        _bound(node, "upper", FREE_FLOW)
    for place, flow in zip(tables.delivery_junction.tolist(), tables.withdrawal.tolist(), strict=True):
        _bound(SubElement(scenario, "node", type="exit", id=names[place]), "both", gas.flow(flow))
    return root


def _edges(parent: Element, kind: str, start: Ints, end: Ints, names: tuple[str, ...]) -> list[Element]:
    return [
        SubElement(parent, kind, {"id": f"{kind}_{number}", "from": names[first], "to": names[second]})
        for number, (first, second) in enumerate(zip(start.tolist(), end.tolist(), strict=True), start=1)
    ]


def _flow_limits(edges: list[Element], flow_min: Floats, flow_max: Floats, gas: _Gas) -> None:
    for name, limits in (("flowMin", flow_min), ("flowMax", flow_max)):
        for edge, limit in zip(edges, limits.tolist(), strict=True):
            if not math.isinf(limit):
                _measure(edge, name, gas.flow(limit), "1000m_cube_per_hour")


def _bound(node: Element, side: str, flow: float) -> None:
    _measure(node, "flow", flow, "1000m_cube_per_hour").set("bound", side)


def _measure(parent: Element, name: str, value: float, unit: str | None = None) -> Element:
    if not math.isfinite(value):
        raise InputError(f"{parent.tag} {parent.get('id')}: {name} is not a finite number; {_ELSE}")
    return SubElement(parent, name, {"value": repr(value)} | ({} if unit is None else {"unit": unit}))


def _refuse(kind: str, ids: tuple[str, ...], wrong: NDArray[np.bool_], problem: str) -> None:
    if np.any(wrong):
        raise InputError(f"{kind} {ids[int(np.argmax(wrong))]} {problem}; {_ELSE}")
