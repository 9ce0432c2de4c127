"""Names and coordinates of junctions, from GasLib and MatGas files."""

from __future__ import annotations

from pathlib import Path

from gridveil.sectors.gas.gaslib_xml import Element, parse_xml
from gridveil.sectors.gas.matgas_syntax import parse_matgas
from gridveil.sectors.geometry import Places, finite_points, own_names

GASLIB_COORDINATES = (("x", "y"), ("geoWGS84Long", "geoWGS84Lat"))


def gas_places(path: Path) -> Places:
    """Read names and coordinates of junctions from a file."""
    return _gaslib_places(path) if path.suffix == ".net" else _matgas_places(path)


def _gaslib_places(path: Path) -> Places:
    nodes = [node for group in parse_xml(path, "network").children if group.name == "nodes" for node in group.children]
    points = {node.attributes["id"]: _first_pair(node) for node in nodes}
    names = {node.attributes["id"]: node.attributes.get("alias", "").strip() for node in nodes}
    return Places(names=own_names(names), points=finite_points(points))


def _first_pair(node: Element) -> tuple[str | None, str | None]:
    east, north = next((pair for pair in GASLIB_COORDINATES if set(pair) <= set(node.attributes)), ("", ""))
    return node.attributes.get(east), node.attributes.get(north)


def _matgas_places(path: Path) -> Places:
    table = parse_matgas(path).table("junction")
    if not (table.has("lat") and table.has("lon")):
        return Places()
    pairs = zip(table.words("lon"), table.words("lat"), strict=True)
    return Places(points=finite_points(dict(zip(table.names(), pairs, strict=True))))
