"""A release in plain values, as the command line prints it and the curator's report keeps it."""

from __future__ import annotations

import math
from dataclasses import asdict

from gridveil.service.pipeline import Release


def summary(release: Release) -> dict[str, object]:
    """Give the fields of ``release --json``; ``curator`` holds what must not be published."""
    result, target, high = release.released.result, release.target, release.released.highpoint
    return {
        "case": release.case.name,
        "epsilon": release.draw.epsilon,
        "alpha": release.draw.noisy.mechanism.alpha,
        "beta": target.beta,
        "method": release.settings.method.value,
        "simulation": release.draw.noisy.simulation,
        "status": "verified",
        "cost_target": target.value,
        "cost": result.cost,
        "cost_error": _relative(result.cost - target.value, target.value),
        "delta": result.delta,
        "optimisations": result.optimisations,
        "seconds": release.seconds,
        "certificate": {
            "ending": result.ending.value,
            **asdict(release.certificate),
            "monotone": result.monotonicity.holds,
            "worst_violation": result.monotonicity.worst_violation,
            "rank_correlation": _finite(result.monotonicity.rank_correlation),
        },
        "curator": asdict(release.curator)
        | {"highpoint_cost_error": _relative(high.cost - target.value, target.value)},
    }


def _relative(difference: float, value: float) -> float | None:
    return _finite(difference / abs(value)) if value else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
