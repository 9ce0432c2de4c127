"""Gas networks and their operating points as pandas frames, in physical units."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.extras import require
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.gas.ogf import ogf_point
from gridveil.sectors.gas.operating import PASCAL_PER_BAR
from gridveil.sectors.view import Frames

Floats = NDArray[np.float64]


def public_gas_frames(network: GasNetwork) -> Frames:
    """Elements, limits and the sites of deliveries."""
    require("pandas")
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


def gas_solution_frames(network: GasNetwork, x: Floats) -> Frames:
    """Operating point of the program, compressors first. Rows are numbered as in the file, from 0."""
    require("pandas")
    import pandas as pd

    point = ogf_point(network, x)
    compressor, regulator = network.compressor.id, network.regulator.id
    return {
        "compressors": pd.DataFrame(
            {"compressor": compressor, "kg_per_s": point.compressor_flow, "ratio": point.compressor_ratio}
        ),
        "junctions": pd.DataFrame({"junction": network.junction.id, "pressure_bar": point.pressure / PASCAL_PER_BAR}),
        "pipes": pd.DataFrame({"pipe": network.pipe.id, "kg_per_s": point.pipe_flow}),
        "regulators": pd.DataFrame(
            {"regulator": regulator, "kg_per_s": point.regulator_flow, "ratio": point.regulator_ratio}
        ),
    }
