"""Read GasLib networks: the network (.net), a scenario with the demands (.scn) and the compressor stations (.cs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log10
from pathlib import Path

import numpy as np

from gridveil.core.errors import InputError
from gridveil.sectors.gas.gaslib_stations import station_ratios
from gridveil.sectors.gas.gaslib_xml import Element, PhysicalQuantity, parse_xml
from gridveil.sectors.gas.tables import (
    DeliveryTable,
    Floats,
    GasProperties,
    GasTables,
    Ints,
    JunctionTable,
    LinkTable,
    PipeTable,
    ReceiptTable,
    StationTable,
    check_gas,
    check_gas_tables,
    delivery_table,
    link_table,
    receipt_table,
    station_table,
    tighten,
)

NODES = ("source", "sink", "innode")
CONNECTIONS = ("pipe", "shortPipe", "valve", "controlValve", "resistor", "compressorStation")

Positions = dict[str, int]


@dataclass(frozen=True, eq=False)
class _Net:
    """The .net file: its elements by kind, and what every part of the reader needs of them."""

    source: str
    nodes: list[Element]
    connections: dict[str, list[Element]]
    positions: Positions
    normal_density: float | None
    notes: list[str]

    def ends(self, elements: Sequence[Element]) -> tuple[list[int], list[int]]:
        """Positions of the two ends of each connection."""
        return [self._end(item, "from") for item in elements], [self._end(item, "to") for item in elements]

    def _end(self, element: Element, side: str) -> int:
        name = element.attribute(side)
        if name not in self.positions:
            raise InputError(f"{element.where()}: {side} names an unknown node; add the node or correct the element")
        return self.positions[name]

    def flow(self, element: Element, name: str, default: float) -> float:
        """A flow limit in kg/s."""
        child = element.child(name)
        return default if child is None else child.mass_flow(self.normal_density)


def read_gaslib(net: Path, *, scenario: Path | None = None, stations: Path | None = None) -> GasTables:
    """Read NAME.net with NAME.scn and, if there, NAME.cs beside it (or the files given)."""
    scenario = net.with_suffix(".scn") if scenario is None else scenario
    stations = net.with_suffix(".cs") if stations is None else stations
    if not scenario.exists():
        raise InputError(
            f"{net.name}: the scenario {scenario.name} is missing; it holds the demands: put it in the same folder"
        )
    file = _network(net)
    junction = _junctions(file)
    gas = _gas(file, junction)
    compressor, junction = _compressors(file, junction, stations, gas)
    regulator, junction = _regulators(file, junction)
    receipt, delivery, junction = _scenario(parse_xml(scenario, "boundaryValue"), file, junction)
    tables = GasTables(
        junction=junction,
        pipe=_pipes(file),
        link=_links(file),
        compressor=compressor,
        regulator=regulator,
        receipt=receipt,
        delivery=delivery,
        gas=gas,
        file_format="gaslib",
        notes=tuple(file.notes),
    )
    check_gas_tables(tables, net.name)
    return tables


def _network(path: Path) -> _Net:
    root = parse_xml(path, "network")
    groups = {group.name: group.children for group in root.children}
    if not groups.get("nodes") or not groups.get("connections"):
        raise InputError(f"{path.name}: nodes or connections are missing; the file is not a complete GasLib network")
    for group, known in (("nodes", NODES), ("connections", CONNECTIONS)):
        for element in groups[group]:
            if element.name not in known:
                raise InputError(
                    f"{element.where()}: this kind of element cannot be read; known are {', '.join(known)}"
                )
    nodes = groups["nodes"]
    names = [node.attribute("id") for node in nodes]
    positions = {name: place for place, name in enumerate(names)}
    if len(positions) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path.name}: node {twice} appears twice in the file; give each its own id")
    notes: list[str] = []
    heights = [height for node in nodes if (height := node.child("height")) is not None]
    if any(height.number() for height in heights):  # in any unit, or in none, as in GasLib-24
        notes.append("heights of nodes left out: all pipes are taken as level")
    density = _mean(nodes, "normDensity", PhysicalQuantity.DENSITY, notes)
    connections = {kind: [item for item in groups["connections"] if item.name == kind] for kind in CONNECTIONS}
    return _Net(path.name, nodes, connections, positions, density, notes)


def _mean(nodes: Sequence[Element], name: str, kind: PhysicalQuantity, notes: list[str]) -> float | None:
    values = [value for node in nodes if (value := node.measured(name, kind)) is not None]
    if len(set(values)) > 1:
        notes.append(f"sources differ in {name}: their mean is used everywhere")
    return float(np.mean(values)) if values else None


def _junctions(file: _Net) -> JunctionTable:
    junction = JunctionTable(
        id=tuple(file.positions),
        p_min=np.array([node.required("pressureMin", PhysicalQuantity.PRESSURE) for node in file.nodes]),
        p_max=np.array([node.required("pressureMax", PhysicalQuantity.PRESSURE) for node in file.nodes]),
        slack_pressure=np.full(len(file.nodes), np.nan),
    )
    pipes = file.connections["pipe"]
    strength = [item.measured("pressureMax", PhysicalQuantity.PRESSURE) or np.inf for item in pipes]
    for end in file.ends(pipes):
        junction = tighten(junction, np.array(end, dtype=np.int64), [0.0] * len(pipes), strength)
    return junction


def _gas(file: _Net, junction: JunctionTable) -> GasProperties:
    """Compressibility by the AGA formula at the middle of the pressure range; GasLib states no speed of sound."""
    temperature = _mean(file.nodes, "gasTemperature", PhysicalQuantity.TEMPERATURE, file.notes)
    critical_pressure = _mean(file.nodes, "pseudocriticalPressure", PhysicalQuantity.PRESSURE, file.notes)
    critical_temperature = _mean(file.nodes, "pseudocriticalTemperature", PhysicalQuantity.TEMPERATURE, file.notes)
    compressibility = None
    if temperature and critical_pressure and critical_temperature:
        reduced = float(np.mean((junction.p_min + junction.p_max) / 2)) / critical_pressure
        compressibility = 1 + 0.257 * reduced - 0.533 * reduced * critical_temperature / temperature
        file.notes.append(
            "compressibility factor by the AGA formula at the middle of the pressure range, one for all pipes"
        )
    molar_mass = _mean(file.nodes, "molarMass", PhysicalQuantity.MOLAR_MASS, file.notes)
    gas = GasProperties(temperature=temperature, compressibility=compressibility, molar_mass=molar_mass)
    check_gas(gas, file.source)
    return gas


def _pipes(file: _Net) -> PipeTable:
    """Pipes, then resistors with a drag factor ζ: they lose as much as a pipe of length D and friction factor ζ."""
    pipes = file.connections["pipe"]
    dragging = [item for item in file.connections["resistor"] if item.child("dragFactor") is not None]
    edges = [*pipes, *dragging]
    diameter = [item.required("diameter", PhysicalQuantity.LENGTH) for item in edges]
    lengths = [item.required("length", PhysicalQuantity.LENGTH) for item in pipes] + diameter[len(pipes) :]
    friction = [_rough_friction(item, size) for item, size in zip(pipes, diameter, strict=False)]
    friction += [item.required("dragFactor", PhysicalQuantity.PLAIN) for item in dragging]
    if pipes:
        file.notes.append("friction factors of pipes from their roughness by Nikuradse's formula (fully rough flow)")
    if dragging:
        file.notes.append(f"{len(dragging)} resistors with a drag factor treated as pipes of the same pressure loss")
    start, end = file.ends(edges)
    return PipeTable(
        id=tuple(item.attribute("id") for item in edges),
        from_junction=np.array(start, dtype=np.int64),
        to_junction=np.array(end, dtype=np.int64),
        diameter=np.array(diameter),
        length=np.array(lengths),
        friction_factor=np.array(friction),
        flow_min=np.array([file.flow(item, "flowMin", -np.inf) for item in edges]),
        flow_max=np.array([file.flow(item, "flowMax", np.inf) for item in edges]),
    )


def _rough_friction(pipe: Element, diameter: float) -> float:
    roughness = pipe.required("roughness", PhysicalQuantity.LENGTH)
    if roughness <= 0:
        raise InputError(f"{pipe.where()}: roughness must be positive; give it, for example 0.05 mm")
    if diameter <= 0:
        raise InputError(f"{pipe.where()}: diameter must be positive; give it, for example in mm")
    return (2 * log10(diameter / roughness) + 1.138) ** -2


def _links(file: _Net) -> LinkTable:
    valves = file.connections["valve"]
    lossy = [item for item in file.connections["resistor"] if item.child("dragFactor") is None]
    if valves:
        file.notes.append(f"{len(valves)} valves treated as open short pipes")
    if lossy:
        file.notes.append(
            f"{len(lossy)} resistors with a fixed pressure loss treated as short pipes: the loss is left out"
        )
    links = [*file.connections["shortPipe"], *valves, *lossy]
    return link_table([item.attribute("id") for item in links], *file.ends(links))


def _compressors(
    file: _Net, junction: JunctionTable, stations: Path, gas: GasProperties
) -> tuple[StationTable, JunctionTable]:
    edges = file.connections["compressorStation"]
    ratios: dict[str, float] = {}
    if stations.exists() and gas.sound_speed is not None:
        ratios = station_ratios(
            parse_xml(stations, "compressorStations"),
            specific_gas_energy=gas.sound_speed**2,
            heat_capacity_ratio=gas.heat_capacity_ratio,
        )
    unknown = [item for item in edges if item.attribute("id") not in ratios]
    if len(unknown) < len(edges):
        file.notes.append("largest ratios of compressor stations from the peak head of their machines (upper bound)")
    if unknown:
        file.notes.append(f"{len(unknown)} compressor stations without machine data: pressure limits bound their ratio")
    if edges:
        file.notes.append("drives, energy use and inner pressure losses of compressor stations left out")
    start, end = file.ends(edges)
    junction, inlet, outlet = _station_limits(junction, edges, start, end)
    widest = outlet / np.maximum(inlet, 1.0)
    limit = [ratios.get(item.attribute("id"), float(wide)) for item, wide in zip(edges, widest, strict=True)]
    return _stations(file, edges, [1.0] * len(edges), np.maximum(limit, 1.0).tolist(), -np.inf), junction


def _regulators(file: _Net, junction: JunctionTable) -> tuple[StationTable, JunctionTable]:
    edges = file.connections["controlValve"]
    if edges:
        file.notes.append(
            f"{len(edges)} control valves treated as regulators that lower the pressure by any amount at no cost; "
            "their own losses and limits of the pressure difference left out"
        )
    junction, _, _ = _station_limits(junction, edges, *file.ends(edges))
    return _stations(file, edges, [0.0] * len(edges), [1.0] * len(edges), 0.0), junction


def _station_limits(
    junction: JunctionTable, edges: Sequence[Element], start: list[int], end: list[int]
) -> tuple[JunctionTable, Floats, Floats]:
    inlet: Ints = np.array(start, dtype=np.int64)
    outlet: Ints = np.array(end, dtype=np.int64)
    lower = [item.measured("pressureInMin", PhysicalQuantity.PRESSURE) or 0.0 for item in edges]
    upper = [item.measured("pressureOutMax", PhysicalQuantity.PRESSURE) or np.inf for item in edges]
    junction = tighten(junction, inlet, lower, [np.inf] * len(edges))
    junction = tighten(junction, outlet, [0.0] * len(edges), upper)
    return junction, junction.p_min[inlet], junction.p_max[outlet]


def _stations(
    file: _Net, edges: Sequence[Element], ratio_min: list[float], ratio_max: list[float], least_flow: float
) -> StationTable:
    start, end = file.ends(edges)
    return station_table(
        id=[item.attribute("id") for item in edges],
        from_junction=start,
        to_junction=end,
        ratio_min=ratio_min,
        ratio_max=ratio_max,
        flow_min=[max(least_flow, file.flow(item, "flowMin", -np.inf)) for item in edges],
        flow_max=[file.flow(item, "flowMax", np.inf) for item in edges],
    )


def _scenario(root: Element, file: _Net, junction: JunctionTable) -> tuple[ReceiptTable, DeliveryTable, JunctionTable]:
    scenarios = list(root.all("scenario"))
    if not scenarios:
        raise InputError(f"{root.source}: no scenario found; the file must hold one with entries and exits")
    if len(scenarios) > 1:
        file.notes.append(f"{len(scenarios)} scenarios in {root.source}: the first is used")
    flows: dict[str, list[tuple[int, float]]] = {"entry": [], "exit": []}
    ranges, slack_pressure = 0, junction.slack_pressure.copy()
    for node in scenarios[0].all("node"):
        kind, name = node.attribute("type"), node.attribute("id")
        if kind not in flows:
            raise InputError(f"{node.where()}: the type must be entry or exit; correct it")
        if name not in file.positions:
            raise InputError(
                f"{node.where()}: this {kind} stands at an unknown node; add it to the network or correct it"
            )
        at = np.array([file.positions[name]], dtype=np.int64)
        lower, upper = _bounds(node, "flow", file)
        if not np.isfinite(lower + upper):
            raise InputError(f"{node.where()}: the flow has no lower and upper bound; give both, or bound='both'")
        flows[kind].append((int(at[0]), (lower + upper) / 2))
        p_lower, p_upper = _bounds(node, "pressure", file)
        regulated = kind == "entry" and p_lower == p_upper
        slack_pressure[at] = p_lower if regulated else slack_pressure[at]
        ranges += lower != upper and not regulated
        junction = tighten(junction, at, [max(p_lower, 0.0)], [p_upper])
    if ranges:
        file.notes.append(f"{ranges} entries and exits with a range of flow: its middle is used")
    junction = replace(junction, slack_pressure=slack_pressure)
    stated = {at for at, _ in flows["exit"]}
    for sink in file.nodes:
        if sink.name == "sink" and file.positions[sink.attribute("id")] not in stated:
            raise InputError(
                f"{sink.where()}: the scenario states no flow of this sink; add it, with 0 if it takes none"
            )
    receipt = receipt_table([at for at, _ in flows["entry"]], [flow for _, flow in flows["entry"]])
    return receipt, delivery_table([at for at, _ in flows["exit"]], [flow for _, flow in flows["exit"]]), junction


def _bounds(node: Element, name: str, file: _Net) -> tuple[float, float]:
    lower, upper = -np.inf, np.inf
    for item in node.all(name):
        value = item.mass_flow(file.normal_density) if name == "flow" else item.quantity(PhysicalQuantity.PRESSURE)
        side = item.attribute("bound")
        if side not in ("lower", "upper", "both"):
            raise InputError(f"{item.where()}: bound must be lower, upper or both; correct it")
        lower = value if side in ("lower", "both") else lower
        upper = value if side in ("upper", "both") else upper
    return lower, upper
