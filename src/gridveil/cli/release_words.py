"""What ``release`` says besides its result: the pre-flight, questions before ε is spent, and how to go on after Ctrl-C."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gridveil.cli.output import note, output_mode, print_line, show, warn
from gridveil.core.text import number, percent, plural

if TYPE_CHECKING:
    from gridveil.service.account import Spending
    from gridveil.service.guards import Confirm, Question
    from gridveil.service.preflight import Preflight

MOST_LISTED = 12  # numbers that equal a demand, on the screen; --json lists all


def confirmation(yes: bool) -> Confirm:
    """How questions are answered: --yes confirms all, a terminal asks each once, and nobody is asked elsewhere."""
    from gridveil.service.guards import confirm_all, confirm_nothing

    if yes:
        return confirm_all
    if not is_interactive():
        return confirm_nothing
    confirmed: set[str] = set()

    def ask(question: Question) -> bool:
        if question.code not in confirmed:
            sys.stderr.write(f"gridveil: {question.text}.\n  Or {question.instead}.\n  Go on? [y/N] ")
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                return False
            confirmed.add(question.code)
        return True

    return ask


def is_interactive() -> bool:
    """Whether a person sits at a terminal and is spoken to."""
    return not output_mode().silent and sys.stdin.isatty() and sys.stderr.isatty()


def note_guards(found: Preflight) -> None:
    """Say, before anything is drawn, what α means and what to think of; questions are asked separately."""
    note(f"ε = {found.epsilon:g}, {found.alpha.words}")
    asked = {question.code for question in found.questions}
    for warning in found.warnings:
        if warning.code not in asked:
            note(warning.text)


def show_preflight(found: Preflight, as_json: bool) -> None:
    """Print the pre-flight: for the curator, as it may name true values."""
    if as_json:
        show(plain_preflight(found), True, "")
        return
    for line in preflight_lines(found):
        print_line(line)


def plain_preflight(found: Preflight) -> dict[str, object]:
    """The pre-flight in plain values."""
    from dataclasses import asdict

    return {"go": found.go, "nothing_charged": True, **asdict(found)}


def preflight_lines(found: Preflight) -> list[str]:
    """The pre-flight in words, the answer first."""
    secret, noise, fields = found.secret, found.noise, plural(found.secret.field)
    lines = [f"{'GO' if found.go else 'NO-GO'}: {found.case}, nothing was drawn or charged"]
    lines += [f"  stop: {reason.text}" for reason in found.reasons]
    asked = {question.code for question in found.questions}
    lines += [f"  {'confirm' if one.code in asked else 'warning'}: {one.text}" for one in found.warnings]
    lines.append(f"secret: {secret.meaning} at {secret.sites} {plural(secret.participant)}, in {secret.unit}")
    lines.append(f"public, as it is in the file: {'; '.join(found.public)}")
    lines.append(f"promise: ε = {found.epsilon:g}, {found.alpha.words}")
    if found.budget is not None:
        budget = found.budget
        made = "" if budget.exists else " (to be created)"
        lines.append(
            f"budget{made}: cap {budget.cap:g}, spent {budget.spent:.6g}, this release {budget.request:.6g}, left "
            f"{budget.left:.6g}, in ε at α = {number(budget.alpha)} {budget.unit}"
        )
    of_total = "" if noise.share_of_total is None else f", {percent(noise.share_of_total)} of a usual total"
    lines.append(
        f"noise to expect: {number(noise.per_site)} {noise.unit} on one {secret.field}, {number(noise.total)} {noise.unit} on "
        f"the total{of_total}"
    )
    lines += _odds_lines(found)
    lines += _equal_lines(found, fields)
    return lines


def _odds_lines(found: Preflight) -> list[str]:
    chances = found.odds
    if chances is None:
        return ["simulation: none could be made from public data"]
    lines = [f"simulation: {chances.verified} of {chances.runs} releases of simulated demands succeeded"]
    if chances.distance_released is not None:
        far = chances.distance_released
        lines.append(f"  demands lie {percent(far.low)} to {percent(far.high)} from the simulated ones")
    if chances.cost_error is not None:
        cost = chances.cost_error
        lines.append(f"  the cost lies {percent(cost.low)} to {percent(cost.high)} from theirs (80 % of runs)")
    return lines


def _equal_lines(found: Preflight, fields: str) -> list[str]:
    if found.equal_numbers is None:
        return []
    real = [one for one in found.equal_numbers if not one.coincidence]
    chance = len(found.equal_numbers) - len(real)
    apart = f"; {chance} more are round numbers or explained by chance" if chance else ""
    lines = [f"public numbers that equal true {fields} (for you alone): {len(real)}{apart}"]
    for one in real[:MOST_LISTED]:
        whose = f" at {one.place}" if one.place else ""
        lines.append(f"  {one.column}, row {one.row}: {number(one.value, 6)} {one.unit} is {one.meaning}{whose}")
    if len(real) > MOST_LISTED:
        lines.append(f"  … and {len(real) - MOST_LISTED} more; --json lists all")
    return lines


def say_interrupted(out: Path, before: Spending | None, after: Spending | None) -> None:
    """Say what was charged when the user stopped a release, where its draw is, and how to go on."""
    again = shlex.join(["gridveil", *sys.argv[1:]])
    public = next((out / name for name in ("public", "simulation") if (out / name).is_dir()), None)
    spent = 0.0 if before is None or after is None else after.epsilon - before.epsilon
    if spent > 0 and after is not None:
        warn(
            f"stopped; charged: ε = {spent:.6g} at α = {number(after.alpha)} {after.unit}, in all {after.epsilon:.6g} of "
            f"{after.cap:.6g}"
        )
    else:
        warn("stopped; nothing was charged by this run")
    if public is not None:
        warn(f"the release is published and complete in {public}; only the certificate or the report is missing")
    elif (out / "curator" / "draw.json").is_file():
        warn(f"the draw is kept in {out / 'curator' / 'draw.json'}; go on at no further cost with: {again}")
    elif spent > 0:
        warn(f"go on under the same charge with: {again}")
    else:
        warn(f"nothing was drawn; begin again with: {again}")
