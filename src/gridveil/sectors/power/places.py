"""Names and coordinates of buses, from any file that powerio reads."""

from __future__ import annotations

import json
from pathlib import Path

import powerio

from gridveil.sectors.geometry import Places, finite_points, own_names
from gridveil.sectors.power.parsed import parsed


def power_places(path: Path) -> Places:
    """Read names and coordinates of buses from a file."""
    with parsed(path) as source:
        return _places(source.module)


def _places(module: powerio.PioModule[powerio.BalancedNetwork]) -> Places:
    layer = module.value.to_geo_layer()["features"]
    points = {
        str(feature["properties"]["id"]): feature["geometry"]["coordinates"]
        for feature in layer
        if feature["properties"].get("target") == "bus" and feature["geometry"]["type"] == "Point"
    }
    buses = json.loads(powerio.emit(module, "powermodels-json").artifacts[0].data or b"")["bus"].values()
    points |= {str(bus["bus_i"]): (bus["lon"], bus["lat"]) for bus in buses if {"lon", "lat"} <= set(bus)}
    names = {str(bus["bus_i"]): str(bus.get("name") or "").strip() for bus in buses}
    return Places(names=own_names(names), points=finite_points(points))
