"""Two ways to write the same network have the same optimum."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Matpower, optimum


def meshed(seed: int, n: int = 5) -> Matpower:
    """A random ring with a chord, a transformer, a shifter, loads everywhere and three generators."""
    rng = np.random.default_rng(seed)
    net = Matpower()
    for bus in range(1, n + 1):
        pd, qd = rng.uniform(10, 50), rng.uniform(0, 15)
        net.add_bus(bus, kind=3 if bus == 1 else 1, pd=pd, qd=qd, gs=rng.uniform(0, 2), bs=rng.uniform(-5, 5))
    for bus in (1, 3, 4):
        net.add_gen(bus, cost=(rng.uniform(0.01, 0.05), rng.uniform(10, 40), 0.0), p=(0.0, 150.0), q=(-80.0, 80.0))
    for i, j in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1), (1, 3)]:
        r, x = rng.uniform(0.005, 0.03), rng.uniform(0.05, 0.15)
        net.add_branch(i, j, r=r, x=x, b=rng.uniform(0, 0.05), rate=rng.uniform(60, 120))
    net.branch[1][8], net.branch[2][9] = 0.97, 2.0
    return net


EXAMPLES = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_order_and_numbers_of_buses_do_not_matter(load_text, seed):
    net = meshed(seed)
    other = copy.deepcopy(net)
    rename = {bus: 100 - 7 * bus for bus in range(1, 6)}
    for table, columns in ((other.bus, [0]), (other.gen, [0]), (other.branch, [0, 1])):
        for row in table:
            for column in columns:
                row[column] = rename[row[column]]
    other.bus.reverse()
    other.branch.reverse()
    assert optimum(load_text(other.text())).cost == pytest.approx(optimum(load_text(net.text())).cost, rel=1e-6)


@EXAMPLES
@given(seed=st.integers(0, 10_000), base=st.sampled_from([1.0, 50.0, 1000.0]))
def test_the_base_is_only_a_unit(load_text, seed, base):
    """Impedances are on the base: r and x scale with it, charging against it."""
    net = meshed(seed)
    other = copy.deepcopy(net)
    other.base = base
    for row in other.branch:
        row[2], row[3], row[4] = row[2] * base / 100, row[3] * base / 100, row[4] * 100 / base
    assert optimum(load_text(other.text())).cost == pytest.approx(optimum(load_text(net.text())).cost, rel=1e-5)


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_two_parallel_lines_are_one_of_half_the_impedance(load_text, seed):
    net = meshed(seed)
    other = copy.deepcopy(net)
    first = other.branch[0]
    first[2], first[3], first[4], first[5] = 2 * first[2], 2 * first[3], first[4] / 2, first[5] / 2
    other.branch.append(list(first))
    assert optimum(load_text(other.text())).cost == pytest.approx(optimum(load_text(net.text())).cost, rel=1e-6)


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_a_branch_can_be_written_from_either_end(load_text, seed):
    """Without tap or shift the two ends are alike."""
    net = meshed(seed)
    other = copy.deepcopy(net)
    other.branch[0][0], other.branch[0][1] = other.branch[0][1], other.branch[0][0]
    assert optimum(load_text(other.text())).cost == pytest.approx(optimum(load_text(net.text())).cost, rel=1e-6)


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_a_negative_load_is_a_fixed_generator(load_text, seed):
    net = meshed(seed)
    other = copy.deepcopy(net)
    net.bus[1][2], net.bus[1][3] = -20.0, -5.0
    other.bus[1][2], other.bus[1][3] = 0.0, 0.0
    other.add_gen(2, p=(20.0, 20.0), q=(5.0, 5.0), cost=(0.0, 0.0, 0.0))
    assert optimum(load_text(other.text())).cost == pytest.approx(optimum(load_text(net.text())).cost, rel=1e-6)
