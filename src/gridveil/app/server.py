"""What the page does: each function ties inputs of one step to its outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shiny import Inputs, Outputs, Session, reactive, render, ui

from gridveil.app import views
from gridveil.app.checks import Checked, check, sentence
from gridveil.app.data_folder import DataFolder
from gridveil.app.form import NEW_DRAW, site_choices, source_choices
from gridveil.app.open_page import Loaded, OpenPage
from gridveil.app.request import ReleaseRequest
from gridveil.app.simulation_view import attacker_view, simulation_view, simulation_words
from gridveil.app.work import Releases, Simulation, words_of
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError

SIMULATING = {"private", "simulate"}


def make_server(data: DataFolder, releases: Releases, batch: BatchEngine) -> Callable[[Inputs, Outputs, Session], None]:
    """The server function of Shiny, called once for each page."""

    def server(input: Inputs, output: Outputs, session: Session) -> None:
        page = OpenPage(data, releases, batch, input, session)
        for connect in (_case, _promise, _simulation, _release, _publish):
            connect(page)
        page.start()

    return server


def _case(page: OpenPage) -> None:
    values = page.input

    @reactive.extended_task
    async def load(request: ReleaseRequest) -> tuple[Loaded | None, str]:
        try:
            return await asyncio.to_thread(Loaded.of, request), ""
        except Exception as error:
            return None, words_of(error)

    @reactive.effect
    @reactive.event(values.upload)
    def _take() -> None:
        try:
            sources = [page.data.take_upload(Path(file["datapath"]), file["name"]) for file in values.upload() or []]
        except InputError as error:
            page.trouble.set(str(error))
            return
        ui.update_radio_buttons("sites", choices=site_choices(page.data), selected=values.sites())
        known = [source for source in sources if page.data.is_source(source)]
        if known:
            ui.update_select("source", choices=source_choices(page.data), selected=known[0])

    @reactive.effect
    @reactive.event(values.load, ignore_none=True, ignore_init=True)
    def _load() -> None:
        page.begin_loading(load)

    @reactive.effect
    @reactive.event(values.sites, values.names, ignore_init=True)
    def _reload() -> None:
        if page.loaded() is not None:
            page.begin_loading(load)

    @reactive.effect
    def _start() -> None:
        with reactive.isolate():
            if values.source():
                page.begin_loading(load)

    @reactive.effect
    async def _loaded() -> None:
        found, trouble = load.result()
        with reactive.isolate():
            await page.take_loaded(found, trouble)

    @render.ui
    def case_facts() -> Any:
        if load.status() == "running":
            return ui.tags.p("Reading the public part of the network …", role="status")
        return views.case_facts(page.loaded(), page.trouble())

    @render.ui
    def secret_facts() -> Any:
        return views.secret_facts(page.loaded(), page.trouble())


def _promise(page: OpenPage) -> None:

    @render.ui
    def budget() -> Any:
        page.changed()
        page.job_seen()
        found = page.settings()
        loaded = page.loaded()
        if loaded is None:
            return ui.tags.p("Budget: choose a network first.", class_="quiet")
        return views.budget(loaded, None if found is None else found[1], page.asked())

    @render.ui
    def field_trouble() -> Any:
        loaded = page.loaded()
        if loaded is None:
            return None
        try:
            page.asked().settings(loaded.public.field)
        except (InputError, ValueError) as error:
            return ui.tags.p(sentence(str(error)), class_="trouble", role="alert")
        return None

    @render.ui
    def promise() -> Any:
        found = page.settings()
        if found is None:
            return ui.tags.p("Choose a network, and give ε, α and β.")
        loaded, settings = found
        return ui.TagList(
            ui.tags.h2("What this promises"),
            views.alpha_words(loaded, settings),
            attacker_view(loaded.public.field, settings),
        )

    for button, step in (("to_private", "private"), ("to_simulate", "simulate"), ("to_release", "release")):
        _connect_next(page, button, step)

    @reactive.effect
    def _remember() -> None:
        request = page.asked()
        if request.source:
            page.data.remember(request.plain())


def _connect_next(page: OpenPage, button: str, step: str) -> None:
    """Let a button lead to a step."""

    @reactive.effect
    @reactive.event(page.input[button], ignore_init=True)
    async def _go() -> None:
        page.go(step)
        await page.session.send_custom_message("focus", {"id": "steps"})


def _simulation(page: OpenPage) -> None:
    values = page.input

    @reactive.effect
    def _simulate() -> None:
        found = page.settings()
        if found is None or values.step() not in SIMULATING:
            page.simulator.cancel()
            return
        loaded, settings = found
        with reactive.isolate():
            current = page.simulation()
            if current is not None and current.settings == settings and not current.cancelled.is_set():
                return
            page.simulation.set(page.simulator.start(loaded.public, settings))
            page.seen.set((0, False))

    @render.ui
    def simulation() -> Any:
        page.seen()
        current = page.simulation()
        if current is None:
            return ui.tags.p("Choose a network first.")
        trouble = ui.tags.p(sentence(current.trouble), class_="trouble", role="alert") if current.trouble else None
        runs = list(current.runs)
        if current.base is None or not runs:
            return trouble or ui.tags.p("Simulating …")
        return ui.TagList(trouble, simulation_view(current.base, current.settings, runs, current.quick))

    @render.text
    def simulation_state() -> str:
        count, done = page.seen()
        current = page.simulation()
        if current is None or current.trouble:
            return ""
        return simulation_words(current.settings, count, current.quick, done=done)


def _release(page: OpenPage) -> None:
    values = page.input

    @reactive.extended_task
    async def examine(request: ReleaseRequest, simulation: Simulation | None) -> tuple[Checked | None, str]:
        try:
            return await asyncio.to_thread(check, request, simulation, page.data), ""
        except Exception as error:
            return None, words_of(error)

    @reactive.effect
    def _offer_draws() -> None:
        page.changed()
        loaded = page.loaded()
        if loaded is not None:
            earlier = page.data.reusable(loaded.request.source, loaded.request.dataset)
            ui.update_select("reuse", choices={"": NEW_DRAW, **earlier}, selected="")

    @reactive.effect
    @reactive.event(values.check, ignore_init=True)
    def _check() -> None:
        page.simulator.cancel()
        request = page.asked()
        if not page.is_offered(request):
            return
        examine(request, page.simulation())

    @reactive.effect
    async def _checked() -> None:
        found, trouble = examine.result()
        page.checked.set(found)
        page.trouble.set(trouble)

    @render.ui
    def checklist() -> Any:
        if examine.status() == "running":
            return ui.tags.p("Checking …", role="status")
        return views.checklist(page.checked(), page.trouble(), page.asked(), running=page.is_running())

    @reactive.effect
    @reactive.event(values.confirm, ignore_init=True)
    def _release() -> None:
        page.begin_release()

    @reactive.effect
    @reactive.event(values.finish, ignore_init=True)
    def _finish() -> None:
        waiting = page.waiting()
        if waiting:
            page.begin_job(lambda: page.releases.resume(waiting[0]))

    @render.ui
    def progress() -> Any:
        page.job_seen()
        return views.progress(page.job())

    @render.ui
    def unfinished() -> Any:
        page.changed()
        page.job_seen()
        return views.unfinished(page.waiting())


def _publish(page: OpenPage) -> None:
    values = page.input

    @reactive.effect
    def _list() -> None:
        page.changed()
        done = [one for one in page.data.releases() if one.finished]
        choices = {one.name: one.name for one in done} or {"": "none yet"}
        ui.update_select("shown", choices=choices, selected=next(iter(choices)))

    @render.ui
    def published() -> Any:
        stored = page.data.release(values.shown() or "")
        return views.published(stored, show_report=bool(values.show_report() if "show_report" in values else 0))
