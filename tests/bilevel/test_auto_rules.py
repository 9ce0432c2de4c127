"""Each rule of the method auto on a follower in closed form, with answers that go wrong where the test says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closed_forms import band
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import AutoSettings
from gridveil.bilevel.result import Ending, StepKind
from gridveil.bilevel.run import ACCEPTANCE_MARGIN, JOINT_MARGIN
from gridveil.programs import Status
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


def test_the_root_search_finds_the_edge_of_the_band_without_cuts():
    result = solve_auto(convex(cut=no_cuts), at(3.0), TARGET)
    edge = ((np.sqrt(2 * TARGET.lower) - 3.0) / 5) ** 2
    assert edge <= result.delta <= edge * (1 + 2 * SETTINGS.check)
    assert len(steps(result, StepKind.ROOT)) <= 16 and StepKind.DOUBLING not in kinds(result)


def test_false_position_between_a_point_below_the_band_and_one_in_it():
    """The first guess follows the prices; no guess leaves more than three quarters of the bracket."""
    wide = band(10.0, 2.0)
    lower = wide.shrunk(ACCEPTANCE_MARGIN).lower
    result = solve_auto(convex(cut=no_cuts), at(3.0), wide)
    first, second, third = steps(result, StepKind.ROOT)[:3]
    assert np.sqrt(first.radius) == pytest.approx((lower - 4.5) / 15, rel=1e-9) and wide.contains(first.cost)
    assert np.sqrt(second.radius) == pytest.approx(0.75 * np.sqrt(first.delta), rel=1e-9) and second.cost < lower
    low, high = np.sqrt(second.radius), np.sqrt(first.delta)
    share = (lower - second.cost) / (first.cost - second.cost)
    assert np.sqrt(third.radius) == pytest.approx((low + share * (high - low)) * (1 + SETTINGS.aim_inside), rel=1e-9)


def test_a_saturated_push_says_nothing_about_the_slope():
    """O↑ ends at the upper edge of the band: the next radius is a quarter into the bracket, not where the costs point to."""
    result = solve_auto(convex(cut=no_cuts), at(3.0), TARGET)
    first, second = steps(result, StepKind.ROOT)[:2]
    assert first.cost > JOINT_UPPER - SETTINGS.saturation * TARGET.beta
    assert np.sqrt(second.radius) == pytest.approx(SETTINGS.saturated_share * np.sqrt(first.delta), rel=1e-12)


def failing(numbers):
    return lambda call, answer: (
        replace(answer, status=Status.FAILED) if call.problem == "push" and call.number in numbers else answer
    )


def test_failed_pushes_are_passed_over_until_there_are_too_many():
    """The radius grows, and after the fifth failure Algorithm 1 takes over."""
    backend = convex(failing(range(1, 1000)), cut=no_cuts)
    result = solve_auto(backend, at(3.0), TARGET)
    roots = [step.radius for step in steps(result, StepKind.ROOT)]
    assert len(roots) == SETTINGS.most_failures + 1
    assert np.sqrt(roots[1:]) / np.sqrt(roots[:-1]) == pytest.approx(SETTINGS.growth)
    assert len(steps(result, StepKind.DOUBLING)) == SETTINGS.bisection.failure_limit
    assert result.ending is Ending.NO_BRACKET and result.d is None


def test_the_first_failed_push_ends_a_search_with_a_point_in_hand():
    result = solve_auto(convex(failing(range(1, 1000))), at(4.2), TARGET)
    assert len(steps(result, StepKind.ROOT)) == 1
    assert result.verified and StepKind.DOUBLING not in kinds(result)


def test_after_a_failure_the_widest_gap_is_halved():
    """The first radius fails, the second is in the band: then not false position but the middle, away from the failure."""
    backend = concave(failing({1}), cut=no_cuts)
    result = solve_auto(backend, at(0.7), TARGET)
    failed, inside, third = steps(result, StepKind.ROOT)[:3]
    assert failed.joint_status is Status.FAILED and TARGET.contains(inside.cost)
    assert 2 * failed.radius > inside.delta > failed.radius
    assert np.sqrt(third.radius) == pytest.approx(np.sqrt(failed.radius) / 2, rel=1e-12)


def test_without_a_point_in_hand_a_push_that_stays_below_the_band_ends_the_search():
    """Where O is concave its prices promise too much: the first guess falls short, and Algorithm 1 takes over."""
    result = solve_auto(concave(cut=no_cuts), at(0.7), TARGET)
    (push,) = steps(result, StepKind.ROOT)
    assert push.cost < LOWER
    assert StepKind.DOUBLING in kinds(result) and result.verified


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
    assert kinds(result)[-3:] == [StepKind.VERIFICATION, StepKind.CUT, StepKind.VERIFICATION]
    refused, cut = result.history[-3], backend.asked("cut")[-1]
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


def test_algorithm_1_is_the_last_resort():
    """Cuts fail, and so do more pushes than the root search bears; from then on O↑ answers."""
    backend = convex(failing(range(1, SETTINGS.most_failures + 2)), cut=no_cuts)
    result = solve_auto(backend, at(3.0), TARGET)
    assert StepKind.DOUBLING in kinds(result) and StepKind.BISECTION in kinds(result)
    edge = ((np.sqrt(2 * TARGET.lower) - 3.0) / 5) ** 2
    assert result.verified and edge <= result.delta <= edge + SETTINGS.bisection.eta


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
