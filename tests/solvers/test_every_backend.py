"""What holds for every backend: the four problems on small networks and closed forms, by means independent of the solver."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partialmethod

import numpy as np
import pytest

from closed_forms import supply
from gridveil.bilevel.bulk import run_together
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.programs import Status
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.backend import Effort, HalfSpace, Start
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.batch.power import PowerBatches
from gridveil.solvers.fallback import Fallback
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.structured.backend import StructuredBackend
from gridveil.testing.checks import check_answer, check_feasible, check_in_band, check_prices
from gridveil.testing.scripted import ScriptedBackend, monotone_script

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
NETWORKS = ["veil2", "veil9"]
BACKENDS = ["ipopt", "structured", "fallback", pytest.param("native", marks=needs_compiler)]
ON_SUPPLY = ["ipopt", "scripted"]
WEIGHTS, SLOPES = np.array([1.0, 2.0]), np.array([1.0, 4.0])
STIFFNESS = float(np.sum(1 / SLOPES))


class InBatches:
    """Batches of one problem each; what they leave goes to the structured solver, as in bulk."""

    def __init__(self, alone, batches):
        self.alone, self.batches, self.solved = alone, batches, 0
        self.name, self.program, self.portable = alone.name, alone.program, alone.portable

    def takes(self, request):
        return self.batches.takes(request)

    def answer(self, requests):
        answers = self.batches.answer(requests)
        self.solved += sum(one.converged for one in answers)
        return answers

    def _asked(self, problem, *given, **more):
        def job(backend):
            return getattr(backend, problem)(*given, **more)

        ((_, outcome),) = run_together([job], self.alone, self)
        return outcome.get()

    dispatch, nearest = partialmethod(_asked, "dispatch"), partialmethod(_asked, "nearest")
    cut, push = partialmethod(_asked, "cut"), partialmethod(_asked, "push")


@cache
def network(name):
    case = load_case(name)
    model = build_model(case.network)
    return model, model.layout.to_program(case.values.reveal())


@cache
def on_network(kind, name):
    model, _ = network(name)
    structured, ipopt = StructuredBackend(model), IpoptBackend(model.program)
    if kind == "native":
        return InBatches(structured, PowerBatches.of_model(model, NativeEngine(threads=1)))
    return {"ipopt": ipopt, "structured": structured, "fallback": Fallback(structured, ipopt)}[kind]


@cache
def on_supply(kind):
    """O = s²/(2 Σ 1/q) for s = wᵀd, by Ipopt and by formula."""
    known = supply(WEIGHTS.tolist(), SLOPES.tolist())
    if kind == "ipopt":
        return IpoptBackend(known.program)
    script = monotone_script(
        WEIGHTS, lambda s: max(s, 0.0) ** 2 / (2 * STIFFNESS), lambda s: max(s, 0.0) / STIFFNESS,
        lambda cost: float(np.sqrt(2 * STIFFNESS * cost)),
    )  # fmt: skip
    return ScriptedBackend(script, known.program)


def around(cost: float, share: float) -> CostTarget:
    return CostTarget(value=cost, beta=share * cost, source=CostTargetMode.PUBLIC)


def half_space_above(answer, more: float) -> HalfSpace:
    """Where the linearised cost exceeds that of a dispatch by ``more``."""
    steepness = float(np.linalg.norm(answer.prices))
    normal = answer.prices / steepness
    return HalfSpace(normal, float(normal @ answer.d) + more / steepness)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", BACKENDS)
class TestNetworks:
    def test_dispatch(self, kind, name):
        backend, (_, d) = on_network(kind, name), network(name)
        answer, reference = backend.dispatch(d), on_network("ipopt", name).dispatch(d)
        check_answer(backend, answer, d, priced=True)
        check_feasible(backend.program, answer)
        assert answer.cost == pytest.approx(reference.cost, rel=1e-6)
        check_prices(backend, d, step=1e-3, tolerance=1e-2)

    def test_nearest(self, kind, name):
        """Demands a third too high for the band come back to the same distance whoever solves."""
        backend, (_, d) = on_network(kind, name), network(name)
        band, noisy = around(backend.dispatch(d).cost, 0.01), 1.3 * d
        answer, reference = backend.nearest(noisy, band), on_network("ipopt", name).nearest(noisy, band)
        check_answer(backend, answer, noisy, priced=False)
        check_feasible(backend.program, answer)
        check_in_band(answer, band)
        assert answer.delta > 1e-4 and answer.delta == pytest.approx(reference.delta, rel=5e-3)

    def test_nearest_feasible(self, kind, name):
        backend, (_, d) = on_network(kind, name), network(name)
        noisy = 6.0 * d
        answer, reference = backend.nearest(noisy, None), on_network("ipopt", name).nearest(noisy, None)
        check_answer(backend, answer, noisy, priced=False)
        check_feasible(backend.program, answer)
        assert answer.delta > 0.01 and answer.delta == pytest.approx(reference.delta, rel=1e-3)

    def test_cut(self, kind, name):
        """The half-space binds: its edge is met, and no backend finds a nearer point."""
        backend, (_, d) = on_network(kind, name), network(name)
        at = on_network("ipopt", name).dispatch(d)
        band, edge = around(at.cost, 0.05), half_space_above(at, 0.02 * at.cost)
        start = backend.nearest(d, band).start
        answer = backend.cut(d, band, edge, start=start)
        reference = on_network("ipopt", name).cut(d, band, edge, start=Start(at.x, d))
        check_answer(backend, answer, d, priced=False)
        check_feasible(backend.program, answer)
        check_in_band(answer, band)
        assert edge.normal @ answer.d == pytest.approx(edge.offset, abs=1e-5)
        assert answer.delta == pytest.approx(reference.delta, rel=1e-3)

    def test_push(self, kind, name):
        """The ball binds, and the proxy is as large as anybody gets it."""
        backend, (_, d) = on_network(kind, name), network(name)
        band, delta = around(backend.dispatch(d).cost, 0.5), 1e-3
        start = backend.nearest(d, band).start
        answer = backend.push(d, band, delta, start=start)
        reference = on_network("ipopt", name).push(d, band, delta, start=start)
        check_answer(backend, answer, d, priced=False)
        check_feasible(backend.program, answer)
        check_in_band(answer, band)
        assert answer.delta == pytest.approx(delta, rel=1e-3)
        assert answer.proxy == pytest.approx(reference.proxy, rel=1e-5)
        active = len(d) // 2
        assert answer.proxy == pytest.approx(d[:active].sum() + np.sqrt(active * delta), rel=1e-3)

    def test_demands_that_cannot_be_served_have_no_dispatch(self, kind, name):
        backend, (_, d) = on_network(kind, name), network(name)
        assert backend.dispatch(20.0 * d).status is not Status.CONVERGED

    def test_a_band_below_every_cost_has_no_high_point(self, kind, name):
        backend, (_, d) = on_network(kind, name), network(name)
        below = CostTarget(value=-1e6, beta=1.0, source=CostTargetMode.PUBLIC)
        assert backend.nearest(d, below).status is not Status.CONVERGED

    @pytest.mark.parametrize("effort", [Effort.NEAR, Effort.WARM, Effort.AGAIN])
    @pytest.mark.parametrize("maker", ["ipopt", "structured"])
    def test_a_start_of_another_backend_is_as_good(self, kind, name, maker, effort):
        """Through x and d alone, and whatever comes of it, the answer is the same."""
        backend, (_, d) = on_network(kind, name), network(name)
        made = on_network(maker, name).dispatch(1.01 * d).start
        answer = backend.dispatch(d, start=made, effort=effort)
        check_answer(backend, answer, d, priced=True)
        assert answer.cost == pytest.approx(on_network("ipopt", name).dispatch(d).cost, rel=1e-6)

    def test_a_start_moves(self, kind, name):
        backend, (_, d) = on_network(kind, name), network(name)
        start = backend.dispatch(1.02 * d).start
        moved = replace(start, x=backend.dispatch(d).x, d=d)
        assert moved.maker == start.maker and moved.own is start.own
        assert backend.dispatch(d, start=moved, effort=Effort.WARM).converged


@needs_compiler
def test_batches_solve_the_four_problems_by_themselves():
    """Of veil2, whose demands are small, dispatches are left to the structured solver."""
    backend, (_, d) = on_network("native", "veil9"), network("veil9")
    before, at = backend.solved, backend.dispatch(d)
    band = around(at.cost, 0.05)
    nearest = backend.nearest(1.3 * d, band)
    backend.cut(d, band, half_space_above(at, 0.02 * at.cost), start=backend.nearest(d, band).start)
    backend.push(d, band, 1e-3, start=nearest.start)
    assert backend.solved - before == 5


def test_only_the_maker_of_a_start_knows_its_multipliers():
    (_, d), ipopt, structured = network("veil9"), on_network("ipopt", "veil9"), on_network("structured", "veil9")
    fallback = on_network("fallback", "veil9")
    by_structure, by_ipopt = structured.dispatch(d).start, ipopt.dispatch(d).start
    assert structured.portable(by_structure) and fallback.portable(by_structure)
    assert not any(backend.portable(by_ipopt) for backend in (ipopt, structured, fallback))


def test_the_structured_solver_refuses_a_guess_and_the_fallback_passes_it_on():
    (_, d), x = network("veil9"), network("veil9")[0].program.x_start
    refused = on_network("structured", "veil9").dispatch(d, start=Start(x, d), effort=Effort.FULL)
    assert refused.status is Status.FAILED and refused.prices is None and np.isnan(refused.cost)
    passed = on_network("fallback", "veil9").dispatch(d, start=Start(x, d), effort=Effort.FULL)
    assert passed.converged and passed.solver == "ipopt"


@pytest.mark.parametrize(
    ("effort", "asked"),
    [
        (Effort.FULL, ["first", "second"]), (Effort.NEAR, ["first", "second"]), (Effort.BRIEF, ["first"]),
        (Effort.WARM, ["first"]), (Effort.AGAIN, ["second"]), (Effort.OTHERWISE, ["second"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("problem", ["dispatch", "nearest", "cut", "push"])
def test_who_is_asked(problem, effort, asked):
    """By both of a fallback, if the first fails at everything."""
    good, order = on_supply("scripted"), []

    def noted(name, status):
        def alter(_, answer):
            order.append(name)
            return replace(answer, status=status)

        return ScriptedBackend(good.script, good.program, alter, name=name)

    backend = Fallback(noted("first", Status.FAILED), noted("second", Status.CONVERGED))
    d, band = np.array([1.0, 1.0]), around(2.0, 0.1)
    start = Start(np.ones(2), d)
    answer = {
        "dispatch": lambda: backend.dispatch(d, start=start, effort=effort),
        "nearest": lambda: backend.nearest(d, band, start=start, effort=effort),
        "cut": lambda: backend.cut(d, band, HalfSpace(WEIGHTS, 0.0), start=start, effort=effort),
        "push": lambda: backend.push(d, band, 0.1, start=start, effort=effort),
    }[problem]()
    assert order == asked and answer.solver == asked[-1]


@pytest.mark.parametrize("kind", ON_SUPPLY)
class TestClosedForms:
    """O and every joint problem of ``supply`` by a formula that is written here."""

    noisy = np.array([0.5, 1.0])
    band = around(3.2, 0.02)

    def s(self, cost):
        return np.sqrt(2 * STIFFNESS * cost)

    def test_dispatch(self, kind):
        answer = on_supply(kind).dispatch(self.noisy)
        assert answer.cost == pytest.approx(2.5**2 / (2 * STIFFNESS), rel=1e-6)
        assert answer.prices == pytest.approx(2.5 / STIFFNESS * WEIGHTS, rel=1e-5)

    def test_nearest(self, kind):
        noisy = np.array([1.0, 2.0])
        answer = on_supply(kind).nearest(noisy, self.band)
        assert answer.delta == pytest.approx((5.0 - self.s(self.band.upper)) ** 2 / 5, rel=1e-3)

    def test_cut(self, kind):
        """wᵀd ≥ 2.7 is met along w; a half-space in another direction along its own normal."""
        backend = on_supply(kind)
        start = backend.nearest(self.noisy, self.band).start
        along = backend.cut(self.noisy, self.band, HalfSpace(WEIGHTS / np.sqrt(5), 2.7 / np.sqrt(5)), start=start)
        assert along.delta == pytest.approx(0.2**2 / 5, rel=1e-3)
        across = backend.cut(self.noisy, self.band, HalfSpace(np.array([0.0, 1.0]), 1.1), start=start)
        assert across.d == pytest.approx([0.5, 1.1], abs=1e-4)

    def test_a_half_space_beyond_the_band(self, kind):
        backend = on_supply(kind)
        start = backend.nearest(self.noisy, self.band).start
        beyond = HalfSpace(WEIGHTS / np.sqrt(5), (self.s(self.band.upper) + 0.5) / np.sqrt(5))
        assert not backend.cut(self.noisy, self.band, beyond, start=start).converged

    def test_push(self, kind):
        backend = on_supply(kind)
        start = backend.nearest(self.noisy, self.band).start
        assert backend.push(self.noisy, self.band, 0.01, start=start).proxy == pytest.approx(
            2.5 + 0.1 * np.sqrt(5), rel=1e-4
        )
        far = backend.push(self.noisy, self.band, 1.0, start=start)
        assert far.proxy == pytest.approx(self.s(self.band.upper), rel=1e-3)

    def test_prices(self, kind):
        check_prices(on_supply(kind), self.noisy, step=1e-3, tolerance=1e-4)
