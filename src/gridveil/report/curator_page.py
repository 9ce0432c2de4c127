"""The curator's report: one page that compares a release with the truth, for the person responsible for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gridveil.bilevel.certificate import GLOBAL
from gridveil.bilevel.result import StepKind
from gridveil.core.text import number, percent, plural
from gridveil.privacy.curator import CuratorSolution
from gridveil.privacy.ledger import Ledger, exact_text
from gridveil.privacy.limits import in_words
from gridveil.report import charts
from gridveil.report.certificate_words import certificate_words
from gridveil.report.fidelity_view import fidelity_view
from gridveil.report.map_scale import colours
from gridveil.report.network_map import draw_network
from gridveil.report.page import render
from gridveil.report.promise import Promise, promise_of
from gridveil.report.verdict import Conclusion, KeyNumber, cost_number, curator_verdict, odds_number
from gridveil.report.views import CellValue, PageTable, draw_tab, largest_first
from gridveil.sectors.geometry import Places
from gridveil.sectors.registry import sector_of
from gridveil.sectors.view import BeforeAndAfter, ChangeTable, Sites, ValuePart
from gridveil.service.budget import describe_ledger
from gridveil.service.card import TARGET_WORDS, card
from gridveil.service.release import PublicRelease, Release

FILE = "report.html"
SCRIPTS = ("page.js", "charts.js", "network_map.js")


def write_curator_page(
    release: Release, folder: Path, *, ledger: Ledger | None = None, places: Places | None = None
) -> Path:
    """Write ``report.html`` into DIR/curator. It contains true values.

    ``ledger`` adds what has been spent on the data set; ``places`` the names and coordinates of the case file.
    """
    path = folder / FILE
    path.write_text(curator_page(release, ledger=ledger, places=places or Places()), encoding="utf-8")
    return path


def curator_page(release: Release, *, ledger: Ledger | None, places: Places) -> str:
    """The report as a page."""
    made, true = release.public, release.curator.optimum
    sector, field = sector_of(made.case.network), made.case.field
    sites = _sites(release, places)
    parts = sector.value_parts
    facts = card(made)
    promise, warnings = promise_of(facts), in_words(release.curator.equal_numbers)
    shown = _before_and_after(made, sites, true, places)
    cost_figure, distance_figure = charts.convergence(made.released.result.history, made.target, made.cost_unit)
    mechanism = made.draw.noisy.mechanism
    alpha = mechanism.alpha * field.base
    noise = math.sqrt(mechanism.expected_square / len(parts)) * field.base  # of one part of a value
    changes = {part.name: half for part, half in zip(parts, _halves(sites.change), strict=False)}
    scatters = [
        charts.demand_scatter(part.name.capitalize(), true_half, released_half, part.unit, alpha, noise)
        for part, true_half, released_half in zip(parts, _halves(sites.true), _halves(sites.released), strict=False)
    ]
    histogram = charts.change_histogram(changes, " or ".join(part.unit for part in parts), alpha, noise)
    tabs = [draw_tab(tab) for tab in shown.tabs]
    return render(
        "curator.html",
        title=f"Curator’s report: release of {made.case.name}",
        scripts=SCRIPTS,
        node=sector.node_word,
        nodes=plural(sector.node_word),
        simulation=made.simulation,
        card=facts,
        promise=promise,
        verdict=_verdict(release, true, sites, promise, warnings, ledger),
        ruler=_ruler(made, true),
        distances=_distances(release),
        scatters=scatters,
        site_data=_site_data(sites, parts),
        histogram=histogram,
        sites=_site_table(sites, sector.node_word, parts, field.unit),
        site_facts=_site_facts(sites, alpha, field.unit),
        solved=true.converged,
        facts=shown.facts,
        tabs=tabs,
        fidelity=fidelity_view(release),
        drawing=draw_network(shown.view, places),
        colours=colours(),
        cost_figure=cost_figure,
        distance_figure=distance_figure,
        steps=_step_table(made),
        certificate=certificate_words(made),
        ledger=describe_ledger(ledger) if ledger is not None else None,
        charges=_charges(ledger, made) if ledger is not None else [],
        warnings=[[warning] for warning in warnings],
        parameters=_parameters(made),
    )


def _sites(release: Release, places: Places) -> Sites:
    made = release.public
    labels, true, noisy, released = zip(*release.curator.curator.table(made.draw.noisy, made.values), strict=True)
    base = made.case.field.base
    return Sites(
        names=[_title(places, label) for label in labels],
        true=base * np.array(true),
        noisy=base * np.array(noisy),
        released=base * np.array(released),
    )


def _title(places: Places, node: str) -> str:
    name = places.names.get(node)
    return f"{name} ({node})" if name else node


def _before_and_after(made: PublicRelease, sites: Sites, true: CuratorSolution, places: Places) -> BeforeAndAfter:
    """Compare O(d°) with O(d*); where O(d°) was not solved, its numbers are missing."""
    network, after = made.case.network, made.released.result.x
    assert after is not None  # a release is verified, so it has a point
    before = true.x if true.converged else np.full(len(after), np.nan)
    return sector_of(network).compare(network, sites, before, after, partial(_title, places))


def _verdict(
    release: Release,
    true: CuratorSolution,
    sites: Sites,
    promise: Promise,
    warnings: Sequence[str],
    ledger: Ledger | None,
) -> Conclusion:
    made, result = release.public, release.public.released.result
    cost = true.cost if true.converged else math.nan
    unit, change = made.case.field.unit, float(np.median(np.abs(sites.change)))
    numbers = (
        cost_number(cost, result.cost, made.target.lower, made.target.upper, made.cost_unit),
        odds_number(promise),
        KeyNumber(
            label="Median change of a demand",
            value=f"{number(change, 3)} {unit}",
            note=f"the median demand is {number(float(np.median(np.abs(sites.true))), 3)} {unit}; "
            f"the noise was typically {promise.typical_noise}",
            term="noise",
        ),
        _budget_number(made, ledger),
    )
    return curator_verdict(
        simulation=made.simulation, promise=promise, solved=true.converged, revealing=len(warnings), numbers=numbers
    )


def _budget_number(made: PublicRelease, ledger: Ledger | None) -> KeyNumber:
    label = "Privacy budget left"
    if made.simulation:
        return KeyNumber(label=label, value="not charged", note="a simulation spends nothing", term="budget")
    spent = f"this release: ε = {number(made.draw.epsilon)}"
    if ledger is None:
        return KeyNumber(label=label, value="see the ledger", note=spent, term="budget")
    found = describe_ledger(ledger)
    note = f"of {found['cap']} at {found['alpha']} {found['unit']}; {spent}"
    return KeyNumber(label=label, value=f"ε = {found['remaining']}", note=note, term="budget")


def _ruler(made: PublicRelease, true: CuratorSolution) -> Markup:
    history = made.released.result.history
    tried = next((step.cost for step in history if step.kind is StepKind.HIGHPOINT), math.nan)
    cost = true.cost if true.converged else math.nan
    return charts.cost_ruler(made.target, cost, tried, made.released.result.cost, made.cost_unit)


def _distances(release: Release) -> list[tuple[str, str]]:
    """Relative distances from the true values: what the noise did, and what the repair made of it."""
    found = release.curator.comparison
    return [
        ("Distance of noisy demands from the truth", percent(found.distance_noisy)),
        ("Distance of the high point from the truth", percent(found.distance_highpoint)),
        ("Distance of released demands from the truth", percent(found.distance_released)),
        ("Cost certified", "globally" if release.public.certificate.band == GLOBAL else "locally"),
    ]


def _site_data(sites: Sites, parts: Sequence[ValuePart]) -> dict[str, object]:
    """What a chart tells of a site: true and released values, to four digits."""
    columns = []
    for k, part in enumerate(parts):
        for name, values in (("true", sites.true), ("released", sites.released)):
            numbers = [float(f"{value:.4g}") for value in _halves(values)[k]]
            columns.append((f"{part.symbol} {name} ({part.unit})", numbers))
    return {"names": list(sites.names), "columns": columns}


def _site_table(sites: Sites, node: str, parts: Sequence[ValuePart], unit: str) -> PageTable:
    """Set true and released values and their change; noisy ones too where one column each leaves room for them."""
    columns: dict[str, Any] = {node: sites.names}
    shown = {"true": sites.true, "noisy": sites.noisy, "released": sites.released, "change": sites.change}
    if len(parts) > 1:
        del shown["noisy"]
    for k, part in enumerate(parts):
        prefix = f"{part.symbol} " if len(parts) > 1 else ""
        columns |= {f"{prefix}{name} ({part.unit})": _halves(values)[k] for name, values in shown.items()}
    size = np.abs(sites.change)
    if len(parts) > 1:
        columns[f"size of change ({unit})"] = size
    return largest_first(ChangeTable(id="sites", columns=columns, change=size))


def _halves(values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Real and imaginary parts."""
    return values.real, values.imag


def _site_facts(sites: Sites, alpha: float, unit: str) -> list[tuple[str, str]]:
    size, change = np.abs(sites.true), np.abs(sites.change)
    return [
        ("Median size of a demand", f"{number(float(np.median(size)))} {unit}"),
        ("Demands smaller than α", f"{int(np.sum(size <= alpha))} of {len(size)}"),
        ("Median change", f"{number(float(np.median(change)))} {unit}"),
        ("Largest change", f"{number(float(change.max()))} {unit}"),
        ("Changed by more than α", f"{int(np.sum(change > alpha))} of {len(size)}"),
    ]


def _step_table(release: PublicRelease) -> PageTable:
    history = release.released.result.history
    headings = ["step", "what was solved", f"optimal cost ({release.cost_unit})", "distance to noisy (p.u.)", "solve"]
    rows: list[list[CellValue]] = [
        [
            k,
            name,
            (step.cost, number(step.cost, 7)) if math.isfinite(step.cost) else None,
            math.sqrt(step.delta) if math.isfinite(step.delta) else None,
            step.follower_status.value,
        ]
        for k, (name, step) in enumerate(zip(charts.step_names(history), history, strict=True), start=1)
    ]
    return PageTable(id="steps", headings=headings, rows=rows)


def _charges(ledger: Ledger, release: PublicRelease) -> list[list[str]]:
    mine = {release.draw.noisy.charge_id, release.draw.total.charge_id if release.draw.total else None}
    return [
        [
            charge.time.strftime("%Y-%m-%d %H:%M"),
            exact_text(charge.epsilon),
            exact_text(charge.alpha),
            charge.mechanism,
            charge.purpose,
            "yes" if charge.id in mine else "",
        ]
        for charge in reversed(ledger.history().charges)
    ]


def _parameters(release: PublicRelease) -> list[tuple[str, str, str]]:
    """List every setting as (name, value, meaning)."""
    settings, target, mechanism = release.settings, release.target, release.draw.noisy.mechanism
    base, unit = release.case.field.base, release.case.field.unit
    total = release.draw.total
    rows = [
        ("ε, in total", number(release.draw.epsilon), "no unit; smaller protects more"),
        ("ε for the demands", number(mechanism.epsilon), "what the noise on the demands spends"),
        (
            "α",
            f"{number(mechanism.alpha)} per unit = {number(mechanism.alpha * base)} {unit}",
            "how far apart two demands may be",
        ),
        ("Noise", mechanism.name, f"scale {number(mechanism.scale * base)} {unit}"),
        (
            "Lattice step",
            f"{number(mechanism.step * base)} {unit}",
            "the noise is drawn exactly on a lattice" if mechanism.step else "none: simulated noise",
        ),
        ("Cost target", f"{number(target.value, 6)} {release.cost_unit}", TARGET_WORDS[target.source]),
        ("β", f"{number(target.beta, 6)} {release.cost_unit}", "how far the optimal cost may lie from the target"),
        ("Method", settings.method.value, "how the bilevel problem was solved"),
        ("Solver", settings.solver.value, "who solved the optimal flow"),
        ("Bounds on demands", settings.demand_bounds.value, "on released active demands"),
        ("Solves", str(release.released.result.optimisations), "evaluations of the optimal flow in the search"),
        ("File format", release.case.file_format, "of the case and of the release"),
    ]
    if total is not None:
        words = f"Laplace noise of scale {number(total.mechanism.scale)} {release.cost_unit} on a weighted sum"
        rows.insert(2, ("ε for the cost", number(total.mechanism.epsilon), words))
    return rows
