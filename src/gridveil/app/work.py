"""Work beside the page: simulations that a moved slider cancels, and releases that go on when the page is closed.

Each runs in a thread of its own; solves take turns, so that a solver never serves two of them at once. Simulated releases that
advance together have an engine of their own, and nobody waits for them.
"""

from __future__ import annotations

import os
import shutil
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import gridveil
from gridveil.app.data_folder import DataFolder, StoredRelease
from gridveil.app.request import ReleaseRequest
from gridveil.core.choices import BatchEngine
from gridveil.core.deadline import stoppable
from gridveil.core.errors import GridveilError, InputError
from gridveil.core.threads import Turns
from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.report.card_page import card_page
from gridveil.report.curator_page import write_curator_page
from gridveil.sectors.registry import read_places
from gridveil.service.account import LedgerAccount
from gridveil.service.begun import BegunRelease, was_begun
from gridveil.service.budget import ledger_to_charge, registered_ledger
from gridveil.service.guards import confirm_all
from gridveil.service.prepare import PublicCase
from gridveil.service.publish import CURATOR, PUBLIC, STAGING
from gridveil.service.release import refuse_share_of_nothing, refuse_undeclared_sites
from gridveil.service.release_folder import Listener, Pages, release_to_folder
from gridveil.service.reuse import kept_promise, load_draw
from gridveil.service.settings import ReleaseSettings
from gridveil.solvers.batch.backends import engine_for
from gridveil.solvers.batch.device_kernels import missing_gpu
from gridveil.study.preview import QUICK_RUNS, PreviewBase, PreviewRun, preview, preview_base, quick_runs

PACKAGE = Path(gridveil.__file__).parent
SOLVING = Turns()


def engine_of_simulations(named: BatchEngine | None) -> BatchEngine:
    """The engine that is named, AUTO resolved; what it lacks is an InputError. By default a GPU, or none where there is no GPU."""
    if named is None:
        return BatchEngine.GPU if missing_gpu() is None else BatchEngine.STRUCTURED
    engine = engine_for(named)
    return BatchEngine.STRUCTURED if engine is None else BatchEngine(engine.name)


def words_of(error: Exception) -> str:
    """What a page may say of an error: a message of ours, or the type and place of any other, which may hold true values."""
    if isinstance(error, GridveilError):
        return str(error)
    places = [
        f"{Path(frame.filename).relative_to(PACKAGE.parent)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(PACKAGE)
    ]
    return f"internal error ({type(error).__name__} at {places[-1] if places else 'an unknown place'}); this is a bug"


@dataclass(eq=False)
class Simulation:
    """Simulated releases of one setting. Read from any thread; the thread that adds to it stops when it is cancelled."""

    settings: ReleaseSettings
    runs: list[PreviewRun] = field(default_factory=list)
    base: PreviewBase | None = None
    quick: int = QUICK_RUNS
    """How many quick runs there will be."""
    done: bool = False
    trouble: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)


class Simulator:
    """Runs one simulation at a time on one public case; the made-up demands are kept while case and bounds stay."""

    def __init__(self, batch: BatchEngine = BatchEngine.STRUCTURED) -> None:
        """``batch`` is the engine of the many releases that advance together."""
        self._batch = batch
        self._base: tuple[tuple[int, str], PreviewBase] | None = None
        self._current: Simulation | None = None

    def start(self, public: PublicCase, settings: ReleaseSettings) -> Simulation:
        """Cancel what runs, and begin anew."""
        self.cancel()
        self._current = simulation = Simulation(settings)
        threading.Thread(target=self._run, args=(public, simulation), daemon=True, name="simulation").start()
        return simulation

    def cancel(self) -> None:
        """Stop in the middle of what is being simulated."""
        if self._current is not None:
            self._current.cancelled.set()

    def _run(self, public: PublicCase, simulation: Simulation) -> None:
        try:
            with SOLVING:
                if simulation.cancelled.is_set():
                    return
                base = self._base_of(public, simulation.settings)
            simulation.quick = quick_runs(base, simulation.settings, self._batch)
            simulation.base, stop = base, simulation.cancelled
            with closing(preview(base, simulation.settings, self._batch, alone=SOLVING)) as runs, stoppable(stop):
                for found in runs:
                    if stop.is_set():
                        break
                    simulation.runs.append(found)
        except Exception as error:
            if not simulation.cancelled.is_set():  # work that is stopped says that its time is over
                simulation.trouble = words_of(error)
        simulation.done = True

    def _base_of(self, public: PublicCase, settings: ReleaseSettings) -> PreviewBase:
        key = (id(public), settings.demand_bounds.value)
        if self._base is None or self._base[0] != key:
            self._base = key, preview_base(public, bounds=settings.demand_bounds)
        return self._base[1]


@dataclass(eq=False)
class ReleaseJob:
    """A release on its way. ``stages`` says in words how far it is, and holds nothing of the truth."""

    stored: StoredRelease
    stages: list[str] = field(default_factory=list)
    done: bool = False
    trouble: str = ""


class Releases:
    """The releases of a data folder, one at a time; shared by all tabs."""

    def __init__(self, data: DataFolder) -> None:
        self.data = data
        self._lock = threading.Lock()
        self.job: ReleaseJob | None = None

    def begin(self, request: ReleaseRequest, case: str) -> ReleaseJob:
        """Begin a new release, in a folder of its own."""
        return self._start(self.data.new_release(case, request.plain()))

    def resume(self, stored: StoredRelease) -> ReleaseJob:
        """Finish a release that was stopped."""
        return self._start(stored)

    @property
    def running(self) -> ReleaseJob | None:
        """The release that is being made."""
        return self.job if self.job is not None and not self.job.done else None

    def _start(self, stored: StoredRelease) -> ReleaseJob:
        with self._lock:
            if self.running is not None:
                raise InputError("another release is being made; wait until it is complete")
            stored.write()
            self.job = job = ReleaseJob(stored)
        threading.Thread(target=self._run, args=(job,), daemon=True, name="release").start()
        return job

    def _run(self, job: ReleaseJob) -> None:
        try:
            with SOLVING:
                finish_release(job.stored, stage=job.stages.append)
        except Exception as error:
            job.trouble = words_of(error)
        job.done = True


def finish_release(stored: StoredRelease, *, stage: Callable[[str], None]) -> None:
    """Make a release, or finish it if it was stopped. What has been charged for it is not charged again.

    The page has had everything confirmed. Here, and in the check before, the case is read with its true values.
    """
    request, folder = ReleaseRequest.of(stored.request), stored.folder
    with _taken(folder):
        now = StoredRelease.read(folder)
        if now is not None and now.finished:  # by another server, while this one waited
            return
        stage("reading the case")
        case = request.load()
        settings, public, curator = request.settings(case.field), PublicCase.of(case), Curator(case)
        refuse_undeclared_sites(public, settings)
        refuse_share_of_nothing(public, settings)
        stage("opening the ledger")
        name = request.dataset or None
        cap = None if registered_ledger(public, name=name) is not None else request.cap()
        ledger = ledger_to_charge(case, settings, confirm_all, name=name, cap=cap)
        for left in (folder / PUBLIC, *folder.glob(f"{STAGING}*")):
            shutil.rmtree(left, ignore_errors=True)
        draw = None
        if request.reuse:
            draw = load_draw(folder.with_name(request.reuse), curator, ledger)
        elif stored.drawn and not was_begun(folder):  # stopped after the network was written
            draw = load_draw(folder, curator, ledger)
        if draw is not None:
            epsilon, alpha = kept_promise(draw, case.field, ledger, None, None)
            settings = replace(settings, epsilon=epsilon, alpha=alpha)
        release_to_folder(
            case,
            settings,
            LedgerAccount(ledger),
            BegunRelease(folder, curator, settings, ledger),
            _pages(request.source, folder, ledger),
            Listener(stage=stage, warn=stage),
            reuse=draw,
            publication=request.publication(),
        )
        replace(stored, finished=True).write()
        stage("complete")


def _pages(source: str, folder: Path, ledger: Ledger) -> Pages:
    return Pages(
        card=card_page,
        report=lambda made: write_curator_page(made, folder / CURATOR, ledger=ledger, places=read_places(source)),
    )


@contextmanager
def _taken(folder: Path) -> Iterator[None]:
    """Hold a release's folder against other servers; the system lets go of it if this one dies."""
    disk.make_folder(folder / CURATOR)
    held = disk.held_folder(folder / CURATOR)
    if held is None:
        raise InputError(f"{folder.name}: another server is making this release")
    try:
        yield
    finally:
        os.close(held)
