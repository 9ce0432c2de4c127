"""A backend from outside: written against the contract alone, registered by name, and good for a repair."""

from __future__ import annotations

import pytest

from gridveil.bilevel.repair import repair
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.methods import Method
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.backend import Answer, Capabilities, Effort, Start, usual_effort
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.registry import BACKENDS, BackendEntry, backend_for, register_backend

TOY = "toy"


class ToyBackend:
    """Passes every problem on to Ipopt from x and d alone, has no multipliers to offer and counts what it is asked."""

    name = TOY
    capabilities = Capabilities(accepts=lambda model: model.kind == "power")

    def __init__(self, model):
        self.program = model.program
        self.inner = IpoptBackend(model.program)
        self.asked = {"dispatch": 0, "nearest": 0, "cut": 0, "push": 0}

    def prepare(self):
        self.inner.prepare()

    def portable(self, start):
        return False

    def dispatch(self, d, *, start=None, effort=None):
        return self._pass_on("dispatch", start, usual_effort(start, effort), d)

    def nearest(self, noisy, band, *, start=None, effort=None):
        return self._pass_on("nearest", start, usual_effort(start, effort), noisy, band)

    def cut(self, noisy, band, half_space, *, start, effort=Effort.NEAR):
        return self._pass_on("cut", start, effort, noisy, band, half_space)

    def push(self, noisy, band, delta, *, start, effort=Effort.NEAR):
        return self._pass_on("push", start, effort, noisy, band, delta)

    def _pass_on(self, problem, start, effort, *given) -> Answer:
        assert start is None or start.own is None, "a start of somebody else's"
        self.asked[problem] += 1
        found = getattr(self.inner, problem)(*given, start=start, effort=effort)
        return Answer(
            status=found.status, x=found.x, d=found.d, cost=found.cost, delta=found.delta, proxy=found.proxy,
            start=Start(found.x, found.d, TOY), solver=TOY, prices=found.prices,
        )  # fmt: skip


@pytest.fixture
def built(monkeypatch):
    """The toy backends that were built, with the toy in the registry for the length of one test."""
    made = []

    def build(model, _verbose):
        made.append(ToyBackend(model))
        return made[-1]

    monkeypatch.setattr("gridveil.solvers.registry.BACKENDS", dict(BACKENDS))
    register_backend(TOY, BackendEntry(capabilities=ToyBackend.capabilities, build=build))
    return made


@pytest.mark.parametrize("method", list(Method))
def test_a_repair_with_a_backend_from_outside(built, method):
    case = load_case("veil9")
    model = build_model(case.network)
    backend = backend_for(model, TOY)
    truth = model.layout.to_program(case.values.reveal())
    target = Tolerance.parse("1%").around(backend.dispatch(truth).cost, CostTargetMode.PUBLIC)
    noisy = simulate_laplace(case.values, epsilon=1.0, alpha=0.1, seed=1)
    released = repair(backend, model.layout, noisy, target, method)
    reference = repair(IpoptBackend(model.program), model.layout, noisy, target, method)
    assert backend is built[0] and backend.asked["nearest"] == 1 and backend.asked["dispatch"] > 2
    assert backend.asked["push"] > 0 and (backend.asked["cut"] > 0) == (method is Method.AUTO)
    assert target.contains(released.result.cost)
    assert released.result.delta == pytest.approx(reference.result.delta, rel=5e-3, abs=1e-9)


def test_what_it_does_not_accept_is_solved_by_ipopt(built):
    assert backend_for(build_model(load_case("veilgas").network), TOY).name == "ipopt" and not built


def test_a_name_is_given_once_and_must_be_known(built):
    with pytest.raises(InputError, match="'toy' already"):
        register_backend(TOY, BACKENDS["ipopt"])
    with pytest.raises(InputError, match="no solver 'abacus'; known are structured, ipopt, toy"):
        backend_for(build_model(load_case("veil2").network), "abacus")
