"""The power that enters a branch at its two ends, with first and second derivatives.

Each of the four flows (Pf, Qf, Pt, Qt) has the form

    own · v² + v_f v_t (a cos θ + b sin θ),    θ = θ_f − θ_t,   v the magnitude at its own end,

so three coefficients describe it, and with respect to (θ, v_f, v_t) every derivative needs only

    even = a cos θ + b sin θ      and      odd = ∂even/∂θ = −a sin θ + b cos θ.
"""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.kernel import compiled

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Triple = tuple[float, float, float]


def flow_coefficients(y_ff: Complexes, y_ft: Complexes, y_tf: Complexes, y_tt: Complexes) -> Floats:
    """Coefficients (L, 4, 3) from the two-port admittances: S_f = V_f conj(Y_ff V_f + Y_ft V_t), S_t alike."""
    active_from = [y_ff.real, y_ft.real, y_ft.imag]
    reactive_from = [-y_ff.imag, -y_ft.imag, y_ft.real]
    active_to = [y_tt.real, y_tf.real, -y_tf.imag]
    reactive_to = [-y_tt.imag, -y_tf.imag, -y_tf.real]
    stacked = np.array([active_from, reactive_from, active_to, reactive_to], dtype=float)
    return np.ascontiguousarray(stacked.transpose(2, 0, 1))


@compiled
def flow_value(flow: Floats, k: int, v_own: float, product: float, cos: float, sin: float) -> float:
    """Flow k of a branch; ``product`` is v_f v_t."""
    value: float = flow[k, 0] * v_own * v_own + product * (flow[k, 1] * cos + flow[k, 2] * sin)
    return value


@compiled
def from_gradient(flow: Floats, k: int, vf: float, vt: float, cos: float, sin: float) -> Triple:
    """Gradient of flow k = 0, 1 (from end) with respect to (θ, v_f, v_t)."""
    even = flow[k, 1] * cos + flow[k, 2] * sin
    odd = flow[k, 2] * cos - flow[k, 1] * sin
    return vf * vt * odd, 2.0 * flow[k, 0] * vf + vt * even, vf * even


@compiled
def to_gradient(flow: Floats, k: int, vf: float, vt: float, cos: float, sin: float) -> Triple:
    """Gradient of flow k = 2, 3 (to end) with respect to (θ, v_f, v_t)."""
    even = flow[k, 1] * cos + flow[k, 2] * sin
    odd = flow[k, 2] * cos - flow[k, 1] * sin
    return vf * vt * odd, vt * even, 2.0 * flow[k, 0] * vt + vf * even


@compiled
def flow_hessian(
    flow: Floats, weights: tuple[float, float, float, float], vf: float, vt: float, cos: float, sin: float
) -> tuple[float, float, float, float, float, float]:
    """Hessian of Σ weights[k] flow_k: entries (θθ, θf, θt, ff, ft, tt)."""
    w0, w1, w2, w3 = weights
    a = w0 * flow[0, 1] + w1 * flow[1, 1] + w2 * flow[2, 1] + w3 * flow[3, 1]
    b = w0 * flow[0, 2] + w1 * flow[1, 2] + w2 * flow[2, 2] + w3 * flow[3, 2]
    even = a * cos + b * sin
    odd = b * cos - a * sin
    own_from = 2.0 * (w0 * flow[0, 0] + w1 * flow[1, 0])
    own_to = 2.0 * (w2 * flow[2, 0] + w3 * flow[3, 0])
    return -vf * vt * even, vt * odd, vf * odd, own_from, even, own_to
