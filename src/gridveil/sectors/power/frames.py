"""Power networks and their operating points as pandas frames, in physical units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.operating import power_state
from gridveil.sectors.view import Frames

Floats = NDArray[np.float64]


def public_power_frames(network: PowerNetwork) -> Frames:
    """Elements, limits and the sites of loads."""
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
        "sites": pd.DataFrame({"bus": bus.id[network.load.bus], "in_service": network.load.in_service}),
    }


def power_solution_frames(network: PowerNetwork, formulation: Formulation, x: Floats) -> Frames:
    """Operating point of the AC or DC program, generators first. Rows are numbered as in the file, from 0."""
    return _ac_solution(network, x) if formulation is Formulation.AC else _dc_solution(network, x)


def _ac_solution(network: PowerNetwork, x: Floats) -> Frames:
    import pandas as pd

    state, tables = power_state(network, x), _grid_tables(network, x)
    tables["buses"]["voltage_pu"] = state.voltage
    tables["generators"] = tables["generators"].assign(p_mw=state.generation.real, q_mvar=state.generation.imag)
    tables["branches"] = tables["branches"].assign(flow_mva=state.flow, loading=pd.array(state.loading, dtype=float))
    return tables


def _dc_solution(network: PowerNetwork, x: Floats) -> Frames:
    grid, base, tables = network.grid, network.base_mva, _grid_tables(network, x)
    n, angle = grid.n_bus, x[: grid.n_bus]
    flow = base * grid.reactance_susceptance * (angle[grid.from_bus] - angle[grid.to_bus])
    rating = np.where(np.isfinite(grid.rate), base * grid.rate, np.nan)
    tables["generators"]["p_mw"] = base * x[n : n + len(grid.generator.bus)]
    tables["branches"] = tables["branches"].assign(flow_mw=flow, loading=np.abs(flow) / rating)
    return tables


def _grid_tables(network: PowerNetwork, x: Floats) -> Frames:
    import pandas as pd

    grid, ids = network.grid, network.grid.bus.id
    return {
        "generators": pd.DataFrame({"bus": ids[grid.generator.bus]}, index=np.flatnonzero(network.generator_on)),
        "buses": pd.DataFrame(
            {"bus": ids, "angle_deg": np.rad2deg(x[: grid.n_bus])}, index=np.flatnonzero(~network.bus.isolated)
        ),
        "branches": pd.DataFrame(
            {"from_bus": ids[grid.from_bus], "to_bus": ids[grid.to_bus]}, index=np.flatnonzero(network.branch_on)
        ),
    }
