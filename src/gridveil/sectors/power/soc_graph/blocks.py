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
def _multiply(target: Floats, left: Floats, right: Floats) -> None:
    """target = left·right. Written out like the next, as entries in memory would be read again after every one that is written."""
    r00, r01, r02 = right[0, 0], right[0, 1], right[0, 2]
    r10, r11, r12 = right[1, 0], right[1, 1], right[1, 2]
    r20, r21, r22 = right[2, 0], right[2, 1], right[2, 2]
    for p in range(3):
        l0, l1, l2 = left[p, 0], left[p, 1], left[p, 2]
        target[p, 0] = l0 * r00 + l1 * r10 + l2 * r20
        target[p, 1] = l0 * r01 + l1 * r11 + l2 * r21
        target[p, 2] = l0 * r02 + l1 * r12 + l2 * r22


@compiled
def _subtract_transposed_product(target: Floats, left: Floats, right: Floats) -> None:
    """target −= leftᵀ right."""
    l00, l01, l02 = left[0, 0], left[0, 1], left[0, 2]
    l10, l11, l12 = left[1, 0], left[1, 1], left[1, 2]
    l20, l21, l22 = left[2, 0], left[2, 1], left[2, 2]
    r00, r01, r02 = right[0, 0], right[0, 1], right[0, 2]
    r10, r11, r12 = right[1, 0], right[1, 1], right[1, 2]
    r20, r21, r22 = right[2, 0], right[2, 1], right[2, 2]
    target[0, 0] -= l00 * r00 + l10 * r10 + l20 * r20
    target[0, 1] -= l00 * r01 + l10 * r11 + l20 * r21
    target[0, 2] -= l00 * r02 + l10 * r12 + l20 * r22
    target[1, 0] -= l01 * r00 + l11 * r10 + l21 * r20
    target[1, 1] -= l01 * r01 + l11 * r11 + l21 * r21
    target[1, 2] -= l01 * r02 + l11 * r12 + l21 * r22
    target[2, 0] -= l02 * r00 + l12 * r10 + l22 * r20
    target[2, 1] -= l02 * r01 + l12 * r11 + l22 * r21
    target[2, 2] -= l02 * r02 + l12 * r12 + l22 * r22


@compiled
def factorise(pattern: Pattern, diagonal: Floats, upper: Floats, factor: Floats) -> bool:
    """Turn ``diagonal`` into the inverse pivots and ``factor`` into Lᵀ; ``upper`` is consumed. False if it breaks down."""
    col_ptr, row, target = pattern.col_ptr, pattern.row, pattern.target
    k = 0
    for j in range(len(diagonal)):
        if not invert_symmetric(diagonal[j]):
            return False
        first, end = col_ptr[j], col_ptr[j + 1]
        for a in range(first, end):
            _multiply(factor[a], diagonal[j], upper[a])
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
