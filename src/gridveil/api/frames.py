"""Demands as pandas frames, in physical units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from gridveil.core.extras import require
from gridveil.core.secret import SecretField
from gridveil.sectors.case import Network
from gridveil.sectors.registry import sector_of
from gridveil.sectors.view import value_columns

if TYPE_CHECKING:
    import pandas as pd


def demand_frame(network: Network, field: SecretField, **columns: NDArray[Any]) -> pd.DataFrame:
    """Convert values (per unit, one per participant) to physical units, one group of columns per keyword.

    A single group has no prefix.
    """
    require("pandas")
    import pandas as pd

    if field.parts:
        return _secret_frame(field, columns)
    sector = sector_of(network)
    data: dict[str, object] = {sector.node_word: list(field.places)}
    for name, values in columns.items():
        prefix = f"{name}_" if len(columns) > 1 else ""
        shown = value_columns(sector.value_parts, values, field.base)
        data |= {f"{prefix}{column}": part for column, part in shown.items()}
    return pd.DataFrame(data, index=pd.RangeIndex(1, len(field) + 1, name="site"))


def _secret_frame(field: SecretField, columns: dict[str, NDArray[Any]]) -> pd.DataFrame:
    """Values of several secrets: per unit of each secret's field, impedances as logarithms."""
    import pandas as pd

    data: dict[str, object] = {
        "secret": [part.field.name for part in field.parts for _ in part.field.places],
        "place": list(field.places),
    }
    for name, values in columns.items():
        prefix = f"{name}_" if len(columns) > 1 else ""
        data |= {f"{prefix}re": values.real, f"{prefix}im": values.imag}
    return pd.DataFrame(data, index=pd.RangeIndex(1, len(field) + 1, name="value"))
