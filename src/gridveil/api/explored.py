"""Result of an exploration of settings, for notebooks."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from gridveil.api.html import grid_html
from gridveil.core.extras import require
from gridveil.report.explore_figure import explore_figure
from gridveil.report.explore_table import HEADINGS, text_rows
from gridveil.study.explore import Exploration

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SPREADS = ("distance_noisy", "distance_released", "cost_error")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ExploreResult:
    """Results for each setting, on demands that are not secret."""

    exploration: Exploration

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per setting; columns such as ``distance_released_mean``."""
        require("pandas")
        import pandas as pd

        rows = []
        for row in self.exploration.rows:
            values: dict[str, object] = {}
            for name in (entry.name for entry in fields(row)):
                value = getattr(row, name)
                if name in SPREADS:
                    values |= {f"{name}_{part}": getattr(value, part, math.nan) for part in ("mean", "low", "high")}
                else:
                    values[name] = (
                        "; ".join(f"{n} × {why}" for why, n in value.items()) if name == "failures" else value
                    )
            rows.append(values)
        return pd.DataFrame(rows)

    def plot(self) -> Figure:
        """Draw distance and cost error against privacy."""
        require("matplotlib")
        return explore_figure(self.exploration)

    def __repr__(self) -> str:
        found = self.exploration
        return f"ExploreResult({found.case}: {len(found.rows)} settings, {found.seeds} runs each, on demands {found.demands})"

    def _repr_html_(self) -> str:
        found = self.exploration
        return grid_html(f"{found.case}, on demands {found.demands}", HEADINGS, text_rows(found))
