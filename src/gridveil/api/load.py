"""Load a case from a path, a built-in name, a pandapower net or a PyPSA network."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gridveil.api.case import GridCase
from gridveil.api.choices import choose, slack_texts
from gridveil.api.objects import read_object
from gridveil.core.choices import DemandUnit, Names
from gridveil.core.errors import InputError
from gridveil.sectors.gas.boundary import GasBoundary, stated_boundary
from gridveil.sectors.registry import load_case
from gridveil.sectors.sites import AS_STATED, site_rule


def load(
    source: object,
    *,
    preset: str | None = None,
    slack: Mapping[str, float | str] | Iterable[str] | None = None,
    sound_speed: float | str | None = None,
    flow_base: float | str | None = None,
    demand_unit: DemandUnit | str | None = None,
    sites: str | None = None,
    names: Names | str | None = None,
) -> GridCase:
    """Load a case: a path, a built-in name such as "veil9", a pandapower net or a PyPSA network. Several snapshots are for
    ``release_series("snapshots", …)``.

    Gas networks need boundary conditions where the file has none: a ``preset``, or regulated pressures
    (``slack={"1": "500psi"}``, plain numbers in Pa), ``sound_speed`` (m/s), ``flow_base`` (kg/s: what demands and alpha are
    measured in) and whose demand is one datum (``demand_unit``: "delivery" or "junction"). ``sites`` declares which places
    have customers: "all", or a file with one bus or junction per line. ``names="keep"`` publishes what buses and loads of a
    power network are called; otherwise releases show numbers in their place.
    """
    kept = None if names is None else choose(Names, names, "the names")
    if not isinstance(source, str | os.PathLike):
        return GridCase(case=read_object(source, kept))
    options: GasBoundary | Names | None = kept
    if any(value is not None for value in (preset, slack, sound_speed, flow_base, demand_unit)):
        if kept is not None:
            raise InputError("names are for power networks, and boundary conditions are for gas; give one of the two")
        options = stated_boundary(
            preset=preset,
            slack=slack_texts(slack),
            sound_speed=None if sound_speed is None else str(sound_speed),
            flow_base=None if flow_base is None else str(flow_base),
            demand_unit=None if demand_unit is None else choose(DemandUnit, demand_unit, "the demand unit"),
        )
    path = os.fspath(source)
    return GridCase(case=load_case(path, options, sites=AS_STATED if sites is None else site_rule(sites)), source=path)
