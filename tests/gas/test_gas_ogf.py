"""OGF against closed forms, invariances, independent nominal costs and an independent check of the flow equations."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from gas_builders import HIGHEST, LOWEST, SLACK, STUDIES, loss, make_tables, network_of, study
from hypothesis import given, settings
from hypothesis import strategies as st

import gas_check as gas_check_module
from gas_check import check_gas_point
from gas_multistart import MultiStart, solve_from_all
from gridveil.core.choices import DemandUnit
from gridveil.programs import Follower, FollowerSolution, Status
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.generator import generate_gas_network
from gridveil.sectors.gas.network import GasPoint
from gridveil.sectors.gas.ogf import (
    OVERSHOOT,
    cost_error_bound,
    ogf_point,
    ogf_start,
    optimal_gas_flow,
    random_starts,
    scaled_gas,
    smooth_abs,
)

EXPONENT = 2 * 0.4 / 1.4
PIPE = (0.5, 60e3, 0.011)  # diameter, length, friction


def solved(network, demand):
    solution = Follower(optimal_gas_flow(network)).solve(demand)
    assert solution.converged, solution.detail
    point = ogf_point(network, solution.x)
    check = check_gas_point(network, demand * network.flow_base, point)
    assert check.worst < 1e-6, check
    assert check.cost == pytest.approx(solution.cost, abs=cost_error_bound(network) + 1e-5)
    return solution, point


def line_cost(*flows_and_losses: tuple[float, float]) -> float:
    """One compressor at the slack, then a line: it lifts just enough for LOWEST at the end."""
    needed = np.sqrt(LOWEST**2 + sum(lost for _, lost in flows_and_losses))
    return flows_and_losses[0][0] * (max(needed / SLACK, 1.0) ** EXPONENT - 1)


@pytest.mark.parametrize("flow", [20.0, 60.0, 80.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_one_pipe_behind_a_compressor(flow, reverse):
    ends = (2, 1) if reverse else (1, 2)
    network, demand = network_of(make_tables(3, pipes=[(*ends, *PIPE)], compressors=[(0, 1)], deliveries=[(2, flow)]))
    solution, point = solved(network, demand)
    assert solution.cost == pytest.approx(line_cost((flow, loss(*PIPE, flow))), rel=1e-6, abs=1e-4)
    assert point.pipe_flow[0] == pytest.approx(-flow if reverse else flow)


def test_prices_are_the_slope_of_the_closed_form():
    network, demand = network_of(
        make_tables(3, pipes=[(1, 2, *PIPE)], compressors=[(0, 1)], deliveries=[(2, 80.0)]), GasBoundary(flow_base=40.0)
    )
    solution, _ = solved(network, demand)
    step = 1e-4
    up, down = (line_cost((flow, loss(*PIPE, flow))) for flow in (80 + step, 80 - step))
    assert solution.prices[0] == pytest.approx(40.0 * (up - down) / (2 * step), rel=1e-5)


def test_parallel_pipes_share_by_their_resistance():
    thick, thin = PIPE, (0.3, 50e3, 0.013)
    tables = make_tables(3, pipes=[(1, 2, *thick), (2, 1, *thin)], compressors=[(0, 1)], deliveries=[(2, 90.0)])
    solution, point = solved(*network_of(tables))
    conductance = np.array([loss(*pipe, 1.0) ** -0.5 for pipe in (thick, thin)])
    share = 90.0 * conductance / conductance.sum()
    np.testing.assert_allclose(point.pipe_flow, [share[0], -share[1]], rtol=1e-6)
    assert solution.cost == pytest.approx(line_cost((90.0, loss(*thick, share[0]))), rel=1e-6)


def test_receipt_turns_the_flow_around_and_the_compressor_idles():
    """The receipt at the far end gives more than the demand: gas flows back to the slack, through the compressor."""
    tables = make_tables(
        3, pipes=[(1, 2, *PIPE)], compressors=[(0, 1)], receipts=[(2, 70.0), (0, 999.0)], deliveries=[(2, 30.0)]
    )
    solution, point = solved(*network_of(tables))
    assert point.compressor_flow[0] == pytest.approx(-40.0)
    assert solution.cost == pytest.approx(0.0, abs=1e-5)
    assert point.pressure[2] ** 2 == pytest.approx(SLACK**2 + loss(*PIPE, 40.0), rel=1e-6)


def test_links_lose_nothing_and_regulators_lower_the_pressure_for_free():
    tables = make_tables(
        5,
        pipes=[(1, 2, *PIPE)],
        compressors=[(0, 1)],
        links=[(3, 2)],
        regulators=[(3, 4)],
        deliveries=[(3, 60.0), (4, 20.0)],
        p_max={4: LOWEST + 1e5},
    )
    tables = replace(tables, junction=replace(tables.junction, p_min=np.array([1, 1, 1, 1.25, 1]) * LOWEST))
    network, demand = network_of(tables)
    solution, point = solved(network, demand)
    needed = np.sqrt((1.25 * LOWEST) ** 2 + loss(*PIPE, 80.0))
    assert solution.cost == pytest.approx(80.0 * ((needed / SLACK) ** EXPONENT - 1), rel=1e-6)
    assert point.link_flow[0] == pytest.approx(-80.0)
    assert point.pressure[3] == pytest.approx(point.pressure[2])
    assert point.pressure[4] <= LOWEST + 1e5 + 1
    assert point.regulator_ratio[0] < 1


def test_every_regulated_junction_holds_its_pressure():
    tables = make_tables(3, pipes=[(0, 1, *PIPE), (2, 1, *PIPE)], deliveries=[(1, 50.0)], slack={0: SLACK, 2: 5.2e6})
    _, point = solved(*network_of(tables))
    np.testing.assert_allclose(point.pressure[[0, 2]], [SLACK, 5.2e6], rtol=1e-7)
    assert point.pipe_flow.sum() == pytest.approx(50.0)
    assert point.pipe_flow[1] > point.pipe_flow[0]


def test_too_much_demand_is_infeasible():
    tables = make_tables(3, pipes=[(1, 2, *PIPE)], compressors=[(0, 1)], deliveries=[(2, 400.0)])
    network, demand = network_of(tables)
    assert loss(*PIPE, 400.0) > HIGHEST**2 - LOWEST**2
    assert Follower(optimal_gas_flow(network)).solve(demand).status is Status.INFEASIBLE


def test_network_without_compressors_costs_nothing():
    tables = make_tables(2, pipes=[(0, 1, *PIPE)], deliveries=[(1, 10.0)])
    solution, _ = solved(*network_of(tables))
    assert solution.cost == 0.0


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), base=st.floats(0.1, 500.0), data=st.data())
def test_cost_depends_on_neither_flow_base_nor_directions_nor_order(seed, base, data):
    tables = generate_gas_network(deliveries=9, stations=2, seed=seed)
    network, demand = network_of(tables)
    cost = solved(network, demand)[0].cost
    pipe = tables.pipe
    flip = np.array(data.draw(st.lists(st.booleans(), min_size=len(pipe.id), max_size=len(pipe.id))))
    order = np.random.default_rng(seed).permutation(len(pipe.id))
    start, end = np.where(flip, (pipe.to_junction, pipe.from_junction), (pipe.from_junction, pipe.to_junction))
    moved = replace(
        pipe,
        from_junction=start[order],
        to_junction=end[order],
        diameter=pipe.diameter[order],
        length=pipe.length[order],
        friction_factor=pipe.friction_factor[order],
    )
    boundary = GasBoundary(flow_base=base, demand_unit=DemandUnit.JUNCTION)
    other, other_demand = network_of(replace(tables, pipe=moved), boundary)
    np.testing.assert_allclose(other_demand.sum() * base, demand.sum())
    assert solved(other, other_demand)[0].cost == pytest.approx(cost, rel=1e-6)


@pytest.mark.parametrize("name", STUDIES)
def test_nominal_cost_of_the_studies_from_21_starts(name):
    network, demand = study(name)
    follower = Follower(optimal_gas_flow(network))
    starts = [follower.program.x_start, *random_starts(network, demand, count=20, seed=7)]
    found = solve_from_all(follower, demand, starts)
    assert found.best.cost == pytest.approx(STUDIES[name][1], rel=1e-3)
    assert len(found.costs) == found.tried == 21
    assert len(found.optima) == 1, found.optima
    check = check_gas_point(network, demand * network.flow_base, ogf_point(network, found.best.x))
    assert check.worst < 1e-6
    assert check.cost == pytest.approx(found.best.cost, rel=1e-6)


def test_start_balances_the_demand_it_is_given_and_keeps_off_zero_flow():
    network, demand = network_of(generate_gas_network(deliveries=30, stations=4, seed=2))
    gas = scaled_gas(network)
    _, flow, station_flow, _ = np.split(ogf_start(network, demand), gas.sizes[1:-1])
    balance = network.injection / gas.flow
    np.subtract.at(balance, network.site_junction, demand / gas.flow)
    for start, end, flows in (
        (gas.edge_from, gas.edge_to, flow),
        (gas.station_from, gas.station_to, station_flow),
    ):
        np.subtract.at(balance, start, flows)
        np.add.at(balance, end, flows)
    raised = np.sum(np.isclose(np.abs(np.concatenate([flow, station_flow])), 0.05))
    assert np.abs(balance[gas.balanced]).max() <= 0.05 * raised + 1e-9
    assert np.abs(flow).min() >= 0.05


def test_smoothed_absolute_value_is_exact_outside_and_bounded_inside():
    q = ca.MX.sym("q")
    width = 0.25
    value = smooth_abs(q, width)
    function = ca.Function("f", [q], [value, ca.gradient(value, q), ca.hessian(value, q)[0]])
    for point in (-3.0, -0.2501, 0.26, 1e3):
        assert [float(v) for v in function(point)] == [abs(point), np.sign(point), 0.0]
    inside = np.array([[float(v) for v in function(point)] for point in np.linspace(-width, width, 2001)])
    over = inside[:, 0] - np.abs(np.linspace(-width, width, 2001))
    assert over.min() >= -1e-15
    assert over.max() == pytest.approx(OVERSHOOT * width)
    slope = np.gradient(inside[:, 0], 2 * width / 2000)
    np.testing.assert_allclose(slope[1:-1], inside[1:-1, 1], atol=1e-6)
    assert inside[[0, -1], 1].tolist() == [-1.0, 1.0]
    assert inside[[0, -1], 2].tolist() == [0.0, 0.0]


def test_multistart_reports_several_optima_and_keeps_the_best():
    def end(cost: float, status: Status = Status.CONVERGED) -> FollowerSolution:
        return FollowerSolution(status, cost, np.zeros(1), np.zeros(1), 1, 0.0, "", None)

    class Fake:
        ends = iter([end(12.0), end(10.0), end(10.0001), end(1.0, Status.FAILED), end(12.5)])

        def solve(self, d, *, start):
            return next(self.ends)

    found = solve_from_all(Fake(), np.zeros(1), [np.zeros(1)] * 5)
    assert found.best.cost == 10.0
    assert found.tried == 5
    assert found.optima == (10.0, 12.0, 12.5)
    assert MultiStart(best=end(0.0), costs=(-1e-9, 0.0), tried=2).optima == (-1e-9, 0.0)


def test_independent_check_sees_every_kind_of_damage():
    tables = make_tables(
        5,
        pipes=[(1, 2, *PIPE)],
        compressors=[(0, 1)],
        links=[(3, 2)],
        regulators=[(3, 4)],
        deliveries=[(3, 60.0), (4, 20.0)],
    )
    network, demand = network_of(tables)
    lift = 1.5
    after = np.sqrt((lift * SLACK) ** 2 - loss(*PIPE, 80.0))
    good = GasPoint(
        pressure=np.array([SLACK, lift * SLACK, after, after, 0.9 * after]),
        pipe_flow=np.array([80.0]),
        link_flow=np.array([-80.0]),
        compressor_flow=np.array([80.0]),
        compressor_ratio=np.array([lift]),
        regulator_flow=np.array([20.0]),
        regulator_ratio=np.array([0.9]),
    )
    check = check_gas_point(network, demand, good)
    assert check.worst < 1e-14
    assert check.cost == pytest.approx(80.0 * (lift**EXPONENT - 1), rel=1e-14)
    shifted = good.pressure * np.array([1, 1, 1, 1 + 1e-5, 1])
    for field, value, what in (
        ("pressure", shifted, "pipes"),
        ("pressure", shifted, "stations"),
        ("pressure", good.pressure * 0.5, "limits"),
        ("pipe_flow", good.pipe_flow + 1e-2, "balance"),
        ("pipe_flow", good.pipe_flow + 1e-2, "pipes"),
        ("link_flow", good.link_flow + 1e-2, "balance"),
        ("compressor_flow", -good.compressor_flow, "balance"),
        ("compressor_ratio", good.compressor_ratio + 1e-5, "stations"),
        ("compressor_ratio", good.compressor_ratio + 1, "limits"),
        ("regulator_flow", good.regulator_flow + 1e-2, "balance"),
        ("regulator_ratio", good.regulator_ratio + 0.2, "limits"),
    ):
        assert getattr(check_gas_point(network, demand, replace(good, **{field: value})), what) > 1e-6, (field, what)
    assert check_gas_point(network, demand + 1e-2, good).balance > 1e-6


def test_the_check_shares_nothing_with_the_model():
    tree = ast.parse(Path(gas_check_module.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "dataclasses", "numpy.typing", "gridveil.sectors.gas.network"}
    assert "resistance" not in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
