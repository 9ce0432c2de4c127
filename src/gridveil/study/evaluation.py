"""Combined contents of several stores, for tables, figures and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gridveil.core.errors import InputError
from gridveil.core.extras import require
from gridveil.study.store import KEY, StoreSummary, read_outcomes, summarise

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """All rows of some stores, and each store's own summary."""

    frame: DataFrame
    summaries: tuple[StoreSummary, ...]

    @property
    def not_in_paper(self) -> frozenset[str]:
        """Networks that cannot be the paper's, whatever they are called.

        The paper's are files (its NESTA networks have namesakes in PGLib, with other costs and limits), and its gas networks
        run under the boundary conditions that we found for them.
        """
        networks = [pair for summary in self.summaries for pair in summary.settings["networks"].items()]
        gas = set(self.frame.loc[self.frame["kind"] == "gas", "network"])
        return frozenset(
            label for label, facts in networks if not facts["checksum"] or (label in gas and facts["preset"] != label)
        )


def read_evaluation(stores: Sequence[Path]) -> Evaluation:
    """Read stores, which must not share a task: it would count twice."""
    require("pandas")
    import pandas as pd

    frame = pd.concat([read_outcomes(store) for store in stores], ignore_index=True)
    twice = frame[frame.duplicated(list(KEY))]
    if len(twice):
        raise InputError(
            f"{len(twice)} tasks, such as one of network {twice.iloc[0]['network']}, are in more than one of these stores; "
            "name stores that share none"
        )
    if frame.empty:
        raise InputError(f"{stores[0]}: holds no outcome yet; let 'gridveil study run' finish a task first")
    return Evaluation(frame=frame, summaries=tuple(summarise(store) for store in stores))
