"""A release in plain values, as the command line prints it and the curator's report keeps it."""

from __future__ import annotations

import math
from dataclasses import asdict

from gridveil.service.kept_card import kept_facts
from gridveil.service.release import PublicRelease, Release


def summary(release: Release, *, with_fidelity: bool = False) -> dict[str, object]:
    """The fields of ``release --json``; ``curator`` holds what must not be published.

    ``with_fidelity``: once everything public is complete, ``curator`` tells what prices, congestion and balances are worth.
    """
    made = release.public
    result, target, high = made.released.result, made.target, made.released.highpoint
    return {
        "case": made.case.name,
        "field": made.case.field.name,
        "epsilon": made.draw.epsilon,
        "alpha": made.draw.noisy.mechanism.alpha * made.case.field.base,
        "alpha_unit": made.case.field.unit,
        "beta": target.beta,
        "method": made.settings.method.value,
        "simulation": made.simulation,
        "status": "verified",
        "cost_target": target.value,
        "cost_target_mode": target.source.value,
        "cost_target_error": made.target_error,
        "cost": result.cost,
        "cost_error": _relative(result.cost - target.value, target.value),
        "cost_spread": None if made.released.checked is None else made.released.checked.spread,
        "delta": result.delta,
        "optimisations": result.optimisations,
        "seconds": release.seconds,
        "certificate": {
            "ending": result.ending.value,
            **asdict(made.certificate),
            "monotone": result.monotonicity.holds,
            "worst_violation": result.monotonicity.worst_violation,
            "rank_correlation": _finite(result.monotonicity.rank_correlation),
        },
        "units": {
            "alpha": made.case.field.unit,
            "beta": made.cost_unit,
            "cost": made.cost_unit,
            "cost_target": made.cost_unit,
            "delta": "per unit squared",
            "seconds": "s",
        },
        **({} if made.keeping.nothing else {"kept": kept_facts(made)["kept"]}),
        "data_set": None if made.spending is None else asdict(made.spending),
        **_secrets(made),
        "curator": {name: _finite(value) for name, value in asdict(release.curator.comparison).items()}
        | {"highpoint_cost_error": _relative(high.cost - target.value, target.value)}
        | _errors(release)
        | (_fidelity(release) if with_fidelity else {}),
    }


def _secrets(made: PublicRelease) -> dict[str, object]:
    """Of several secrets: what the noise on each was charged, at its own α."""
    parts = made.draw.noisy.mechanism.parts
    each = [
        {"field": one.field, "epsilon": one.facts.epsilon, "alpha": one.facts.alpha * one.base, "unit": one.unit}
        for one in parts
    ]
    return {"secrets": each} if parts else {}


def _errors(release: Release) -> dict[str, object]:
    """Of several secrets: root mean square errors of each one's values, in its unit. For the curator."""
    made, curator = release.public, release.curator.curator
    if not made.case.field.parts:
        return {}
    return {
        "errors_noisy": curator.distances(made.draw.noisy.values),
        "errors_released": curator.distances(made.values),
    }


def _fidelity(release: Release) -> dict[str, object]:
    """The comparison with the truth; None where there is none, as of gas networks."""
    found = release.fidelity
    return {"fidelity": None if found is None else found.numbers()}


def _relative(difference: float, value: float) -> float | None:
    return _finite(difference / abs(value)) if value else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
