"""Gas networks as typed arrays in SI units: the public part of a gas case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from gridveil.core.choices import DemandUnit
from gridveil.core.errors import InputError
from gridveil.core.graph import components
from gridveil.core.secret import SecretField, SecretValues
from gridveil.sectors.gas.boundary import GasBoundary, slack_pressures, sound_speed
from gridveil.sectors.gas.tables import (
    Floats,
    GasElements,
    GasTables,
    Ints,
    JunctionTable,
    PublicGasTables,
    StationTable,
    receipt_table,
)

PRESSURE_ROUNDING = 1e-9  # relative: files round psi to Pa


@dataclass(frozen=True, eq=False, kw_only=True)
class GasNetwork(GasElements):
    """Topology, parameters, limits, supplies and demand sites: everything of a gas case but the demands.

    Pressures in Pa, lengths in m, flows in kg/s; demands are in units of ``flow_base`` (kg/s). ``slack_pressure`` is set at
    the regulated junctions, where the supply is whatever the network needs; receipts are the fixed supplies elsewhere.
    """

    kind: ClassVar[str] = "gas"

    site_junction: Ints
    """Junction of each demand site."""
    demand_unit: DemandUnit
    flow_base: float
    sound_speed: float

    @property
    def n_junction(self) -> int:
        """Number of junctions."""
        return len(self.junction.id)

    @property
    def n_site(self) -> int:
        """Number of demand sites."""
        return len(self.site_junction)

    @cached_property
    def slack(self) -> Ints:
        """Positions of the regulated junctions."""
        return np.flatnonzero(np.isfinite(self.junction.slack_pressure))

    @cached_property
    def resistance(self) -> Floats:
        """W of each pipe in p_i² − p_j² = W·q|q|: λ·L·a² / (D·A²) with A = πD²/4, in Pa²/(kg/s)²."""
        pipe, area = self.pipe, np.pi * self.pipe.diameter**2 / 4
        return np.asarray(pipe.friction_factor * pipe.length * self.sound_speed**2 / (pipe.diameter * area**2))

    @cached_property
    def station(self) -> StationTable:
        """Compressors, then regulators, as one table."""
        first, second = self.compressor, self.regulator
        columns = {
            name: np.concatenate([vars(first)[name], vars(second)[name]]) for name in vars(first) if name != "id"
        }
        return StationTable(id=(*first.id, *second.id), **columns)

    @cached_property
    def injection(self) -> Floats:
        """Fixed supply at each junction."""
        supply = np.zeros(self.n_junction)
        np.add.at(supply, self.receipt.junction, self.receipt.injection)
        return supply


@dataclass(frozen=True, eq=False, kw_only=True)
class GasPoint:
    """An operating point in SI units: absolute pressures (Pa), flows from → to (kg/s), pressure ratios."""

    pressure: Floats
    pipe_flow: Floats
    link_flow: Floats
    compressor_flow: Floats
    compressor_ratio: Floats
    regulator_flow: Floats
    regulator_ratio: Floats


def gas_network_from_tables(tables: GasTables, boundary: GasBoundary) -> tuple[GasNetwork, SecretValues]:
    """Build the network under the boundary conditions, and its true demands in units of the flow base."""
    junction = replace(tables.junction, slack_pressure=slack_pressures(tables, boundary))
    regulated = np.isfinite(junction.slack_pressure)
    delivery, per_delivery = tables.delivery, boundary.demand_unit is DemandUnit.DELIVERY
    free = ~regulated[tables.receipt.junction]
    speed = sound_speed(tables, boundary)
    network = GasNetwork(
        junction=junction,
        pipe=tables.pipe,
        link=tables.link,
        compressor=tables.compressor,
        regulator=tables.regulator,
        receipt=receipt_table(tables.receipt.junction[free].tolist(), tables.receipt.injection[free].tolist()),
        gas=replace(tables.gas, stated_sound_speed=speed),
        site_junction=delivery.junction if per_delivery else delivery.shared_junction,
        demand_unit=boundary.demand_unit,
        flow_base=1.0 if boundary.flow_base is None else boundary.flow_base,
        sound_speed=speed,
    )
    _check_slack(junction)
    _check_connected(network)
    withdrawal = delivery.withdrawal if per_delivery else delivery.withdrawal_per_junction
    return network, withdrawal.scaled(1 / network.flow_base)


def withdrawal_field(network: GasNetwork) -> SecretField:
    """Define the secret field of a gas case: the withdrawal of each delivery."""
    return SecretField(
        name="demand",
        meaning="withdrawal of each delivery",
        participant="delivery site",
        dimension=1,
        unit="kg/s",
        base=network.flow_base,
        places=tuple(network.junction.id[junction] for junction in network.site_junction),
    )


def public_gas_tables(network: GasNetwork, sites: Floats) -> PublicGasTables:
    """Build the publishable tables, with ``sites`` (released demands, units of the flow base) as withdrawals."""
    return PublicGasTables(
        junction=network.junction,
        pipe=network.pipe,
        link=network.link,
        compressor=network.compressor,
        regulator=network.regulator,
        receipt=network.receipt,
        gas=network.gas,
        delivery_junction=network.site_junction,
        withdrawal=sites * network.flow_base,
    )


def _check_slack(junction: JunctionTable) -> None:
    pressure, margin = junction.slack_pressure, 1 + PRESSURE_ROUNDING
    if np.all(np.isfinite(pressure)):
        raise InputError("every junction is a slack junction, so nothing is left to decide; regulate fewer pressures")
    outside = (pressure * margin < junction.p_min) | (pressure > junction.p_max * margin)
    if np.any(outside):
        name = junction.id[int(np.argmax(outside))]
        raise InputError(
            f"slack junction {name}: the regulated pressure is outside the limits there; change one of them"
        )


def _check_connected(network: GasNetwork) -> None:
    edges = (network.pipe, network.link, network.compressor, network.regulator)
    start = np.concatenate([edge.from_junction for edge in edges])
    end = np.concatenate([edge.to_junction for edge in edges])
    part = components(network.n_junction, start, end)
    lost = ~np.isin(part, part[network.slack])
    if np.any(lost):
        name = network.junction.id[int(np.argmax(lost))]
        raise InputError(
            f"junction {name} is in a part of the network that is disconnected from every slack junction; "
            "connect it, remove it or add a slack junction there"
        )
