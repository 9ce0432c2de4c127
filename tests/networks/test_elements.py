"""DC lines, reactive costs, current limits, compensators, storage and switches: closed forms, equivalents and removal.

Each network is solved by both backends and checked by the independent residuals; removing the element's family must change
the cost.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from conftest import Matpower, optimum, solve_true
from feature_net import feature_net
from gridveil.benchmark.contestant import Point
from gridveil.benchmark.residuals import dispatch_cost, violations
from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.programs.families import Rows, Variable
from gridveil.sectors.power import acopf, dcopf, opf_parts
from gridveil.sectors.power.soc import soc_lower_bound
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.registry import BACKENDS

CHEAP, DEAR = 10.0, 40.0


def two_buses(pd=80.0, qd=0.0, q_dear=(-1000.0, 1000.0), line=True, **branch) -> Matpower:
    """Cheap power at bus 1, a load and dear power at bus 2."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=pd, qd=qd)
    net.add_gen(1, cost=(CHEAP, 0.0))
    net.add_gen(2, cost=(DEAR, 0.0), q=q_dear)
    if line:
        net.add_branch(1, 2, **branch)
    return net


def rich_net(seed: int, *, curve: str = "quadratic") -> Matpower:
    """The network with every feature, and every element besides."""
    net, rng = feature_net(seed, curve=curve), np.random.default_rng(seed)
    net.reactive_cost = [[2, 0, 0, 3, rng.uniform(0.0, 0.05), rng.uniform(-1, 1), 1.0] for _ in net.gen]
    loss = (rng.uniform(0, 0.5), rng.uniform(0, 0.05))
    net.add_dcline(6, 5, p=(-30.0, 40.0), q_from=(-5.0, 5.0), q_to=(-5.0, 5.0), loss=loss, cost=(0.01, 0.4, 0.0))
    net.add_dcline(2, 3, p=(3.0, 9.0), cost=(0.0, 0.0, 0.0))
    net.compensators = [[4, -10.0, 15.0, 1], [5, -5.0, 5.0, 1]]
    net.currents = [float(rng.choice([0.0, 12.0, 50.0])) for _ in net.branch]
    net.add_storage(5, charge=4.0, discharge=6.0, q=(-2.0, 2.0))
    return net


def point_of(network, x: np.ndarray) -> Point:
    grid = network.grid
    sizes = [grid.n_bus] * 2 + [len(grid.generator.bus)] * 2 + [len(grid.dc_line.from_bus), len(grid.compensator.bus)]
    va, vm, pg, qg, dc, susceptance, _ = np.split(x, np.cumsum(sizes))
    return Point(va=va, vm=vm, pg=pg, qg=qg, dc=dc, susceptance=susceptance)


def both(case) -> float:
    """The cost that both backends find, after the independent check of both points."""
    model = build_model(case.network, Formulation.AC)
    costs = []
    for name in ("ipopt", "structured"):
        backend = BACKENDS[name].build(model, False)
        answer = solve_true(case, model, backend)
        assert answer.converged and answer.solver == name
        point = point_of(case.network, answer.x)
        assert violations(case.network, case.values.reveal(), point).largest < 1e-6
        assert dispatch_cost(case.network, point) == pytest.approx(answer.cost, rel=1e-6)
        costs.append(answer.cost)
    assert costs[1] == pytest.approx(costs[0], rel=1e-6)
    return costs[0]


def bound(case) -> float:
    """The relaxed cost, which is exact on a network without loops."""
    value = soc_lower_bound(case.network.grid, case.values.reveal()).value
    assert value is not None
    return value


def no_rows(*_, **__) -> Rows:
    return Rows(acopf.ca.MX.zeros(0, 1), np.zeros(0), np.zeros(0))


def test_a_dc_line_delivers_what_it_draws_less_its_losses(load_text, monkeypatch):
    """No AC line: 50 MW over the DC line arrive as 50 − 1 − 0.04·50 = 47, the other 33 are dear; each MW costs 2 on the way."""
    net = two_buses(line=False)
    net.add_dcline(1, 2, p=(0.0, 50.0), loss=(1.0, 0.04), cost=(2.0, 0.0))
    case = load_text(net.text())
    expected = CHEAP * 50 + 2 * 50 + DEAR * (80 - 47)
    assert both(case) == pytest.approx(expected, rel=1e-6)
    assert bound(case) == pytest.approx(expected, rel=1e-5)
    assert optimum(case, Formulation.DC).cost == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr(opf_parts, "variable_generation", lambda lower, upper: Variable(lower, 2 * upper, upper))
    wider = CHEAP * (81 / 0.96) + 2 * (81 / 0.96)
    assert optimum(case).cost == pytest.approx(wider, rel=1e-6)
    assert optimum(case, Formulation.DC).cost == pytest.approx(wider, rel=1e-6)


def test_a_dc_line_is_left_out_at_a_price(load_text, monkeypatch):
    case = load_text(_with_dc_line(two_buses(line=False)).text())
    assert optimum(case).cost < DEAR * 79
    for module in (acopf, dcopf):
        monkeypatch.setattr(module, "expression_dc_line_power", lambda grid, carried: acopf.ca.MX.zeros(grid.n_bus, 1))
    assert optimum(case).cost == pytest.approx(DEAR * 80, rel=1e-6)
    assert optimum(case, Formulation.DC).cost == pytest.approx(DEAR * 80, rel=1e-6)


def _with_dc_line(net: Matpower) -> Matpower:
    net.add_dcline(1, 2, p=(0.0, 50.0))
    return net


def test_a_negative_limit_of_a_dc_line_is_one_of_the_power_at_its_other_end(load_text):
    """Written backwards with Pmin = −47: no more than 47 MW enter at the to end, bus 1, and 47 − 1 − ... reach bus 2."""
    net = two_buses(line=False)
    net.add_dcline(2, 1, p=(-47.0, 0.0), loss=(1.0, 0.04))
    # (1 − 0.04)·p − 1 = −47 at bus 1, so p = −46/0.96 flows into bus 2.
    arriving = 46 / 0.96
    assert both(load_text(net.text())) == pytest.approx(CHEAP * 47 + DEAR * (80 - arriving), rel=1e-6)


def test_a_dc_line_without_losses_is_two_generators_that_share_one_power(load_text):
    """At the power that the DC line carries, a load at its from end and a generator at its to end cost the same."""
    net = two_buses(qd=20.0, q_dear=(0.0, 0.0), x=0.4, rate=30.0)
    net.add_dcline(1, 2, p=(5.0, 25.0), q_from=(-8.0, 8.0), q_to=(-8.0, 8.0))
    case = load_text(net.text())
    cost = both(case)
    carried = 100 * float(point_of(case.network, optimum(case).x).dc[0])
    tied = two_buses(qd=20.0, q_dear=(0.0, 0.0), x=0.4, rate=30.0)
    tied.add_gen(1, p=(-carried, -carried), q=(-8.0, 8.0), cost=(0.0, 0.0))
    tied.add_gen(2, p=(carried, carried), q=(-8.0, 8.0), cost=(0.0, 0.0))
    assert cost == pytest.approx(optimum(load_text(tied.text())).cost, rel=1e-6)


def test_reactive_power_is_paid_for(load_text, monkeypatch):
    """One bus: 30 MVAr from two generators with marginal costs 0.2·q and 1 + 0.1·q, equal at q = 40/3 and 50/3."""
    net = Matpower()
    net.add_bus(1, kind=3, pd=50, qd=30)
    net.add_gen(1, cost=(CHEAP, 0.0))
    net.add_gen(1, cost=(DEAR, 0.0))
    net.reactive_cost = [[2, 0, 0, 3, 0.1, 0.0, 2.0], [2, 0, 0, 3, 0.05, 1.0, 0.0]]
    first, second = 40 / 3, 50 / 3
    expected = CHEAP * 50 + 0.1 * first**2 + 2 + 0.05 * second**2 + second
    case = load_text(net.text())
    assert both(case) == pytest.approx(expected, rel=1e-7)
    assert bound(case) == pytest.approx(expected, rel=1e-5)
    assert optimum(case, Formulation.DC).cost == pytest.approx(CHEAP * 50, rel=1e-7)
    net.reactive_cost = [[2, 0, 0, 1, 0.0]] * 2
    assert both(load_text(net.text())) == pytest.approx(CHEAP * 50, rel=1e-7)


def test_a_piecewise_linear_cost_of_reactive_power(load_text):
    """Half of 30 MVAr at 0 up to 12, then 2 $/MVAr against a flat 1.5: 12 and 18."""
    net = Matpower()
    net.add_bus(1, kind=3, pd=50, qd=30)
    net.add_gen(1, cost=(CHEAP, 0.0), q=(0.0, 40.0))
    net.add_gen(1, cost=(DEAR, 0.0), q=(0.0, 40.0))
    net.reactive_cost = [[1, 0, 0, 3, 0.0, 0.0, 12.0, 0.0, 40.0, 56.0], [2, 0, 0, 2, 1.5, 0.0, 0, 0, 0, 0]]
    assert both(load_text(net.text())) == pytest.approx(CHEAP * 50 + 1.5 * 18, rel=1e-7)


def test_current_limit(load_text, monkeypatch):
    """|I| = |V1 − V2|/x at both ends, so at v = 1.1: 2v sin(θ/2) = c·x and P = v² sin θ / x."""
    x, c, v = 0.4, 0.3, 1.1
    net = two_buses(x=x)
    net.currents = [100 * c]
    theta = 2 * np.arcsin(c * x / (2 * v))
    imported = 100 * v**2 * np.sin(theta) / x
    case = load_text(net.text())
    assert both(case) == pytest.approx(CHEAP * imported + DEAR * (80 - imported), rel=1e-6)
    assert bound(case) == pytest.approx(CHEAP * imported + DEAR * (80 - imported), rel=1e-5)
    # with |V| = 1 the current is the power
    assert optimum(case, Formulation.DC).cost == pytest.approx(CHEAP * 30 + DEAR * 50, rel=1e-6)
    monkeypatch.setattr(acopf, "constraint_current_limit", no_rows)
    assert optimum(case).cost == pytest.approx(CHEAP * 80, rel=1e-6)


@pytest.mark.parametrize(("rate", "current"), [(33.0, 28.0), (29.0, 40.0)])
def test_of_two_limits_the_tighter_one_binds(load_text, rate, current):
    net = two_buses(x=0.4, rate=rate)
    net.currents = [current]
    alone = two_buses(x=0.4, rate=rate if rate < current else 0.0)
    alone.currents = [0.0 if rate < current else current]
    assert both(load_text(net.text())) == pytest.approx(both(load_text(alone.text())), rel=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_compensator_feeds_its_susceptance_times_the_square_of_the_voltage(load_text, monkeypatch, sign):
    """One bus short (or with a surplus) of reactive power: b·v² makes up for it, so v = √(q/b) at the limit of b, and the
    shunt's G·v² is what costs.
    """
    net = Matpower()
    net.add_bus(1, kind=3, pd=50, qd=20 * sign, gs=10)
    net.add_gen(1, cost=(CHEAP, 0.0), q=(0.0, 0.0))
    net.compensators = [[1, min(0.0, 22.0 * sign), max(0.0, 22.0 * sign), 1]]
    case = load_text(net.text())
    assert both(case) == pytest.approx(CHEAP * (50 + 10 * 20 / 22), rel=1e-6)
    assert bound(case) == pytest.approx(CHEAP * (50 + 10 * 20 / 22), rel=1e-5)
    monkeypatch.setattr(opf_parts, "variable_generation", lambda lower, upper: Variable(2 * lower, 2 * upper, upper))
    assert optimum(case).cost == pytest.approx(CHEAP * (50 + 10 * 0.9**2), rel=1e-6)


def test_a_compensator_without_choice_is_a_shunt(load_text):
    net = feature_net(5, curve="quadratic")
    net.compensators = [[3, 12.0, 12.0, 1], [4, -7.0, -7.0, 1], [4, 900.0, 900.0, 0]]
    fixed = feature_net(5, curve="quadratic")
    fixed.bus[2][5] += 12.0
    fixed.bus[3][5] -= 7.0
    assert both(load_text(net.text())) == pytest.approx(both(load_text(fixed.text())), rel=1e-7)


def test_storage_is_an_injection_within_its_limits(load_text):
    """Discharging 25 MW at bus 2 replaces dear power; the note says what is not modelled."""
    net = two_buses(line=False)
    net.bus[0][2] = 10.0
    net.add_storage(2, charge=10.0, discharge=25.0)
    net.add_storage(2, charge=10.0, discharge=500.0, status=0)
    case = load_text(net.text())
    assert both(case) == pytest.approx(CHEAP * 10 + DEAR * 55, rel=1e-6)
    assert optimum(case, Formulation.DC).cost == pytest.approx(CHEAP * 10 + DEAR * 55, rel=1e-6)
    assert any("storage" in note and "efficiency" in note for note in case.notes)


def switched(state: int, status: int = 1) -> Matpower:
    """Bus 3 with the load hangs on bus 2 by a switch."""
    net = two_buses(pd=30.0, x=0.4, rate=20.0)
    net.add_bus(3, pd=50.0, v=(0.95, 1.05))
    net.add_gen(3, cost=(3 * DEAR, 0.0))
    net.switch = [[2, 3, 0.0, 0.0, state, 1000.0, status]]
    return net


def test_a_closed_switch_merges_its_buses(load_text):
    merged = two_buses(pd=80.0, x=0.4, rate=20.0)
    merged.bus[1][11], merged.bus[1][12] = 1.05, 0.95
    case = load_text(switched(1).text())
    assert both(case) == pytest.approx(both(load_text(merged.text())), rel=1e-6)
    assert len(case.network.bus.id) == 2 and len(case.values) == 2
    assert any("switches" in note for note in case.notes)


@pytest.mark.parametrize(("state", "status"), [(0, 1), (1, 0)])
def test_an_open_switch_is_nothing(load_text, state, status):
    apart = switched(1)
    apart.switch = []
    assert both(load_text(switched(state, status).text())) == pytest.approx(both(load_text(apart.text())), rel=1e-6)


def test_limits_on_currents_stay_with_their_branches_when_a_switch_takes_one_away(load_text):
    """The first branch runs beside the closed switch and vanishes; the limit of the second is its own."""
    net = switched(1)
    net.branch.insert(0, [2, 3, 0.0, 0.1, 0, 0, 0, 0, 0, 0, 1, -60, 60])
    net.currents = [5.0, 18.0]
    case = load_text(net.text())
    assert case.network.branch.current == pytest.approx([0.18])


@pytest.mark.parametrize("curve", ["quadratic", "pieces"])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_all_elements_together(load_text, seed, curve):
    """Both backends agree, and the relaxation is below them: it holds every element."""
    case = load_text(rich_net(seed, curve=curve).text())
    cost = both(case)
    bound = soc_lower_bound(case.network.grid, case.values.reveal())
    assert bound.value is not None and 0.5 * cost < bound.value <= cost * (1 + 1e-7)


@pytest.mark.parametrize("family", ["dcline", "reactive_cost", "currents", "compensators", "storage"])
def test_every_element_matters_there(load_text, family):
    """Without this the network above would test nothing of the family; the bound sees the element as well."""
    costs, bounds = [], []
    for without in (False, True):
        net = rich_net(1)
        if without:
            setattr(net, family, [])
            net.dclinecost = [] if family == "dcline" else net.dclinecost
        case = load_text(net.text())
        costs.append(both(case))
        bounds.append(soc_lower_bound(case.network.grid, case.values.reveal()).value)
    assert abs(costs[0] - costs[1]) > 1e-4 * costs[0]
    assert abs(bounds[0] - bounds[1]) > 1e-4 * costs[0]


def _unnamed_columns(net: Matpower) -> None:
    text = net.text
    net.text = lambda: text() + "mpc.branch_currents = [ 5 ];\n"


BAD = {
    "the same bus": (lambda net: net.add_dcline(1, 1), "same bus"),
    "limits in the wrong order": (lambda net: net.add_dcline(1, 2, p=(5.0, 3.0)), "minimum active power"),
    "all is lost": (lambda net: net.add_dcline(1, 2, loss=(0.0, 1.0)), "losses"),
    "no such bus": (lambda net: net.add_dcline(1, 77), "77"),
    "three rows of costs for two": (lambda net: net.reactive_cost.append([2, 0, 0, 2, 1.0, 0.0]), "gencost"),
    "two limits for one branch": (lambda net: net.currents.extend([1.0, 2.0]), "branch_currents"),
    "a table without names of columns": (_unnamed_columns, "column_names"),
    "a susceptance that is no number": (lambda net: net.compensators.append([1, 1.0, float("nan"), 1]), "not a number"),
    "a switch to nowhere": (lambda net: net.switch.append([1, 77, 0, 0, 1, 0, 1]), "switch 1"),
    "a negative current": (lambda net: net.currents.append(-1.0), "rating"),
    "susceptances in the wrong order": (lambda net: net.compensators.append([1, 2.0, 1.0, 1]), "susceptance"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_meant_is_refused(load_text, name):
    spoil, words = BAD[name]
    net = two_buses()
    spoil(net)
    with pytest.raises(InputError, match=words):
        load_text(net.text())


def test_the_private_target_knows_the_elements(load_text):
    """C_L has no form on the bus graph here, so cones solve it: at a high price it is the relaxed cost, and its slope is right."""
    case = load_text(rich_net(1).text())
    model = build_model(case.network, Formulation.AC)
    d, relaxation = model.layout.to_program(case.values.reveal()), model.relaxation
    price = 20 * relaxation.dearest_price
    found = relaxation.priced_cost(d, price)
    bound = soc_lower_bound(case.network.grid, case.values.reveal()).value
    assert found.value == pytest.approx(bound, rel=1e-5)
    step = 1e-3 * np.random.default_rng(0).standard_normal(len(d))
    rise = relaxation.priced_cost(d + step, price).value - relaxation.priced_cost(d - step, price).value
    assert rise / 2 == pytest.approx(float(found.slope @ step), rel=0.02)


def test_a_release_keeps_its_cost_for_whoever_reads_the_file(load_text, cli, tmp_path):
    """All elements in one release: Ipopt on the written file finds the cost on the card, within the band."""
    load_text(rich_net(1).text(), "rich.m")
    options = ("--epsilon", 1, "--alpha", "2MVA", "--beta", "2%", "--seed", 7, "--simulation", "--json")
    done = cli("release", tmp_path / "rich.m", "--sites", "all", "--out", tmp_path / "out", *options)
    assert done.code == 0, done.err
    card = json.loads(done.out)
    assert abs(card["cost"] - card["cost_target"]) <= card["beta"]
    released = load_case(str(tmp_path / "out" / "public" / "network.m"))
    assert optimum(released).cost == pytest.approx(card["cost"], rel=1e-6)
