"""Algorithm 1 in rows of arrays: the steps of single releases, every way to be handed back, and both methods side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from device_arrays import DeviceEngine
from gridveil.bilevel.bulk import run_together
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import BisectionSettings
from gridveil.bilevel.result import Ending, StepKind
from gridveil.bilevel.run import ACCEPTANCE_MARGIN
from gridveil.bilevel.together import search as together_search
from gridveil.bilevel.together.algorithm1 import Algorithm1Search
from gridveil.bilevel.together.offer import Asked
from gridveil.bilevel.together.releases import TogetherReleases, release_together
from gridveil.bilevel.together.rows import Doing, HandOver, StartAt
from gridveil.core.band import DataRows
from gridveil.core.choices import DemandBounds
from gridveil.core.methods import Method
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from together_settings import COLD, NEAR, THIN, WARM, Refusing, Setting, assert_same, failing, spoiled

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))

SETTINGS = BisectionSettings()


def in_rows(setting, settings=SETTINGS):
    return setting.together(settings=settings)


def searched(found):
    """Rows that finished with a point that Algorithm 1 had to search."""
    return np.flatnonzero(found.finished & ~found.at_once)


def assert_closed(result, target, eta):
    """The paper's own words: doubled, then halved, until the bracket between what fails and what works is narrow."""
    kinds = [step.kind for step in result.history]
    pushes = [step for step in result.history if step.kind in (StepKind.DOUBLING, StepKind.BISECTION)]
    assert result.ending is Ending.BRACKET_CLOSED and result.optimisations == 1 + len(pushes)
    assert kinds == [StepKind.HIGHPOINT, *(step.kind for step in pushes), StepKind.VERIFICATION]
    doubled = [step.radius for step in pushes if step.kind is StepKind.DOUBLING]
    assert doubled[0] == max(2 * result.highpoint.delta, eta)
    assert np.array_equal(doubled[1:], 2 * np.array(doubled[:-1]))
    lower, upper = result.highpoint.delta, np.inf
    for step in pushes:
        assert upper - lower > eta
        if step.kind is StepKind.BISECTION:
            assert step.radius == (lower + upper) / 2
        if step.cost < target.lower:
            lower = step.radius
        else:
            upper = min(upper, step.delta)
    assert upper - lower <= eta and result.delta == upper


@pytest.mark.parametrize(
    "name, settings, count",
    [
        ("case14_ieee", [(0.1, "1%"), (0.02, "10%"), (0.3, "0.5%"), (1.0, "1%")], 8),
        ("case30_ieee", [(0.05, "5%"), (0.1, "1%"), (0.12, "2%")], 8),
        ("case57_ieee", [(0.1, "1%"), (1.0, "1%")], 8),
        ("case118_ieee", [(0.1, "1%"), (1.0, "1%"), (0.1, "0.1%")], 6),
    ],
)
def test_rows_are_those_of_single_releases(name, settings, count):
    setting = Setting(name, settings, count)
    found, endings = in_rows(setting), set()
    assert found.finished.mean() >= 0.95
    for row in np.flatnonzero(found.finished):
        alone = setting.alone(row, solve_bilevel)
        assert_same(found.result(row), alone, setting.targets[row])
        endings.add(alone.ending)
    assert {Ending.BRACKET_CLOSED, Ending.HIGHPOINT_IN_BAND} <= endings
    for row in searched(found):
        assert_closed(found.result(row), setting.targets[row].shrunk(ACCEPTANCE_MARGIN), SETTINGS.eta)


def test_searches_that_begin_at_the_noisy_data_are_those_of_single_releases():
    """Where d̃ can cost enough but does not have to, the bracket begins at 0, and the first push at η."""
    setting = Setting("case14_ieee", [(0.001, "0.02%"), (0.003, "0.05%")], 10)
    found = in_rows(setting)
    rows = [row for row in searched(found) if found.at_noisy[row]]
    assert len(rows) >= 5 and set(found.highpoint_delta[rows]) == {0.0}
    for row in rows:
        assert_same(found.result(row), setting.alone(row, solve_bilevel), setting.targets[row])
        assert found.result(row).history[1].radius == SETTINGS.eta
    assert Ending.NOISY_IN_BAND in {found.ending(row) for row in np.flatnonzero(found.at_once)}


@pytest.mark.parametrize("eta", [1e-5, 0.05])
def test_the_bracket_closes_to_the_eta_that_was_asked_for(eta):
    setting, settings = Setting("case30_ieee", [(0.1, "1%")], 10), BisectionSettings(eta=eta)
    found = in_rows(setting, settings)
    assert len(searched(found)) >= 3
    for row in searched(found):
        alone = solve_bilevel(setting.backend, setting.noisy[row], setting.targets[row], settings)
        assert_same(found.result(row), alone, setting.targets[row])
        assert_closed(found.result(row), setting.targets[row].shrunk(ACCEPTANCE_MARGIN), eta)


def test_bounds_on_demands_hold():
    setting = Setting("case14_ieee", [(0.2, "1%")], 10, bounds=DemandBounds.NONNEGATIVE)
    found = in_rows(setting)
    assert setting.noisy.min() < -0.01 and len(searched(found)) >= 2
    for row in np.flatnonzero(found.finished):
        assert np.all(found.d[row] >= setting.program.d_lower - 1e-7)
        assert found.delta[row] == pytest.approx(setting.alone(row, solve_bilevel).delta, rel=1e-6)


def test_rows_do_not_depend_on_the_others_of_their_batch(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 5)
    whole = in_rows(setting)
    monkeypatch.setattr(NativeEngine, "state_bytes", 1)  # one row at a time
    parts = list(release_together(setting.batches.rows, setting.program, setting.noisy, setting.bands, SETTINGS))
    assert len(parts) == 10 and len(searched(whole)) >= 2
    assert np.array_equal(np.concatenate([part.d for part in parts]), whole.d, equal_nan=True)
    for row, part in enumerate(parts):
        mine, other = part.result(0), whole.result(row)
        assert mine.ending is other.ending
        assert [(step.kind, step.radius) for step in mine.history] == [
            (step.kind, step.radius) for step in other.history
        ]


def test_arrays_stay_where_the_engine_keeps_them():
    settings = [(0.1, "1%"), (0.3, "0.5%")]
    on_device, here = (Setting("case14_ieee", settings, 5, engine=engine) for engine in (DeviceEngine(threads=1), None))
    assert np.array_equal(in_rows(on_device).d, in_rows(here).d, equal_nan=True)


def one_that_searches():
    """A setting with one row, which Algorithm 1 has to search."""
    setting = Setting("case30_ieee", [(0.1, "1%")], 10)
    row = searched(in_rows(setting))[0]
    setting.noisy, setting.targets = setting.noisy[[row]], [setting.targets[row]]
    return setting


def test_a_push_starts_where_the_last_one_ended(monkeypatch):
    setting, asked, started = one_that_searches(), [], []
    ask = Algorithm1Search.ask

    def noted(self, mine, doing, start_at):
        asked.extend((int(one), start_at) for one in np.broadcast_to(doing, len(mine)))
        ask(self, mine, doing, start_at)

    def seen(joint, start, raw):
        started.extend(start.tolist() if joint else [])
        return raw

    monkeypatch.setattr(Algorithm1Search, "ask", noted)
    spoiled(setting, monkeypatch, seen)
    assert in_rows(setting).finished.all()
    assert asked[0] == (Doing.DOUBLING, StartAt.HIGHPOINT) and len(asked) > 3
    assert {start_at for _, start_at in asked[1:]} == {StartAt.REACHED}
    # The high point's multipliers are of another objective; those of a push are not.
    assert started == [COLD, NEAR, *[WARM] * (len(asked) - 1)]


@pytest.mark.parametrize(
    "reason, spoil",
    [
        (HandOver.JOINT_UNSOLVED, lambda joint, start, raw: failing(raw, np.full(len(start), joint))),
        (
            HandOver.DISPATCH_UNSOLVED,
            lambda joint, start, raw: failing(raw, ~joint & np.isin(start, [WARM, NEAR, THIN])),
        ),
        (HandOver.REFUSED, lambda joint, start, raw: failing(raw, ~joint & (start != WARM))),
    ],
)
def test_what_batches_do_not_solve_is_handed_over(reason, spoil, monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 8)
    spoiled(setting, monkeypatch, spoil)
    found = in_rows(setting)
    # Dispatches at joint points may do without multipliers too, so some rows do not get as far as their verification.
    assert not found.finished.any() and reason in found.handed_over
    assert set(found.handed_over) <= {reason, HandOver.DISPATCH_UNSOLVED}


def test_a_push_that_fails_from_all_its_starts_is_handed_over(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 8)
    usual, batches = in_rows(setting), []

    def only_the_high_point(joint, start, raw):
        batches.extend([joint] if joint else [])
        return failing(raw, np.full(len(start), joint and len(batches) > 1))

    spoiled(setting, monkeypatch, only_the_high_point)
    found = in_rows(setting)
    assert len(searched(usual)) >= 2 and np.array_equal(found.finished, usual.finished & usual.at_once)
    assert set(found.handed_over[searched(usual)]) == {HandOver.JOINT_UNSOLVED}


def test_pushes_to_the_end_without_a_point_are_handed_over():
    """A ball that no point fills: the first push seems to gain nothing from a larger one."""
    setting, settings = Setting("case14_ieee", [(0.3, "0.5%")], 12), BisectionSettings(ball_slack=-1.0)
    found = in_rows(setting, settings)
    assert set(found.handed_over) == {HandOver.NONE, HandOver.NO_POINT} and len(searched(found)) > 0
    for row in range(12):
        alone = solve_bilevel(setting.backend, setting.noisy[row], setting.targets[row], settings)
        assert (found.handed_over[row] == HandOver.NO_POINT) == (alone.ending is Ending.NO_BRACKET)


def test_brackets_that_stay_open_after_all_calls_are_handed_over():
    setting = Setting("case30_ieee", [(0.1, "1%")], 10)
    usual = in_rows(setting)
    calls = usual.calls[searched(usual)]
    assert len(set(calls)) > 1
    for limit in (0, calls.min(), calls.max() - 1, calls.max()):
        settings = BisectionSettings(call_limit=int(limit))
        found = in_rows(setting, settings)
        assert np.array_equal(found.finished, usual.calls <= limit)
        assert set(found.handed_over[~found.finished]) <= {HandOver.CALL_LIMIT}
        for row in searched(usual)[:3]:
            alone = solve_bilevel(setting.backend, setting.noisy[row], setting.targets[row], settings)
            assert (alone.ending is Ending.BRACKET_CLOSED) == found.finished[row]


def dearer_dispatches(setting, monkeypatch, dear):
    """Let dispatches of some batches (their number, counted from 0) cost a fifth more than they do."""
    numbers = []

    def dearer(joint, start, raw):
        if joint:
            return raw
        numbers.append(len(numbers))
        return replace(raw, cost=1.2 * raw.cost) if dear(numbers[-1]) else raw

    monkeypatch.setattr("gridveil.solvers.batch.power_rows.check_rows", lambda *given: np.zeros((len(given[2]), 3)))
    monkeypatch.setattr(together_search, "WORSE_THAN_START", 1.0)
    spoiled(setting, monkeypatch, dearer)


def test_points_of_pushes_that_cost_too_much_are_handed_over(monkeypatch):
    setting = one_that_searches()
    dearer_dispatches(setting, monkeypatch, lambda number: number > 0)
    assert set(in_rows(setting).handed_over) == {HandOver.PUSHED_TOO_DEAR}


def test_a_high_point_that_costs_too_much_is_pushed_from_all_the_same(monkeypatch):
    setting = one_that_searches()
    usual = in_rows(setting).result(0)
    dearer_dispatches(setting, monkeypatch, lambda number: number == 0)
    found = in_rows(setting).result(0)
    assert found.highpoint.cost > setting.targets[0].upper
    assert [step.kind for step in found.history] == [step.kind for step in usual.history]
    assert found.delta == pytest.approx(usual.delta, rel=1e-6)


def test_noisy_data_that_cost_too_much_are_handed_over(monkeypatch):
    setting = Setting("case14_ieee", [(1e-6, "10%")], 3)
    dearer_dispatches(setting, monkeypatch, lambda number: True)
    assert set(in_rows(setting).handed_over) == {HandOver.NOISY_TOO_DEAR}


def test_demands_that_are_too_small_are_handed_over():
    setting = Setting("case14_ieee", [(1e-6, "10%")], 3)
    setting.noisy *= 1e-2
    setting.targets = [replace(one, value=0.01 * one.value, beta=one.value) for one in setting.targets]
    assert set(in_rows(setting).handed_over) == {HandOver.SMALL_DEMAND}


def test_a_cheaper_optimum_below_the_band_refuses_a_point(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 6)

    def cheaper_when_cold(joint, start, raw):
        return raw if joint else replace(raw, cost=np.where(start == COLD, 0.9 * raw.cost, raw.cost))

    monkeypatch.setattr("gridveil.solvers.batch.power_rows.check_rows", lambda *given: np.zeros((len(given[2]), 3)))
    spoiled(setting, monkeypatch, cheaper_when_cold)
    assert set(in_rows(setting).handed_over) == {HandOver.REFUSED}


def both_methods(setting):
    """A request of each method in turn, and what rows of one method alone come to."""
    methods = [Method.AUTO if row % 3 else Method.BISECTION for row in range(len(setting.noisy))]
    rows = {Method.AUTO: setting.together(), Method.BISECTION: in_rows(setting)}
    return methods, [rows[method].result(row) for row, method in enumerate(methods)]


def test_requests_of_both_methods_get_the_answers_of_their_method():
    setting = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 9)
    methods, expected = both_methods(setting)
    asked = [Asked(*one) for one in zip(methods, setting.noisy, setting.targets, strict=True)]
    releases = TogetherReleases(setting.batches.rows, setting.program)
    endings, found = set(), {}
    assert len(list(releases.answer(asked, found.__setitem__))) == 2  # a part for each method
    assert sorted(found) == list(range(len(asked)))
    for place, other in enumerate(expected):
        mine = found[place]
        assert (mine is None) == (other is None)
        if mine is not None:
            assert np.array_equal(mine.d, other.d) and mine.ending is other.ending
            endings.add(mine.ending)
    assert {Ending.POLISHED, Ending.BRACKET_CLOSED} <= endings and None in expected
    found.clear()
    assert len(list(releases.answer(asked[:1], found.__setitem__))) == 1  # of one method alone
    (alone,) = found.values()
    assert np.array_equal(alone.d, expected[0].d) and asked[0].method is Method.BISECTION


def test_both_methods_run_side_by_side_and_do_the_rest_themselves():
    setting = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 9)
    methods, expected = both_methods(setting)
    solve = {Method.AUTO: solve_auto, Method.BISECTION: solve_bilevel}
    jobs = [
        partial(lambda method, noisy, target, backend: solve[method](backend, noisy, target), *one)
        for one in zip(methods, setting.noisy, setting.targets, strict=True)
    ]
    releases = TogetherReleases(setting.batches.rows, setting.program)
    found = dict(run_together(jobs, setting.backend, setting.batches, releases))
    for row, other in enumerate(expected):
        bulk = found[row].get()
        assert bulk.verified and setting.targets[row].contains(bulk.cost)
        if other is not None:
            assert np.array_equal(bulk.d, other.d) and bulk.ending is other.ending


def test_a_release_that_is_handed_back_runs_as_if_nothing_had_been_asked():
    setting, releases = Setting("case14_ieee", [(0.1, "1%")], 3), Refusing()
    jobs = [
        partial(lambda noisy, backend: solve_bilevel(backend, noisy, setting.targets[0]), one) for one in setting.noisy
    ]
    found = dict(run_together(jobs, setting.backend, setting.batches, releases))
    without = dict(run_together(jobs, setting.backend, setting.batches))
    assert releases.asked == 3
    for row in range(3):
        assert np.array_equal(found[row].get().d, without[row].get().d)


def test_kept_totals_other_settings_and_other_methods_are_for_the_method_itself():
    setting, releases = Setting("case14_ieee", [(0.1, "1%")], 1), Refusing()
    noisy, target = setting.noisy[0], setting.targets[0]
    rows = DataRows(matrix=np.ones((1, len(noisy))), lower=np.array([-1e3]), upper=np.array([1e3]))
    assert TogetherReleases.takes(Asked(Method.BISECTION, noisy, target))
    assert not TogetherReleases.takes(Asked(Method.BISECTION, noisy, replace(target, rows=rows)))
    assert not TogetherReleases.takes(Asked(Method("of a plug-in"), noisy, target))
    job = partial(lambda backend: solve_bilevel(backend, noisy, target, BisectionSettings(eta=0.01)))
    dict(run_together([job], setting.backend, setting.batches, releases))
    assert releases.asked == 0
