"""Releases that advance together, as rows of arrays: those of single releases, and every way to be handed back to them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from device_arrays import DeviceEngine
from gridveil.bilevel.bulk import run_together
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.methods.settings import AutoSettings, BisectionSettings
from gridveil.bilevel.result import Ending
from gridveil.bilevel.together import search as together_search
from gridveil.bilevel.together.offer import Asked
from gridveil.bilevel.together.releases import TogetherReleases, release_together
from gridveil.bilevel.together.rows import HandOver
from gridveil.bilevel.together.search import RowSearch
from gridveil.core.band import DataRows
from gridveil.core.choices import BatchEngine, DemandBounds
from gridveil.core.methods import Method
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.batch.power_rows import RowProblems
from together_settings import COLD, HELD, NEAR, SOFTENED, THIN, WARM, Refusing, Setting, assert_same, failing, spoiled

CHECK = AutoSettings().check

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


@pytest.mark.parametrize(
    "name, settings, count, least",
    [
        ("case14_ieee", [(0.1, "1%"), (0.02, "10%"), (0.3, "0.5%")], 10, 24),
        ("case30_ieee", [(0.05, "5%"), (0.1, "1%")], 10, 18),
        ("case57_ieee", [(0.1, "1%")], 8, 6),
        ("case118_ieee", [(0.1, "1%"), (1.0, "1%"), (0.1, "0.1%")], 6, 15),
    ],
)
def test_rows_are_those_of_single_releases(name, settings, count, least):
    setting = Setting(name, settings, count)
    found = setting.together()
    assert found.finished.sum() >= least
    endings = set()
    for row in np.flatnonzero(found.finished):
        alone = setting.alone(row)
        assert_same(found.result(row), alone, setting.targets[row])
        endings.add(alone.ending)
    assert {Ending.POLISHED} < endings  # rows end in different ways
    for row in np.flatnonzero(~found.finished):
        assert found.result(row) is None and np.isnan(found.cost[row]) and found.handed_over[row] > 0


def test_a_search_below_the_first_point_is_that_of_single_releases():
    setting = Setting("case30_ieee", [(0.05, "5%"), (0.1, "1%"), (0.2, "2%")], 60)
    found = setting.together()
    pushes = [
        sum(step.kind.name == "ROOT" for step in found.result(row).history) for row in np.flatnonzero(found.finished)
    ]
    several = np.flatnonzero(found.finished)[np.array(pushes) > 1]
    assert len(several) > 0  # the root search went on after its first push
    for row in several:
        assert_same(found.result(row), setting.alone(row), setting.targets[row])


def test_bounds_on_demands_hold():
    setting = Setting("case14_ieee", [(0.2, "1%")], 12, bounds=DemandBounds.NONNEGATIVE)
    found = setting.together()
    assert setting.noisy.min() < -0.01 and found.finished.sum() >= 9
    for row in np.flatnonzero(found.finished):
        assert np.all(found.d[row] >= setting.program.d_lower - 1e-7)
        assert found.delta[row] == pytest.approx(setting.alone(row).delta, rel=1e-6)


def test_rows_do_not_depend_on_the_others_of_their_batch(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 9)
    whole = setting.together()
    monkeypatch.setattr(NativeEngine, "state_bytes", 1)  # one row at a time
    parts = list(release_together(setting.batches.rows, setting.program, setting.noisy, setting.bands))
    assert len(parts) == 9
    assert np.array_equal(np.concatenate([part.d for part in parts]), whole.d, equal_nan=True)
    assert [part.history.by_row(1)[1].tolist() for part in parts] == [
        whole.history.by_row(9)[1][slice(*whole.history.by_row(9)[0][[row, row + 1]])].tolist() for row in range(9)
    ]


def test_arrays_stay_where_the_engine_keeps_them():
    on_device = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 8, engine=DeviceEngine(threads=1))
    here = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 8)
    assert np.array_equal(on_device.together().d, here.together().d, equal_nan=True)
    bounded = Setting("case14_ieee", [(0.2, "1%")], 3, bounds=DemandBounds.NONNEGATIVE, engine=DeviceEngine(threads=1))
    assert bounded.together().finished.any()


def test_a_band_of_another_row_would_be_noticed():
    setting = Setting("case14_ieee", [(0.1, "1%"), (0.1, "0.1%")], 6)
    right = setting.together()
    setting.targets = setting.targets[::-1]
    wrong = setting.together()
    setting.targets = setting.targets[::-1]
    differing = 0
    for row in np.flatnonzero(right.finished & wrong.finished & ~right.at_once):
        assert_same(right.result(row), setting.alone(row), setting.targets[row])
        try:
            assert_same(wrong.result(row), setting.alone(row), setting.targets[row])
        except AssertionError:
            differing += 1
    assert differing > 0


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
    found = setting.together()
    # Dispatches at joint points may do without multipliers too, so some rows do not get as far as their verification.
    assert not found.finished.any() and reason in found.handed_over
    assert set(found.handed_over) <= {reason, HandOver.DISPATCH_UNSOLVED}


def test_second_starts_replace_first_ones(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 8)
    usual, tried = setting.together(), []

    def no_first_start(joint, start, raw):
        tried.extend(start[np.full(len(start), joint)].tolist())
        return failing(raw, joint & np.isin(start, [COLD, WARM]))

    spoiled(setting, monkeypatch, no_first_start)
    found = setting.together()
    assert {COLD, WARM, HELD, NEAR} <= set(tried) and found.finished.sum() >= usual.finished.sum() - 2
    both = found.finished & usual.finished
    assert found.delta[both] == pytest.approx(usual.delta[both], rel=1e-6, abs=1e-9)


def test_followers_without_multipliers_find_the_same(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 8)
    usual = setting.together()
    spoiled(setting, monkeypatch, lambda joint, start, raw: failing(raw, ~joint & (start == WARM)))
    found = setting.together()
    both = found.finished & usual.finished
    assert both.sum() >= 6 and found.delta[both] == pytest.approx(usual.delta[both], rel=1e-6, abs=1e-9)


def test_a_dispatch_that_began_without_multipliers_goes_on_with_hardly_any_room(monkeypatch):
    """What led nowhere from the point itself would lead nowhere again."""
    setting, begun = Setting("case14_ieee", [(0.3, "1%")], 12), defaultdict(list)
    begin = RowProblems.begin_dispatches

    def noted(problems, rows, *given):
        begin(problems, rows, *given)
        for row, kind in zip(rows.tolist(), problems._dispatch.arrays.given.start[rows, 0].tolist(), strict=True):
            begun[row].append(kind)

    monkeypatch.setattr(RowProblems, "begin_dispatches", noted)
    spoiled(setting, monkeypatch, lambda joint, start, raw: failing(raw, ~joint & np.isin(start, [WARM, NEAR])))
    assert setting.together().finished.sum() >= 8
    pairs = Counter(pair for kinds in begun.values() for pair in pairwise(kinds))
    assert pairs[NEAR, NEAR] == 0 and pairs[NEAR, THIN] > pairs[WARM, NEAR] > 0


@pytest.mark.parametrize("name, row", [("case24_ieee_rts", 22), ("case39_epri", 18)])
def test_demands_that_can_only_just_be_served_are_not_handed_over(name, row):
    """Their dispatches take short steps at soaring prices for long."""
    setting = Setting(name, [(1.0, "1%"), (3.0, "1%")], 20)
    setting.noisy, setting.targets = setting.noisy[[row]], [setting.targets[row]]
    found = setting.together()
    assert found.finished.all() and found.delta[0] == pytest.approx(setting.alone(0).delta, rel=1e-4)


def test_soft_balances_verify_what_cold_starts_do_not_solve(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 8)
    usual = setting.together()
    spoiled(setting, monkeypatch, lambda joint, start, raw: failing(raw, ~joint & (start == COLD)))
    found = setting.together()
    assert sum(turn.dispatches[2] for turn in found.turns) == usual.finished.sum()
    assert np.array_equal(found.finished, usual.finished) and np.array_equal(found.d, usual.d, equal_nan=True)
    assert found.cost == pytest.approx(usual.cost, rel=1e-7, nan_ok=True)


def test_points_are_verified_from_the_joint_point_where_nothing_from_scratch_works(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 8)
    usual = setting.together()
    spoiled(setting, monkeypatch, lambda joint, start, raw: failing(raw, ~joint & np.isin(start, [COLD, SOFTENED])))
    found = setting.together()
    assert sum(turn.dispatches[3] for turn in found.turns) == usual.finished.sum()
    assert np.array_equal(found.finished, usual.finished) and np.array_equal(found.d, usual.d, equal_nan=True)


@pytest.mark.parametrize("threads", [2, 3])
def test_rows_do_not_wait_for_each_other_and_end_the_same(threads):
    """With more cores than problems a turn ends as soon as one of them has; which one is chance, what it finds is not."""
    usual = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 8).together()
    found = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 8, engine=NativeEngine(threads=threads)).together()
    assert len(found.turns) > len(usual.turns)
    both = [
        (sum(turn.joint[0] for turn in turns), sum(sum(turn.joint) + sum(turn.dispatches) for turn in turns))
        for turns in (found.turns, usual.turns)
    ]
    assert both[0] == both[1]  # the same problems
    assert np.array_equal(found.d, usual.d, equal_nan=True) and np.array_equal(found.cost, usual.cost, equal_nan=True)


def test_a_row_whose_problem_is_slow_is_overtaken_by_all_others(monkeypatch):
    """Its first problem is told to have ended only when nothing else is under way."""
    setting = Setting("case14_ieee", [(0.1, "1%")], 6)
    usual = setting.together()
    engine, slow, streams = setting.batches.rows.engine, int(np.flatnonzero(usual.finished)[0]), []
    opened = engine.open

    def open_slow(network, rows, options):
        stream, held = opened(network, rows, options), []
        ended = stream.ended
        streams.append(stream)

        def all_others():
            mine = ended()
            held.extend(mine[mine == slow])
            others = mine[mine != slow]
            return (
                others if len(others) or any(one.busy for one in streams) else np.array([held.pop()] if held else mine)
            )

        monkeypatch.setattr(stream, "ended", all_others)
        return stream

    monkeypatch.setattr(engine, "open", open_slow)
    found = setting.together()
    assert np.array_equal(found.d, usual.d, equal_nan=True)
    last = [rows for rows, kinds in zip(found.history._rows, found.history._kinds, strict=True) if len(kinds)][-1]
    assert last.tolist() == [slow] and len(found.turns) > len(usual.turns)


@pytest.mark.parametrize("settings", [AutoSettings(most_cuts=0), AutoSettings(flat=1e9)])
def test_where_cuts_find_nothing_a_push_does(settings):
    setting = Setting("case14_ieee", [(0.1, "1%")], 12)
    found = setting.together(settings=settings)
    searched = np.flatnonzero(~found.at_once & found.finished)
    assert len(searched) >= 2
    for row in searched:
        alone = solve_auto(setting.backend, setting.noisy[row], setting.targets[row], settings)
        assert_same(found.result(row), alone, setting.targets[row])
        assert "CUT" not in [step.kind.name for step in alone.history]


def test_where_neither_finds_a_point_the_release_is_handed_over():
    setting = Setting("case14_ieee", [(0.1, "1%")], 8)
    # A ball that no point fills: the first push seems to gain nothing from a larger one.
    short = AutoSettings(most_cuts=0, bisection=BisectionSettings(eta=1e-12, ball_slack=-1.0))
    found = setting.together(settings=short)
    assert set(found.handed_over[~found.at_once]) == {HandOver.NO_POINT} and found.finished[found.at_once].all()


def steps_of(found, row):
    return "".join(step.kind.name[0] for step in found.result(row).history)


@pytest.mark.parametrize(
    "name, least", [("case14_ieee", {"back": 5}), ("case30_ieee", {"back": 4, "nearer": 1, "at once": 1})]
)
def test_points_away_from_the_edge_of_the_band_are_compared_with_algorithm_1s(name, least):
    """Every point is away from it here: back to the point that is known, on from a nearer one, or nothing left to gain."""
    setting, settings, ends = Setting(name, [(0.1, "1%")], 12), AutoSettings(off_edge=-1.0), Counter()
    found = setting.together(settings=settings)
    for row in np.flatnonzero(~found.at_once):
        alone = solve_auto(setting.backend, setting.noisy[row], setting.targets[row], settings)
        assert_same(found.result(row), alone, setting.targets[row])
        way = steps_of(found, row)
        ends["at once" if "D" not in way else "nearer" if way.endswith("PV") else "back"] += 1
    assert ends == least


@pytest.mark.parametrize(
    "name, band, rows", [("case30_as", (0.1, "0.1%"), [4, 24, 35]), ("case24_ieee_rts", (1.0, "1%"), [24])]
)
def test_points_in_doubt_are_those_of_single_releases(name, band, rows):
    setting = Setting(name, [band], 40)
    found = setting.together()
    in_doubt = [row for row in np.flatnonzero(found.finished) if "RD" in steps_of(found, row).replace("P", "")]
    assert in_doubt == rows
    for row in rows:
        assert_same(found.result(row), setting.alone(row), setting.targets[row])


def test_polishes_are_counted_anew_after_a_search():
    setting, settings = Setting("case30_as", [(0.1, "0.1%")], 40), AutoSettings(most_polishes=1)
    setting.noisy, setting.targets = setting.noisy[[24]], [setting.targets[24]]
    found, alone = (
        setting.together(settings=settings),
        solve_auto(setting.backend, setting.noisy[0], setting.targets[0], settings),
    )
    assert steps_of(found, 0).startswith("HCPR") and "RP" in steps_of(found, 0)
    assert_same(found.result(0), alone, setting.targets[0])


def test_rows_are_handed_over_while_others_are_at_work():
    """As soon as a row is for somebody else, that somebody is told: the first long before the last row has ended."""
    setting, told = Setting("case30_ieee", [(0.3, "0.5%")], 12), []
    (found,) = setting.parts(hand_over=lambda rows: told.append(rows.tolist()))
    over = np.flatnonzero(found.handed_over).tolist()
    assert len(over) > 1 and sorted(row for rows in told for row in rows) == over
    first = next(turn for turn, rows in enumerate(told) if rows)
    assert len(told) == len(found.turns) and first < len(told) - 2


def test_demands_that_are_too_dear_or_too_small_are_handed_over():
    setting = Setting("case14_ieee", [(1e-6, "10%")], 3)
    assert [setting.together().ending(row) for row in range(3)] == [Ending.NOISY_IN_BAND] * 3
    setting.noisy *= 1e-2
    setting.targets = [replace(one, value=0.01 * one.value, beta=one.value) for one in setting.targets]
    assert set(setting.together().handed_over) == {HandOver.SMALL_DEMAND}


def test_a_high_point_at_noisy_data_that_cost_too_much_is_handed_over(monkeypatch):
    setting = Setting("case14_ieee", [(1e-6, "10%")], 3)

    def dearer(joint, start, raw):
        return raw if joint else replace(raw, cost=1.2 * raw.cost)

    monkeypatch.setattr("gridveil.solvers.batch.power_rows.check_rows", lambda *given: np.zeros((len(given[2]), 3)))
    monkeypatch.setattr(together_search, "WORSE_THAN_START", 1.0)
    spoiled(setting, monkeypatch, dearer)
    assert set(setting.together().handed_over) == {HandOver.NOISY_TOO_DEAR}


@pytest.mark.parametrize("factor, finishes", [(0.9, False), (1.1, True)])
def test_the_lowest_cost_of_all_solves_decides(factor, finishes, monkeypatch):
    """A cheaper optimum below the band refuses a point; a dearer one is no optimum, as in ``Solves.verify``."""
    setting = Setting("case14_ieee", [(0.1, "1%")], 6)
    usual = setting.together()

    def otherwise_when_cold(joint, start, raw):
        return raw if joint else replace(raw, cost=np.where(start == COLD, factor * raw.cost, raw.cost))

    monkeypatch.setattr("gridveil.solvers.batch.power_rows.check_rows", lambda *given: np.zeros((len(given[2]), 3)))
    spoiled(setting, monkeypatch, otherwise_when_cold)
    found = setting.together()
    assert np.array_equal(found.finished, usual.finished & finishes)
    if finishes:
        assert found.cost == pytest.approx(usual.cost, rel=1e-6)
    else:
        assert set(found.handed_over) == {HandOver.REFUSED}


def test_a_refused_point_is_cut_again_as_in_a_single_release(monkeypatch):
    """Once the fresh solve of a polished point finds a lower optimum, which lies below the band: its prices count."""
    setting, after = Setting("case30_as", [(0.1, "0.1%")], 60), RowSearch._after_verification
    setting.noisy, setting.targets = setting.noisy[[17]], [setting.targets[17]]

    def without_old_prices(search, problems, mine, fresh):
        search.rows.base.steepness[mine] = np.nan
        after(search, problems, mine, fresh)

    monkeypatch.setattr(RowSearch, "_after_verification", without_old_prices)
    found = setting.together().result(0)
    assert [step.kind.name for step in found.history[-3:]] == ["VERIFICATION", "CUT", "VERIFICATION"]
    assert found.history[-3].cost < setting.targets[0].lower <= found.cost
    assert_same(found, setting.alone(0), setting.targets[0])


def test_a_row_that_has_passed_over_nearer_points_after_a_refusal_is_handed_over(monkeypatch):
    """Single releases verify these too. Here the first fresh solve of every row finds a cost a little below the band."""
    setting, refused = Setting("case14_ieee", [(0.1, "1%")], 24), set[int]()
    usual, after = setting.together(), RowSearch._after_verification

    def cheaper_once(search, problems, mine, fresh):
        first, target = np.array([row not in refused for row in mine.tolist()], bool), search.rows.target
        refused.update(mine.tolist())
        after(search, problems, mine, np.where(first, target.value[mine] - 1.1 * target.beta[mine], fresh))

    monkeypatch.setattr(RowSearch, "_after_verification", cheaper_once)
    found, searched = setting.together(), np.flatnonzero(usual.finished & ~usual.at_once)
    assert set(found.handed_over[searched]) == {HandOver.NONE, HandOver.REFUSED}
    for row in searched[found.finished[searched]]:
        steps = [step for step in usual.result(row).history if step.kind.name != "VERIFICATION"]
        in_band = sorted(step.delta for step in steps if setting.targets[row].contains(step.cost))
        assert in_band[0] < found.delta[row] and not (np.array(in_band[1:]) < (1 - CHECK) * found.delta[row]).any()
    assert {found.ending(row) for row in np.flatnonzero(found.finished)} == {Ending.POLISHED}
    assert (usual.at_once & found.finished).any()


def test_a_point_that_the_check_refuses_is_no_result(monkeypatch):
    setting = Setting("case14_ieee", [(0.1, "1%")], 4)

    def moved(joint, start, raw):
        point = raw.point.copy()
        point[:, 1] += 0.01  # a voltage, by one per cent
        return replace(raw, point=point)

    spoiled(setting, monkeypatch, moved)
    assert set(setting.together().handed_over) == {HandOver.JOINT_UNSOLVED}


def test_methods_take_what_was_found_together_and_do_the_rest_themselves():
    setting = Setting("case14_ieee", [(0.1, "1%"), (0.3, "0.5%")], 8)
    releases = TogetherReleases(setting.batches.rows, setting.program)
    jobs = [
        partial(lambda noisy, target, backend: solve_auto(backend, noisy, target), one, target)
        for one, target in zip(setting.noisy, setting.targets, strict=True)
    ]
    found = dict(run_together(jobs, setting.backend, setting.batches, releases))
    rows = setting.together()
    assert rows.finished.any() and sorted(found) == list(range(16))
    for row in range(16):
        bulk = found[row].get()
        assert bulk.verified and setting.targets[row].contains(bulk.cost)
        if rows.finished[row]:
            assert np.array_equal(bulk.d, rows.d[row])
    assert not rows.finished.all()  # some were handed back, and ended in another way


def test_a_release_that_is_handed_back_runs_as_if_nothing_had_been_asked():
    setting, releases = Setting("case14_ieee", [(0.1, "1%")], 3), Refusing()
    jobs = [
        partial(lambda noisy, backend: solve_auto(backend, noisy, setting.targets[0]), one) for one in setting.noisy
    ]
    found = dict(run_together(jobs, setting.backend, setting.batches, releases))
    without = dict(run_together(jobs, setting.backend, setting.batches))
    assert releases.asked == 3
    for row in range(3):
        assert np.array_equal(found[row].get().d, without[row].get().d)


def test_kept_totals_and_other_settings_are_for_the_method_itself():
    setting, releases = Setting("case14_ieee", [(0.1, "1%")], 1), Refusing()
    target, n = setting.targets[0], setting.noisy.shape[1]
    rows = DataRows(matrix=np.ones((1, n)), lower=np.array([-1e3]), upper=np.array([1e3]))
    assert not TogetherReleases.takes(Asked(Method.AUTO, setting.noisy[0], replace(target, rows=rows)))
    assert TogetherReleases.takes(Asked(Method.AUTO, setting.noisy[0], target))
    job = partial(lambda backend: solve_auto(backend, setting.noisy[0], target, AutoSettings(most_cuts=4)))
    dict(run_together([job], setting.backend, setting.batches, releases))
    assert releases.asked == 0


def test_an_engine_that_is_chosen_makes_releases_together(monkeypatch):
    from gridveil.bilevel import bulk

    setting, seen = Setting("case14_ieee", [(0.1, "1%")], 4), []
    answer = TogetherReleases.answer
    monkeypatch.setattr(
        TogetherReleases, "answer", lambda self, asked, give: seen.append(len(asked)) or answer(self, asked, give)
    )
    jobs = [
        partial(lambda noisy, backend: solve_auto(backend, noisy, setting.targets[0]), one) for one in setting.noisy
    ]
    found = dict(bulk.run_all(jobs, setting.backend, setting.model, BatchEngine.NATIVE))
    assert seen == [4] and all(found[row].get().verified for row in range(4))
