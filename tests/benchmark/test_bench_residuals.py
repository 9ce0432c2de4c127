"""The yardstick itself: zero at a power flow worked out by hand, and blind to no family of constraints."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from conftest import Matpower
from gridveil.benchmark.contestant import BenchProblem, ContestantAnswer, Point
from gridveil.benchmark.opf import check_answer
from gridveil.benchmark.residuals import Violations, dispatch_cost, violations
from gridveil.sectors.power.network import PowerNetwork

X, ANGLE = 0.25, 0.1
ACTIVE = math.sin(ANGLE) / X
REACTIVE = (1 - math.cos(ANGLE)) / X


def _lossless_pair(load_text) -> tuple[PowerNetwork, np.ndarray]:
    """Two buses at 1 p.u., a reactance X, an angle ANGLE: P = sin/X, and each end feeds Q = (1 − cos)/X into the line.

    The load draws P − jQ, so that the generator gives P + jQ. An isolated bus and a generator that is off come first.
    """
    net = Matpower()
    net.add_bus(7, kind=4, pd=99.0)
    net.add_bus(1, kind=3, v=(0.95, 1.05))
    net.add_bus(2, pd=100 * ACTIVE, qd=-100 * REACTIVE, v=(0.95, 1.05))
    net.add_gen(1, status=0)
    net.add_gen(1, p=(0.0, 50.0), q=(-20.0, 20.0), cost=(0.5, 10.0, 3.0))
    net.add_branch(1, 2, x=X, rate=50.0, angle=(-10.0, 10.0))
    case = load_text(net.text())
    demand = np.zeros(len(case.network.load.bus), dtype=complex)
    demand[case.network.served] = ACTIVE - 1j * REACTIVE
    return case.network, demand


def _flow() -> Point:
    return Point(va=np.array([0.0, -ANGLE]), vm=np.ones(2), pg=np.array([ACTIVE]), qg=np.array([REACTIVE]))


def test_zero_at_a_flow_worked_out_by_hand(load_text):
    network, demand = _lossless_pair(load_text)
    assert violations(network, demand, _flow()).largest < 1e-14


@pytest.mark.parametrize(
    ("family", "change", "size"),
    [
        ("balance", {"pg": np.array([ACTIVE + 1e-3])}, 1e-3),
        ("balance", {"qg": np.array([REACTIVE - 2e-3])}, 2e-3),
        ("voltage", {"vm": np.array([1.07, 1.0])}, 0.02),
        ("voltage", {"vm": np.array([1.0, 0.9])}, 0.05),
        ("generation", {"pg": np.array([0.6])}, 0.1),
        ("generation", {"pg": np.array([-0.3])}, 0.3),
        ("generation", {"qg": np.array([0.25])}, 0.05),
        ("generation", {"qg": np.array([-0.4])}, 0.2),
        ("flow", {"va": np.array([0.0, -0.15])}, abs(1 - np.exp(-0.15j)) / X - 0.5),
        ("angle", {"va": np.array([0.0, -0.2])}, 0.2 - np.deg2rad(10)),
        ("angle", {"va": np.array([0.0, 0.2])}, 0.2 - np.deg2rad(10)),
        ("balance", {"va": np.array([0.0, np.nan])}, np.inf),
    ],
)
def test_each_family_is_caught(load_text, family, change, size):
    network, demand = _lossless_pair(load_text)
    found = violations(network, demand, dataclasses.replace(_flow(), **change))
    assert getattr(found, family) == pytest.approx(size, rel=1e-9)
    assert found.largest >= size


def test_demand_counts(load_text):
    network, demand = _lossless_pair(load_text)
    assert violations(network, 1.01 * demand, _flow()).balance == pytest.approx(0.01 * ACTIVE)


def test_taps_shunts_and_charging_by_hand(load_text):
    """One bus behind a transformer 1.05∠4°, all at no load: V' = V/t at both sides of the impedance, so no current flows in
    it, and charging draws b/2·|V'|² at each end; the bus shunt draws (G − jB)|V|².
    """
    tap = 1.05 * np.exp(1j * np.deg2rad(4.0))
    net = Matpower()
    net.add_bus(1, kind=3, v=(0.9, 1.2))
    net.add_bus(2, gs=3.0, bs=5.0, v=(0.9, 1.2))
    net.add_gen(1)
    net.add_gen(2)
    net.add_branch(1, 2, r=0.02, x=0.2, b=0.3, tap=1.05, shift=4.0)
    net.add_bus(3, pd=1.0)
    net.add_gen(3)
    case = load_text(net.text())
    behind = 1.05 / tap
    point = Point(
        va=np.array([0.0, np.angle(behind), 0.0]),
        vm=np.array([1.05, abs(behind), 1.0]),
        pg=np.array([0.0, 0.03 * abs(behind) ** 2, 0.01]),
        qg=np.array([-0.15, -0.15 - 0.05, 0.0]) * abs(behind) ** 2,
    )
    assert violations(case.network, np.array([0.01 + 0j]), point).largest < 1e-14


def test_cost_of_a_dispatch(load_text):
    net = Matpower()
    net.add_bus(1, kind=3, pd=1.0)
    net.add_gen(1, status=0, cost=(0.0, 0.0, 1e6))
    net.add_gen(1, cost=(0.5, 10.0, 3.0))
    net.add_gen(1, cost=[(0.0, 5.0), (10.0, 25.0), (20.0, 85.0)])
    network = load_text(net.text()).network
    # 0.5·4² + 10·4 + 3, and 12 MW on the second piece: 25 + 2·6.
    point = Point(va=np.zeros(1), vm=np.ones(1), pg=np.array([0.04, 0.12]), qg=np.zeros(2))
    assert dispatch_cost(network, point) == pytest.approx(51.0 + 37.0)


@pytest.mark.parametrize(("cost", "status"), [(0.0, "converged"), (1.0, "inaccurate"), (math.nan, "inaccurate")])
def test_a_cost_that_is_not_that_of_the_dispatch_is_found_out(load_text, cost, status):
    network, demand = _lossless_pair(load_text)
    problem = BenchProblem(path=Path(), network=network, demand=demand)
    spent = dispatch_cost(network, _flow())
    answer = ContestantAnswer(converged=True, detail="", cost=spent + cost, iterations=None, point=_flow())
    found = check_answer(problem, answer)
    assert found["status"] == status
    json.dumps(found, allow_nan=False)


def test_the_worst_family_is_named():
    found = Violations(balance=1e-9, voltage=0.0, generation=1e-3, flow=2e-3, angle=0.0)
    assert (found.largest, found.worst_family) == (2e-3, "flow")
