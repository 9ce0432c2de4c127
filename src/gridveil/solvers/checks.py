"""What readers of released data may find: answers to O(d) from several public starts and solvers, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridveil.core.band import CostTarget
from gridveil.solvers.backend import Answer
from gridveil.solvers.ipopt import IPOPT

COLD, FLAT, OWN, OTHER = "cold", "flat", "operating point of the release", "other public start"
# Relative: costs this near are of one optimum, as solvers relax limits a little and prices can be high.
SAME_COST = 1e-5
CHEAPER = 1e-6  # relative: by how much a cost must be lower to be preferred


@dataclass(frozen=True, kw_only=True)
class Check:
    """One solve of O(d): by which solver, from which start, how it ended, and its cost (None unless it converged)."""

    solver: str
    start: str
    ended: str
    cost: float | None

    @property
    def is_readers(self) -> bool:
        """Whether anybody would begin like this: the default solver as it is, or Ipopt from the flat start."""
        return self.start == COLD or (self.start == FLAT and self.solver == IPOPT)


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckedCost:
    """The cheapest answer that converged (else the first one), and what each start led to."""

    answer: Answer
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, tried: Sequence[tuple[str, Answer]]) -> CheckedCost:
        """From answers with the names of their starts, in the order in which they were asked for.

        A cost counts as cheaper only if it is so by more than rounding: the first of equals is kept.
        """
        best = tried[0][1]
        for _, answer in tried[1:]:
            if answer.converged and (not best.converged or answer.cost < best.cost - CHEAPER * abs(best.cost)):
                best = answer
        return cls(
            answer=best,
            checks=tuple(
                Check(
                    solver=answer.solver,
                    start=start,
                    ended=answer.status.value,
                    cost=answer.cost if answer.converged else None,
                )
                for start, answer in tried
            ),
        )

    @property
    def costs(self) -> tuple[float, ...]:
        """Costs of the answers that converged."""
        return tuple(check.cost for check in self.checks if check.cost is not None)

    @property
    def spread(self) -> float:
        """How far these costs lie apart; zero if they are of one optimum."""
        if not self.costs or max(self.costs) - min(self.costs) <= same_cost(min(self.costs)):
            return 0.0
        return max(self.costs) - min(self.costs)

    def holds_in(self, band: CostTarget) -> bool:
        """Whether the optimum, as far as anybody has found it, lies in the band."""
        return self.answer.converged and band.contains(self.answer.cost)

    def outside(self, band: CostTarget) -> tuple[Check, ...]:
        """The checks that converged outside the band by more than rounding."""
        return tuple(check for check in self.checks if check.cost is not None and not _about_in(band, check.cost))


def same_cost(cost: float) -> float:
    """How far two costs of one optimum may lie apart."""
    return SAME_COST * abs(cost)


def _about_in(band: CostTarget, cost: float) -> bool:
    return band.lower - same_cost(cost) <= cost <= band.upper + same_cost(cost)
