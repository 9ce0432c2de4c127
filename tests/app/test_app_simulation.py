"""Simulations of the app that go on in batches: what they show, who may solve meanwhile, how they end, and on which engine."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from conftest import Matpower
from gridveil.app.work import SOLVING, Simulator, engine_of_simulations
from gridveil.bilevel import bulk
from gridveil.bilevel.bulk_ahead import OneOfMany
from gridveil.bilevel.methods import METHODS
from gridveil.bilevel.together.releases import TogetherReleases
from gridveil.bilevel.together.search import RowSearch
from gridveil.core.band import Tolerance
from gridveil.core.choices import BatchEngine, CostTargetMode
from gridveil.core.deadline import OutOfTimeError, stoppable
from gridveil.core.errors import InputError
from gridveil.core.methods import Method
from gridveil.core.secret_choice import parse_secrets
from gridveil.sectors.registry import load_case
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.batch.engine_native import missing_compiler
from gridveil.study import preview as module
from gridveil.study.preview import PreviewBase, PreviewRun, preview, preview_base, quick_runs, whole_runs

SETTINGS = ReleaseSettings(epsilon="1", alpha="10MVA", beta=Tolerance.parse("1%"))
CERTAIN = replace(SETTINGS, target=CostTargetSettings(mode=CostTargetMode.PUBLIC))
QUICK, WHOLE, MANY = 3, 2, 6
SEEDS = range(QUICK + 1, QUICK + MANY + 1)
NATIVE, STRUCTURED = BatchEngine.NATIVE, BatchEngine.STRUCTURED

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """A few runs of each kind."""
    for name, count in {"QUICK_RUNS": QUICK, "WHOLE_RUNS": WHOLE, "MANY_RUNS": MANY}.items():
        monkeypatch.setattr(module, name, count)


@pytest.fixture(scope="module")
def base():
    return preview_base(PublicCase.of(load_case("veil9")))


@pytest.fixture
def every_second_is_handed_over(monkeypatch):
    """Rows hand every second release over, as they do with those that leave the usual path."""
    answer = TogetherReleases.answer

    def some(self, asked, give):
        return answer(self, asked, lambda place, result: give(place, result if place % 2 else None))

    monkeypatch.setattr(TogetherReleases, "answer", some)


def unsolved(public: PublicCase) -> PreviewBase:
    """A base that nothing can be simulated on, as nothing was made up; for questions about the network."""
    return PreviewBase(prepared=prepare(public, solver="structured"), case=None, words="", cost=0.0)


def assert_those_of_single_releases(base, settings, runs):
    """Each seed once, and what a single release comes to within the tolerance of the solvers."""
    found = {run.distance_noisy: run for run in runs}
    assert len(found) == len(runs) == MANY
    for seed in SEEDS:
        alone = base.run_quickly(settings, seed)
        run = found[alone.distance_noisy]
        assert run.verified and alone.verified and not run.whole
        assert run.distance_released == pytest.approx(alone.distance_released, rel=1e-3)
        assert run.cost == pytest.approx(alone.cost, abs=1e-4) and abs(run.cost) <= 0.01 * (1 + 1e-9)
        assert run.zones == pytest.approx(alone.zones, abs=1e-4)


@needs_compiler
def test_many_more_runs_follow_the_same_first_ones(base):
    first, runs = list(preview(base, SETTINGS)), list(preview(base, SETTINGS, NATIVE))
    assert len(first) == QUICK + WHOLE and runs[: len(first)] == first
    assert_those_of_single_releases(base, SETTINGS, runs[len(first) :])


@needs_compiler
def test_runs_that_a_batch_hands_over_come_once_each_and_one_by_one(base, monkeypatch, every_second_is_handed_over):
    alone, usual = [], PreviewBase.run_quickly

    def noted(self, settings, seed, backend=None):
        if backend is None:
            alone.append(seed)
        return usual(self, settings, seed, backend)

    with monkeypatch.context() as patch:
        patch.setattr(PreviewBase, "run_quickly", noted)
        runs = list(preview(base, CERTAIN, NATIVE))
    assert alone == [*range(1, QUICK + 1), *SEEDS[::2]]
    assert_those_of_single_releases(base, CERTAIN, runs[QUICK:])


class Held:
    """A lock that tells whether it is held."""

    held = False

    def __enter__(self):
        assert not self.held
        self.held = True

    def __exit__(self, *_):
        self.held = False


class Guarded(OneOfMany):
    """The solver of single releases, which notes whether a lock is held while it is at work."""

    def __init__(self, alone, lock):
        super().__init__(alone)
        self.noted = Counter()
        for name in ("dispatch", "nearest", "cut", "push"):
            setattr(self, name, partial(self._solve, getattr(alone, name), lock))

    def _solve(self, solve, lock, *given, **options):
        self.noted[lock.held] += 1
        return solve(*given, **options)


@needs_compiler
def test_the_solver_of_single_releases_is_taken_while_it_works_and_no_longer(
    base, monkeypatch, every_second_is_handed_over
):
    lock, together, taken = Held(), Counter(), []
    guarded = Guarded(base.prepared.backend, lock)
    shared = replace(base, prepared=replace(base.prepared, backend=guarded))
    turn = RowSearch._turn
    monkeypatch.setattr(RowSearch, "_turn", lambda *given: together.update([lock.held]) or turn(*given))
    for run in preview(shared, SETTINGS, NATIVE, alone=lock):
        assert not lock.held
        taken.append((run, guarded.noted[True]))
    assert len(taken) == QUICK + WHOLE + MANY
    assert set(guarded.noted) == {True} and set(together) == {False}
    solves = [count for _, count in taken]
    before, batch = solves[QUICK + WHOLE - 1], solves[QUICK + WHOLE : QUICK + WHOLE + MANY // 2]
    assert solves[0] > 0 and set(batch) == {before} and solves[-1] > before


def wait_until_done(simulation):
    deadline = time.monotonic() + 60
    while not simulation.done and time.monotonic() < deadline:
        time.sleep(0.01)
    assert simulation.done


@needs_compiler
def test_a_cancelled_simulation_stops_in_the_middle_of_a_batch(monkeypatch):
    turns, begun, cancelled, turn = [], threading.Event(), threading.Event(), RowSearch._turn

    def held_up(*given):
        turns.append(len(turns))
        begun.set()
        assert cancelled.wait(timeout=60)
        turn(*given)

    monkeypatch.setattr(RowSearch, "_turn", held_up)
    simulator = Simulator(NATIVE)
    simulation = simulator.start(PublicCase.of(load_case("veil9")), CERTAIN)
    assert begun.wait(timeout=60)
    assert simulation.quick == QUICK + MANY and not simulation.done
    simulator.cancel()
    cancelled.set()
    wait_until_done(simulation)
    assert len(turns) == 1 and len(simulation.runs) == QUICK and not simulation.trouble and not SOLVING.locked()


def test_a_run_that_ends_after_its_simulation_was_cancelled_is_not_shown(monkeypatch):
    begun, cancelled = threading.Event(), threading.Event()

    def late(*_, **__):
        yield "first"
        begun.set()
        assert cancelled.wait(timeout=60)
        yield "late"

    monkeypatch.setattr("gridveil.app.work.preview", late)
    simulator = Simulator()
    simulation = simulator.start(PublicCase.of(load_case("veil2")), SETTINGS)
    assert begun.wait(timeout=60)
    simulator.cancel()
    cancelled.set()
    wait_until_done(simulation)
    assert simulation.runs == ["first"]


def test_a_preview_that_is_stopped_in_its_whole_releases_begins_no_batch(base, monkeypatch):
    stop = threading.Event()
    monkeypatch.setattr(module, "run_all", lambda *_, **__: pytest.fail("a batch was begun"))
    with stoppable(stop), pytest.raises(OutOfTimeError):
        for run in preview(base, SETTINGS, NATIVE):
            if run.whole:
                stop.set()


@needs_compiler
def test_a_batch_that_breaks_off_leaves_the_runs_before_it(monkeypatch):
    def broken(*_):
        raise ValueError("41.75 MW")

    monkeypatch.setattr(RowSearch, "_turn", broken)
    simulation = Simulator(NATIVE).start(PublicCase.of(load_case("veil9")), SETTINGS)
    wait_until_done(simulation)
    assert [run.whole for run in simulation.runs] == [False] * QUICK + [True] * WHOLE
    assert "ValueError at gridveil" in simulation.trouble and "41.75" not in simulation.trouble


def network_with_a_dc_line(load_text):
    net = Matpower()
    for bus in (1, 2):
        net.add_bus(bus, kind=3 if bus == 1 else 1, pd=40.0 * bus)
    net.add_gen(1)
    net.add_branch(1, 2)
    net.add_dcline(1, 2)
    return PublicCase.of(load_text(net.text()))


def test_many_runs_are_for_engines_networks_and_methods_that_make_them_together(base, load_text, monkeypatch):
    monkeypatch.setitem(METHODS, "planted", METHODS["auto"])
    settings = [replace(SETTINGS, method=Method(name)) for name in ("auto", "bisection", "planted")]
    secrets = replace(SETTINGS, secrets=parse_secrets("demand=10MVA,limit=20MVA"))
    wanted = [QUICK + MANY, QUICK + MANY, QUICK]
    assert [quick_runs(base, one, NATIVE) for one in settings] == wanted
    assert quick_runs(base, SETTINGS, BatchEngine.GPU) == QUICK + MANY
    assert quick_runs(base, SETTINGS, STRUCTURED) == quick_runs(base, secrets, NATIVE) == QUICK
    for public in (PublicCase.of(load_case("veilgas")), network_with_a_dc_line(load_text)):
        assert quick_runs(unsolved(public), SETTINGS, NATIVE) == QUICK
    assert len(list(preview(base, replace(CERTAIN, method=Method("planted")), NATIVE))) == QUICK


def test_a_network_is_lowered_once_for_all_simulations_and_only_where_an_engine_asks(monkeypatch):
    lowered, lower = [], bulk.lower_network
    monkeypatch.setattr(bulk, "lower_network", lambda *given, **how: lowered.append(how) or lower(*given, **how))
    base = unsolved(PublicCase.of(load_case("veil9")))
    quick_runs(base, SETTINGS, STRUCTURED)
    assert not lowered
    for _ in range(3):
        quick_runs(base, SETTINGS, NATIVE)
    assert lowered == [{"joint": True}]


@pytest.fixture
def there(monkeypatch):
    """Let engines be there or not: no GPU and no compiler unless a test says otherwise."""

    def lend(*, gpu: bool = False, compiler: bool = False) -> None:
        monkeypatch.setitem(sys.modules, "cupy", None)
        if gpu:
            monkeypatch.setattr("gridveil.app.work.missing_gpu", lambda: None)
        found = "/usr/bin/g++" if compiler else None
        monkeypatch.setattr("gridveil.solvers.batch.engine_native.shutil.which", lambda name: found)

    lend()
    return lend


def test_a_gpu_is_used_where_there_is_one_and_nothing_else_unless_it_is_named(there):
    there(compiler=True)
    assert engine_of_simulations(None) is STRUCTURED
    assert engine_of_simulations(NATIVE) is engine_of_simulations(BatchEngine.AUTO) is NATIVE
    there(gpu=True)
    assert engine_of_simulations(None) is BatchEngine.GPU
    there()
    assert engine_of_simulations(BatchEngine.AUTO) is engine_of_simulations(STRUCTURED) is STRUCTURED


@pytest.fixture
def served(there, monkeypatch):
    """The engines of apps that were started."""
    run = pytest.importorskip("gridveil.app.run", reason="needs shiny")
    engines = []
    monkeypatch.setattr(run, "serve", lambda data, batch, **_: engines.append(batch))
    return engines


@pytest.mark.parametrize(
    "engine, remedy", [("gpu", r"pip install 'gridveil\[gpu\]'"), ("native", r"g\+\+: install it")]
)
def test_an_engine_that_is_named_and_not_there_is_bad_input(served, cli, tmp_path, engine, remedy):
    with pytest.raises(InputError, match=remedy):
        engine_of_simulations(BatchEngine(engine))
    said = cli("app", "--batch", engine, "--data", tmp_path / "data")
    assert said.code == 2 and re.search(remedy, said.err) and not served


@pytest.mark.parametrize("options, engine", [(("--batch", "native"), NATIVE), ((), STRUCTURED)])
def test_the_engine_of_the_command_line_reaches_the_simulations(there, served, cli, tmp_path, options, engine):
    there(compiler=True)
    assert cli("app", *options, "--data", tmp_path / "data").code == 0
    assert served == [engine]


def test_a_page_simulates_on_the_engine_that_it_is_given(monkeypatch):
    open_page = pytest.importorskip("gridveil.app.open_page", reason="needs shiny")
    engines = []
    monkeypatch.setattr(open_page, "Simulator", engines.append)
    session = SimpleNamespace(on_ended=lambda end: None)
    open_page.OpenPage(None, SimpleNamespace(running=None), NATIVE, None, session)
    assert engines == [NATIVE]


def made(count: int, *, whole: bool = False) -> list[PreviewRun]:
    """Runs that nobody made, with costs that tell them apart."""
    cost = 0.005 if whole else 0.001
    return [
        PreviewRun(whole=whole, verified=True, ending="", cost=cost + 1e-5 * k, distance_noisy=0.2,
                   distance_released=0.1 + 1e-3 * k, site_error=1.0, zones=(0.01, 0.02))
        for k in range(count)
    ]  # fmt: skip


@pytest.fixture
def page(monkeypatch):
    """What the page says, with ten quick runs."""
    found = pytest.importorskip("gridveil.app.simulation_view", reason="needs shiny")
    for place in (module, found):
        monkeypatch.setattr(place, "QUICK_RUNS", 10)
    return found


def test_words_at_each_stage(page):
    def words(*counts, expected, settings=SETTINGS):
        return [page.simulation_words(settings, count, expected, done=False) for count in counts]

    assert whole_runs(SETTINGS) == WHOLE and whole_runs(CERTAIN) == 0
    many = "Simulating 20 more releases; those that take longest come last …"
    one_by_one, whole = "Simulating …", "Simulating whole releases …"
    assert words(0, 9, 10, 11, 12, 31, expected=30) == [one_by_one, one_by_one, whole, whole, many, many]
    assert words(0, 9, 10, 29, expected=30, settings=CERTAIN) == [one_by_one, one_by_one, many, many]
    assert words(0, 9, 10, 11, 12, expected=10) == [one_by_one, one_by_one, whole, whole, one_by_one]
    assert page.simulation_words(SETTINGS, 32, 30, done=True) == "Simulation complete: 32 releases."


def test_the_view_counts_all_runs_and_its_first_figure_shows_the_first(page, base):
    def view(runs, expected, settings=SETTINGS):
        text = str(page.simulation_view(base, settings, runs, expected))
        return text, re.findall("<svg.*?</svg>", text, re.DOTALL)

    first = [*made(10), *made(2, whole=True)]
    begun, charts = view(first, 30)
    text, more = view([*first, *made(20)], 30)
    assert "10 of 30" in begun and "Optimal cost of each simulated release against" in begun
    assert "30 of 30" in text and "All 30 simulated releases succeed" in text and "target found (2)" in text
    assert "Optimal cost of each of the first 12 simulated releases against" in text
    assert more[0] == charts[0] and more[1] != charts[1]
    assert "The first 10 releases and the last 20 take the cost target for known; the others find it" in text
    few, _ = view(first, 10)
    assert "10 of 10" in few and "The first 10 releases take the cost target for known; the others find it" in few
    certain, _ = view(made(10), 30, CERTAIN)
    assert "All releases take the cost target for known." in certain and "the others" not in certain
