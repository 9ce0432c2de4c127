"""One open page: what it holds and does. It holds the public part of one case, and nothing true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shiny import Inputs, Session, reactive, ui
from shiny.session import session_context

from gridveil.app.checks import Checked, usual_alpha
from gridveil.app.data_folder import DataFolder, StoredRelease
from gridveil.app.form import STATED, site_choices
from gridveil.app.request import ReleaseRequest
from gridveil.app.work import ReleaseJob, Releases, Simulation, Simulator
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.privacy.ledger import Ledger
from gridveil.sectors.registry import describe_case
from gridveil.service.budget import registered_ledger
from gridveil.service.prepare import PublicCase
from gridveil.service.settings import ReleaseSettings

POLL = 0.05  # seconds between looks at work in other threads


@dataclass(frozen=True, eq=False, kw_only=True)
class Loaded:
    """The public part of a case, as a session holds it; its values were let go of."""

    request: ReleaseRequest
    public: PublicCase
    facts: dict[str, object]

    @classmethod
    def of(cls, request: ReleaseRequest) -> Loaded:
        """Read a case, and keep what is public."""
        case = request.load()
        return cls(request=request, public=PublicCase.of(case), facts=describe_case(case))

    def ledger(self) -> Ledger | None:
        """The ledger of the data set, if it has one."""
        return registered_ledger(self.public, name=self.request.dataset or None)


class OpenPage:
    """One open page: its inputs, what is shown, and what its buttons do."""

    def __init__(
        self, data: DataFolder, releases: Releases, batch: BatchEngine, inputs: Inputs, session: Session
    ) -> None:
        self.data, self.releases, self.input, self.session = data, releases, inputs, session
        self.simulator = Simulator(batch)
        self.loaded: reactive.Value[Loaded | None] = reactive.Value(None)
        self.trouble: reactive.Value[str] = reactive.Value("")
        self.simulation: reactive.Value[Simulation | None] = reactive.Value(None)
        self.seen: reactive.Value[tuple[int, bool]] = reactive.Value((0, True))
        self.job: reactive.Value[ReleaseJob | None] = reactive.Value(releases.running)
        self.job_seen: reactive.Value[tuple[int, bool]] = reactive.Value((0, True))
        self.checked: reactive.Value[Checked | None] = reactive.Value(None)
        self.changed: reactive.Value[int] = reactive.Value(0)
        self.ended = False
        session.on_ended(self.end)

    def start(self) -> None:
        """Begin to look at work."""
        self.watching = asyncio.get_running_loop().create_task(self.watch())

    def end(self) -> None:
        """The page was closed: simulations stop, releases go on."""
        self.ended = True
        self.simulator.cancel()

    async def watch(self) -> None:
        """Look at the work of other threads, and show what is new."""
        while not self.ended:
            await asyncio.sleep(POLL)
            async with reactive.lock():
                with session_context(self.session), reactive.isolate():
                    news = self.look_at_simulation() | self.look_at_job()
                if news and not self.ended:
                    await reactive.flush()

    def look_at_simulation(self) -> bool:
        """Note how far the simulation is; say whether that is new."""
        current = self.simulation()
        return current is not None and self.seen.set((len(current.runs), current.done))

    def look_at_job(self) -> bool:
        """The same for the release; one that is complete is shown."""
        job = self.job()
        if job is None:
            return False
        before, done = self.job_seen(), job.done
        news = self.job_seen.set((len(job.stages), done))
        if done and not before[1]:
            self.after_job(job)
        return news

    def asked(self) -> ReleaseRequest:
        """The form as it stands."""
        values = self.input
        names = ("source", "sites", "names", "preset", "dataset", "epsilon", "alpha", "beta", "target", "forecast")
        return ReleaseRequest.of(
            {name: values[name]() or "" for name in names}
            | {
                "bounds": values.bounds(),
                "method": values.method(),
                "budget": values.budget_cap() or "",
                "reuse": values.reuse() or "",
                **{name: values[name]() or "" for name in STATED},
            }
        )

    def settings(self) -> tuple[Loaded, ReleaseSettings] | None:
        """The case and the settings, where both are valid."""
        loaded = self.loaded()
        if loaded is None:
            return None
        try:
            return loaded, self.asked().settings(loaded.public.field)
        except (InputError, ValueError):
            return None

    def begin_loading(self, load: Callable[[ReleaseRequest], object]) -> None:
        """Read the chosen case in a thread, if it is one of those that may be chosen."""
        request = self.asked()
        if not self.is_offered(request):
            return
        self.checked.set(None)
        load(request)

    def is_offered(self, request: ReleaseRequest) -> bool:
        """Whether the files that a browser names are among those that were offered to it."""
        draws = {"", *self.data.reusable(request.source, request.dataset)}
        offered = (
            self.data.is_source(request.source) and request.sites in site_choices(self.data) and request.reuse in draws
        )
        if not offered:
            self.trouble.set("choose a network first")
        return offered

    async def take_loaded(self, found: Loaded | None, trouble: str) -> None:
        """Show a case that was read; propose an α that fits it."""
        self.trouble.set(trouble)
        before = self.loaded()
        self.loaded.set(found)
        if found is None:
            return
        field = found.public.field
        usual = usual_alpha(found.public)
        await self.session.send_custom_message(
            "scale", {"name": "alpha", "low": usual / 100, "high": usual * 30, "unit": field.unit}
        )
        await self.session.send_custom_message("show", {"id": "cap", "shown": found.ledger() is None})
        another = before is not None and before.request.source != found.request.source
        try:
            found.request.settings(field)
        except (InputError, ValueError):
            another = True
        if another:
            ui.update_text("alpha", value=f"{usual:g}{field.unit}")
        if self.input.step() == "case" and self.input.load():
            self.go("secret")

    def go(self, step: str) -> None:
        """Show a step."""
        ui.update_navset("step", selected=step)

    def is_running(self) -> bool:
        """Whether a release is being made, in this tab or another."""
        self.job_seen()
        return self.releases.running is not None

    def waiting(self) -> list[StoredRelease]:
        """Releases that were stopped, and are not being finished now."""
        job = self.releases.running
        return [one for one in self.data.unfinished() if job is None or one.name != job.stored.name]

    def begin_release(self) -> None:
        """Release what was checked, if everything was confirmed and nothing has changed since."""
        checked, request = self.checked(), self.asked()
        if checked is None or not checked.go or checked.request != request:
            self.trouble.set("the settings have changed since the check; check again")
            self.checked.set(None)
            return
        if not all(self.input[f"agree_{k}"]() for k in range(checked.confirmations)):
            self.trouble.set("confirm every line before the release")
            return
        self.checked.set(None)
        self.begin_job(lambda: self.releases.begin(request, checked.name))

    def begin_job(self, start: Callable[[], ReleaseJob]) -> None:
        """Start a release in a thread, unless one is running."""
        self.simulator.cancel()
        try:
            job = start()
        except InputError as error:
            self.trouble.set(str(error))
            return
        self.trouble.set("")
        self.job_seen.set((0, False))
        self.job.set(job)
        self.go("release")

    def after_job(self, job: ReleaseJob) -> None:
        """Show what came of a release."""
        self.changed.set(self.changed() + 1)
        if not job.trouble:
            self.go("publish")
