"""What a case holds, in words and counts that reveal no demand."""

from __future__ import annotations

import numpy as np

from gridveil.sectors.builtin import SHIPPED, pglib_names
from gridveil.sectors.case import Case
from gridveil.sectors.gas.generator import BUILT_IN as BUILT_IN_GAS
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.power.network import PowerNetwork, islands

POWER_PUBLIC = [
    "topology",
    "branch parameters and limits",
    "voltage limits",
    "generator limits and costs",
    "sites of loads",
]
POWER_SECRET = ["active and reactive power of each load"]
GAS_PUBLIC = [
    "topology",
    "pipe and compressor parameters",
    "pressure limits",
    "fixed injections",
    "sites of deliveries",
]
GAS_SECRET = ["withdrawal of each delivery"]


def describe_case(case: Case) -> dict[str, object]:
    """Give counts and notes of a case as plain values."""
    facts = _gas_facts(case.network) if isinstance(case.network, GasNetwork) else _power_facts(case.network)
    return {"case": case.name, "format": case.file_format} | facts | {"notes": list(case.notes)}


def list_names() -> list[str]:
    """List the names that stand for built-in cases."""
    return [*SHIPPED, *BUILT_IN_GAS, *pglib_names()]


def site_labels(network: PowerNetwork | GasNetwork) -> list[str]:
    """Give the bus or junction of each demand site, as the file names it."""
    if isinstance(network, GasNetwork):
        return [network.junction.id[junction] for junction in network.site_junction]
    return [str(bus) for bus in network.bus.id[network.load.bus]]


def demand_base(network: PowerNetwork | GasNetwork) -> tuple[float, str]:
    """Give what one per unit of demand is: an amount and its unit."""
    return (network.flow_base, "kg/s") if isinstance(network, GasNetwork) else (network.base_mva, "MVA")


def demand_unit(network: PowerNetwork | GasNetwork) -> str:
    """Say what demands and α are measured in."""
    base, unit = demand_base(network)
    return f"per unit of {base:g} {unit}"


def _power_facts(network: PowerNetwork) -> dict[str, object]:
    grid, cost = network.grid, network.generator.cost
    with_cost = np.union1d(np.flatnonzero(np.any(cost.polynomial != 0, axis=0)), cost.piecewise)
    return {
        "kind": "power",
        "base_mva": network.base_mva,
        "buses": len(network.bus.id),
        "buses_energised": grid.n_bus,
        "islands": len(np.unique(islands(grid.n_bus, grid.from_bus, grid.to_bus))),
        "reference_buses": [int(bus) for bus in grid.bus.id[grid.reference]],
        "branches": len(network.branch.rate),
        "branches_in_service": int(network.branch_on.sum()),
        "branches_with_limit": int(np.isfinite(grid.rate).sum()),
        "generators": len(network.generator.bus),
        "generators_in_service": int(network.generator_on.sum()),
        "generators_with_cost": len(with_cost),
        "load_sites": len(network.load.bus),
        "load_sites_served": int(network.served.sum()),
        "secret": POWER_SECRET,
        "public": POWER_PUBLIC,
    }


def _gas_facts(network: GasNetwork) -> dict[str, object]:
    return {
        "kind": "gas",
        "junctions": network.n_junction,
        "pipes": len(network.pipe.id),
        "links": len(network.link.id),
        "compressors": len(network.compressor.id),
        "regulators": len(network.regulator.id),
        "slack_junctions": {network.junction.id[k]: float(network.junction.slack_pressure[k]) for k in network.slack},
        "fixed_supplies": len(network.receipt.junction),
        "sound_speed_m_per_s": network.sound_speed,
        "flow_base_kg_per_s": network.flow_base,
        "demand_unit": network.demand_unit.value,
        "demand_sites": network.n_site,
        "secret": GAS_SECRET,
        "public": GAS_PUBLIC,
    }
