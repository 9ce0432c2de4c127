"""The page: its steps, and the fields of the form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from htmltools import Tag
from shiny import ui

from gridveil.app.data_folder import DataFolder
from gridveil.app.request import ALL_SITES, AS_FILE, ReleaseRequest
from gridveil.core.choices import CostTargetMode, DemandBounds, Names
from gridveil.core.methods import Method
from gridveil.sectors.gas.boundary import PRESETS

STEPS = {
    "case": "Case",
    "secret": "What is secret",
    "private": "How private",
    "simulate": "Simulate",
    "release": "Release",
    "publish": "Publish",
}
TARGETS = {
    CostTargetMode.PRIVATE.value: "private: found with noise of its own, from a share of ε",
    CostTargetMode.DERIVED.value: "derived: from the noisy demands alone",
    CostTargetMode.FORECAST.value: "forecast: a number that I give",
}
BOUNDS = {DemandBounds.NONE.value: "none", DemandBounds.NONNEGATIVE.value: "zero or more: all sites are loads"}
METHODS = {Method.AUTO.value: "price cuts and root search", Method.BISECTION.value: "bisection, as in the paper"}
SITES = {AS_FILE: "as the file states them", ALL_SITES: "every place that can have one"}
STATED = {
    "publisher": "Publisher",
    "contact": "Contact",
    "licence": "Licence of the data",
    "title": "Name of the network; that of the file is not published",
}
NEW_DRAW = "a new draw, charged to the ledger"
NAMES = {Names.PSEUDONYMS.value: "numbers in their place", Names.KEEP.value: "published as they are"}


def page(data: DataFolder, asked: ReleaseRequest) -> Tag:
    """The whole page, with the form as it was last."""
    return ui.page_fluid(
        ui.head_content(
            ui.tags.link(rel="stylesheet", href="assets/app.css"),
            ui.tags.link(rel="icon", href="data:,"),
            ui.tags.script(src="assets/app.js"),
            ui.tags.meta(name="color-scheme", content="light dark"),
        ),
        ui.tags.a("Skip to the step", href="#steps", class_="skip"),
        ui.tags.header(
            ui.tags.h1("Release a network"),
            ui.tags.div(ui.output_ui("budget"), class_="budget", role="region", **{"aria-label": "Privacy budget"}),
        ),
        ui.tags.main(
            ui.output_ui("unfinished"),
            ui.tags.div(
                ui.navset_pill(
                    ui.nav_panel("1 Case", *_case(data, asked), value="case"),
                    ui.nav_panel("2 What is secret", *_secret(data, asked), value="secret"),
                    ui.nav_panel("3 How private", *_private(), value="private"),
                    ui.nav_panel("4 Simulate", *_simulate(), value="simulate"),
                    ui.nav_panel("5 Release", *_release(asked), value="release"),
                    ui.nav_panel("6 Publish", *_publish(), value="publish"),
                    id="step",
                    header=_controls(asked),
                ),
                id="steps",
                tabindex="-1",
            ),
        ),
        ui.tags.footer(ui.tags.p("gridveil runs on this computer alone. This page loads nothing from elsewhere.")),
        title="gridveil: release a network",
        lang="en-GB",
    )


def _case(data: DataFolder, asked: ReleaseRequest) -> list[Any]:
    return [
        ui.tags.h2("Which network?"),
        ui.tags.p(
            "Choose a network from the data folder, upload one, or try a built-in example. Its demands stay in the file: they are "
            "read at the release, and not before."
        ),
        ui.input_select("source", "Network", choices=source_choices(data), selected=asked.source),
        ui.input_file("upload", "Or upload a file of your own", multiple=True, button_label="Choose a file"),
        ui.tags.details(
            ui.tags.summary("More about this network"),
            ui.input_select(
                "preset",
                "Gas: boundary conditions, where the file has none",
                choices={"": "none", **{name: name for name in PRESETS}},
                selected=asked.preset,
            ),
            ui.input_text(
                "dataset", "Name of the data set, if the network alone does not identify it", value=asked.dataset
            ),
        ),
        ui.input_action_button("load", "Use this network", class_="btn-primary"),
        ui.output_ui("case_facts"),
    ]


def _secret(data: DataFolder, asked: ReleaseRequest) -> list[Any]:
    return [
        ui.tags.h2("What is secret, and what is not"),
        ui.input_radio_buttons("sites", "Where customers are", choices=site_choices(data), selected=asked.sites),
        ui.input_radio_buttons("names", "Names of buses and loads", choices=NAMES, selected=asked.names),
        ui.output_ui("secret_facts"),
        _next("to_private", "Next: how private"),
    ]


def _controls(asked: ReleaseRequest) -> Any:
    """Fields of the promise: each a text, which counts, and a slider that writes it."""
    return ui.tags.section(
        ui.tags.h2("How private", id="controls-title"),
        ui.tags.div(
            _slider("epsilon", "ε: privacy loss; smaller protects more", asked.epsilon, low=0.05, high=10, unit=""),
            _slider("alpha", "α: change of one demand that is hidden", asked.alpha, low=0.1, high=1000, unit="MVA"),
            _slider("beta", "β: how far the cost may move", asked.beta, low=0.05, high=20, unit="%"),
            class_="sliders",
        ),
        ui.output_ui("field_trouble"),
        ui.tags.details(
            ui.tags.summary("Cost target, bounds, method"),
            ui.tags.div(
                ui.input_select("target", "Cost target", choices=TARGETS, selected=asked.target),
                ui.input_text("forecast", "Forecast of the cost, for a forecast target", value=asked.forecast),
                ui.input_select("bounds", "Bounds on released demands", choices=BOUNDS, selected=asked.bounds),
                ui.input_select("method", "Method", choices=METHODS, selected=asked.method),
                class_="sliders",
            ),
        ),
        ui.tags.div(
            ui.input_text(
                "budget_cap", "Cap on the total ε of this data set, fixed for good", value=asked.budget, width="26rem"
            ),
            id="cap",
        ),
        id="controls",
        **{"aria-labelledby": "controls-title"},
    )


def _private() -> list[Any]:
    return [ui.output_ui("promise"), _next("to_simulate", "Next: simulate")]


def _simulate() -> list[Any]:
    return [
        ui.tags.h2("What a release would look like"),
        ui.output_ui("simulation"),
        ui.tags.p(ui.output_text("simulation_state", inline=True), role="status", class_="quiet"),
        _next("to_release", "Next: release"),
    ]


def _release(asked: ReleaseRequest) -> list[Any]:
    return [
        ui.tags.h2("Checklist"),
        ui.tags.p(
            "The check reads the case with its true demands, on this computer, for you alone. Nothing is drawn and nothing is "
            "charged before you confirm."
        ),
        ui.input_select("reuse", "Noise", choices={"": NEW_DRAW}),
        ui.tags.details(
            ui.tags.summary("Statements on the card"),
            ui.tags.div(
                *(ui.input_text(name, text, value=getattr(asked, name)) for name, text in STATED.items()),
                class_="sliders",
            ),
        ),
        ui.input_action_button("check", "Check now", class_="btn-primary"),
        ui.output_ui("checklist"),
        ui.tags.div(ui.output_ui("progress"), role="status"),
    ]


def _publish() -> list[Any]:
    return [
        ui.tags.h2("Releases"),
        ui.input_select("shown", "Release", choices={"": "none yet"}),
        ui.output_ui("published"),
    ]


def _next(name: str, words: str) -> Any:
    return ui.tags.p(ui.input_action_button(name, words, class_="btn-primary"), class_="next")


def _slider(name: str, label: str, value: str, *, low: float, high: float, unit: str) -> Any:
    return ui.tags.div(
        ui.input_text(name, label, value=value),
        ui.tags.input(
            type="range",
            min="0",
            max="100",
            step="1",
            id=f"{name}_range",
            **{
                "aria-label": f"{label}: slider",
                "data-text": name,
                "data-low": str(low),
                "data-high": str(high),
                "data-unit": unit,
            },
        ),
        class_="slider",
    )


def site_choices(data: DataFolder) -> dict[str, str]:
    """Where the list of sites may come from."""
    return SITES | {path: f"in the list {name}" for path, name in data.site_lists().items()}


def source_choices(data: DataFolder) -> Mapping[str, Mapping[str, str]]:
    """Sources as groups of a list."""
    return {"": {"": "choose one"}, **data.sources()}
