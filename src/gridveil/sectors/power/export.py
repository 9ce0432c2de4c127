"""From a per-unit network back to the columns of a file, for writing: the inverse of power_case."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.costs import GeneratorCosts
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.tables import (
    BranchTable,
    BusTable,
    CompensatorTable,
    CostCurve,
    DcLineTable,
    GeneratorTable,
    StorageTable,
)
from gridveil.sectors.power.write import PublicTables


def public_tables(network: PowerNetwork, sites: NDArray[np.complex128]) -> PublicTables:
    """Build the network's columns in file units, with ``sites`` (per unit, one per load site) as its loads."""
    base, bus, branch, generator = network.base_mva, network.bus, network.branch, network.generator
    storage, compensator = network.storage, network.compensator
    return PublicTables(
        base_mva=base,
        bus=BusTable(
            id=bus.id,
            isolated=bus.isolated,
            reference=bus.reference,
            v_min=bus.v_min,
            v_max=bus.v_max,
            shunt_g=bus.shunt.real * base,
            shunt_b=bus.shunt.imag * base,
            base_kv=bus.base_kv,
            area=bus.area,
            zone=bus.zone,
        ),
        branch=BranchTable(
            from_id=bus.id[branch.from_bus],
            to_id=bus.id[branch.to_bus],
            r=branch.impedance.real,
            x=branch.impedance.imag,
            g_from=branch.shunt_from.real,
            b_from=branch.shunt_from.imag,
            g_to=branch.shunt_to.real,
            b_to=branch.shunt_to.imag,
            rate=np.where(np.isfinite(branch.rate), branch.rate * base, 0.0),
            current=np.where(np.isfinite(branch.current), branch.current * base, 0.0),
            tap=np.where(branch.tap == 1, 0.0, np.abs(branch.tap)),  # a plain line, not a transformer of ratio one
            shift=np.rad2deg(np.angle(branch.tap)),
            angle_min=np.rad2deg(branch.angle_min),
            angle_max=np.rad2deg(branch.angle_max),
            in_service=branch.in_service,
        ),
        generator=GeneratorTable(
            bus_id=bus.id[generator.bus],
            p_min=generator.p_min * base,
            p_max=generator.p_max * base,
            q_min=generator.q_min * base,
            q_max=generator.q_max * base,
            in_service=generator.in_service,
            cost=_curves(generator.cost, base),
            reactive_cost=_curves(generator.reactive_cost, base),
        ),
        dc_line=_dc_lines(network),
        storage=StorageTable(
            bus_id=bus.id[storage.bus],
            p_min=storage.p_min * base,
            p_max=storage.p_max * base,
            q_min=storage.q_min * base,
            q_max=storage.q_max * base,
            in_service=storage.in_service,
        ),
        compensator=CompensatorTable(
            bus_id=bus.id[compensator.bus],
            b_min=compensator.b_min * base,
            b_max=compensator.b_max * base,
            in_service=compensator.in_service,
        ),
        load_bus_id=bus.id[network.load.bus],
        load_in_service=network.load.in_service,
        load_power=sites * base,
        given=network.given,
    )


def _dc_lines(network: PowerNetwork) -> DcLineTable:
    base, bus, line = network.base_mva, network.bus, network.dc_line
    return DcLineTable(
        from_id=bus.id[line.from_bus],
        to_id=bus.id[line.to_bus],
        p_min=line.p_min * base,
        p_max=line.p_max * base,
        loss_0=line.loss_0 * base,
        loss_1=line.loss_1,
        q_from_min=line.q_from_min * base,
        q_from_max=line.q_from_max * base,
        q_to_min=line.q_to_min * base,
        q_to_max=line.q_to_max * base,
        in_service=line.in_service,
        cost=_curves(line.cost, base),
    )


def _curves(cost: GeneratorCosts, base: float) -> tuple[CostCurve | None, ...]:
    points = {i: tuple((float(p) * base, float(c)) for p, c in xy) for i, xy in cost.points}
    scale = base ** np.arange(len(cost.polynomial))
    curves: list[CostCurve | None] = []
    for i, column in enumerate(cost.polynomial.T):
        if i in points:
            curves.append(CostCurve(points=points[i]))
        else:
            top = max(3, 1 + int(np.max(np.flatnonzero(column), initial=0)))
            curves.append(CostCurve(polynomial=tuple((column / scale)[:top][::-1].tolist())))
    return tuple(curves)
