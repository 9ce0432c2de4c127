"""Releases in bulk: the rows of single releases, whatever the batches solve; room, limits of time, errors and endings."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gridveil.bilevel.bulk import run_all, run_together
from gridveil.bilevel.methods import method_named
from gridveil.bilevel.together.offer import Asked
from gridveil.core.band import DataRows, Tolerance
from gridveil.core.choices import BatchEngine, CostTargetMode, DemandBounds
from gridveil.core.deadline import seconds_left, time_limit
from gridveil.core.methods import Method, Solver
from gridveil.core.threads import side_by_side
from gridveil.privacy.curator import published_values
from gridveil.programs import Status
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.backend import Effort
from gridveil.solvers.batch.engine_native import NativeEngine, missing_compiler
from gridveil.solvers.batch.power import PowerBatches, Request
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


def setting(name: str, count: int, *, beta: str = "1%", scale: float = 0.1):
    """A public case, its backend, and noisy data around it."""
    case = load_case(name)
    model = build_model(case.network)
    backend = backend_for(model, Solver.STRUCTURED)
    d = model.layout.to_program(published_values(case))
    target = Tolerance.parse(beta).around(Solves(backend).afresh(d).cost, CostTargetMode.PUBLIC)
    noisy = d + np.random.default_rng(5).laplace(scale=scale, size=(count, len(d)))
    return model, backend, noisy, target


def release(method: Method, noisy, target, backend):
    return method_named(method)(backend, noisy, target)


def in_bulk(jobs, backend, batches, **options):
    found = dict(run_together(jobs, backend, batches, **options))
    return [found[index].get() for index in range(len(jobs))]


class Counting:
    """Batches that count what they are asked and what they solve."""

    def __init__(self, batches) -> None:
        self._batches, self.takes = batches, batches.takes
        self.asked = self.solved = self.most = 0

    def answer(self, requests):
        answers = self._batches.answer(requests)
        self.asked += len(requests)
        self.most = max(self.most, len(requests))
        self.solved += sum(answer.converged for answer in answers)
        return answers


@needs_compiler
@pytest.mark.parametrize(
    "name, method", [("case14_ieee", Method.AUTO), ("case14_ieee", Method.BISECTION), ("case57_ieee", Method.AUTO)]
)
def test_rows_are_those_of_single_releases(name, method):
    model, backend, noisy, target = setting(name, 8)
    batches = Counting(PowerBatches.of_model(model, NativeEngine(threads=1)))
    jobs = [partial(release, method, one, target) for one in noisy]
    found = in_bulk(jobs, backend, batches)
    assert batches.most >= 8 and batches.solved >= 0.95 * batches.asked
    for job, bulk in zip(jobs, found, strict=True):
        alone = job(backend)
        assert bulk.verified and alone.verified
        assert bulk.delta == pytest.approx(alone.delta, rel=1e-3, abs=1e-7)
        assert bulk.cost == pytest.approx(alone.cost, rel=1e-4) and target.contains(bulk.cost)
        assert bulk.ending is alone.ending


@needs_compiler
def test_a_dispatch_near_a_point_starts_without_its_multipliers(monkeypatch):
    model, _, noisy, target = setting("case14_ieee", 1)
    engine, started = NativeEngine(threads=1), []
    run = engine.run
    monkeypatch.setattr(
        engine, "run", lambda network, given, options: started.append(given) or run(network, given, options)
    )
    batches = PowerBatches.of_model(model, engine)
    joint = batches.answer([Request(data=noisy[0], start=None, effort=Effort.FULL, band=target)])[0]
    asked = Request(data=joint.d, start=joint.start, effort=Effort.NEAR, is_dispatch=True)
    (found,) = batches.answer([asked, asked])[:1]
    prices = started[-1].warm[:, : 4 * 14].reshape(2, 14, 4)[:, :, 2:]
    assert found.converged and np.all(prices == 0.0) and started[-1].warm[:, 4 * 14 :].any()
    batches.answer([replace(asked, effort=Effort.WARM)])
    assert started[-1].warm[:, 2 : 4 * 14 : 4].any()


@needs_compiler
def test_bounds_on_demands_hold_in_bulk():
    model, _, noisy, target = setting("case14_ieee", 4, scale=0.2)
    bounded = model.bounded(DemandBounds.NONNEGATIVE)
    backend = backend_for(bounded, Solver.STRUCTURED)
    batches = Counting(PowerBatches.of_model(bounded, NativeEngine(threads=1)))
    found = in_bulk([partial(release, Method.AUTO, one, target) for one in noisy], backend, batches)
    assert noisy.min() < -0.01 and batches.solved > 0
    for one, bulk in zip(noisy, found, strict=True):
        assert np.all(bulk.d >= bounded.program.d_lower - 1e-7)
        assert bulk.delta == pytest.approx(release(Method.AUTO, one, target, backend).delta, rel=1e-3)


@needs_compiler
@pytest.mark.parametrize("totals", [1, 4])
def test_totals_are_kept_in_bulk(totals):
    """By the kernels themselves: hardly a problem is left to the structured solver, and single releases end at the same place."""
    model, backend, noisy, target = setting("case14_ieee", 6, scale=0.05)
    true = model.layout.to_program(published_values(load_case("case14_ieee")))
    member = np.arange(len(true)) % totals == np.arange(totals)[:, None]
    rows = DataRows(matrix=member.astype(float), lower=member @ true - 1e-3, upper=member @ true + 1e-3)
    target = replace(target, rows=rows)
    batches = Counting(PowerBatches.of_model(model, NativeEngine(threads=1)))
    jobs = [partial(release, Method.AUTO, one, target) for one in noisy]
    found = in_bulk(jobs, backend, batches)
    assert batches.most >= 6 and batches.solved >= 0.95 * batches.asked
    for one, job, bulk in zip(noisy, jobs, found, strict=True):
        alone = job(backend)
        assert bulk.verified and alone.verified and not rows.hold_at(one)
        assert rows.hold_at(bulk.d) and target.contains(bulk.cost)
        assert bulk.delta == pytest.approx(alone.delta, rel=1e-3) and bulk.cost == pytest.approx(alone.cost, rel=1e-4)


class Useless:
    """Batches that take everything and solve nothing."""

    @staticmethod
    def takes(request) -> bool:
        return request.effort is not Effort.WARM

    def __init__(self, backend) -> None:
        self._backend = backend

    def answer(self, requests):
        known = self._backend.dispatch(requests[0].data, effort=Effort.BRIEF)
        return [replace(known, status=Status.FAILED, cost=np.nan) for _ in requests]


def test_what_batches_leave_is_solved_alone_to_the_last_bit():
    _, backend, noisy, target = setting("case14_ieee", 3)
    jobs = [partial(release, Method.AUTO, one, target) for one in noisy]
    for bulk, job in zip(in_bulk(jobs, backend, Useless(backend)), jobs, strict=True):
        alone = job(backend)
        assert np.array_equal(bulk.d, alone.d) and bulk.cost == alone.cost and bulk.optimisations == alone.optimisations


class Echo:
    """Batches for jobs that ask nothing else than whether they are asked together."""

    def __init__(self, backend) -> None:
        self._backend, self.sizes = backend, []

    @staticmethod
    def takes(request) -> bool:
        return True

    def answer(self, requests):
        self.sizes.append(len(requests))
        known = self._backend.dispatch(requests[0].data)
        return [replace(known, d=request.data) for request in requests]


def test_jobs_make_room_and_fail_by_themselves():
    _, backend, noisy, _ = setting("case14_ieee", 7)
    batches = Echo(backend)

    def job(index, backend):
        if index == 2:
            raise ValueError("planted")
        assert np.array_equal(backend.dispatch(noisy[index]).d, noisy[index])  # the answer to its own question
        return index, seconds_left()

    with time_limit(500):
        found = dict(run_together([partial(job, index) for index in range(7)], backend, batches, at_once=3))
    assert sorted(found) == list(range(7)) and max(batches.sizes) <= 3 and sum(batches.sizes) == 6
    with pytest.raises(ValueError, match="planted"):
        found[2].get()
    assert [found[index].get()[0] for index in (0, 1, 3, 4, 5, 6)] == [0, 1, 3, 4, 5, 6]
    assert all(0 < found[index].get()[1] <= 500 for index in (0, 6))  # the caller's time limit holds in every thread


def test_whoever_stops_listening_leaves_no_thread_behind():
    _, backend, noisy, _ = setting("case14_ieee", 6)
    before = threading.active_count()

    def job(index, backend):
        for _ in range(3 if index else 1):
            backend.dispatch(noisy[index])
        return index

    results = run_together([partial(job, index) for index in range(6)], backend, Echo(backend))
    next(results)
    results.close()
    wait_for_threads(before)


def wait_for_threads(count: int) -> None:
    """Fail unless soon only so many threads are left."""
    deadline = time.monotonic() + 60
    while threading.active_count() != count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() == count


class Broken(Echo):
    """Batches that break off."""

    def answer(self, requests):
        raise ValueError("planted")


def test_a_batch_that_breaks_off_leaves_no_thread_behind():
    _, backend, noisy, _ = setting("case14_ieee", 3)
    before, usual = threading.active_count(), threading.stack_size()
    with pytest.raises(ValueError, match="planted"):
        list(run_together([lambda given: given.dispatch(noisy[0])] * 3, backend, Broken(backend)))
    wait_for_threads(before)
    assert threading.stack_size() == usual


class Seconds:
    """Makes every second release that it takes, and takes all but the last."""

    def __init__(self, made, refused) -> None:
        self._made, self._refused, self.sizes = made, refused, []

    def takes(self, asked) -> bool:
        return asked is not self._refused

    def answer(self, asked, give):
        self.sizes.append(len(asked))
        for place in range(len(asked)):
            give(place, self._made if place % 2 else None)
            yield


def test_releases_are_handed_over_to_a_caller_who_asks_for_them():
    """A job ends where it is handed over, whatever it does with exceptions; who asks for nothing whole goes on."""
    _, backend, noisy, target = setting("case14_ieee", 1)
    asked = [Asked(Method.AUTO, noisy[0], target) for _ in range(5)]
    made, went_on = object(), []

    def job(index, given):
        try:
            found = given.released_together(asked[index])
        except Exception:  # as studies do: a failed release is a row
            return index, "a row"
        went_on.append(index)
        return index, found

    jobs = [*(partial(job, index) for index in range(5)), lambda given: ("single", given.dispatch(noisy[0]).converged)]
    releases = Seconds(made, asked[4])
    over = []
    found = dict(run_together(jobs, backend, Echo(backend), releases, hand_over=over.append))
    assert releases.sizes == [4] and sorted([*found, *over]) == list(range(6))
    assert len(over) == 3 and 4 in over and sorted(went_on) == [index for index in range(5) if index not in over]
    assert all(found[index].get() == (index, made) for index in went_on) and found[5].get() == ("single", True)
    went_on.clear()
    assert sorted(dict(run_together(jobs, backend, Echo(backend), releases))) == list(range(6))
    assert sorted(went_on) == list(range(5))
    over.clear()  # nothing is made together: nothing to hand over
    assert len(dict(run_together(jobs, backend, Echo(backend), hand_over=over.append))) == 6 and not over


def test_whole_releases_take_no_thread_unless_their_job_asks_for_more(monkeypatch):
    """What a job gets does not depend on whether it is run again, in a thread or not; one that fails first does so once."""
    _, backend, noisy, target = setting("case14_ieee", 1)
    results, threads = [object() for _ in range(4)], []
    usual = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: threads.append(thread) or usual(thread))

    class InTurn(Seconds):
        def answer(self, asked, give):
            for place in range(len(asked)):
                give(place, results[len(self.sizes)])
                self.sizes.append(1)
            yield

    def whole(given):
        return given.released_together(Asked(Method.AUTO, noisy[0], target))

    def failing(given):
        raise ValueError("planted")

    def asking_twice(given):
        return whole(given), whole(given)

    def asking_first_for_another_problem(given):
        return given.dispatch(noisy[0]).converged, whole(given)

    def outcomes(*jobs):
        threads.clear()
        return dict(run_together(jobs, backend, Echo(backend), releases)), len(threads)

    releases = InTurn(None, None)
    found, begun = outcomes(whole, failing, whole)
    assert (found[0].get(), found[2].get()) == (results[0], results[1]) and begun == 0
    assert isinstance(found[1].error, ValueError) and len(found) == 3
    found, begun = outcomes(asking_twice)
    assert found[0].get() == (results[2], results[3]) and begun == 1
    releases.sizes.clear()
    found, begun = outcomes(asking_first_for_another_problem)
    assert found[0].get() == (True, results[0]) and begun == 1


@needs_compiler
def test_a_release_may_ask_from_two_threads_at_once():
    """As the check of a release of many buses for its readers does; nobody waits for ever."""
    model, backend, noisy, _ = setting("case14_ieee", 6)
    batches, ended = PowerBatches.of_model(model, NativeEngine(threads=1)), []

    def both(d, given):
        return side_by_side(lambda: given.dispatch(d).cost, lambda: given.dispatch(1.01 * d).cost)

    def run_often() -> None:
        for _ in range(20):
            found = dict(run_together([partial(both, d) for d in noisy], backend, batches))
            ended.append([found[place].get() for place in range(len(noisy))])

    thread = threading.Thread(target=run_often, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert len(ended) == 20
    for d, (first, second) in zip(noisy, ended[-1], strict=True):
        assert first == pytest.approx(backend.dispatch(d).cost, rel=1e-6)
        assert second == pytest.approx(backend.dispatch(1.01 * d).cost, rel=1e-6)


@needs_compiler
def test_networks_that_batches_do_not_know_run_one_by_one():
    case = load_case("veilgas")
    model = build_model(case.network)
    backend = backend_for(model, Solver.STRUCTURED)
    found = dict(run_all([lambda given: given is backend] * 2, backend, model, BatchEngine.NATIVE))
    assert found[0].get() and found[1].get()
    left, planted = [], [lambda given: pytest.fail("was run")] * 2
    assert not list(run_all(planted, backend, model, BatchEngine.NATIVE, hand_over=left.append)) and left == [0, 1]
