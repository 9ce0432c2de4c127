"""Half-lines and second-order cones: Nesterov–Todd scaling, products, steps to the boundary.

A cone is a range of rows, head first; one of one row is the half-line. Vectors span all cones.
"""

import math

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.kernel import compiled
from gridveil.sectors.power.soc_graph.layout import Scaling

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def tail_norm(v: Floats, head: int, end: int) -> float:
    """Length of the tail of one cone."""
    total = 0.0
    for k in range(head + 1, end):
        total += v[k] * v[k]
    return math.sqrt(total)


@compiled
def determinant(v: Floats, head: int, end: int) -> float:
    """v₀² − |tail|², as a product so that squares do not cancel; negative outside the cone."""
    tail = tail_norm(v, head, end)
    return (v[head] - tail) * (v[head] + tail) if v[head] > 0.0 else -1.0


@compiled
def scale_cones(cone: Ints, s: Floats, z: Floats, scaling: Scaling) -> None:
    """Find W with W z = W⁻¹ s."""
    powers, unit = scaling.powers, scaling.unit
    for c in range(len(cone) - 1):
        head, end = cone[c], cone[c + 1]
        if end - head == 1:
            square = s[head] / z[head]
            beta = math.sqrt(square)
            inverse = 1.0 / beta
            powers[0, c, 0], powers[1, c, 0], powers[2, c, 0], powers[3, c, 0] = (
                beta,
                inverse,
                square,
                inverse * inverse,
            )
        else:
            size_s, size_z = math.sqrt(determinant(s, head, end)), math.sqrt(determinant(z, head, end))
            beta = math.sqrt(size_s / size_z)
            inner = 0.0
            for k in range(head, end):
                inner += s[k] * z[k]
            # the scaling point of the normalised s and z, whose tail has the length sinh of what g is the exponential of
            factor = 1.0 / math.sqrt(2.0 * (1.0 + inner / (size_s * size_z)))
            for k in range(head + 1, end):
                unit[k] = (s[k] / size_s - z[k] / size_z) * factor
            tail = tail_norm(unit, head, end)
            g = math.sqrt(1.0 + tail * tail) + tail
            if tail > 0.0:
                for k in range(head + 1, end):
                    unit[k] /= tail
            else:
                unit[head + 1] = 1.0
            powers[0, c, 0], powers[0, c, 1] = beta, g
            powers[1, c, 0], powers[1, c, 1] = 1.0 / beta, 1.0 / g
            powers[2, c, 0], powers[2, c, 1] = beta * beta, g * g
            powers[3, c, 0], powers[3, c, 1] = 1.0 / (beta * beta), 1.0 / (g * g)
    apply_power(cone, powers[0], unit, z, scaling.point)


@compiled
def apply_power(cone: Ints, power: Floats, unit: Floats, v: Floats, out: Floats) -> None:
    """out = Wᵖ v, for the (β, g) of that power."""
    for c in range(len(cone) - 1):
        head, end = cone[c], cone[c + 1]
        beta = power[c, 0]
        if end - head == 1:
            out[head] = beta * v[head]
        else:
            along = 0.0
            for k in range(head + 1, end):
                along += unit[k] * v[k]
            stretched = 0.5 * (v[head] + along) * power[c, 1]
            squeezed = 0.5 * (v[head] - along) / power[c, 1]
            shift = stretched - squeezed - along
            out[head] = beta * (stretched + squeezed)
            for k in range(head + 1, end):
                out[k] = beta * (v[k] + unit[k] * shift)


@compiled
def complementarity(
    cone: Ints, point: Floats, ds: Floats, dz: Floats, target: float, second: float, out: Floats
) -> None:
    """out = λ \\ (λ∘λ + second·ds∘dz − target·e), for scaled steps ds and dz."""
    for c in range(len(cone) - 1):
        head, end = cone[c], cone[c + 1]
        if end - head == 1:
            out[head] = point[head] + (second * ds[head] * dz[head] - target) / point[head]
        else:
            first, inner = -target, 0.0
            for k in range(head, end):
                first += point[k] * point[k] + second * ds[k] * dz[k]
            for k in range(head + 1, end):
                out[k] = 2.0 * point[head] * point[k] + second * (ds[head] * dz[k] + dz[head] * ds[k])
                inner += point[k] * out[k]
            first = (point[head] * first - inner) / determinant(point, head, end)
            for k in range(head + 1, end):
                out[k] = (out[k] - first * point[k]) / point[head]
            out[head] = first


@compiled
def longest_step(cone: Ints, v: Floats, dv: Floats, most: float) -> float:
    """The largest step up to ``most`` that keeps v + step·dv in all cones."""
    best = most
    for c in range(len(cone) - 1):
        head, end = cone[c], cone[c + 1]
        if dv[head] < 0.0:
            best = min(best, -v[head] / dv[head])
        if end - head > 1:
            # first root of q·step² + 2·m·step + r, the determinant along the step
            r = determinant(v, head, end)
            q, m = dv[head] * dv[head], v[head] * dv[head]
            for k in range(head + 1, end):
                q -= dv[k] * dv[k]
                m -= v[k] * dv[k]
            inside = m * m - q * r
            if inside >= 0.0:
                if m < 0.0:
                    best = min(best, r / (math.sqrt(inside) - m))
                elif q < 0.0:
                    best = min(best, (m + math.sqrt(inside)) / -q)
    return best


@compiled
def centre(cone: Ints, s: Floats, z: Floats, mu: float, room: float) -> None:
    """Raise heads of s until they are ``room`` inside, and set z = μ s⁻¹."""
    for c in range(len(cone) - 1):
        head, end = cone[c], cone[c + 1]
        s[head] = max(s[head], tail_norm(s, head, end) + room)
        factor = mu / determinant(s, head, end)
        z[head] = factor * s[head]
        for k in range(head + 1, end):
            z[k] = -factor * s[k]
