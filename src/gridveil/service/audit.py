"""gridveil audit: the sampler, the pipeline, and attacks on a released folder, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from gridveil.core.errors import InputError
from gridveil.privacy.attacks import (
    Attack,
    comments_of,
    demands_in_text,
    differencing_attack,
    power_flow_attack,
    reading_attack,
    totals_attack,
)
from gridveil.privacy.draw import mechanism_for
from gridveil.privacy.mechanisms.sampler_audit import audit_ratios, goodness_of_fit
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.gas.generator import BUILT_IN as BUILT_IN_GAS
from gridveil.sectors.power.network import PowerNetwork
from gridveil.service.pipeline_audit import audit_pipeline

SMALLEST_P_VALUE = 1e-4  # a right sampler fails this once in ten thousand audits


def audit_mechanism(
    case: Case, *, epsilon: str, alpha: str, draws: int, runs: int, advance: Callable[[], None] = lambda: None
) -> dict[str, object]:
    """Audit the sampler and the pipeline for the mechanism that would protect this case.

    ``advance`` is called after each of 2 ``runs`` releases.
    """
    mechanism = mechanism_for(case.demand, epsilon=epsilon, alpha=alpha)
    ratios = audit_ratios(mechanism)
    fit = goodness_of_fit(lambda values: mechanism.add_noise(values).values, mechanism, draws)
    pipeline = audit_pipeline(mechanism, runs, advance)
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
        "pipeline": asdict(pipeline) | {"passed": pipeline.passed},
    }


def passed(report: Mapping[str, object]) -> bool:
    """Whether sampler and pipeline passed every part of an audit."""
    return all(bool(part["passed"]) for part in report.values() if isinstance(part, Mapping) and "passed" in part)


def attack_release(case: Case, source: str, folders: list[Path]) -> list[dict[str, object]]:
    """Run every attack on the source file and on the released folders, and say in MVA what comes back."""
    released = [_network_file(folder) for folder in folders]
    original = None if source in BUILT_IN_GAS else resolve_case(source)
    rows = []
    if isinstance(case.network, PowerNetwork) and original is not None:
        rows.append(_row("source", power_flow_attack(case, case.network, original)))
        rows.append(_row("release", power_flow_attack(case, case.network, released[0])))
    rows += [_row("release", reading_attack(case, released[0])), _row("release", totals_attack(case, released[0]))]
    if len(released) > 1:
        rows.append(_row("release", differencing_attack(case, released)))
    for where, path in (("source", original), ("release", released[0])):
        if path is not None and path.suffix == ".m":
            found = demands_in_text(case, comments_of(path))
            rows.append({"on": where, "name": "demands in comments", "sites_found": len(found)})
    return rows


def _row(where: str, attack: Attack) -> dict[str, object]:
    return {"on": where} | asdict(attack)


def _network_file(folder: Path) -> Path:
    for name in ("public", "simulation"):
        matches = sorted((folder / name).glob("network*"))
        if matches:
            return matches[0]
    raise InputError(f"{folder}: holds no released network; name the --out folder of a release")
