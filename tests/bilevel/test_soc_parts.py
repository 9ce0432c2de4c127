"""Parts of the cone relaxation that a whole bound hides: pairs of buses, costs from below and above, the dual cone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import two_bus_net
from gridveil.programs.conic import ConeLayout
from gridveil.sectors.power.soc_costs import convex_costs
from gridveil.sectors.power.soc_model import bus_pairs

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_parallel_lines_share_the_narrowest_angles_seen_from_one_end(load_text):
    net = two_bus_net()
    net.branch[0][-2:] = [-20.0, 30.0]
    net.add_branch(2, 1, angle=(-10.0, 15.0))
    pairs = bus_pairs(load_text(net.text()).network.grid)
    assert (pairs.i.tolist(), pairs.j.tolist()) == ([0], [1])
    assert np.rad2deg([pairs.angle_min[0], pairs.angle_max[0]]) == pytest.approx([-15.0, 10.0])


@EXAMPLES
@given(
    coefficients=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=6),
    low=st.floats(-1.0, 0.9),
    width=st.floats(0.0, 2.0),
)
def test_any_polynomial_lies_between_its_convex_form_and_its_secant(load_text, coefficients, low, width):
    net = two_bus_net()
    net.base = 1.0
    net.gen.clear()
    net.gencost.clear()
    net.add_gen(1, cost=tuple(coefficients), p=(low, low + width))
    generator = load_text(net.text()).network.grid.generator
    cost = convex_costs(generator.cost, generator.p_min, generator.p_max)
    p = np.linspace(generator.p_min[0], generator.p_max[0], 201)
    exact = np.polyval(coefficients, p)
    below = cost.constant + cost.linear[0] * p + cost.quadratic[0] * p**2
    if cost.line_slope.size:
        levels = np.max(np.outer(p, cost.line_slope) + cost.line_intercept, axis=1)
        assert np.all((cost.level_lower[0] - 1e-9 <= levels) & (levels <= cost.level_upper[0] + 1e-9))
        below = below + levels
    assert np.all(cost.quadratic >= 0)
    assert np.all(below <= exact + 1e-9)
    assert np.all(exact <= cost.secant_slope[0] * p + cost.secant_intercept[0] + 1e-9)


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_multipliers_end_in_the_dual_cone(seed):
    layout = ConeLayout(n_zero=2, n_nonnegative=3, families=((4, 3), (2, 4)))
    z = np.random.default_rng(seed).normal(size=2 + 3 + 12 + 8)
    inside = layout.into_dual_cone(z)
    assert np.array_equal(inside[:2], z[:2]) and np.all(inside[2:5] >= 0)
    for blocks in (inside[5:17].reshape(4, 3), inside[17:].reshape(2, 4)):
        exact = blocks.astype(np.longdouble)
        assert np.all(exact[:, 0] ** 2 >= np.sum(exact[:, 1:] ** 2, axis=1)) and np.all(exact[:, 0] >= 0)
