"""Names and coordinates of buses, from any file that powerio reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import powerio

from gridveil.sectors.geometry import Places, finite_points, own_names
from gridveil.sectors.power.parsed import parsed

WITHOUT_PLACES = {"version", "baseMVA", "bus", "gen", "branch", "gencost", "dcline", "dclinecost", "areas"}
"""Tables of a MATPOWER file that state neither names nor coordinates of buses."""


def power_places(path: Path) -> Places:
    """Read names and coordinates of buses from a file."""
    with parsed(path) as source:
        points = _points(source.module)
        if source.matpower is not None and source.matpower.columns.keys() <= WITHOUT_PLACES:
            return Places(points=finite_points(points))  # there is no more, and a large file takes long to write out
        return _places(source.module, points)


def _points(module: powerio.PioModule[powerio.BalancedNetwork]) -> dict[str, Any]:
    layer = module.value.to_geo_layer()["features"]
    return {
        str(feature["properties"]["id"]): feature["geometry"]["coordinates"]
        for feature in layer
        if feature["properties"].get("target") == "bus" and feature["geometry"]["type"] == "Point"
    }


def _places(module: powerio.PioModule[powerio.BalancedNetwork], points: dict[str, Any]) -> Places:
    buses = json.loads(powerio.emit(module, "powermodels-json").artifacts[0].data or b"")["bus"].values()
    points |= {str(bus["bus_i"]): (bus["lon"], bus["lat"]) for bus in buses if {"lon", "lat"} <= set(bus)}
    names = {str(bus["bus_i"]): str(bus.get("name") or "").strip() for bus in buses}
    return Places(names=own_names(names), points=finite_points(points))
