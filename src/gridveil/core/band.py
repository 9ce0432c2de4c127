"""The cost band of (BL2): a target f̃, its tolerance β, and where the target comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError

TOLERANCE = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(%|[^\d\s%.+-][^\s%]*)?\s*", re.ASCII)


@dataclass(frozen=True, eq=False, kw_only=True)
class DataRows:
    """Linear rows lower ≤ matrix·d ≤ upper on the program's data: totals that a release keeps; shapes (k, n_d) and (k,)."""

    matrix: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def shrunk(self, share: float) -> DataRows:
        """The rows with this share of their half-widths cut off at either edge."""
        cut = share * (self.upper - self.lower) / 2
        return replace(self, lower=self.lower + cut, upper=self.upper - cut)

    def joined(self, other: DataRows) -> DataRows:
        """These rows and others."""
        return DataRows(
            matrix=np.concatenate([self.matrix, other.matrix]),
            lower=np.concatenate([self.lower, other.lower]),
            upper=np.concatenate([self.upper, other.upper]),
        )

    def hold_at(self, d: NDArray[np.float64]) -> bool:
        """Whether data satisfy every row."""
        values = self.matrix @ d
        return bool(np.all((self.lower <= values) & (values <= self.upper)))


@dataclass(frozen=True, kw_only=True)
class CostTarget:
    """f̃ and the half-width β of the band that the released optimum must lie in, both in the program's cost unit.

    ``rows`` are the totals that the released data must keep besides; None where there are none.
    """

    value: float
    beta: float
    source: CostTargetMode
    rows: DataRows | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.value) and np.isfinite(self.beta) and self.beta > 0):
            raise InputError("the cost band is empty: the target must be a number and beta positive; widen beta")

    @property
    def lower(self) -> float:
        """f̃ − β."""
        return self.value - self.beta

    @property
    def upper(self) -> float:
        """f̃ + β."""
        return self.value + self.beta

    def shrunk(self, share: float) -> CostTarget:
        """Return the band, and the rows, with this share of their half-widths cut off at either edge."""
        rows = None if self.rows is None else self.rows.shrunk(share)
        return replace(self, beta=(1 - share) * self.beta, rows=rows)

    def contains(self, cost: float) -> bool:
        """Whether a cost lies in the band (BL2)."""
        return self.lower <= cost <= self.upper

    def keeps(self, d: NDArray[np.float64]) -> bool:
        """Whether data satisfy the rows, if there are any."""
        return self.rows is None or self.rows.hold_at(d)


@dataclass(frozen=True)
class Tolerance:
    """β as a user states it: a share of the cost target's size, or an amount in the cost's own unit.

    ``unit`` is the unit that was stated with an amount; empty for a share, and for an amount that a program made.
    """

    amount: float
    relative: bool
    unit: str = ""

    @classmethod
    def parse(cls, text: str) -> Tolerance:
        """Read ``1%`` (a share) or ``250$/h`` (an amount). A bare number is refused: it could be either."""
        found = TOLERANCE.fullmatch(text)
        amount = float(found[1]) if found else np.nan
        if found is None or not (np.isfinite(amount) and amount > 0):
            raise InputError(
                f"beta must be a positive share such as 1%, or an amount with its unit such as 250$/h, not {text!r}"
            )
        if found[2] is None:
            raise InputError(_two_readings(found[1], amount))
        relative = found[2] == "%"
        return cls(amount / 100 if relative else amount, relative, "" if relative else found[2])

    def check_unit(self, cost_unit: str) -> None:
        """Refuse an amount in another unit than that of the cost."""
        if self.unit not in ("", cost_unit):
            raise InputError(
                f"beta: the cost of this case is in {cost_unit}, not {self.unit}; write {self.amount:g}{cost_unit}, or a share "
                "such as 1%"
            )

    def half_width(self, value: float, least: float = 0.0) -> float:
        """β around a cost. A share is one of |f̃|, but of no less than ``least``, a public cost; zero if both vanish."""
        return self.amount * max(abs(value), least) if self.relative else self.amount

    def around(self, value: float, source: CostTargetMode, least: float = 0.0) -> CostTarget:
        """Return the band around a cost; where a share is of nothing, β must be an amount."""
        beta = self.half_width(value, least)
        if beta == 0:
            raise InputError("the cost target is zero, so beta cannot be a share of it; give beta as an amount")
        return CostTarget(value=value, beta=beta, source=source)


def _two_readings(text: str, amount: float) -> str:
    return (
        f"beta {text} has no unit: {text} means {100 * amount:g} % of the cost, or {text} in its unit: write {100 * amount:g}%, or "
        f"{text}$/h (for gas {text}kg/s)"
    )
