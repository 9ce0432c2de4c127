"""Simulated releases as words, numbers and charts; all of it made from public facts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from htmltools import HTML
from numpy.typing import NDArray
from shiny import ui

from gridveil.core.quantity import parse_distance, physical
from gridveil.core.secret import SecretField
from gridveil.core.text import number, percent
from gridveil.report.promise import DISTANCES, Odds
from gridveil.report.style import QUIET, Role
from gridveil.report.svg import Chart, Scale, span
from gridveil.service.settings import ReleaseSettings
from gridveil.study.preview import QUICK_RUNS, PreviewBase, PreviewRun, whole_runs

Floats = NDArray[np.float64]

DASHED = "5 4"
BINS = 12
LOW, HIGH = 0.1, 0.9
ENOUGH = 4  # whole releases for a middle worth a sentence


def simulation_words(settings: ReleaseSettings, count: int, expected: int, *, done: bool) -> str:
    """How far a simulation is, by the number of its runs; ``expected`` quick ones come in all."""
    more = expected - QUICK_RUNS
    if done:
        return f"Simulation complete: {count} releases."
    if QUICK_RUNS <= count < QUICK_RUNS + whole_runs(settings):
        return "Simulating whole releases …"
    together = more > 0 and count >= QUICK_RUNS
    return f"Simulating {more} more releases; those that take longest come last …" if together else "Simulating …"


def simulation_view(base: PreviewBase, settings: ReleaseSettings, runs: Sequence[PreviewRun], expected: int) -> Any:
    """Everything below the sliders; ``expected`` quick runs come in all."""
    quick, whole = [run for run in runs if not run.whole], [run for run in runs if run.whole]
    first = runs[: QUICK_RUNS + len(whole)]  # hundreds of dots would hide the band that all quick runs keep to
    which = (
        "each simulated release" if len(first) == len(runs) else f"each of the first {len(first)} simulated releases"
    )
    return ui.TagList(
        ui.tags.p(answer(quick, whole), class_="answer"),
        facts(_numbers(quick, whole, expected)),
        ui.tags.div(
            _figure(_cost_chart(base, settings, first), f"Optimal cost of {which} against its band."),
            _figure(_distance_chart(quick), "How far demands move: the noise alone, and after the repair."),
            _figure(_zone_chart(base, quick), "Totals of the largest zones: middle and the range of 8 in 10 releases."),
            class_="figures",
        ),
        _failures(quick, whole),
        ui.tags.h3("What an attacker could learn"),
        attacker_view(base.case.field, settings, quick),
        ui.tags.p(f"Demands {base.words}. {_known_targets(settings, expected)}", class_="quiet"),
    )


def _known_targets(settings: ReleaseSettings, expected: int) -> str:
    if not whole_runs(settings):
        return "All releases take the cost target for known."
    last = f" and the last {expected - QUICK_RUNS}" if expected > QUICK_RUNS else ""
    known = f"The first {QUICK_RUNS} releases{last} take the cost target for known"
    return f"{known}; the others find it as a release does."


def answer(runs: Sequence[PreviewRun], whole: Sequence[PreviewRun]) -> str:
    """The result in two sentences."""
    if not runs:
        return "The first simulated release is on its way."
    verified = [run for run in runs if run.verified]
    if not verified:
        return f"None of {len(runs)} simulated releases succeeded. Choose a larger β or a smaller α."
    distance = float(np.median([run.distance_released for run in verified]))
    how_many = "All" if len(verified) == len(runs) else f"{len(verified)} of"
    words = (
        f"{how_many} {len(runs)} simulated releases succeed. In half of them demands move by more than {percent(distance)}, all "
        "taken together."
    )
    errors = [abs(run.cost) for run in whole if run.verified]
    if len(errors) >= ENOUGH:
        middle = percent(float(np.median(errors)))
        words += f" With the noise of the cost target, half of {len(errors)} move the cost by more than {middle}."
    return words


def attacker_view(field: SecretField, settings: ReleaseSettings, runs: Sequence[PreviewRun] = ()) -> Any:
    """The most that anybody can learn about one participant, in odds; and what reading the release tells."""
    rows = odds_of(field, settings)
    middle = next(row for row in rows if row.apart == "α")
    errors = [run.site_error for run in runs if run.verified]
    read = (
        ui.tags.p(
            f"Who simply reads the released {field.name} of a {field.participant} is off by "
            f"{number(float(np.median(errors)), 3)} {field.unit} for every second one."
        )
        if errors
        else None
    )
    return ui.TagList(
        ui.tags.p(
            f"Somebody who knows every other {field.name}, and holds two values of the last one that differ by {middle.amount} "
            "for equally likely, can afterwards believe in one of them at odds of at most ",
            ui.tags.strong(middle.odds),
            f": a probability of at most {middle.probability} instead of 50 %.",
        ),
        table(
            "Odds at several distances",
            ("Two values that differ by", "that is", "odds, at most", "probability, at most"),
            [(row.apart, row.amount, row.odds, row.probability) for row in rows],
        ),
        read,
    )


def odds_of(field: SecretField, settings: ReleaseSettings) -> list[Odds]:
    """Odds at half of α, α and twice α, for noise whose loss is ε for each α."""
    alpha = float(physical(parse_distance(settings.alpha, field), field))
    loss = float(settings.exact_epsilon)
    return [
        Odds(apart=words, amount=f"{number(share * alpha)} {field.unit}", loss=share * loss)
        for share, words in DISTANCES
    ]


def facts(pairs: Sequence[tuple[str, str]]) -> Any:
    """Names and values, side by side."""
    return ui.tags.dl(*(ui.tags.div(ui.tags.dt(name), ui.tags.dd(value)) for name, value in pairs), class_="facts")


def table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """A table that may scroll in a narrow window."""
    return ui.tags.div(
        ui.tags.table(
            ui.tags.caption(caption),
            ui.tags.thead(ui.tags.tr(*(ui.tags.th(text, scope="col") for text in headings))),
            ui.tags.tbody(*(ui.tags.tr(*(ui.tags.td(cell) for cell in row)) for row in rows)),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        **{"aria-label": caption},
    )


def _numbers(quick: Sequence[PreviewRun], whole: Sequence[PreviewRun], expected: int) -> list[tuple[str, str]]:
    failed = sum(not run.verified for run in quick)
    shown = [
        ("Simulated releases", f"{len(quick)} of {expected}"),
        ("Failures", f"{failed} ({percent(failed / len(quick))})" if quick else "–"),
        (
            "Change of the cost" + (f", target found ({len(whole)})" if whole else ", target known"),
            _range([run.cost for run in whole or quick]),
        ),
        ("Distance of released demands", _range([run.distance_released for run in quick])),
        ("Distance of noisy demands", _range([run.distance_noisy for run in quick])),
    ]
    return shown


def _range(values: Sequence[float]) -> str:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "–"
    low, middle, high = np.quantile(finite, [LOW, 0.5, HIGH])
    return f"{percent(float(middle))} ({percent(float(low))} to {percent(float(high))})"


def _cost_chart(base: PreviewBase, settings: ReleaseSettings, runs: Sequence[PreviewRun]) -> HTML:
    beta = settings.beta.half_width(base.cost) / (abs(base.cost) or 1.0)
    costs = 100 * np.array([run.cost for run in runs])
    low, high = span(costs, include=(-100 * beta, 100 * beta))
    steps = np.arange(1, len(runs) + 1, dtype=float)
    chart = Chart(
        title="Cost",
        x=Scale(low=0.0, high=max(QUICK_RUNS, len(runs)) + 1.0, label="simulated release", whole=True),
        y=Scale(low=low, high=high, label="change of the optimal cost (%)"),
    )
    sides = np.array([chart.x.low, chart.x.high, chart.x.high, chart.x.low])
    chart.area(
        sides, 100 * beta * np.array([-1, -1, 1, 1.0]), colour=Role.BAND, opacity=0.18, label="band, target known"
    )
    chart.across(0.0, colour=Role.BAND)
    whole = np.array([run.whole for run in runs], dtype=bool)
    chart.points(steps[~whole], costs[~whole], colour=Role.COST, label="released")
    if whole.any():
        chart.points(steps[whole], costs[whole], colour=Role.RELEASED, diamond=True, label="released, target found")
    return HTML(chart.drawn("Cost of simulated releases, with the band"))


def _distance_chart(runs: Sequence[PreviewRun]) -> HTML:
    released = 100 * np.array([run.distance_released for run in runs if run.verified])
    noisy = 100 * np.array([run.distance_noisy for run in runs])
    low, high = span(np.concatenate([released, noisy]), include=(0.0,), margin=0.03)
    edges = np.linspace(max(low, 0.0), high, BINS + 1)
    counts = [np.histogram(values, edges)[0].astype(float) for values in (noisy, released)]
    chart = Chart(
        title="Distance",
        x=Scale(low=float(edges[0]), high=high, label="distance to the simulated demands (%)"),
        y=Scale(low=0.0, high=1.06 * max(1.0, *(float(count.max()) for count in counts)), label="releases", whole=True),
    )
    chart.bars(edges, counts[0], colour=Role.NOISY, label="noisy", filled=False)
    chart.bars(edges, counts[1], colour=Role.RELEASED, label="released", filled=True)
    return HTML(chart.drawn("Histogram of distances of simulated releases"))


def _zone_chart(base: PreviewBase, runs: Sequence[PreviewRun]) -> HTML:
    names, _ = base.zones
    changes = 100 * np.array([run.zones for run in runs if run.verified]).reshape(-1, len(names))
    if len(changes):
        low, middle, high = (np.nan_to_num(np.quantile(changes, q, axis=0)) for q in (LOW, 0.5, HIGH))
    else:
        low = middle = high = np.zeros(len(names))
    left, right = span(np.concatenate([low, high]), include=(0.0,))
    rows = np.arange(len(names), dtype=float)
    chart = Chart(
        title="Zonal totals",
        x=Scale(low=left, high=right, label="change of the total active demand (%)"),
        y=Scale(low=-0.6, high=len(names) - 0.4, names=[name[:18] for name in names]),
        height=76.0 + 24.0 * max(len(names), 2),
        turned=True,
    )
    chart.upright(0.0, colour=QUIET, dashes=DASHED)
    chart.spans(rows, low, high, colour=Role.RELEASED, width=4.0, label="8 in 10 releases")
    chart.points(middle, rows, colour=Role.RELEASED, diamond=True, label="middle")
    return HTML(chart.drawn("Change of zonal totals in simulated releases"))


def _failures(quick: Sequence[PreviewRun], whole: Sequence[PreviewRun]) -> Any:
    reasons = Counter(run.ending for run in [*quick, *whole] if not run.verified)
    if not reasons:
        return None
    return ui.tags.div(
        ui.tags.p("Releases that failed, and why (each would have cost its ε):"),
        ui.tags.ul(*(ui.tags.li(f"{count} × {why}") for why, count in reasons.most_common())),
        class_="warning",
    )


def _figure(chart: HTML, caption: str) -> Any:
    return ui.tags.figure(chart, ui.tags.figcaption(caption))
