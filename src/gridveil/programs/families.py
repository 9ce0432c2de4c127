"""Families of variables and constraints over whole arrays, and how a program is assembled from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.lazy import lazy_module
from gridveil.programs.program import ParametricProgram

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """One family of constraints: lower ≤ expression ≤ upper."""

    expression: ca.MX
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False)
class Variable:
    """One family of variables with its bounds and public start."""

    lower: Floats
    upper: Floats
    start: Floats


def symbols(variables: Sequence[Variable]) -> tuple[ca.MX, list[ca.MX]]:
    """Create the symbol x of all families of variables, and its part for each family."""
    ends = np.cumsum([0, *(len(v.start) for v in variables)]).tolist()
    x = ca.MX.sym("x", ends[-1])
    return x, ca.vertsplit(x, ends)


def assemble(
    name: str, x: ca.MX, d: ca.MX, variables: Sequence[Variable], rows: Sequence[Rows], cost: ca.MX, **more: Any
) -> ParametricProgram:
    """Assemble a program from its families of variables and constraints."""
    return ParametricProgram(
        name=name,
        x=x,
        d=d,
        cost=cost,
        g=ca.vertcat(*(r.expression for r in rows)),
        g_lower=np.concatenate([r.lower for r in rows]),
        g_upper=np.concatenate([r.upper for r in rows]),
        **limits(variables),
        **more,
    )


def limits(variables: Sequence[Variable]) -> dict[str, Any]:
    """Limits and start of x, which holds these families one after the other."""
    return {
        "x_lower": np.concatenate([v.lower for v in variables]),
        "x_upper": np.concatenate([v.upper for v in variables]),
        "x_start": np.concatenate([v.start for v in variables]),
    }


def equal_to_zero(expression: ca.MX) -> Rows:
    """Create rows that must vanish."""
    zeros = np.zeros(expression.numel())
    return Rows(expression, zeros, zeros)


def constant(values: Floats) -> ca.DM:
    """Convert an array to a CasADi column, so that products with symbols stay symbolic."""
    return ca.DM(values)


def pick(vector: ca.MX, index: Ints) -> ca.MX:
    """Select the entries at ``index`` as a column (CasADi's own indexing transposes some selections)."""
    return ca.vec(vector[index.tolist()])


def sum_at(node: Ints, n: int) -> ca.DM:
    """Incidence matrix that sums, at each node, the quantities attached to it (0/1, shape n × len(node))."""
    return ca.DM.triplet(node.tolist(), list(range(len(node))), ca.DM.ones(len(node)), n, len(node))
