"""Layout of the paper's six tables: which quantities, over which setting, and what counts as better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.study.outcome import FAILED
from gridveil.study.tables_compare import Goal, SpreadModel

if TYPE_CHECKING:
    from pandas import DataFrame

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One block of columns: a number that each run has, and how it is judged."""

    name: str
    method: str
    title: str
    column: str
    goal: Goal
    spread: SpreadModel = SpreadModel.SAME
    of_point: bool = True
    """Whether it belongs to the point that was found. Time does not: a run that ended without one took its time too."""

    def values(self, frame: DataFrame) -> Values:
        """The number of each run; NaN where it has none. Cost differences in percent of the target."""
        values = frame[self.column].to_numpy(dtype=float, na_value=np.nan)
        if self.name == "cost_difference":
            values = 100 * (values / frame["true_cost"].to_numpy(dtype=float, na_value=np.nan) - 1)
        if self.method == "bilevel":
            there = frame["verified"] if self.of_point else frame["ending"] != FAILED
            values = np.where(there.to_numpy(dtype=bool), values, np.nan)
        return values

    def failed(self, frame: DataFrame) -> Flags:
        """Which runs failed: those without a release; for the high point and the noise, those without the number."""
        if self.method == "bilevel":
            return ~frame["verified"].to_numpy(dtype=bool)
        return ~np.isfinite(self.values(frame))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One of the paper's tables: its number, the kind of network, what varies over its columns and its blocks."""

    number: str
    kind: str
    varies: str
    subject: str
    quantities: tuple[Quantity, ...]


EFFORT = tuple(
    Quantity(
        name=name,
        method="bilevel",
        title=title,
        column=name,
        goal=Goal.SMALLER,
        spread=SpreadModel.PROPORTIONAL,
        of_point=False,
    )
    for name, title in (("seconds", "Time (s)"), ("optimisations", "Optimisations"))
)
COSTS = tuple(
    Quantity(name="cost_difference", method=method, title=title, column=column, goal=Goal.IN_BAND)
    for method, title, column in (("bilevel", "Bilevel", "cost"), ("highpoint", "High point", "highpoint_cost"))
)
DISTANCES = tuple(
    Quantity(name="distance", method=method, title=title, column=column, goal=goal)
    for method, title, column, goal in (
        ("bilevel", "Bilevel", "released_distance", Goal.SMALLER),
        ("highpoint", "High point", "highpoint_distance", Goal.SMALLER),
        # Nobody chooses the noise: less of it than in the paper is luck or another mechanism, and no improvement.
        ("laplace", "Laplace", "noisy_distance", Goal.NONE),
    )
)


def _pair(power: str, gas: str, varies: str, subject: str, quantities: tuple[Quantity, ...]) -> list[Layout]:
    return [
        Layout(number=number, kind=kind, varies=varies, subject=subject, quantities=quantities)
        for number, kind in ((power, "power"), (gas, "gas"))
    ]


LAYOUTS = {
    layout.number: layout
    for layout in [
        *_pair("I", "II", "alpha", "time and number of optimisations", EFFORT),
        *_pair("III", "IV", "beta", "difference of the optimal cost in percent", COSTS),
        *_pair("V", "VI", "alpha", "relative distance to the true demands", DISTANCES),
    ]
}
