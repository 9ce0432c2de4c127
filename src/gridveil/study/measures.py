"""What a study measures beyond cost and distance: kept totals, and what prices, congestion and balances are worth.

A study is a simulation: totals have their true values as targets, as the cost has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.kept import Kept, KeptSource, parse_keep
from gridveil.sectors.partition import participant_groups
from gridveil.sectors.power.profile import profiled, worst_lines
from gridveil.service.fidelity import Difference, difference
from gridveil.service.kept import KeptTarget
from gridveil.solvers.profiles import profile_at

if TYPE_CHECKING:
    import pandas as pd

    from gridveil.sectors.case import Network
    from gridveil.sectors.model import Model
    from gridveil.solvers.backend import Backend

Vector = NDArray[np.float64]

COLUMNS = {
    "cost_error": "cost_error",
    "losses_error": "losses_error",
    "price_error": "price_error",
    "price_rank": "price_rank_correlation",
    "congestion": "congestion",
    "zone_error": "zone_demand_error",
    "severity_error": "severity_error",
}
"""Columns of a store, each with one prefix per set of demands, and the differences that they hold."""

SETS = ("released", "noisy", "highpoint")
"""Sets of demands that are compared with the truth, as columns name them."""


def study_keep(text: str) -> Kept:
    """What the releases of a study keep besides the cost: totals, whose true values are the targets."""
    cost, kept = parse_keep(text)
    if cost is not None or kept.loss is not None:
        raise InputError(
            "keep names totals alone in a study: its cost bands are the grid's beta, and losses are not kept"
        )
    return kept


def true_targets(network: Network, values: NDArray[Any], kept: Kept) -> tuple[KeptTarget, ...]:
    """The kept totals of a study's own values, as targets."""
    targets = []
    for number in kept.sums:
        labels, group = participant_groups(network, number.name, number.parts)
        for position, label in enumerate(labels):
            total = complex(np.sum(values[group == position]))
            targets.append(
                KeptTarget(
                    name=number.name,
                    label=label,
                    source=KeptSource.PUBLIC,
                    value=total,
                    half_width=number.tolerance.half_width(abs(total)),
                    members=group == position,
                )
            )
    return tuple(targets)


def worst_total(targets: tuple[KeptTarget, ...], values: NDArray[Any]) -> float | None:
    """The largest error of a kept total, as a share of the total; None if none is kept."""
    errors = [target.off(values) / abs(target.value) for target in targets if target.value]
    return max(errors) if errors else None


def fidelity_columns(
    network: Network,
    model: Model,
    backend: Backend,
    truth_d: Vector,
    demands: dict[str, tuple[Vector, Vector | None]],
    seconds: float,
) -> dict[str, float | None]:
    """Differences from the profile at ``truth_d``, by column, for sets of demands (d, and x if known), first the release."""
    power = profiled(network)
    if power is None or model.arrays is None:
        return {}
    first, near = next(iter(demands.values()))
    outages = worst_lines(profile_at(backend, power, first, x=near, seconds=seconds))
    truth = profile_at(backend, power, truth_d, outages=outages, seconds=seconds)
    found: dict[str, Difference] = {
        name: difference(profile_at(backend, power, at, x=x, outages=outages, seconds=seconds), truth)
        for name, (at, x) in demands.items()
    }
    return {
        f"{name}_{column}": getattr(one, attribute)
        for name, one in found.items()
        for column, attribute in COLUMNS.items()
    } | {"noisy_feasible": float(found["noisy"].feasible)}


def fidelity_table(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Medians over seeds: one row per network, α, β, method and set of demands, one column per difference.

    ``outcomes`` are the rows of a store. Signed errors count by their absolute value.
    """
    import pandas as pd

    keys = ["network", "alpha", "beta", "method"]
    parts = []
    for name in SETS:
        part = outcomes[keys].copy()
        part["demands"] = name
        for column in COLUMNS:
            part[column] = (
                outcomes[f"{name}_{column}"].abs() if column.endswith("error") else outcomes[f"{name}_{column}"]
            )
        parts.append(part)
    grouped = pd.concat(parts).groupby([*keys, "demands"], sort=True)
    return grouped.median(numeric_only=True).reset_index()
