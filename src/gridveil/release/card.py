"""The card that goes with a release: what is promised, under which parameters, and what is not protected.

Field names are those of the OpenDP deployments registry where they fit; everything on the card is public.
"""

from __future__ import annotations

from gridveil import __version__
from gridveil.privacy.noisy import TargetSource
from gridveil.release.pipeline import Release

SIMULATION_NOTICE = "SIMULATION, NOT PRIVATE: the noise was made from a seed and protects nobody"
ALWAYS_UNPROTECTED = (
    "topology, parameters and limits of the network",
    "generator limits and costs",
    "which buses have load sites, and how many",
)
TARGET_UNPROTECTED = {
    TargetSource.PUBLIC: ("the optimal cost of the true demands: it is the cost target, taken as public knowledge",),
    TargetSource.FORECAST: ("the forecast of the cost, as given by the curator",),
    TargetSource.PRIVATE: (),
    TargetSource.DERIVED: (),
}


def card(release: Release) -> dict[str, object]:
    """Give the card as plain values for YAML."""
    noisy, result, target = release.draw.noisy, release.released.result, release.target
    mechanism, settings = noisy.mechanism, release.settings
    return {
        "name": SIMULATION_NOTICE if noisy.simulation else "Network with differentially private demands",
        "simulation": noisy.simulation,
        "software": f"gridveil {__version__}",
        "data_product_type": "network with synthetic demands",
        "dp_flavor": {
            "name": "pure differential privacy: (epsilon, alpha)-indistinguishability",
            "unprotected_quantities": [*ALWAYS_UNPROTECTED, *TARGET_UNPROTECTED[target.source]],
        },
        "privacy_loss": {
            "privacy_unit": "one load site",
            "privacy_unit_description": (
                "the complex power P + jQ of one site may change by up to alpha, all other sites being known to the attacker"
            ),
            "privacy_parameters": {
                "epsilon": release.draw.epsilon,
                "epsilon_demands": mechanism.epsilon,
                "epsilon_cost": release.draw.private_cost.epsilon if release.draw.private_cost else 0.0,
                "alpha": mechanism.alpha,
                "alpha_unit": f"per unit of {release.case.network.base_mva:g} MVA",
            },
        },
        "implementation": {
            "mechanism": mechanism.name,
            "lattice_step": mechanism.step,
            "scale": mechanism.scale,
            "expected_squared_noise": mechanism.expected_square,
            "proof": mechanism.proof_note,
        },
        "cost_target": {"mode": target.source.value, "value": target.value, "beta": target.beta, "unit": "$/h"},
        "post_processing": {
            "method": settings.method.value,
            "demand_bounds": settings.demand_bounds.value,
            "optimal_cost": result.cost,
            "squared_distance_to_noisy": result.delta,
            "monotone": result.monotonicity.holds,
            "band": "verified by a fresh local solve",
        },
    }
