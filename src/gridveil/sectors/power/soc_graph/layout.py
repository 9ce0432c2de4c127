"""What compiled code sees of a network, and the vectors it works on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ConeGraph(NamedTuple):
    """The program on N buses (in elimination order), E pairs, U local variables and K moves.

    x = (w of N buses, α and ω of each pair in turn, u, (t, P, Q) of each move in turn). Rows of G are first those of the
    pairs, pair by pair, then rows with one entry: limits of w and u, then the moves.
    """

    pair_i: Ints
    pair_j: Ints
    pair_block: Ints
    """Where the block of each pair lies in the factor."""
    balance: Floats
    """(E, 4, 4): what a pair adds to P_i, Q_i, P_j, Q_j for each of α, ω, w_i, w_j."""
    shunt: Floats
    """(N, 2): what a unit of w draws, P and Q."""
    rows: Floats
    """The rows of G of all pairs: their coefficients of α, ω, w_i, w_j."""
    pair_row: Ints
    """(E + 1): the first of these rows that belongs to each pair."""
    own_column: Ints
    own_sign: Floats
    """The one entry of each further row of G."""
    offset: Floats
    """h."""
    cone: Ints
    """(cones + 1): the first row of each cone."""
    pair_cone: Ints
    """(E + 1): the first cone of each pair."""
    first_move_cone: int
    local_bus: Ints
    local_row: Ints
    """Which balance each local variable feeds: 0 active, 1 reactive."""
    move_bus: Ints
    quadratic: Floats
    linear: Floats
    """The objective over x."""


class ConePoint(NamedTuple):
    """A point or a direction: x, prices (N, 2), slacks and multipliers of the rows of G."""

    x: Floats
    y: Floats
    s: Floats
    z: Floats


class Scaling(NamedTuple):
    """W of each cone: β·g on (1, e)/√2, β/g on (1, −e)/√2 and β on the rest, for a unit vector e of the tail.

    ``powers[k]`` holds (β, g) of each cone to the powers 1, −1, 2, −2; ``unit`` holds e; ``point`` is λ = W z = W⁻¹ s.
    """

    powers: Floats
    unit: Floats
    point: Floats


class ConeSystem(NamedTuple):
    """The factored Newton matrix, and room for a solve."""

    diagonal: Floats
    """(N, 3, 3): the inverse pivots."""
    upper: Floats
    factor: Floats
    pair_factor: Floats
    """(E, 4): the triangle R of the block RᵀR of (α, ω), and which of the two comes first."""
    pair_rows: Floats
    """(E, 2, 6): R⁻ᵀ times the coupling to w_i, y_Pi, y_Qi, w_j, y_Pj, y_Qj."""
    local: Floats
    """Curvature of each local variable."""
    work: Floats
    cone_rows: Floats
    weighted: Floats
    """(most rows of a pair, 4): room for the weighted rows of one pair."""


class ConeWorkspace(NamedTuple):
    """What one iteration needs beside the point it starts from."""

    scaling: Scaling
    system: ConeSystem
    missing: ConePoint
    """Residuals of stationarity (x), balances (y) and cone rows (z)."""
    step: ConePoint
    scaled_s: Floats
    """W⁻¹ ds of the last step."""
    scaled_z: Floats
    """W dz of the last step."""
    wanted: Floats
    """The change of products, in scaled terms, that a step is to bring about."""
    right: ConePoint
    left: ConePoint
    """Right-hand side of a solve, and what a solution leaves of it; their s is not used."""
