"""The curator's report: one page that compares a release with the truth, for the person who must answer for it."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np

from gridveil.bilevel.certificate import GLOBAL
from gridveil.core.band import TargetSource
from gridveil.privacy.curator import demand_table, solve_true
from gridveil.privacy.ledger import Ledger, exact_text
from gridveil.privacy.limits import limits_from_demand
from gridveil.programs import FollowerSolution
from gridveil.report import charts
from gridveil.report.certificate_words import certificate_words
from gridveil.report.gas_view import gas_before_and_after
from gridveil.report.network_map import colours, draw_network
from gridveil.report.operating import gas_state, power_state
from gridveil.report.page import number, percent, render
from gridveil.report.power_view import power_before_and_after
from gridveil.report.promise import promise_of
from gridveil.report.style import figure_style
from gridveil.report.views import BeforeAndAfter, Cell, Sites, Table, largest_first
from gridveil.sectors.describe import demand_base
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.geometry import Places
from gridveil.sectors.model import build_model
from gridveil.service.budget import describe_ledger
from gridveil.service.card import card
from gridveil.service.pipeline import Release
from gridveil.solvers.choose import engine_for

FILE = "report.html"
SCRIPTS = ("page.js", "network_map.js")
TARGETS = {
    TargetSource.PUBLIC: "the optimal cost of the true demands, taken as public knowledge",
    TargetSource.FORECAST: "a forecast, given by you",
    TargetSource.PRIVATE: "the true optimal cost with noise of its own",
    TargetSource.DERIVED: "derived from the noisy demands alone",
}


def write_curator_page(
    release: Release, folder: Path, *, ledger: Ledger | None = None, places: Places | None = None
) -> Path:
    """Write ``report.html`` into DIR/curator. It contains true demands.

    ``ledger`` adds what has been spent on the data set; ``places`` the names and coordinates of the case file.
    """
    path = folder / FILE
    path.write_text(curator_page(release, ledger=ledger, places=places or Places()), encoding="utf-8")
    return path


def curator_page(release: Release, *, ledger: Ledger | None, places: Places) -> str:
    """Give the report as a page."""
    network = release.case.network
    gas = isinstance(network, GasNetwork)
    sites, true = _sites(release, places), _solve_true(release)
    unit, parts = ("kg/s", ("demand",)) if gas else ("MW", ("active power", "reactive power"))
    facts = card(release)
    with figure_style():
        shown = _before_and_after(release, sites, true, places)
        cost_figure, distance_figure = charts.convergence(
            release.released.result.history, release.target, release.cost_unit
        )
        alpha = release.draw.noisy.mechanism.alpha * demand_base(network)[0]
        changes = dict(zip(parts, (sites.change.real, sites.change.imag), strict=False))
        scatters = [
            charts.demand_scatter(name.capitalize(), *values, one_unit, alpha)
            for name, one_unit, values in zip(
                parts,
                (unit, "MVAr"),
                ((sites.true.real, sites.released.real), (sites.true.imag, sites.released.imag)),
                strict=False,
            )
        ]
        histogram = charts.change_histogram(changes, "MW or MVAr" if not gas else unit, alpha)
    return render(
        "curator.html",
        title=f"Curator’s report: release of {release.case.name}",
        scripts=SCRIPTS,
        gas=gas,
        simulation=release.draw.noisy.simulation,
        card=facts,
        promise=promise_of(facts),
        glance=_glance(release, true),
        scatters=scatters,
        histogram=histogram,
        sites=_site_table(sites, gas),
        site_facts=_site_facts(sites, alpha, "kg/s" if gas else "MVA"),
        solved=true.converged,
        shown=shown,
        drawing=draw_network(shown.view, places),
        colours=colours(),
        cost_figure=cost_figure,
        distance_figure=distance_figure,
        steps=_step_table(release),
        certificate=certificate_words(release),
        ledger=describe_ledger(ledger) if ledger is not None else None,
        charges=_charges(ledger, release) if ledger is not None else [],
        warnings=[[warning] for warning in limits_from_demand(release.case)],
        parameters=_parameters(release),
    )


def _solve_true(release: Release) -> FollowerSolution:
    """O(d°), on the curator's side."""
    model = build_model(release.case.network)
    engine = engine_for(release.case.network, model, release.settings.solver)
    return solve_true(release.case, model, engine.solve_afresh)


def _sites(release: Release, places: Places) -> Sites:
    labels, true, noisy, released = zip(
        *demand_table(release.case, release.draw.noisy, release.released.values), strict=True
    )
    base = demand_base(release.case.network)[0]
    return Sites(
        names=[_title(places, label) for label in labels],
        true=base * np.array(true),
        noisy=base * np.array(noisy),
        released=base * np.array(released),
    )


def _title(places: Places, node: str) -> str:
    name = places.names.get(node)
    return f"{name} ({node})" if name else node


def _before_and_after(release: Release, sites: Sites, true: FollowerSolution, places: Places) -> BeforeAndAfter:
    """Compare O(d°) with O(d*); where O(d°) was not solved, its numbers are missing."""
    network, after = release.case.network, release.released.result.x
    assert after is not None  # a release is verified, so it has a point
    before = true.x if true.converged else np.full(len(after), np.nan)
    title = partial(_title, places)
    if isinstance(network, GasNetwork):
        base = network.flow_base
        first = gas_state(network, before, sites.true / base)
        return gas_before_and_after(network, sites, first, gas_state(network, after, sites.released / base), title)
    return power_before_and_after(network, sites, power_state(network, before), power_state(network, after), title)


def _glance(release: Release, true: FollowerSolution) -> list[tuple[str, str]]:
    result, target, unit = release.released.result, release.target, release.cost_unit
    cost = true.cost if true.converged else math.nan
    moved = (result.cost - cost) / abs(cost) if cost else math.nan
    return [
        ("Demands made private", str(len(release.case.demand))),
        ("Cost at the true demands", f"{number(cost, 6)} {unit}"),
        ("Cost at the released demands", f"{number(result.cost, 6)} {unit}"),
        ("Change of cost", percent(moved)),
        ("Allowed band", f"{number(target.lower, 6)} to {number(target.upper, 6)} {unit}"),
        ("Distance of noisy demands from the truth", percent(release.curator.distance_noisy)),
        ("Distance of released demands from the truth", percent(release.curator.distance_released)),
        ("Cost certified", "globally" if release.certificate.band == GLOBAL else "locally"),
    ]


def _site_table(sites: Sites, gas: bool) -> Table:
    change = sites.change
    if gas:
        columns = {
            "junction": sites.names,
            "true (kg/s)": sites.true,
            "noisy (kg/s)": sites.noisy,
            "released (kg/s)": sites.released,
            "change (kg/s)": change,
        }
    else:
        columns = {
            "bus": sites.names,
            "P true (MW)": sites.true.real,
            "P released (MW)": sites.released.real,
            "P change (MW)": change.real,
            "Q true (MVAr)": sites.true.imag,
            "Q released (MVAr)": sites.released.imag,
            "Q change (MVAr)": change.imag,
            "size of change (MVA)": np.abs(change),
        }
    return largest_first("sites", columns, np.abs(change))


def _site_facts(sites: Sites, alpha: float, unit: str) -> list[tuple[str, str]]:
    size, change = np.abs(sites.true), np.abs(sites.change)
    return [
        ("Median size of a demand", f"{number(float(np.median(size)))} {unit}"),
        ("Demands smaller than α", f"{int(np.sum(size <= alpha))} of {len(size)}"),
        ("Median change", f"{number(float(np.median(change)))} {unit}"),
        ("Largest change", f"{number(float(change.max()))} {unit}"),
        ("Changed by more than α", f"{int(np.sum(change > alpha))} of {len(size)}"),
    ]


def _step_table(release: Release) -> Table:
    history = release.released.result.history
    headings = ["step", "what was solved", f"optimal cost ({release.cost_unit})", "distance to noisy (p.u.)", "solve"]
    rows: list[list[Cell]] = [
        [
            k,
            name,
            (step.cost, number(step.cost, 7)) if math.isfinite(step.cost) else None,
            math.sqrt(step.delta) if math.isfinite(step.delta) else None,
            step.follower_status.value,
        ]
        for k, (name, step) in enumerate(zip(charts.step_names(history), history, strict=True), start=1)
    ]
    return Table(id="steps", headings=headings, rows=rows)


def _charges(ledger: Ledger, release: Release) -> list[list[str]]:
    mine = release.draw.noisy.charge_id
    return [
        [
            charge.time.strftime("%Y-%m-%d %H:%M"),
            exact_text(charge.epsilon),
            exact_text(charge.alpha),
            charge.mechanism,
            charge.purpose,
            "yes" if charge.id == mine else "",
        ]
        for charge in reversed(ledger.history().charges)
    ]


def _parameters(release: Release) -> list[tuple[str, str, str]]:
    """List every setting as (name, value, meaning)."""
    settings, target, mechanism = release.settings, release.target, release.draw.noisy.mechanism
    base, unit = demand_base(release.case.network)
    private = release.draw.private_cost
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
        ("Cost target", f"{number(target.value, 6)} {release.cost_unit}", TARGETS[target.source]),
        ("β", f"{number(target.beta, 6)} {release.cost_unit}", "how far the optimal cost may lie from the target"),
        ("Method", settings.method.value, "how the bilevel problem was solved"),
        ("Solver", settings.solver.value, "who solved the optimal flow"),
        ("Bounds on demands", settings.demand_bounds.value, "on released active demands"),
        ("Solves", str(release.released.result.optimisations), "evaluations of the optimal flow in the search"),
        ("File format", release.case.file_format, "of the case and of the release"),
    ]
    if private is not None:
        rows.insert(
            2,
            (
                "ε for the cost",
                number(private.epsilon),
                f"Laplace noise of scale {number(private.scale)} {release.cost_unit}",
            ),
        )
    return rows
