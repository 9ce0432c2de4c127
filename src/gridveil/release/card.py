"""The card that goes with a release: what is promised, under which parameters, and what is not protected."""

from __future__ import annotations

from gridveil import __version__
from gridveil.privacy.noisy import TargetSource
from gridveil.release.pipeline import Release

NOT_PROTECTED = {
    TargetSource.PUBLIC: "the optimal cost of the true demands, taken as public knowledge and used as the cost target",
    TargetSource.FORECAST: "the forecast of the cost used as the cost target",
    TargetSource.PRIVATE: "nothing beyond the sites and the network",
    TargetSource.DERIVED: "nothing beyond the sites and the network",
}


def card(release: Release) -> dict[str, object]:
    """Give the card as plain values for YAML."""
    noisy, result, target = release.noisy, release.released.result, release.target
    return {
        "title": "SIMULATION, NOT PRIVATE" if noisy.simulation else "Differentially private network demands",
        "software": f"gridveil {__version__}",
        "privacy": {
            "unit": "one load site: its complex power P + jQ",
            "guarantee": "(epsilon, alpha)-indistinguishability",
            "epsilon": noisy.epsilon,
            "alpha_per_unit": noisy.alpha,
            "base_mva": release.case.network.base_mva,
            "mechanism": noisy.mechanism,
            "expected_squared_noise_per_unit": noisy.expected_square,
        },
        "cost_target": {"mode": target.source.value, "value": target.value, "beta": target.beta, "unit": "$/h"},
        "post_processing": {
            "method": release.settings.method.value,
            "optimal_cost": result.cost,
            "distance_to_noisy_squared_per_unit": result.delta,
            "monotone": result.monotonicity.holds,
        },
        "not_protected": ["topology, limits and costs", "sites of loads", NOT_PROTECTED[target.source]],
    }
