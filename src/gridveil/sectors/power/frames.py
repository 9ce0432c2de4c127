"""Power networks and their operating points as pandas frames, in physical units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.core.extras import require
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.operating import power_state
from gridveil.sectors.view import Frames

Floats = NDArray[np.float64]


def public_power_frames(network: PowerNetwork) -> Frames:
    """Elements, limits and the sites of loads."""
    require("pandas")
    import pandas as pd

    base, bus, branch, generator = network.base_mva, network.bus, network.branch, network.generator
    return {
        "buses": pd.DataFrame(
            {
                "bus": bus.id,
                "base_kv": bus.base_kv,
                "v_min_pu": bus.v_min,
                "v_max_pu": bus.v_max,
                "reference": bus.reference,
                "isolated": bus.isolated,
                "area": bus.area,
                "zone": bus.zone,
            }
        ),
        "branches": pd.DataFrame(
            {
                "from_bus": bus.id[branch.from_bus],
                "to_bus": bus.id[branch.to_bus],
                "r_pu": branch.impedance.real,
                "x_pu": branch.impedance.imag,
                "rate_mva": branch.rate * base,
                "in_service": branch.in_service,
            }
            | ({"current_mva": branch.current * base} if np.any(np.isfinite(branch.current)) else {})
        ),
        "generators": pd.DataFrame(
            {
                "bus": bus.id[generator.bus],
                "p_min_mw": generator.p_min * base,
                "p_max_mw": generator.p_max * base,
                "q_min_mvar": generator.q_min * base,
                "q_max_mvar": generator.q_max * base,
                "in_service": generator.in_service,
            }
        ),
        **_public_elements(network),
        "sites": pd.DataFrame({"bus": bus.id[network.load.bus], "in_service": network.load.in_service}),
    }


def _public_elements(network: PowerNetwork) -> Frames:
    """Tables of DC lines, storage and compensators, of those that there are."""
    require("pandas")
    import pandas as pd

    base, ids = network.base_mva, network.bus.id
    line, storage, compensator = network.dc_line, network.storage, network.compensator
    tables = {
        "dc_lines": {
            "from_bus": ids[line.from_bus],
            "to_bus": ids[line.to_bus],
            "p_min_mw": line.p_min * base,
            "p_max_mw": line.p_max * base,
            "loss_mw": line.loss_0 * base,
            "loss_share": line.loss_1,
            "in_service": line.in_service,
        },
        "storage": {
            "bus": ids[storage.bus],
            "p_min_mw": storage.p_min * base,
            "p_max_mw": storage.p_max * base,
            "in_service": storage.in_service,
        },
        "compensators": {
            "bus": ids[compensator.bus],
            "b_min_mvar": compensator.b_min * base,
            "b_max_mvar": compensator.b_max * base,
            "in_service": compensator.in_service,
        },
    }
    return {name: pd.DataFrame(columns) for name, columns in tables.items() if len(columns["in_service"])}


def power_solution_frames(network: PowerNetwork, formulation: Formulation, x: Floats) -> Frames:
    """Operating point of the AC or DC program, generators first. Rows are numbered as in the file, from 0."""
    return _ac_solution(network, x) if formulation is Formulation.AC else _dc_solution(network, x)


def _ac_solution(network: PowerNetwork, x: Floats) -> Frames:
    import pandas as pd

    state, tables = power_state(network, x), _grid_tables(network, x)
    tables["buses"]["voltage_pu"] = state.voltage
    produced = state.generation
    for name, rows in _unit_rows(network):
        tables[name] = tables[name].assign(p_mw=produced[rows].real, q_mvar=produced[rows].imag)
    if "dc_lines" in tables:
        tables["dc_lines"]["p_mw"] = state.dc_power
    tables["branches"] = tables["branches"].assign(flow_mva=state.flow, loading=pd.array(state.loading, dtype=float))
    return tables


def _dc_solution(network: PowerNetwork, x: Floats) -> Frames:
    grid, base, tables = network.grid, network.base_mva, _grid_tables(network, x)
    n, angle = grid.n_bus, x[: grid.n_bus]
    flow = base * grid.reactance_susceptance * (angle[grid.from_bus] - angle[grid.to_bus])
    limit = np.minimum(grid.rate, grid.current)
    rating = np.where(np.isfinite(limit), base * limit, np.nan)
    n_gen, n_line = len(grid.generator.bus), len(grid.dc_line.from_bus)
    produced = base * x[n : n + n_gen]
    for name, rows in _unit_rows(network):
        tables[name]["p_mw"] = produced[rows]
    if "dc_lines" in tables:
        tables["dc_lines"]["p_mw"] = base * x[n + n_gen : n + n_gen + n_line]
    tables["branches"] = tables["branches"].assign(flow_mw=flow, loading=np.abs(flow) / rating)
    return tables


def _grid_tables(network: PowerNetwork, x: Floats) -> Frames:
    require("pandas")
    import pandas as pd

    grid, ids = network.grid, network.grid.bus.id
    line, rows_on = grid.dc_line, {"generators": network.generator_on, "storage": network.storage_on}
    units = {
        name: pd.DataFrame({"bus": ids[grid.generator.bus[rows]]}, index=np.flatnonzero(rows_on[name]))
        for name, rows in _unit_rows(network)
    }
    ends = {"from_bus": ids[line.from_bus], "to_bus": ids[line.to_bus]}
    carried = pd.DataFrame(ends, index=np.flatnonzero(network.dc_line_on))
    return {
        **units,
        **({"dc_lines": carried} if len(carried) else {}),
        "buses": pd.DataFrame(
            {"bus": ids, "angle_deg": np.rad2deg(x[: grid.n_bus])}, index=np.flatnonzero(~network.bus.isolated)
        ),
        "branches": pd.DataFrame(
            {"from_bus": ids[grid.from_bus], "to_bus": ids[grid.to_bus]}, index=np.flatnonzero(network.branch_on)
        ),
    }


def _unit_rows(network: PowerNetwork) -> list[tuple[str, slice]]:
    """Where generators and, if there are any, storage units stand in the grid's list of feeders."""
    n_gen, n_unit = int(network.generator_on.sum()), network.grid.n_unit
    return [("generators", slice(n_gen)), *([("storage", slice(n_gen, n_unit))] if n_unit > n_gen else [])]
