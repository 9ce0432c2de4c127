"""Block LDLᵀ on the bus graph: 4×4 pivots with their inertia, substitution, multiplication.

Blocks off the diagonal are stored transposed, as those of the upper triangle: then no product needs a column of a block.
"""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.bus_order import Pattern
from gridveil.programs.kernel import compiled
from gridveil.solvers.structured.settings import BUNCH_PARLETT, MOST_GROWTH
from gridveil.solvers.structured.vector import (
    multiply,
    subtract_times,
    subtract_transposed_product,
    subtract_transposed_times,
    times_symmetric,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SINGULAR = -1


@compiled
def invert_symmetric(matrix: Floats, size: int) -> int:
    """Replace the leading ``size`` rows of a symmetric matrix by its inverse; return its negative eigenvalues.

    Sweeps with complete (Bunch–Parlett) pivoting; SINGULAR if no pivot is left.
    """
    negative, n_swept = 0, 0
    swept = np.zeros(size, np.bool_)
    while n_swept < size:
        diagonal, off = -1.0, -1.0
        p, q, r = 0, 0, 0
        for i in range(size):
            if not swept[i]:
                if abs(matrix[i, i]) > diagonal:
                    diagonal = abs(matrix[i, i])
                    p = i
                for j in range(i + 1, size):
                    if not swept[j] and abs(matrix[i, j]) > off:
                        off = abs(matrix[i, j])
                        q, r = i, j
        if not max(diagonal, off) > 0.0:
            return SINGULAR
        if diagonal >= BUNCH_PARLETT * off:
            negative += matrix[p, p] < 0.0
            _sweep_one(matrix, size, p)
            swept[p] = True
            n_swept += 1
        else:
            determinant = matrix[q, q] * matrix[r, r] - matrix[q, r] * matrix[q, r]
            # A 2×2 pivot is chosen only when its off-diagonal dominates: its eigenvalues have opposite signs.
            negative += 1
            _sweep_two(matrix, size, q, r, determinant)
            swept[q], swept[r] = True, True
            n_swept += 2
    for i in range(size):
        for j in range(size):
            matrix[i, j] = -matrix[i, j]
    return negative


@compiled
def invert_pivot(m: Floats) -> int:
    """Replace a symmetric 4×4 matrix by its inverse; return its negative eigenvalues, or SINGULAR.

    LDLᵀ in natural order while each pivot is not much smaller than what it eliminates, which is nearly always; else
    sweeps with complete pivoting. Written out, because this runs once per bus and factorisation.
    """
    m10, m20, m21 = m[1, 0], m[2, 0], m[2, 1]
    m30, m31, m32 = m[3, 0], m[3, 1], m[3, 2]
    d0 = m[0, 0]
    i0 = 1.0 / d0
    l10, l20, l30 = m10 * i0, m20 * i0, m30 * i0
    d1, s21, s31 = m[1, 1] - l10 * m10, m21 - l20 * m10, m31 - l30 * m10
    i1 = 1.0 / d1
    l21, l31 = s21 * i1, s31 * i1
    d2 = m[2, 2] - l20 * m20 - l21 * s21
    s32 = m32 - l30 * m20 - l31 * s21
    i2 = 1.0 / d2
    l32 = s32 * i2
    d3 = m[3, 3] - l30 * m30 - l31 * s31 - l32 * s32
    largest = max(abs(l10), abs(l20), abs(l30), abs(l21), abs(l31), abs(l32))
    # Refinement makes up for growth up to the bound. Written so that a comparison with NaN, of a pivot of zero, fails.
    if not (largest < MOST_GROWTH and abs(d3) > 0.0):
        return invert_symmetric(m, 4)
    i3 = 1.0 / d3
    # K = L⁻¹, below its diagonal of ones.
    k20, k31 = l21 * l10 - l20, l32 * l21 - l31
    k30 = l31 * l10 - l30 - l32 * k20
    x32, x31, x30 = -l32 * i3, k31 * i3, k30 * i3
    m[3, 3] = i3
    m[3, 2], m[2, 3] = x32, x32
    m[3, 1], m[1, 3] = x31, x31
    m[3, 0], m[0, 3] = x30, x30
    m[2, 2] = i2 - l32 * x32
    x21, x20 = -l21 * i2 - l32 * x31, k20 * i2 - l32 * x30
    m[2, 1], m[1, 2] = x21, x21
    m[2, 0], m[0, 2] = x20, x20
    m[1, 1] = i1 + l21 * l21 * i2 + k31 * x31
    x10 = -l10 * i1 - l21 * k20 * i2 + k31 * x30
    m[1, 0], m[0, 1] = x10, x10
    m[0, 0] = i0 + l10 * l10 * i1 + k20 * k20 * i2 + k30 * x30
    return int(d0 < 0.0) + int(d1 < 0.0) + int(d2 < 0.0) + int(d3 < 0.0)


@compiled
def _sweep_one(m: Floats, size: int, p: int) -> None:
    inverse = 1.0 / m[p, p]
    for i in range(size):
        if i != p:
            factor = m[i, p] * inverse
            for j in range(i, size):
                if j != p:
                    m[i, j] -= factor * m[j, p]
                    m[j, i] = m[i, j]
    for i in range(size):
        if i != p:
            m[i, p] *= inverse
            m[p, i] = m[i, p]
    m[p, p] = -inverse


@compiled
def _sweep_two(m: Floats, size: int, q: int, r: int, determinant: float) -> None:
    qq = m[r, r] / determinant
    qr = -m[q, r] / determinant
    rr = m[q, q] / determinant
    for i in range(size):
        if i not in (q, r):
            to_q = m[i, q] * qq + m[i, r] * qr
            to_r = m[i, q] * qr + m[i, r] * rr
            for j in range(i, size):
                if j not in (q, r):
                    m[i, j] -= to_q * m[j, q] + to_r * m[j, r]
                    m[j, i] = m[i, j]
    for i in range(size):
        if i not in (q, r):
            to_q = m[i, q] * qq + m[i, r] * qr
            to_r = m[i, q] * qr + m[i, r] * rr
            m[i, q], m[q, i], m[i, r], m[r, i] = to_q, to_q, to_r, to_r
    m[q, q], m[q, r], m[r, q], m[r, r] = -qq, -qr, -qr, -rr


@compiled
def factorise(pattern: Pattern, diag: Floats, upper: Floats, factor: Floats) -> int:
    """Factor in place: ``diag`` (N,4,4) becomes the inverse pivots, ``factor`` (nnz,4,4) becomes Lᵀ; ``upper`` is consumed.

    Returns the number of negative eigenvalues of the matrix, or SINGULAR.
    """
    col_ptr, row, target = pattern.col_ptr, pattern.row, pattern.target
    negative = 0
    k = 0
    for j in range(len(diag)):
        found = invert_pivot(diag[j])
        if found == SINGULAR:
            return SINGULAR
        negative += found
        first, end = col_ptr[j], col_ptr[j + 1]
        for a in range(first, end):
            multiply(factor, a, diag, j, upper, a)
        for a in range(first, end):
            subtract_transposed_product(diag, row[a], factor, a, upper, a)
            for b in range(a + 1, end):
                subtract_transposed_product(upper, target[k], factor, a, upper, b)
                k += 1
    return negative


@compiled
def substitute(pattern: Pattern, inverse_pivots: Floats, factor: Floats, x: Floats) -> None:
    """Overwrite the right-hand side ``x`` (N,4) with the solution."""
    col_ptr, row = pattern.col_ptr, pattern.row
    n_bus = len(x)
    for j in range(n_bus):
        for a in range(col_ptr[j], col_ptr[j + 1]):
            subtract_transposed_times(x, row[a], factor, a, x, j)
        times_symmetric(x, j, inverse_pivots, j, x, j)
    for j in range(n_bus - 1, -1, -1):
        for a in range(col_ptr[j], col_ptr[j + 1]):
            subtract_times(x, j, factor, a, x, row[a])


@compiled
def forward_border(pattern: Pattern, factor: Floats, half: Floats, touched: Bools) -> None:
    """Overwrite the columns B of a border with Y = L⁻¹ B, where ``touched`` (N, m) says which of them have an entry at a bus.

    ``half`` (N·m, 4) holds the columns bus by bus. A column that belongs to a part of the network touches little more than
    that part and the last buses, so many columns cost hardly more than a few.
    """
    col_ptr, row = pattern.col_ptr, pattern.row
    n_bus, n_rows = touched.shape
    for j in range(n_bus):
        for r in range(n_rows):
            if touched[j, r]:
                for a in range(col_ptr[j], col_ptr[j + 1]):
                    subtract_transposed_times(half, row[a] * n_rows + r, factor, a, half, j * n_rows + r)
                    touched[row[a], r] = True


@compiled
def subtract_border_squares(inverse_pivots: Floats, half: Floats, touched: Bools, schur: Floats) -> None:
    """schur −= Yᵀ D⁻¹ Y, which is Bᵀ K⁻¹ B."""
    n_bus, n_rows = touched.shape
    scaled, here = np.empty((n_rows, 4)), np.empty(n_rows, np.int64)
    for j in range(n_bus):
        n_here = 0
        for r in range(n_rows):
            if touched[j, r]:
                times_symmetric(scaled, n_here, inverse_pivots, j, half, j * n_rows + r)
                here[n_here] = r
                n_here += 1
        for p in range(n_here):
            own = half[j * n_rows + here[p]]
            for q in range(p + 1):
                product = own[0] * scaled[q, 0] + own[1] * scaled[q, 1] + own[2] * scaled[q, 2] + own[3] * scaled[q, 3]
                schur[here[p], here[q]] -= product
                if q != p:
                    schur[here[q], here[p]] -= product


@compiled
def substitute_bordered(
    pattern: Pattern,
    inverse_pivots: Floats,
    factor: Floats,
    half: Floats,
    touched: Bools,
    schur_inverse: Floats,
    x: Floats,
    rho: Floats,
) -> None:
    """Overwrite the right-hand side (x, rho) of the bordered system with its solution: forwards, then rho, then backwards."""
    col_ptr, row = pattern.col_ptr, pattern.row
    n_bus, n_rows = touched.shape
    for j in range(n_bus):
        for a in range(col_ptr[j], col_ptr[j + 1]):
            subtract_transposed_times(x, row[a], factor, a, x, j)
        times_symmetric(x, j, inverse_pivots, j, x, j)
        for r in range(n_rows):
            if touched[j, r]:
                own = half[j * n_rows + r]
                rho[r] -= own[0] * x[j, 0] + own[1] * x[j, 1] + own[2] * x[j, 2] + own[3] * x[j, 3]
    reduced = rho.copy()
    for r in range(n_rows):
        rho[r] = 0.0
        for q in range(n_rows):
            rho[r] += schur_inverse[r, q] * reduced[q]
    moved = np.empty((1, 4))
    for j in range(n_bus - 1, -1, -1):
        moved[0, :] = 0.0
        for r in range(n_rows):
            if touched[j, r]:
                for c in range(4):
                    moved[0, c] += rho[r] * half[j * n_rows + r, c]
        times_symmetric(moved, 0, inverse_pivots, j, moved, 0)
        for c in range(4):
            x[j, c] -= moved[0, c]
        for a in range(col_ptr[j], col_ptr[j + 1]):
            subtract_times(x, j, factor, a, x, row[a])


@compiled
def subtract_matrix_product(pattern: Pattern, diag: Floats, upper: Floats, x: Floats, result: Floats) -> None:
    """result −= K x for the symmetric block matrix K given by its upper triangle."""
    row, col = pattern.row, pattern.col
    for i in range(len(x)):
        subtract_transposed_times(result, i, diag, i, x, i)
    for a in range(len(row)):
        subtract_transposed_times(result, row[a], upper, a, x, col[a])
        subtract_times(result, col[a], upper, a, x, row[a])
