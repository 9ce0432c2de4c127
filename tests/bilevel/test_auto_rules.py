"""Each rule of the method auto on a follower in closed form, with answers that go wrong where the test says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closed_forms import band
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.result import Ending, StepKind
from gridveil.bilevel.run import ACCEPTANCE_MARGIN, JOINT_MARGIN
from gridveil.core.deadline import OutOfTimeError
from gridveil.programs import Status
from gridveil.solvers import solves
from gridveil.solvers.backend import Effort
from gridveil.testing.scripted import ScriptedBackend, monotone_script, nominal_program

TARGET = band(10.0, 0.1)
LOWER = TARGET.shrunk(ACCEPTANCE_MARGIN).lower
JOINT_UPPER = TARGET.shrunk(JOINT_MARGIN).upper
AIM = (LOWER + TARGET.shrunk(JOINT_MARGIN).lower) / 2
WEIGHTS = np.array([3.0, 4.0])  # of length 5
SETTINGS = AutoSettings()
NO_PUSHES = AutoSettings(most_pushes=0)


def convex(alter=lambda _, answer: answer, **changed):
    """O = s²/2 for s = 3 d₁ + 4 d₂ ≥ 0: a cut underestimates O, so its point is in the band or above its edge."""
    script = monotone_script(
        WEIGHTS, lambda s: max(s, 0.0) ** 2 / 2, lambda s: max(s, 0.0), lambda cost: float(np.sqrt(2 * cost))
    )
    return ScriptedBackend(replace(script, **changed), nominal_program(WEIGHTS), alter)


def concave(alter=lambda _, answer: answer, **changed):
    """O = 10 √s: a cut overestimates O, so its point stays below the band."""
    script = monotone_script(
        WEIGHTS, lambda s: 10 * np.sqrt(max(s, 0.0)), lambda s: 5 / np.sqrt(s), lambda cost: (cost / 10) ** 2
    )
    return ScriptedBackend(replace(script, **changed), nominal_program(WEIGHTS), alter)


def at(s: float) -> np.ndarray:
    """Data with wᵀd = s that lie off the direction of w."""
    return s * WEIGHTS / 25 + np.array([-0.4, 0.3])


def kinds(result) -> list[StepKind]:
    return [step.kind for step in result.history]


def steps(result, kind: StepKind):
    return [step for step in result.history if step.kind is kind]


def asked_cost(call, d, cost: float, slope: float) -> float:
    """The cost that a cut asked for at its own linearisation around d."""
    return cost + slope * 5 * (call.half_space.offset - call.half_space.normal @ d)


def no_cuts(*_):
    return None


def test_a_cut_from_below_asks_for_the_edge_of_the_band():
    backend = convex()
    result = solve_auto(backend, at(4.2), TARGET, NO_PUSHES)
    first = backend.asked("cut")[0]
    assert kinds(result)[:2] == [StepKind.HIGHPOINT, StepKind.CUT]
    assert first.half_space.normal == pytest.approx(WEIGHTS / 5)
    assert asked_cost(first, at(4.2), 4.2**2 / 2, 4.2) == pytest.approx(AIM, rel=1e-12)
    assert len(steps(result, StepKind.CUT)) == 1 and TARGET.contains(result.history[1].cost)
    assert result.ending is Ending.POLISHED and result.verified


def test_a_cut_that_fell_short_asks_for_more_than_it_missed_by():
    backend = concave()
    result = solve_auto(backend, at(0.7), TARGET, NO_PUSHES)
    short, second = steps(result, StepKind.CUT)[0], backend.asked("cut")[1]
    assert short.cost < LOWER
    s = (short.cost / 10) ** 2
    wanted = AIM + SETTINGS.overshoot * (LOWER - short.cost)
    reached = second.start.d
    assert WEIGHTS @ reached == pytest.approx(s)
    assert asked_cost(second, reached, short.cost, 5 / np.sqrt(s)) == pytest.approx(wanted, rel=1e-9)
    assert second.effort is Effort.WARM
    assert TARGET.contains(steps(result, StepKind.CUT)[1].cost)


def test_a_cut_that_asks_for_too_much_is_halved():
    """At s = 1.5 the slope is so small that the cut's half-space lies beyond what the band allows."""
    backend = convex()
    solve_auto(backend, at(1.5), TARGET, NO_PUSHES)
    first, second = backend.asked("cut")[:2]
    cost = 1.5**2 / 2
    missing = LOWER - cost
    assert asked_cost(first, at(1.5), cost, 1.5) == pytest.approx(AIM, rel=1e-12)
    assert asked_cost(second, at(1.5), cost, 1.5) == pytest.approx(AIM - missing / 2, rel=1e-12)


def test_cuts_from_below_end_where_the_cost_falls():
    """The point that the first cut leads to costs less than the one before: no second cut."""
    backend = convex(
        lambda call, answer: (
            replace(answer, cost=1.0)
            if call.problem == "dispatch" and answer.d is not None and WEIGHTS @ answer.d > 4.3
            else answer
        )
    )
    result = solve_auto(
        backend, at(4.2), TARGET, replace(NO_PUSHES, bisection=replace(SETTINGS.bisection, call_limit=0))
    )
    assert len(steps(result, StepKind.CUT)) == 1
    assert result.ending is Ending.NO_BRACKET


@pytest.mark.parametrize(
    ("gained", "goes_on"), [(SETTINGS.least_gain - 0.01, False), (SETTINGS.least_gain + 0.01, True)]
)
def test_a_cut_that_gains_little_is_the_last(gained, goes_on):
    """The dispatch at the first cut's point costs more than at the high point, by a share of what was missing."""
    before, told = 4.2**2 / 2, []

    def short(call, answer):
        if call.problem == "dispatch" and backend.asked("cut") and not told:
            told.append(call)
            return replace(answer, cost=before + gained * (LOWER - before))
        return answer

    backend = convex(short)
    result = solve_auto(backend, at(4.2), TARGET)
    assert told and result.verified
    assert (len(steps(result, StepKind.CUT)) > 1) == goes_on
    assert (StepKind.DOUBLING in kinds(result)) != goes_on


def ellipse():
    """O = (d₁² + 9 d₂²)/2, whose prices turn from point to point; pushes are not scripted."""
    scale = np.array([1.0, 9.0])

    def cut(noisy, _, half_space):
        return noisy + max(half_space.offset - half_space.normal @ noisy, 0.0) * half_space.normal

    script = replace(
        monotone_script(np.ones(2), float, float, float),
        cost=lambda d: float(scale @ d**2) / 2, prices=lambda d: scale * d, nearest=lambda noisy, _: noisy, cut=cut,
        push=no_cuts,
    )  # fmt: skip
    return ScriptedBackend(script, nominal_program(np.ones(2)))


def test_polishing_ends_with_the_first_small_gain():
    result = solve_auto(ellipse(), np.array([2.6, 1.05]), TARGET, replace(NO_PUSHES, same_cut=0.0))
    distances = [step.delta for step in result.history if step.kind in (StepKind.CUT, StepKind.POLISH)]
    gains = 1 - np.array(distances[1:]) / distances[:-1]
    assert len(gains) >= 2
    assert np.all(gains[:-1] >= SETTINGS.small_gain) and gains[-1] < SETTINGS.small_gain
    assert result.delta == min(distances)


def test_polishing_ends_before_the_same_cut_is_solved_again():
    once = solve_auto(convex(), at(4.43), TARGET, NO_PUSHES)
    again = solve_auto(convex(), at(4.43), TARGET, replace(NO_PUSHES, same_cut=0.0))
    gain = 1 - steps(once, StepKind.POLISH)[-1].delta / steps(once, StepKind.CUT)[-1].delta
    assert gain > SETTINGS.small_gain, "not the small gain ended it"
    assert len(steps(once, StepKind.POLISH)) < len(steps(again, StepKind.POLISH))
    assert once.delta == pytest.approx(again.delta, rel=1e-4)


def test_a_point_hardly_farther_than_the_high_point_is_not_polished():
    """The high point lies aside of the noisy data, and a tiny step from it reaches the band."""
    aside, usual = np.array([-0.8, 0.6]), convex().script
    backend = convex(
        nearest=lambda noisy, _: noisy + aside,
        cut=lambda noisy, band, half_space: usual.cut(noisy + aside, band, half_space),
    )
    result = solve_auto(backend, at(4.44), TARGET)
    assert result.verified and 1 < result.delta < 1 + SETTINGS.narrow
    assert StepKind.POLISH not in kinds(result)


def test_a_bracket_closes_right_above_the_high_point():
    """The band begins 0.05 % beyond the high point: from there to the first radius within 0.15 %, and no nearer."""
    aside, usual, wide = np.array([-0.8, 0.6]), convex().script, band(10.0, 2.0)
    backend = convex(
        cut=no_cuts,
        nearest=lambda noisy, _: noisy + aside,
        push=lambda noisy, band, delta: usual.push(noisy + aside, band, max(delta - 1.0, 0.0)),
    )
    result = solve_auto(backend, at(4.0 - 5 * np.sqrt(5e-4)), wide)
    radii = [step.radius for step in steps(result, StepKind.BISECTION)]
    assert result.verified and 1.0005 <= result.delta <= 1 + SETTINGS.narrow_bracket < radii[-2]
    assert radii[-1] == pytest.approx(result.delta)


def test_a_polish_that_left_the_band_is_repeated_with_more():
    """Its point is nearer but just below the band: the next asks for one and a half times what was missed."""

    def below(call, answer):
        after_the_first_polish = call.problem == "dispatch" and len(backend.asked("cut")) == 2
        return replace(answer, cost=LOWER - 0.01) if after_the_first_polish else answer

    backend = convex(below)
    result = solve_auto(backend, at(4.0), TARGET, NO_PUSHES)
    first, second = backend.asked("cut")[1:3]
    assert kinds(result)[1:4] == [StepKind.CUT, StepKind.POLISH, StepKind.POLISH]
    steepness = 5 * (WEIGHTS @ first.start.d)
    more = steepness * (second.half_space.offset - first.half_space.offset)
    assert more == pytest.approx(SETTINGS.overshoot * 0.01, rel=1e-9)
    assert TARGET.contains(result.history[3].cost)


def test_with_a_point_in_hand_one_push_a_little_nearer_is_enough():
    result = solve_auto(convex(), at(4.2), TARGET)
    (push,) = steps(result, StepKind.ROOT)
    assert push.radius == pytest.approx((1 - SETTINGS.check) * result.delta, rel=1e-9)
    assert push.cost < LOWER and result.ending is Ending.POLISHED


def test_without_cuts_the_way_is_that_of_algorithm_1():
    """The same pushes from the same starts, until no more than ``check`` is left to gain."""
    result, paper = (solve(convex(cut=no_cuts), at(3.0), TARGET) for solve in (solve_auto, solve_bilevel))
    edge = ((np.sqrt(2 * TARGET.lower) - 3.0) / 5) ** 2
    assert edge <= result.delta <= edge * (1 + 2 * SETTINGS.check)
    pushes, theirs = (
        [step for step in one.history if step.kind in (StepKind.DOUBLING, StepKind.BISECTION)]
        for one in (result, paper)
    )
    both = min(len(pushes), len(theirs))
    assert both >= 5 and [step.radius for step in pushes[:both]] == [step.radius for step in theirs[:both]]
    assert StepKind.ROOT not in kinds(result)


def test_nothing_tried_before_changes_the_way_of_algorithm_1():
    """Its pushes start at the high point and at its own points, whatever cuts have reached before."""
    below = concave(lambda call, answer: replace(answer, cost=0.1 + answer.cost) if call.problem == "cut" else answer)
    backend = ScriptedBackend(replace(below.script, cost=jumping(0.9)), below.program)
    auto = solve_auto(backend, at(0.7), TARGET, replace(SETTINGS, most_cuts=1))
    assert steps(auto, StepKind.CUT) and StepKind.BISECTION in kinds(auto)
    first = backend.asked("push")[0]
    assert first.start.d == pytest.approx(at(0.7)) and first.effort is Effort.NEAR


def jumping(at_s: float):
    """O = 10 √s, and nothing at all below a jump."""
    return lambda d: 10 * np.sqrt(WEIGHTS @ d) if WEIGHTS @ d >= at_s else 1.0


def too_far(point):
    """Every cut leads to the same point, so only O↑ can find a nearer one."""
    return lambda *_: point


def test_false_position_between_a_point_below_the_band_and_one_in_it():
    """No guess leaves more than three quarters of the bracket."""
    wide = band(10.0, 2.0)
    lower = wide.shrunk(ACCEPTANCE_MARGIN).lower
    result = solve_auto(convex(cut=too_far(at(4.3))), at(3.0), wide)
    first, second, third = steps(result, StepKind.ROOT)[:3]
    assert first.radius == pytest.approx((1 - SETTINGS.check) * (1.3 / 5) ** 2, rel=1e-9) and wide.contains(first.cost)
    high, missing = np.sqrt(first.delta), lower - 4.5
    guess = missing / (first.cost - 4.5) * high * (1 + SETTINGS.aim_inside)
    assert np.sqrt(second.radius) == pytest.approx(min(guess, 0.75 * high), rel=1e-9) and second.cost < lower
    low = np.sqrt(second.radius)
    share = (lower - second.cost) / (first.cost - second.cost)
    assert np.sqrt(third.radius) == pytest.approx((low + share * (high - low)) * (1 + SETTINGS.aim_inside), rel=1e-9)


def test_a_saturated_push_says_nothing_about_the_slope():
    """O↑ ends at the upper edge of the band: the next radius is a quarter into the bracket, not where the costs point to."""
    aside = at(4.48) + np.array([-0.8, 0.6])
    result = solve_auto(convex(cut=too_far(aside)), at(3.0), TARGET)
    first, second = steps(result, StepKind.ROOT)[:2]
    assert first.cost > JOINT_UPPER - SETTINGS.saturation * TARGET.beta
    assert np.sqrt(second.radius) == pytest.approx(SETTINGS.saturated_share * np.sqrt(first.delta), rel=1e-12)


def failing(numbers):
    return lambda call, answer: (
        replace(answer, status=Status.FAILED) if call.problem == "push" and call.number in numbers else answer
    )


def test_failed_pushes_are_passed_over_until_there_are_too_many():
    """The radius is doubled, as Algorithm 1 does."""
    backend = convex(failing(range(1, 1000)), cut=no_cuts)
    result = solve_auto(backend, at(3.0), TARGET)
    radii = np.array([step.radius for step in steps(result, StepKind.DOUBLING)])
    assert len(radii) == SETTINGS.bisection.failure_limit and np.all(radii[1:] == 2 * radii[:-1])
    assert result.ending is Ending.NO_BRACKET and result.d is None


def test_a_push_that_fails_below_a_point_in_hand_calls_for_the_way_of_algorithm_1():
    """O↑ would have found a nearer point than cuts did, had it answered."""
    aside = at(np.sqrt(2 * AIM)) + np.array([-0.8, 0.6])
    result = solve_auto(convex(failing({1, 2, 3}), cut=too_far(aside)), at(3.0), TARGET)
    assert len(steps(result, StepKind.ROOT)) == 1 and steps(result, StepKind.ROOT)[0].joint_status is Status.FAILED
    edge = ((np.sqrt(2 * TARGET.lower) - 3.0) / 5) ** 2
    assert StepKind.BISECTION in kinds(result) and edge <= result.delta <= (1 + 2 * SETTINGS.check) * edge


def test_a_point_away_from_the_edge_of_the_band_calls_for_the_way_of_algorithm_1():
    """The first push tells that O↑ reaches the band no nearer than a point in its middle, which is not true."""
    misled = lambda call, answer: (  # noqa: E731
        replace(answer, d=at(4.0)) if call.problem == "push" and call.number == 1 else answer
    )
    result = solve_auto(convex(misled, cut=too_far(at(np.sqrt(20.0)))), at(3.0), TARGET)
    (push,) = steps(result, StepKind.ROOT)
    assert push.cost < LOWER
    edge = ((np.sqrt(2 * TARGET.lower) - 3.0) / 5) ** 2
    assert edge <= result.delta <= (1 + 2 * SETTINGS.check) * edge


def test_the_way_of_algorithm_1_ends_where_it_cannot_end_nearer():
    """A point at a tenth of β above the edge, and hardly any room below it: as few pushes as show that."""
    in_band = at(np.sqrt(2 * (LOWER + 0.1 * TARGET.beta)))
    jump = lambda d: 10.0 if np.allclose(d, in_band) else 1.0  # noqa: E731
    backend = convex(cut=too_far(in_band), cost=jump)
    result = solve_auto(backend, at(3.0), TARGET)
    nearest = float(np.sum((in_band - at(3.0)) ** 2))
    radii = [step.radius for step in steps(result, StepKind.DOUBLING)]
    assert result.verified and len(radii) > 1
    assert radii[-2] < (1 - SETTINGS.check) * nearest <= radii[-1]


def surprised(*amounts: float):
    """One fresh solve after another finds an optimum that much lower than the dispatch from the joint point."""
    left = list(amounts)

    def alter(call, answer):
        if call.problem == "dispatch" and call.effort is Effort.BRIEF and left:
            return replace(answer, cost=answer.cost - left.pop(0))
        return answer

    return alter


def test_a_refused_point_is_cut_again_from_the_lower_optimum():
    backend = convex(surprised(0.02))
    result = solve_auto(backend, at(4.2), TARGET, NO_PUSHES)
    first = kinds(result).index(StepKind.VERIFICATION)
    assert kinds(result)[first:][:3] == [StepKind.VERIFICATION, StepKind.CUT, StepKind.VERIFICATION]
    refused, cut = result.history[first], backend.asked("cut")[-1]
    refused_d = cut.start.d
    assert not TARGET.contains(refused.cost)
    assert asked_cost(cut, refused_d, refused.cost, WEIGHTS @ refused_d) == pytest.approx(AIM, rel=1e-9)
    assert result.verified and result.delta > refused.delta


def test_a_second_refusal_asks_for_what_the_optima_differ_by():
    backend = convex(surprised(0.02, 0.05))
    result = solve_auto(backend, at(4.2), TARGET, NO_PUSHES)
    again = backend.asked("cut")[-1]
    refused = [step for step in steps(result, StepKind.VERIFICATION) if not TARGET.contains(step.cost)]
    assert len(refused) == 2
    d = again.start.d
    wanted = AIM + SETTINGS.overshoot * 0.05
    assert asked_cost(again, d, refused[1].cost, WEIGHTS @ d) == pytest.approx(wanted, rel=1e-6)
    assert result.verified


def misled_up_to(threshold: float):
    """The dispatch from a joint point is right; a fresh one finds a lower optimum wherever wᵀd is below the threshold."""

    def alter(call, answer):
        fresh = call.problem == "dispatch" and call.effort in (Effort.BRIEF, Effort.FULL)
        return replace(answer, cost=1.0) if fresh and WEIGHTS @ answer.d < threshold else answer

    return alter


def test_between_the_last_refused_and_the_first_confirmed_point_the_search_goes_on():
    """O↑ reaches the band at s = 4.45, but only from s = 4.47 on does a fresh solve agree: that edge is what is found."""
    edge = ((4.47 - 3.0) / 5) ** 2
    result = solve_auto(convex(misled_up_to(4.47), cut=no_cuts), at(3.0), TARGET)
    assert result.verified and edge <= result.delta <= (1 + 2 * SETTINGS.check) * edge
    assert min(step.delta for step in steps(result, StepKind.VERIFICATION)) < edge


def test_points_that_are_all_refused_hand_over_to_algorithm_1():
    """Fresh solves put every point far below the band: nothing may be returned, after Algorithm 1 has tried as well."""
    alter = lambda call, answer: (  # noqa: E731
        replace(answer, cost=1.0)
        if call.problem == "dispatch" and call.effort in (Effort.BRIEF, Effort.FULL)
        else answer
    )
    result = solve_auto(convex(alter), at(4.2), TARGET)
    assert StepKind.DOUBLING in kinds(result)
    assert result.ending is Ending.NOT_VERIFIED and result.d is None


def test_a_nearer_point_than_that_of_a_cut_from_a_refused_one_is_verified_too():
    """The best point is refused; the cut from there leads past a point that the way of Algorithm 1 had found."""
    refused = []

    def once(call, answer):
        if call.problem == "dispatch" and call.effort is Effort.BRIEF and not refused:
            refused.append(answer.d)
            return replace(answer, cost=1.0)
        return answer

    cut_points = lambda *_: at(4.49) if refused else None  # noqa: E731
    result = solve_auto(convex(once, cut=cut_points), at(3.0), TARGET)
    confirmed_by_cut = float(np.sum((at(4.49) - at(3.0)) ** 2))
    verified = [step.delta for step in steps(result, StepKind.VERIFICATION)]
    assert verified[1] == pytest.approx(confirmed_by_cut) and verified[0] < verified[2] == result.delta < verified[1]


@pytest.mark.parametrize("prices", [lambda _: None, lambda _: np.full(2, 1e-7)])
def test_without_prices_that_say_something_there_is_no_cut(prices):
    backend = convex(prices=prices)
    result = solve_auto(backend, at(3.0), TARGET)
    assert backend.asked("cut") == [] and result.verified


def test_noisy_data_in_the_band_stay_as_they_are():
    noisy = at(float(np.sqrt(20.0)))
    result = solve_auto(convex(), noisy, TARGET)
    assert result.ending is Ending.NOISY_IN_BAND and result.d is noisy


def test_no_high_point_no_release():
    assert solve_auto(convex(nearest=lambda *_: None), at(4.2), TARGET).ending is Ending.NO_HIGHPOINT


def without_ipopt(monkeypatch, solvable, *, in_time=False):
    """As in a large network: a dispatch from a joint point that may not go on to Ipopt is solved only where ``solvable``.

    Ipopt, asked about the first one, answers ``in_time`` or not at all.
    """
    monkeypatch.setattr(solves, "QUICK_FOR_IPOPT", 0)

    def alter(call, answer):
        if call.problem != "dispatch" or call.start is None:
            return answer
        if call.effort is Effort.AGAIN and not in_time:
            raise OutOfTimeError
        on_the_way = call.effort in (Effort.BRIEF, Effort.WARM)
        return replace(answer, status=Status.FAILED) if on_the_way and not solvable(answer.d) else answer

    return alter


def near_dispatches(backend) -> int:
    return sum(call.effort is Effort.NEAR for call in backend.asked("dispatch"))


def test_ipopt_is_not_asked_about_a_point_that_the_search_can_do_without(monkeypatch):
    """O at the high point is not found; a little farther away it is."""
    backend = convex(without_ipopt(monkeypatch, lambda d: WEIGHTS @ d > 4.3))
    result = solve_auto(backend, at(4.2), TARGET)
    edge = ((np.sqrt(2 * TARGET.lower) - 4.2) / 5) ** 2
    assert result.verified and edge <= result.delta <= (1 + 2 * SETTINGS.check) * edge
    assert np.isnan(result.history[0].cost) and near_dispatches(backend) == 0


def test_ipopt_is_asked_about_the_high_point_where_the_search_may_end(monkeypatch):
    """It lies in the band; no other point has a dispatch that is found without Ipopt, which is not asked again."""
    backend = convex(without_ipopt(monkeypatch, lambda _: False, in_time=True))
    result = solve_auto(backend, at(np.sqrt(20.0)), TARGET)
    assert result.verified and kinds(result) == [StepKind.HIGHPOINT, StepKind.VERIFICATION]
    below = convex(without_ipopt(monkeypatch, lambda d: WEIGHTS @ d > 4.45, in_time=True))
    assert solve_auto(below, at(4.2), TARGET).verified
    asked = [call.effort for call in below.asked("dispatch")]
    assert asked.count(Effort.AGAIN) == 1 and Effort.NEAR not in asked


@pytest.mark.parametrize("solve", [solve_auto, solve_bilevel])
def test_where_a_search_in_a_hurry_verifies_nothing_one_with_patience_follows(solve, monkeypatch):
    backend = convex(without_ipopt(monkeypatch, lambda _: False))
    result = solve(backend, at(4.2), TARGET)
    assert result.verified and near_dispatches(backend) > 0
    assert len(backend.asked("nearest")) == 2 and kinds(result).count(StepKind.HIGHPOINT) == 1
