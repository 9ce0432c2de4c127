"""Networks, operating points and demands as pandas frames, in the units that people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.report.operating import PASCAL_PER_BAR, power_state
from gridveil.sectors.case import Network
from gridveil.sectors.describe import site_labels
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.gas.ogf import ogf_point
from gridveil.sectors.power.network import PowerNetwork

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Frames = dict[str, "pd.DataFrame"]


def public_frames(network: Network) -> Frames:
    """Give the public part of a case: its elements, limits and the sites of demands."""
    return _public_gas(network) if isinstance(network, GasNetwork) else _public_power(network)


def demand_frame(network: Network, **columns: NDArray[Any]) -> pd.DataFrame:
    """Give demands (per unit, one per site) as MW and MVAr, or kg/s, one group of columns per keyword; "" means no prefix."""
    import pandas as pd

    gas = isinstance(network, GasNetwork)
    base = network.flow_base if isinstance(network, GasNetwork) else network.base_mva
    data: dict[str, object] = {"junction" if gas else "bus": site_labels(network)}
    for name, sites in columns.items():
        prefix = f"{name}_" if len(columns) > 1 else ""
        if gas:
            data[f"{prefix}kg_per_s"] = base * sites.real
        else:
            data |= {f"{prefix}p_mw": base * sites.real, f"{prefix}q_mvar": base * sites.imag}
    return pd.DataFrame(data, index=pd.RangeIndex(1, len(site_labels(network)) + 1, name="site"))


def solution_frames(network: Network, formulation: Formulation, x: Floats) -> Frames:
    """Give the operating point x of the program, table by table. Rows are numbered as in the file, from 0."""
    if isinstance(network, GasNetwork):
        return _gas_solution(network, x)
    return _ac_solution(network, x) if formulation is Formulation.AC else _dc_solution(network, x)


def _public_power(network: PowerNetwork) -> Frames:
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


def _public_gas(network: GasNetwork) -> Frames:
    import pandas as pd

    junction, name = network.junction, np.array(network.junction.id, dtype=object)
    pipe, station = network.pipe, network.compressor
    return {
        "junctions": pd.DataFrame(
            {
                "junction": name,
                "p_min_bar": junction.p_min / PASCAL_PER_BAR,
                "p_max_bar": junction.p_max / PASCAL_PER_BAR,
                "regulated_bar": junction.slack_pressure / PASCAL_PER_BAR,
            }
        ),
        "pipes": pd.DataFrame(
            {
                "pipe": pipe.id,
                "from_junction": name[pipe.from_junction],
                "to_junction": name[pipe.to_junction],
                "diameter_m": pipe.diameter,
                "length_m": pipe.length,
            }
        ),
        "compressors": pd.DataFrame(
            {
                "compressor": station.id,
                "from_junction": name[station.from_junction],
                "to_junction": name[station.to_junction],
                "ratio_max": station.ratio_max,
            }
        ),
        "sites": pd.DataFrame({"junction": name[network.site_junction]}),
    }


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
        "buses": pd.DataFrame(
            {"bus": ids, "angle_deg": np.rad2deg(x[: grid.n_bus])}, index=np.flatnonzero(~network.bus.isolated)
        ),
        "generators": pd.DataFrame({"bus": ids[grid.generator.bus]}, index=np.flatnonzero(network.generator_on)),
        "branches": pd.DataFrame(
            {"from_bus": ids[grid.from_bus], "to_bus": ids[grid.to_bus]}, index=np.flatnonzero(network.branch_on)
        ),
    }


def _gas_solution(network: GasNetwork, x: Floats) -> Frames:
    import pandas as pd

    point = ogf_point(network, x)
    compressor, regulator = network.compressor.id, network.regulator.id
    return {
        "junctions": pd.DataFrame({"junction": network.junction.id, "pressure_bar": point.pressure / PASCAL_PER_BAR}),
        "pipes": pd.DataFrame({"pipe": network.pipe.id, "kg_per_s": point.pipe_flow}),
        "compressors": pd.DataFrame(
            {"compressor": compressor, "kg_per_s": point.compressor_flow, "ratio": point.compressor_ratio}
        ),
        "regulators": pd.DataFrame(
            {"regulator": regulator, "kg_per_s": point.regulator_flow, "ratio": point.regulator_ratio}
        ),
    }
