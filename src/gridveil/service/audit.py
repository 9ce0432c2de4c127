"""gridveil audit: the sampler, the whole release, and attacks on released folders, as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gridveil.core.errors import InputError
from gridveil.privacy.attacks import (
    Attack,
    comment_attack,
    cost_attack,
    differencing_attack,
    power_flow_attack,
    reading_attack,
    set_point_attack,
)
from gridveil.privacy.curator import published_values
from gridveil.privacy.mechanisms import mechanism_for
from gridveil.privacy.mechanisms.lattice import LatticeMechanism
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.mechanisms.product import ProductNoise
from gridveil.privacy.mechanisms.sampler_audit import audit_ratios, goodness_of_fit
from gridveil.privacy.secret_attacks import (
    all_but_one_attacks,
    reading_attacks,
    released_values,
    text_attacks,
    unchanged_attacks,
)
from gridveil.sectors.case import Case
from gridveil.sectors.power.case import power_network
from gridveil.sectors.registry import file_of, read_back
from gridveil.service.alpha import alpha_of
from gridveil.service.pipeline_audit import audit_pipeline
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.public_files import CARD_FILE
from gridveil.service.publish import PUBLIC, SIMULATION
from gridveil.service.secrets import with_secrets
from gridveil.service.settings import ReleaseSettings
from gridveil.service.simulated import made_up_case

TEXTS = {".m", ".json", ".yaml", ".html", ".csv", ".raw", ".aux"}
SMALLEST_P_VALUE = 1e-4  # a right sampler fails this once in ten thousand audits

Advance = Callable[[], None]


def audit_sampler(case: Case, settings: ReleaseSettings, draws: int) -> dict[str, object]:
    """Exact probability ratios of the mechanism that would protect this case, and a test of what it draws."""
    case = with_secrets(case, settings.secrets)
    alpha = alpha_of(settings, case.field)
    mechanism = mechanism_for(case.field, epsilon=settings.exact_epsilon, alpha=alpha, name=settings.mechanism)
    if isinstance(mechanism, ProductNoise):
        found = {part.field.name: _sampler_report(one, draws) for part, one in mechanism.each}
        whole = all(bool(one["ratios"]["passed"] and one["goodness_of_fit"]["passed"]) for one in found.values())
        return {"mechanism": repr(mechanism), "samplers": {"passed": whole} | found}
    return _sampler_report(mechanism, draws)


def _sampler_report(mechanism: Mechanism, draws: int) -> dict[str, Any]:
    if not isinstance(mechanism, LatticeMechanism):
        raise InputError(f"the mechanism {mechanism.name} has no lattice, so its sampler cannot be audited exactly")
    ratios = audit_ratios(mechanism)
    fit = goodness_of_fit(mechanism.draw, mechanism, draws)
    return {
        "mechanism": repr(mechanism),
        "ratios": {
            "passed": ratios.passed,
            "largest_log_ratio": ratios.largest_log_ratio,
            "epsilon": float(mechanism.epsilon),
        },
        "goodness_of_fit": {
            "passed": fit.p_value > SMALLEST_P_VALUE and fit.off_lattice == 0,
            "draws": draws,
            "p_value": fit.p_value,
            "off_lattice": fit.off_lattice,
        },
    }


def audit_release(
    case: Case, settings: ReleaseSettings, *, runs: int, public_values: bool, advance: Advance = lambda: None
) -> dict[str, object]:
    """Release many times from two neighbouring data sets through the function that the command calls.

    Nothing is charged, so true values must not be used: unless the case's values are public, others are made up.
    ``advance`` is called after each of 2 ``runs`` releases.
    """
    case = with_secrets(case, settings.secrets)
    stand_in = case if public_values else _stand_in(case, settings)
    found = audit_pipeline(stand_in, settings, runs=runs, advance=advance)
    return {"pipeline": asdict(found) | {"passed": found.passed, "values": "public" if public_values else "made up"}}


def _stand_in(case: Case, settings: ReleaseSettings) -> Case:
    """The same network with values made from public data alone."""
    return made_up_case(prepare(PublicCase.of(case), solver=settings.solver.value))[0]


def attack_release(case: Case, source: str, folders: list[Path], solver: str) -> list[dict[str, object]]:
    """Run every attack on released folders; an attack that does better than the noise allows has not passed."""
    released, cards = zip(*(_contents(folder) for folder in folders), strict=True)
    original, card = file_of(source), cards[0]
    if case.field.parts:
        return [_row(attack) for attack in _secret_attacks(case, list(released), card, solver)]
    noise = float(card["mechanisms"][0]["root_mean_square_noise"])
    attacks = [reading_attack(case, released[0], noise)]
    grid = power_network(case)
    if grid is not None:
        attacks.append(power_flow_attack(case, grid, released[0], noise))
        if original is not None:
            attacks.append(set_point_attack(case, original, released[0]))
    if len(released) > 1:
        attacks.append(differencing_attack(case, list(released), noise))
    if released[0].suffix == ".m":
        attacks.append(comment_attack(case, released[0]))
    attacks.append(_cost_attack(case, released[0], card, solver))
    return [_row(attack) for attack in attacks]


def _secret_attacks(case: Case, released: list[Path], card: Mapping[str, Any], solver: str) -> list[Attack]:
    """Every attack on several secrets, by their parts."""
    stated = [part.field.name for part in case.field.parts]
    if [one["field"] for one in card.get("secrets", ())] != stated:
        raise InputError("the release to attack has other secrets than those stated; name them with --secret")
    noise = {one["field"]: float(one["root_mean_square_noise"]) for one in card["mechanisms"] if "field" in one}
    found = released_values(case, released[0])
    files = [path for path in released[0].parent.rglob("*") if path.suffix in TEXTS]
    return [
        *reading_attacks(case, released, noise),
        *unchanged_attacks(case, found),
        *text_attacks(case, [path.read_text(errors="replace") for path in files]),
        *all_but_one_attacks(case, _published_costs(card), found, solver),
    ]


def _published_costs(card: Mapping[str, Any]) -> list[float]:
    """Every number on a card that may be the true cost, and the edges that it may lie on."""
    target, optimum = card["cost_target"], float(card["post_processing"]["optimal_cost"])
    value, beta = float(target["value"]), float(target["beta"])
    return [value, value - beta, value + beta, optimum, optimum - beta, optimum + beta]


def passed(report: Mapping[str, Any]) -> bool:
    """Whether every part of an audit passed."""
    parts = [part for part in report.values() if isinstance(part, Mapping) and "passed" in part]
    return all(bool(part["passed"]) for part in [*parts, *report.get("attacks", [])])


def _cost_attack(case: Case, released: Path, card: Mapping[str, Any], solver: str) -> Attack:
    largest = int(np.argmax(np.abs(published_values(read_back(case.network, released)).real)))
    start = float(published_values(read_back(case.network, released))[largest].real)
    return cost_attack(case, _published_costs(card), start, float(card["promise"]["alpha"]), solver)


def _row(attack: Attack) -> dict[str, object]:
    fields = asdict(attack) | {"passed": attack.passed}
    return fields if math.isfinite(attack.error) else fields | {"error": None}


def _contents(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    for name in (PUBLIC, SIMULATION):
        matches = sorted((folder / name).glob("network*"))
        if matches and (folder / name / CARD_FILE).exists():
            return matches[0], yaml.safe_load((folder / name / CARD_FILE).read_text(encoding="utf-8"))
    raise InputError(f"{folder}: holds no released network with its card; name the --out folder of a release")
