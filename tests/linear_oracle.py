"""The optimum of a linear program by HiGHS: an oracle that shares no solver with the package."""

from __future__ import annotations

import casadi as ca
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import vstack

from gridveil.programs import ParametricProgram


def linear_optimum(program: ParametricProgram, d: np.ndarray) -> float:
    """O(d) of a program with linear cost and rows; NaN if HiGHS finds none."""
    evaluate = ca.Function(
        "parts",
        [program.x, program.d],
        [ca.jacobian(program.g, program.x), program.g, ca.gradient(program.cost, program.x), program.cost],
    )
    slopes, at_zero, costs, fixed_cost = evaluate(np.zeros(program.n_x), d)
    matrix, offset = slopes.sparse().tocsr(), np.asarray(at_zero).ravel()
    lower, upper = program.g_lower - offset, program.g_upper - offset
    equal, has_upper, has_lower = lower == upper, np.isfinite(upper), np.isfinite(lower)
    above, below = has_upper & ~equal, has_lower & ~equal
    result = linprog(
        np.asarray(costs).ravel(),
        A_ub=vstack([matrix[above], -matrix[below]]),
        b_ub=np.concatenate([upper[above], -lower[below]]),
        A_eq=matrix[equal],
        b_eq=lower[equal],
        bounds=np.column_stack([program.x_lower, program.x_upper]),
        method="highs",
    )
    return float(result.fun + fixed_cost) if result.status == 0 else float("nan")
