"""One tiny network per constraint family, where that family binds, against a closed form or an independent formula.

Each network is also solved with its family removed from the model: the cost must change, so that the test above it
would fail if somebody left the family out.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from conftest import Matpower, optimum
from gridveil.core.choices import Formulation
from gridveil.programs.families import Rows, Variable
from gridveil.sectors.power import acopf, dcopf

CHEAP, DEAR = 10.0, 40.0
V_MAX = 1.1


def two_buses(
    pd=80.0, qd=0.0, q_dear=(-1000.0, 1000.0), q_cheap=(-1000.0, 1000.0), v=(0.9, V_MAX), **branch
) -> Matpower:
    """Cheap power at bus 1, a load and dear power at bus 2."""
    net = Matpower()
    net.add_bus(1, kind=3, v=v)
    net.add_bus(2, pd=pd, qd=qd, v=v)
    net.add_gen(1, cost=(CHEAP, 0.0), q=q_cheap)
    net.add_gen(2, cost=(DEAR, 0.0), q=q_dear)
    net.add_branch(1, 2, **branch)
    return net


def cost_of_import(imported: float, demand: float) -> float:
    """Cost in $/h when ``imported`` MW come over a lossless line and the rest is produced on the spot."""
    return CHEAP * imported + DEAR * (demand - imported)


def no_rows(*_, **__) -> Rows:
    return Rows(acopf.ca.MX.zeros(0, 1), np.zeros(0), np.zeros(0))


def test_thermal_limit(load_text, monkeypatch):
    """|S| at both ends is v·|V1 − V2|/x, so at v = v_max: sin(θ/2) = s·x/(2v²) and P = v² sin θ / x."""
    x, s = 0.4, 0.3
    net = two_buses(x=x, rate=100 * s)
    theta = 2 * np.arcsin(s * x / (2 * V_MAX**2))
    imported = 100 * V_MAX**2 * np.sin(theta) / x
    case = load_text(net.text())
    assert optimum(case).cost == pytest.approx(cost_of_import(imported, 80.0), rel=1e-6)
    monkeypatch.setattr(acopf, "constraint_thermal_limit", no_rows)
    assert optimum(case).cost == pytest.approx(cost_of_import(80.0, 80.0), rel=1e-6)


def test_thermal_limit_binds_at_the_to_end_too(load_text):
    """Bus 2 has the higher voltage, so |S_21| = v2·|V1 − V2|/x binds and |S_12| does not."""
    x, s, v_1 = 0.4, 0.3, 0.95
    net = two_buses(x=x, rate=100 * s)
    net.bus[0][11] = net.bus[0][12] = v_1
    net.bus[1][12] = 1.05

    def imported(v_2: float) -> float:
        gap_squared = (s * x / v_2) ** 2  # |V1 − V2|² allowed by the to end
        cos = (v_1**2 + v_2**2 - gap_squared) / (2 * v_1 * v_2)
        return 100 * v_1 * v_2 * np.sqrt(1 - cos**2) / x

    best = max(imported(v_2) for v_2 in np.linspace(1.05, 1.1, 2001) if abs(v_1 - v_2) <= s * x / v_2)
    assert optimum(load_text(net.text())).cost == pytest.approx(cost_of_import(best, 80.0), rel=1e-6)


def test_angle_difference(load_text, monkeypatch):
    """P = v² sin(θ_max)/x at the highest voltage."""
    x, limit = 0.4, 5.0
    case = load_text(two_buses(x=x, angle=(-limit, limit)).text())
    imported = 100 * V_MAX**2 * np.sin(np.deg2rad(limit)) / x
    assert optimum(case).cost == pytest.approx(cost_of_import(imported, 80.0), rel=1e-6)
    monkeypatch.setattr(acopf, "constraint_angle_difference", no_rows)
    assert optimum(case).cost == pytest.approx(cost_of_import(80.0, 80.0), rel=1e-6)


def test_angle_difference_is_directed(load_text):
    """Only the upper limit binds for power from 1 to 2; with the branch written backwards it is the lower one."""
    x, limit = 0.4, 5.0
    net = two_buses(x=x, angle=(-limit, 60.0))
    net.branch[0][0], net.branch[0][1] = 2, 1
    imported = 100 * V_MAX**2 * np.sin(np.deg2rad(limit)) / x
    assert optimum(load_text(net.text())).cost == pytest.approx(cost_of_import(imported, 80.0), rel=1e-6)


def test_voltage_limit_and_zero_reactance(load_text, monkeypatch):
    """A resistive line (x = 0) loses least at v1 = v_max; then v2 (v1 − v2)/r = P2 and P1 = v1 (v1 − v2)/r."""
    r, p_2 = 0.05, 0.8
    case = load_text(two_buses(pd=100 * p_2, r=r, x=0.0).text())
    v_2 = (V_MAX + np.sqrt(V_MAX**2 - 4 * r * p_2)) / 2
    p_1 = V_MAX * (V_MAX - v_2) / r
    assert optimum(case).cost == pytest.approx(CHEAP * 100 * p_1, rel=1e-6)
    loose = Variable(np.full(2, 0.5), np.full(2, 1.5), np.ones(2))
    monkeypatch.setattr(acopf, "variable_magnitude", lambda grid: loose)
    assert optimum(case).cost < CHEAP * 100 * p_1 * (1 - 1e-3)


def test_lower_voltage_limit(load_text):
    """With v1 = 1 and Q at bus 2 given, the import grows as v2 falls: P² = (v2²(1 − 2xQ) − v2⁴)/x² − Q² at v2 = v_min."""
    x, q, v_min = 0.3, 0.2, 0.9
    net = two_buses(pd=80.0, qd=100 * q, q_dear=(0.0, 0.0), x=x)
    net.bus[0][11] = net.bus[0][12] = 1.0
    imported = 100 * np.sqrt((v_min**2 * (1 - 2 * x * q) - v_min**4) / x**2 - q**2)
    assert imported < 79
    assert optimum(load_text(net.text())).cost == pytest.approx(cost_of_import(imported, 80.0), rel=1e-6)


def test_active_generation_limit(load_text, monkeypatch):
    net = two_buses()
    net.gen[0][8] = 35.0
    case = load_text(net.text())
    assert optimum(case).cost == pytest.approx(cost_of_import(35.0, 80.0), rel=1e-6)
    free = Variable(np.zeros(2), np.full(2, 10.0), np.ones(2))
    monkeypatch.setattr(acopf, "variable_generation", lambda lower, upper: free)
    assert optimum(case).cost < cost_of_import(36.0, 80.0)


def test_lower_active_generation_limit(load_text):
    net = two_buses()
    net.gen[1][9] = 25.0
    assert optimum(load_text(net.text())).cost == pytest.approx(cost_of_import(55.0, 80.0), rel=1e-6)


def test_reactive_generation_limit(load_text):
    """Only bus 1 makes reactive power: q_max covers the load's and the line's x·|I|², which caps the import."""
    x, q_load, q_max = 0.5, 0.2, 0.5
    net = two_buses(qd=100 * q_load, q_dear=(0.0, 0.0), q_cheap=(-1000.0, 100 * q_max), x=x)
    net.bus[0][11] = net.bus[0][12] = 1.0

    def imported(v_2: float) -> float:
        # |S_2|² = v2²·|I|², and Q_1 = q_load + x·|I|² = q_max
        return float(np.sqrt(max((q_max - q_load) / x * v_2**2 - q_load**2, 0.0)))

    def reactive_gap(v_2: float) -> float:
        theta = np.arcsin(imported(v_2) * x / v_2)
        return (v_2 * np.cos(theta) - v_2**2) / x - q_load

    v_2 = brentq(reactive_gap, 0.7, 0.98)
    assert v_2 > 0.7
    net.bus[1][12] = 0.6
    assert optimum(load_text(net.text())).cost == pytest.approx(cost_of_import(100 * imported(v_2), 80.0), rel=1e-5)


def test_power_balance_counts_every_load_and_shunt(load_text):
    """One bus: generation equals both loads plus the shunt's G·v², cheapest at the lowest voltage."""
    net = Matpower()
    net.add_bus(1, kind=3, pd=50, gs=10)
    net.add_gen(1, cost=(CHEAP, 0.0))
    assert optimum(load_text(net.text())).cost == pytest.approx(CHEAP * (50 + 10 * 0.9**2), rel=1e-6)


def test_polynomial_costs_of_any_degree(load_text):
    """Two generators at one bus share the load where their marginal costs meet."""
    net = Matpower()
    net.add_bus(1, kind=3, pd=120)
    net.add_gen(1, cost=(1e-3, 0.0, 5.0, 7.0))
    net.add_gen(1, cost=(0.05, 6.0, 3.0))

    def total(p: float) -> float:
        return 1e-3 * p**3 + 5 * p + 7 + 0.05 * (120 - p) ** 2 + 6 * (120 - p) + 3

    best = minimize_scalar(total, bounds=(0, 120), method="bounded", options={"xatol": 1e-10})
    assert optimum(load_text(net.text())).cost == pytest.approx(best.fun, rel=1e-7)


def test_piecewise_linear_cost(load_text, monkeypatch):
    """Merit order over segments: 40 MW at 5, then the polynomial at 8 up to 30 MW, then the segment at 12."""
    net = Matpower()
    net.add_bus(1, kind=3, pd=90)
    net.add_gen(1, cost=[(0.0, 100.0), (40.0, 300.0), (100.0, 1020.0)], p=(0.0, 100.0))
    net.add_gen(1, cost=(8.0, 0.0), p=(0.0, 30.0))
    case = load_text(net.text())
    expected = 100 + 40 * 5 + 30 * 8 + 20 * 12
    assert optimum(case).cost == pytest.approx(expected, rel=1e-6)
    assert optimum(case, Formulation.DC).cost == pytest.approx(expected, rel=1e-6)


def test_points_given_twice_and_rounded_ones_do_not_spoil_a_cost(load_text):
    """Points repeated, and one lifted above its chord by the rounding of the file, leave the curve as it is."""
    clean = [(0.0, 100.0), (40.0, 300.0), (100.0, 1020.0)]
    rounded = [(0.0, 100.0), (0.0, 100.0), (20.0, 200.00001), (40.0, 300.0), (100.0, 1020.0), (100.0, 1020.0)]
    costs = []
    for curve in (clean, rounded):
        net = Matpower()
        net.add_bus(1, kind=3, pd=55)
        net.add_gen(1, cost=curve, p=(0.0, 100.0))
        costs.append(optimum(load_text(net.text())).cost)
    assert costs == pytest.approx([100 + 40 * 5 + 15 * 12] * 2, rel=1e-7)


def test_dispatchable_load_is_served_while_it_pays(load_text):
    """A generator with negative limits buys up to 30 MW at 25 $/MWh: worth it at CHEAP, not at DEAR."""
    net = Matpower()
    net.add_bus(1, kind=3, pd=50)
    net.add_gen(1, cost=(CHEAP, 0.0), p=(0.0, 60.0))
    net.add_gen(1, cost=(DEAR, 0.0))
    net.add_gen(1, cost=(25.0, 0.0), p=(-30.0, 0.0))
    assert optimum(load_text(net.text())).cost == pytest.approx(CHEAP * 60 - 25 * 10, rel=1e-6)


def test_dc_flow_limit_and_phase(load_text, monkeypatch):
    """Triangle, all x equal: two thirds of a transfer take the direct line, whose limit caps the cheap generator."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2)
    net.add_bus(3, pd=90)
    net.add_gen(1, cost=(CHEAP, 0.0))
    net.add_gen(3, cost=(DEAR, 0.0))
    net.add_branch(1, 3, rate=40.0)
    net.add_branch(1, 2)
    net.add_branch(2, 3)
    case = load_text(net.text())
    assert optimum(case, Formulation.DC).cost == pytest.approx(cost_of_import(60.0, 90.0), rel=1e-6)
    monkeypatch.setattr(dcopf, "constraint_flow_limit", no_rows)
    assert optimum(case, Formulation.DC).cost == pytest.approx(cost_of_import(90.0, 90.0), rel=1e-6)


def test_reference_angles_are_zero_in_every_island(load_text):
    """Two islands, only one with a reference in the file: both get exactly one, and each serves its own load."""
    net = two_buses()
    net.add_bus(3, pd=10)
    net.add_bus(4, pd=20)
    net.add_gen(4, cost=(DEAR, 0.0))
    net.add_branch(3, 4)
    case = load_text(net.text())
    assert case.network.grid.reference.tolist() == [0, 2]
    solution = optimum(case)
    assert np.abs(solution.x[[0, 2]]).max() < 1e-7
    assert solution.cost == pytest.approx(CHEAP * 80 + DEAR * 30, rel=1e-6)


def test_out_of_service_and_isolated_elements_do_not_count(load_text):
    net = two_buses()
    net.add_gen(1, cost=(1.0, 0.0), status=0)
    net.add_branch(1, 2, x=0.0, status=0)
    net.add_bus(9, kind=4, pd=500, qd=100)
    net.add_gen(9, cost=(0.1, 0.0))
    net.add_branch(2, 9)
    case = load_text(net.text())
    assert len(case.values) == 2
    assert case.network.served.tolist() == [True, False]
    assert optimum(case).cost == pytest.approx(CHEAP * 80, rel=1e-6)
