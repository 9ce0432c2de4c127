"""LDLᵀ of a symmetric matrix of 3×3 blocks on the bus graph. Blocks off the diagonal are those of the upper triangle."""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled

Floats = NDArray[np.float64]

BUNCH_PARLETT = 0.6403882032022076
"""(1 + √17)/8: a diagonal entry this large beside the largest one off the diagonal is a stable pivot."""


@compiled
def invert_symmetric(m: Floats) -> bool:
    """Replace a symmetric 3×3 matrix by its inverse, with complete pivoting; False if it is singular or not finite."""
    p, off = 0, 2
    for k in range(1, 3):
        if abs(m[k, k]) > abs(m[p, p]):
            p = k
    for k in range(2):  # ``off`` names the row that the largest entry off the diagonal avoids
        if abs(m[(k + 1) % 3, (k + 2) % 3]) > abs(m[(off + 1) % 3, (off + 2) % 3]):
            off = k
    one_first = abs(m[p, p]) >= BUNCH_PARLETT * abs(m[(off + 1) % 3, (off + 2) % 3])
    if not one_first:
        p = off
    q, r = (p + 1) % 3, (p + 2) % 3
    pp, qq, rr, qr, pq, pr = m[p, p], m[q, q], m[r, r], m[q, r], m[p, q], m[p, r]
    if one_first:
        to_q, to_r = pq / pp, pr / pp
        qq, rr, qr = qq - to_q * pq, rr - to_r * pr, qr - to_q * pr
        size = qq * rr - qr * qr
        m[q, q], m[r, r], m[q, r] = rr / size, qq / size, -qr / size
        m[p, q] = -(to_q * m[q, q] + to_r * m[q, r])
        m[p, r] = -(to_q * m[q, r] + to_r * m[r, r])
        m[p, p] = 1.0 / pp - to_q * m[p, q] - to_r * m[p, r]
    else:
        size = qq * rr - qr * qr
        to_q, to_r = (rr * pq - qr * pr) / size, (qq * pr - qr * pq) / size
        inverse = 1.0 / (pp - to_q * pq - to_r * pr)
        m[p, p] = inverse
        m[p, q], m[p, r] = -to_q * inverse, -to_r * inverse
        m[q, q] = rr / size + to_q * to_q * inverse
        m[r, r] = qq / size + to_r * to_r * inverse
        m[q, r] = to_q * to_r * inverse - qr / size
    m[q, p], m[r, p], m[r, q] = m[p, q], m[p, r], m[q, r]
    return bool(abs(m[p, p] + m[q, q] + m[r, r]) < np.inf)


@compiled
def _subtract_transposed_product(target: Floats, left: Floats, right: Floats) -> None:
    """target −= leftᵀ right."""
    for p in range(3):
        for q in range(3):
            target[p, q] -= left[0, p] * right[0, q] + left[1, p] * right[1, q] + left[2, p] * right[2, q]


@compiled
def factorise(pattern: Pattern, diagonal: Floats, upper: Floats, factor: Floats) -> bool:
    """Turn ``diagonal`` into the inverse pivots and ``factor`` into Lᵀ; ``upper`` is consumed. False if it breaks down."""
    col_ptr, row, target = pattern.col_ptr, pattern.row, pattern.target
    k = 0
    for j in range(len(diagonal)):
        if not invert_symmetric(diagonal[j]):
            return False
        inverse = diagonal[j]
        first, end = col_ptr[j], col_ptr[j + 1]
        for a in range(first, end):
            block, done = upper[a], factor[a]
            for p in range(3):
                for q in range(3):
                    done[p, q] = inverse[p, 0] * block[0, q] + inverse[p, 1] * block[1, q] + inverse[p, 2] * block[2, q]
        for a in range(first, end):
            _subtract_transposed_product(diagonal[row[a]], factor[a], upper[a])
            for b in range(a + 1, end):
                _subtract_transposed_product(upper[target[k]], factor[a], upper[b])
                k += 1
    return True


@compiled
def substitute(pattern: Pattern, inverse_pivots: Floats, factor: Floats, x: Floats) -> None:
    """Overwrite the right-hand side ``x`` (N, 3) with the solution."""
    col_ptr, row = pattern.col_ptr, pattern.row
    for j in range(len(x)):
        x0, x1, x2 = x[j, 0], x[j, 1], x[j, 2]
        for a in range(col_ptr[j], col_ptr[j + 1]):
            block, to = factor[a], x[row[a]]
            for p in range(3):
                to[p] -= block[0, p] * x0 + block[1, p] * x1 + block[2, p] * x2
        pivot = inverse_pivots[j]
        for p in range(3):
            x[j, p] = pivot[p, 0] * x0 + pivot[p, 1] * x1 + pivot[p, 2] * x2
    for j in range(len(x) - 1, -1, -1):
        here = x[j]
        for a in range(col_ptr[j], col_ptr[j + 1]):
            block, there = factor[a], x[row[a]]
            for p in range(3):
                here[p] -= block[p, 0] * there[0] + block[p, 1] * there[1] + block[p, 2] * there[2]
