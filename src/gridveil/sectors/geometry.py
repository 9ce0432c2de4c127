"""Names and coordinates that a case file gives to buses or junctions. For drawings on the curator's side: neither is published."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import powerio

from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.gas.gaslib_xml import Element, parse_xml
from gridveil.sectors.gas.generator import BUILT_IN as BUILT_IN_GAS
from gridveil.sectors.gas.matgas_syntax import parse_matgas
from gridveil.sectors.gas.read import is_gas_file

Point = tuple[float, float]
GASLIB_COORDINATES = (("x", "y"), ("geoWGS84Long", "geoWGS84Lat"))


@dataclass(frozen=True, kw_only=True)
class Places:
    """What a file says of its buses or junctions, by id: a name, and a point (east, north) in any unit."""

    names: Mapping[str, str] = field(default_factory=dict)
    points: Mapping[str, Point] = field(default_factory=dict)


def read_places(source: str) -> Places:
    """Read names and coordinates of a case that can be loaded. ``source`` is a path or a built-in name."""
    if source in BUILT_IN_GAS:
        return Places()
    path = resolve_case(source)
    if not is_gas_file(path):
        return _power_places(path)
    return _gaslib_places(path) if path.suffix == ".net" else _matgas_places(path)


def _power_places(path: Path) -> Places:
    module = powerio.parse(str(path))
    layer = module.value.to_geo_layer()["features"]
    points = {
        str(feature["properties"]["id"]): feature["geometry"]["coordinates"]
        for feature in layer
        if feature["properties"].get("target") == "bus" and feature["geometry"]["type"] == "Point"
    }
    buses = json.loads(powerio.emit(module, "powermodels-json").artifacts[0].data or b"")["bus"].values()
    points |= {str(bus["bus_i"]): (bus["lon"], bus["lat"]) for bus in buses if {"lon", "lat"} <= set(bus)}
    names = {str(bus["bus_i"]): str(bus.get("name") or "").strip() for bus in buses}
    return Places(names={key: name for key, name in names.items() if name not in ("", key)}, points=_finite(points))


def _gaslib_places(path: Path) -> Places:
    nodes = [node for group in parse_xml(path, "network").children if group.name == "nodes" for node in group.children]
    points = {node.attributes["id"]: _first_pair(node) for node in nodes}
    names = {node.attributes["id"]: node.attributes.get("alias", "").strip() for node in nodes}
    return Places(names={key: name for key, name in names.items() if name not in ("", key)}, points=_finite(points))


def _first_pair(node: Element) -> tuple[str | None, str | None]:
    east, north = next((pair for pair in GASLIB_COORDINATES if set(pair) <= set(node.attributes)), ("", ""))
    return node.attributes.get(east), node.attributes.get(north)


def _matgas_places(path: Path) -> Places:
    table = parse_matgas(path).table("junction")
    if not (table.has("lat") and table.has("lon")):
        return Places()
    return Places(
        points=_finite(dict(zip(table.names(), zip(table.words("lon"), table.words("lat"), strict=True), strict=True)))
    )


def _finite(points: Mapping[str, Any]) -> dict[str, Point]:
    """Keep the points that are two finite numbers."""
    kept = {}
    for key, values in points.items():
        try:
            east, north = (float(value) for value in values)
        except (TypeError, ValueError):
            continue
        if math.isfinite(east) and math.isfinite(north):
            kept[key] = (east, north)
    return kept
