"""What came of a release, in plain words and in order of importance. For the curator: it goes to no public file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gridveil.core.choices import DemandBounds
from gridveil.core.text import number, odds_above, percent, plural
from gridveil.privacy.secret_leaks import secret_leaks
from gridveil.sectors.case import Case
from gridveil.service.card import plain_words
from gridveil.service.release import Release

CHECK = "gridveil release --check"


def what_happened(release: Release, case: Case, folder: Path, public: Path) -> list[str]:
    """Lines for the curator: what is published and how private it is, what to watch out for, and what to open next."""
    made = release.public
    field, result, target = made.case.field, made.released.result, made.target
    compared = release.curator.comparison
    fields = "values" if field.parts else plural(field.name)
    alpha = f"{number(made.draw.noisy.mechanism.alpha * field.base)} {field.unit}"
    if made.simulation:
        lines = [f"SIMULATION, NOT PRIVATE: made from a seed, it protects nobody. {made.case.name} is in {public}."]
    else:
        lines = [
            f"Published: {made.case.name} with {len(field)} private {fields}, in {public}.",
            f"Privacy: {plain_words(made)[0]}"
            if field.parts
            else f"Privacy: two values of one {field.name} up to {alpha} apart are told apart by odds of no more than "
            f"{odds_above(made.draw.epsilon)} to 1 (ε = {made.draw.epsilon:g}).",
        ]
    if made.spending is not None:
        spent = made.spending
        lines.append(
            f"Budget: ε = {spent.epsilon:.6g} of {spent.cap:.6g} is spent on these data, at α = {number(spent.alpha)} {spent.unit}."
        )
    lines.append(
        f"Cost: the released network's optimum is {number(result.cost, 6)} {made.cost_unit}, verified within "
        f"{number(target.beta)} of its target {number(target.value, 6)} ({target.source.value})."
    )
    near, noisy = (percent(distance) for distance in (compared.distance_released, compared.distance_noisy))
    what = "Values" if field.parts else "Demands"
    lines.append(f"{what}: they lie {near} from the true ones (for you alone), {noisy} before the repair.")
    lines += _watch_out(release, case)
    card = next((public / name for name in ("card.html", "card.yaml") if (public / name).is_file()), public)
    report = folder / "curator" / "report.html"
    lines.append(f"Next: read {card} as your readers will" + (f", and {report} yourself." if report.is_file() else "."))
    lines.append(f"Keep {folder / 'curator'} to yourself; publish all of {public.name}/ and nothing else.")
    return lines


def _watch_out(release: Release, case: Case) -> list[str]:
    made, lines = release.public, []
    if made.case.field.parts:
        return [f"Watch out (for you alone): {words}." for words in secret_leaks(case)]
    equal = [one for one in release.curator.equal_numbers if not one.coincidence]
    if equal:
        numbers = "1 public number equals" if len(equal) == 1 else f"{len(equal)} public numbers equal"
        lines.append(
            f"Watch out (for you alone): {numbers} a true {made.case.field.name}, the first in "
            f"{equal[0].column}, row {equal[0].row}; {CHECK} lists them. Think before you publish."
        )
    checked, bounds = made.released.checked, made.settings.demand_bounds
    if checked is not None and checked.spread > 0:
        lines.append("Watch out: the network has several local optima; the card says which costs solvers stop at.")
    negative = int(np.sum(made.values.real < 0))
    if negative and bounds is DemandBounds.NONE:
        are = "is" if negative == 1 else "are"
        lines.append(
            f"Watch out: {negative} of {len(made.values)} released {plural(made.case.field.name)} {are} negative; if all are "
            "loads, --reuse this folder with --demand-bounds nonnegative, at no cost."
        )
    return lines
