"""The order in which starts are tried and what follows a failure, on a backend that fails as told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closed_forms import band
from gridveil.programs import Status
from gridveil.solvers.backend import Capabilities, Effort, HalfSpace, Start
from gridveil.solvers.solves import Solves
from gridveil.testing.scripted import ScriptedBackend, monotone_script, nominal_program

WEIGHTS = np.array([3.0, 4.0])
TARGET = band(10.0, 0.1)
D = np.array([0.4, 0.6])
GUESS = np.array([7.0])


def backend(fails=lambda call: False, **program):
    """O = s²/2, whose solves fail where the test says so; one more public start than the flat one."""
    script = monotone_script(WEIGHTS, lambda s: s**2 / 2, lambda s: s, lambda cost: float(np.sqrt(2 * cost)))
    nominal = replace(nominal_program(WEIGHTS), more_starts=(lambda _: GUESS,), **program)
    return ScriptedBackend(
        script, nominal, lambda call, answer: replace(answer, status=Status.FAILED) if fails(call) else answer
    )


def everything(_):
    return True


def efforts(asked):
    return [call.effort for call in asked]


def test_the_high_point_from_one_start_after_another():
    tried = backend(everything)
    assert not Solves(tried).highpoint(D, TARGET).converged
    own, dc, relaxed, from_relaxed, feasible, from_feasible, middle = tried.asked("nearest")
    assert middle.start is None and middle.effort is Effort.FULL
    assert own.start is None and own.effort is Effort.FULL
    assert np.array_equal(dc.start.x, GUESS)
    for flat in (relaxed, feasible):
        assert np.array_equal(flat.start.x, tried.program.x_start)
    assert all(call.start.own is None and call.effort is Effort.FULL for call in (dc, from_relaxed, from_feasible))


def test_gas_has_another_way_for_every_start():
    tried = backend(everything, adaptive_barrier=True)
    Solves(tried).highpoint(D, TARGET)
    assert efforts(tried.asked("nearest"))[6:-1] == [Effort.OTHERWISE] * 4


def test_an_acceptable_high_point_is_gone_on_from():
    tried = backend()
    tried.alter = lambda call, answer: replace(answer, status=Status.ACCEPTABLE) if call.number == 1 else answer
    assert Solves(tried).highpoint(D, TARGET).converged
    again = tried.asked("nearest")[1]
    assert len(tried.asked("nearest")) == 2 and again.effort is Effort.FULL
    assert np.array_equal(again.start.d, D) and again.start.x == pytest.approx([TARGET.lower])


@pytest.mark.parametrize(
    ("adaptive", "restarts", "expected"),
    [
        (False, True, [Effort.WARM, Effort.AGAIN, Effort.AGAIN]),
        (True, True, [Effort.WARM, Effort.AGAIN, Effort.AGAIN, Effort.OTHERWISE]),
        (False, False, [Effort.WARM, Effort.AGAIN]),
    ],
)
def test_a_push_that_fails(adaptive, restarts, expected):
    """Warm from the last point, without multipliers from there and from the first, then in another way."""
    tried = backend(everything, adaptive_barrier=adaptive)
    tried.capabilities = Capabilities(accepts=everything, restarts=restarts)
    first, last = (tried.nearest(d, TARGET) for d in (D, 0.9 * D))
    Solves(tried).push(D, TARGET, 0.01, [first, last])
    asked = tried.asked("push")
    assert efforts(asked) == expected
    assert asked[0].start is asked[1].start is last.start
    assert not restarts or asked[2].start is first.start


def test_a_first_push_is_tried_once():
    tried = backend(everything)
    Solves(tried).push(D, TARGET, 0.01, [tried.nearest(D, TARGET)])
    assert efforts(tried.asked("push")) == [Effort.NEAR]


def test_portable_multipliers_are_taken_from_the_last_point_that_has_them():
    class Portable(ScriptedBackend):
        def portable(self, start):
            return start.maker == "quick"

    plain = backend(everything)
    tried = Portable(plain.script, plain.program, plain.alter)
    known = [replace(tried.nearest(D, TARGET), start=Start(GUESS, D, maker)) for maker in ("quick", "quick", "patient")]
    Solves(tried).push(D, TARGET, 0.01, known)
    asked = tried.asked("push")
    assert asked[0].start is known[1].start and asked[1].start is known[2].start


def test_a_cut_is_warm_where_there_is_one_before_it():
    half_space = HalfSpace(WEIGHTS / 5, 0.7)
    tried = backend(lambda call: call.effort is Effort.WARM)
    joint, before = tried.nearest(D, TARGET), tried.nearest(0.9 * D, TARGET)
    assert Solves(tried).cut(D, TARGET, half_space, joint, None).converged
    assert Solves(tried).cut(D, TARGET, half_space, joint, before).converged
    cold, warm, again = tried.asked("cut")
    assert (cold.effort, warm.effort, again.effort) == (Effort.NEAR, Effort.WARM, Effort.AGAIN)
    assert cold.start is again.start is joint.start and warm.start is before.start


def test_a_follower_goes_without_multipliers_where_these_lead_to_a_worse_optimum():
    tried = backend()
    joint, previous = tried.nearest(D, TARGET), tried.dispatch(0.9 * D)
    tried.alter = lambda call, answer: replace(answer, cost=99.0) if call.effort is Effort.WARM else answer
    assert Solves(tried).follow(joint, previous).cost < 99.0
    warm, near = tried.asked("dispatch")[1:]
    assert (warm.effort, near.effort) == (Effort.WARM, Effort.NEAR)
    assert warm.start.last is previous.start and np.array_equal(warm.start.x, joint.x)
    assert near.start is joint.start


def test_a_follower_without_one_before_it_starts_near():
    tried = backend()
    Solves(tried).follow(tried.nearest(D, TARGET), None)
    assert efforts(tried.asked("dispatch")) == [Effort.NEAR]


def test_public_starts():
    tried = backend(lambda call: call.problem == "dispatch")
    Solves(tried).afresh(D)
    own, near, guess = tried.asked("dispatch")
    assert (own.effort, near.effort, guess.effort) == (Effort.FULL, Effort.NEAR, Effort.FULL)
    assert len(tried.asked("nearest")) == 1 and np.array_equal(near.start.d, D)
    assert np.array_equal(guess.start.x, GUESS)


def altered(change):
    """A backend on which ``change(call)`` is added to the cost of a dispatch."""
    tried = backend(starts=(GUESS,))
    tried.alter = lambda call, answer: replace(answer, cost=answer.cost + change(call))
    return tried


def test_released_data_are_solved_from_every_public_start_and_by_the_readers_solver():
    tried = altered(lambda call: 0.0)
    checked = Solves(tried).released(D, own=np.array([5.0]))
    cold, own, flat, other, reader = tried.asked("dispatch")
    assert cold.start is None and cold.effort is Effort.FULL
    assert own.start.x == 5.0 and own.effort is Effort.NEAR
    assert np.array_equal(flat.start.x, tried.program.x_start) and flat.effort is Effort.BRIEF
    assert np.array_equal(other.start.x, GUESS) and other.effort is Effort.FULL
    assert reader.start is None and reader.effort is Effort.READER
    assert len(checked.checks) == 5 and checked.spread == 0.0


@pytest.mark.parametrize("effort", [Effort.FULL, Effort.NEAR, Effort.BRIEF, Effort.READER])
def test_whichever_start_finds_the_cheapest_optimum_gives_the_cost(effort):
    tried = altered(lambda call: -1.0 if call.effort is effort else 0.0)
    cost = tried.dispatch(D, effort=Effort.AGAIN).cost
    checked = Solves(tried).released(D, own=GUESS)
    assert checked.answer.cost == cost - 1.0 and checked.spread == 1.0
    assert checked.holds_in(band(cost - 1.0, 0.5)) and not checked.holds_in(band(cost, 0.5))
    assert {check.cost for check in checked.outside(band(cost - 1.0, 0.5))} == {cost}


def test_a_dispatch_that_diverged_is_told_and_counts_for_nothing():
    tried = altered(lambda call: 0.0)
    tried.alter = lambda call, answer: (
        replace(answer, status=Status.FAILED, cost=-99.0) if call.effort is Effort.READER else answer
    )
    checked = Solves(tried).released(D)
    assert checked.checks[-1].cost is None and checked.checks[-1].ended == Status.FAILED.value
    assert checked.spread == 0.0 and checked.answer.cost > 0


def test_in_large_networks_ipopt_is_asked_if_the_others_disagree(monkeypatch):
    monkeypatch.setattr("gridveil.solvers.solves.QUICK_FOR_IPOPT", 0)
    own = np.array([5.0])
    agreeing, differing = (
        altered(lambda call: 0.0),
        altered(lambda call: float(call.start is not None and call.start.x is own)),
    )
    for tried in (agreeing, differing):
        Solves(tried).released(D, own=own)
        assert efforts(tried.asked("dispatch"))[:3] == [Effort.BRIEF] * 3
    assert Effort.READER not in efforts(agreeing.asked("dispatch"))
    assert Effort.READER in efforts(differing.asked("dispatch"))


def test_a_solve_takes_what_another_start_finds_cheaper_and_keeps_its_own_otherwise():
    def solver_of(change):
        tried = altered(lambda call: change * (call.effort is Effort.READER))
        tried.alter = lambda call, answer, alter=tried.alter: replace(alter(call, answer), iterations=call.number)
        return Solves(tried).best(D).iterations

    assert [solver_of(change) for change in (-1.0, 0.0, 1.0)] == [4, 1, 1]


def test_verification_keeps_the_lowest_cost_that_converged():
    tried = backend()
    joint, known = tried.nearest(D, TARGET), tried.dispatch(D)
    tried.alter = lambda call, answer: (
        replace(answer, status=Status.FAILED)
        if call.effort is Effort.BRIEF
        else replace(answer, cost=known.cost - 1.0)
        if call.effort is Effort.NEAR and call.start is not joint.start
        else answer
    )
    assert Solves(tried).verify(joint, known, TARGET).cost == known.cost - 1.0
    assert efforts(tried.asked("dispatch"))[1:] == [Effort.BRIEF, Effort.NEAR, Effort.NEAR]


def test_verification_in_the_band_needs_one_solve():
    tried, inside = backend(), np.sqrt(20.0) * WEIGHTS / 25
    known = tried.dispatch(inside)
    assert Solves(tried).verify(tried.nearest(inside, TARGET), known, TARGET).converged
    assert efforts(tried.asked("dispatch"))[1:] == [Effort.BRIEF]


@pytest.mark.parametrize("follows_warm", [True, False])
def test_a_verification_does_not_repeat_the_solve_that_found_the_point(follows_warm):
    """Where the fresh solve fails, the joint x without multipliers is next; the follower may have come from just there."""
    failing = {Effort.BRIEF} if follows_warm else {Effort.BRIEF, Effort.WARM}
    tried = backend(lambda call: call.effort in failing)
    joint = tried.nearest(D, TARGET)
    solves = Solves(tried)
    known = solves.follow(joint, tried.dispatch(D))
    before = len(tried.asked("dispatch"))
    assert solves.verify(joint, known, band(known.cost, 0.1)).converged
    assert known.from_x_alone is not follows_warm
    assert efforts(tried.asked("dispatch"))[before:].count(Effort.NEAR) == (1 if follows_warm else 0)


def test_in_large_networks_the_verification_is_the_cold_check(monkeypatch):
    monkeypatch.setattr("gridveil.solvers.solves.QUICK_FOR_IPOPT", 0)
    tried = altered(lambda call: 0.0)
    fresh = replace(Solves(tried).fresh(D), iterations=77)
    before = len(tried.asked("dispatch"))
    checked = Solves(tried).released(D, fresh=fresh)
    assert checked.answer is fresh and checked.checks[0].start == "cold"
    assert all(call.start is not None for call in tried.asked("dispatch")[before:])


def test_in_small_networks_the_cold_check_is_a_solve_of_its_own():
    tried = altered(lambda call: 0.0)
    fresh = Solves(tried).fresh(D)
    Solves(tried).released(D, fresh=fresh)
    assert [call.effort for call in tried.asked("dispatch") if call.start is None][1] is Effort.FULL


def test_a_band_that_no_solver_gets_to_the_edge_of_is_asked_for_in_its_middle():
    tried = backend()
    tried.alter = lambda call, answer: (
        answer if call.problem != "nearest" or call.number >= 7 else replace(answer, status=Status.FAILED)
    )
    assert Solves(tried).highpoint(D, TARGET).converged
    assert len(tried.asked("nearest")) == 7
