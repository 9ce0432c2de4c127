"""The time limit: what it cuts, what it leaves, and that a solve of Ipopt ends with it."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from closed_forms import band, supply
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.bilevel.result import Ending
from gridveil.bilevel.run import SEARCH_SHARE
from gridveil.core import deadline
from gridveil.core.deadline import OutOfTimeError, check_time, seconds_left, time_limit, usual_time_limit
from gridveil.core.errors import NoReleaseError
from gridveil.programs import Status, interrupt, nlp
from gridveil.solvers.backend import Effort, HalfSpace
from gridveil.solvers.fallback import SECOND_SHARE, Fallback
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.testing.scripted import ScriptedBackend, monotone_script, nominal_program

TARGET = band(10.0, 0.1)
WEIGHTS = np.array([3.0, 4.0])
CAREFUL = BisectionSettings(eta=1e-9)
NOISY = 4.2 * WEIGHTS / 25
METHODS = pytest.mark.parametrize("solve", [solve_auto, solve_bilevel])


def scripted(alter=lambda _, answer: answer):
    """O = s²/2 for s = 3 d₁ + 4 d₂ ≥ 0."""
    script = monotone_script(
        WEIGHTS, lambda s: max(s, 0.0) ** 2 / 2, lambda s: max(s, 0.0), lambda cost: float(np.sqrt(2 * cost))
    )
    return ScriptedBackend(script, nominal_program(WEIGHTS), alter)


def over(problem: str, number: int):
    """The time for the search is over in that call of that problem."""

    def alter(call, answer):
        if call.problem == problem and call.number == number:
            raise OutOfTimeError
        return answer

    return alter


def test_of_nested_limits_the_first_to_end_counts_and_each_ends_with_its_block():
    assert seconds_left() == math.inf
    with time_limit(100.0):
        with time_limit(1000.0):
            assert seconds_left() <= 100.0
        with time_limit(-1.0), pytest.raises(OutOfTimeError):
            check_time()
        assert 90.0 < seconds_left() <= 100.0
    check_time()
    assert seconds_left() == math.inf


def test_the_usual_limit_grows_with_the_network():
    assert usual_time_limit(9) < usual_time_limit(9241) < usual_time_limit(78484) < 3600


def test_running_out_of_time_is_a_release_that_was_not_found():
    assert issubclass(OutOfTimeError, NoReleaseError) and OutOfTimeError.exit_code == 3


@METHODS
def test_before_a_point_is_found_there_is_none(solve):
    result = solve(scripted(over("nearest", 1)), NOISY, TARGET)
    assert result.ending is Ending.OUT_OF_TIME and result.d is None and not result.verified


@pytest.mark.parametrize(("solve", "problem", "number"), [(solve_auto, "cut", 2), (solve_bilevel, "push", 4)])
def test_the_best_point_so_far_is_verified_and_kept(solve, problem, number):
    whole = solve(scripted(), NOISY, TARGET)
    result = solve(scripted(over(problem, number)), NOISY, TARGET)
    assert result.ending is Ending.TIME_LIMIT and result.verified
    assert TARGET.contains(result.cost) and whole.delta <= result.delta < 2 * whole.delta


def test_a_point_that_there_is_no_time_to_verify_is_none():
    def alter(call, answer):
        verifies = call.problem == "dispatch" and call.effort is Effort.BRIEF
        if verifies or (call.problem == "cut" and call.number == 2):
            raise OutOfTimeError
        return answer

    result = solve_auto(scripted(alter), NOISY, TARGET)
    assert result.ending is Ending.OUT_OF_TIME and result.d is None


def test_a_search_leaves_time_for_the_verification(monkeypatch):
    """Each solve takes a second. Algorithm 1 needs more than 70, so it is cut off at 52, and verified in the rest."""
    seconds = [0.0]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))

    def slow(_, answer):
        check_time()
        seconds[0] += 1.0
        return answer

    whole = solve_bilevel(scripted(slow), NOISY, TARGET, CAREFUL)
    assert seconds[0] > 70
    seconds[0] = 0.0
    with time_limit(70.0):
        result = solve_bilevel(scripted(slow), NOISY, TARGET, CAREFUL)
    assert result.ending is Ending.TIME_LIMIT and result.verified and result.delta >= whole.delta
    assert 70 * SEARCH_SHARE < seconds[0] <= 70


def test_ipopt_stops_at_its_next_iteration(monkeypatch):
    """The time ends after the first iteration; the solve is abandoned there, not finished."""
    known = supply([1.0, 2.0], [1.0, 4.0])
    backend = IpoptBackend(known.program)
    d = np.array([1.0, 1.5])
    assert backend.dispatch(d).iterations > 3
    looks = []

    def left():
        looks.append(None)
        return 1.0 if len(looks) == 1 else -1.0

    def late():
        if len(looks) > 1:
            raise OutOfTimeError

    monkeypatch.setattr(interrupt, "seconds_left", left)
    monkeypatch.setattr(nlp, "check_time", late)
    with pytest.raises(OutOfTimeError):
        backend.dispatch(d)
    assert len(looks) == 2


def fallback(second):
    first = scripted(lambda call, answer: replace(answer, status=Status.FAILED, solver="first"))
    return Fallback(first, scripted(second))


def test_the_second_solver_gets_a_share_of_the_time_only():
    given = []

    def second(_, answer):
        given.append(seconds_left())
        raise OutOfTimeError

    backend = fallback(second)
    with time_limit(100.0):
        answer = backend.dispatch(NOISY)
        joint = backend.push(NOISY, TARGET, 1.0, start=answer.start, effort=Effort.AGAIN)
    assert answer.solver == "first" and not answer.converged
    assert joint.status is Status.FAILED and joint.delta == 0.0
    assert all(0.9 * SECOND_SHARE * 100 < seconds <= SECOND_SHARE * 100 for seconds in given)


def test_the_second_solver_does_not_swallow_the_end_of_the_whole_time():
    def second(call, answer):
        raise OutOfTimeError

    with time_limit(-1.0), pytest.raises(OutOfTimeError):
        fallback(second).dispatch(NOISY)


@pytest.mark.parametrize("problem", ["cut", "push"])
def test_what_the_first_finds_impossible_is_not_given_to_the_second(problem):
    first = scripted(lambda call, answer: replace(answer, status=Status.INFEASIBLE))
    second = scripted()
    backend = Fallback(first, second)
    start = first.nearest(NOISY, TARGET).start
    if problem == "push":
        answer = backend.push(NOISY, TARGET, 1.0, start=start)
    else:
        answer = backend.cut(NOISY, TARGET, HalfSpace(WEIGHTS / 5, 0.9), start=start)
    assert answer.status is Status.INFEASIBLE and second.calls == []
    assert backend.nearest(NOISY, TARGET).converged and len(second.calls) == 1
