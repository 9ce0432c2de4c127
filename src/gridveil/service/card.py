"""The card that goes with a release: what is promised, under which parameters, and what is not protected.

Field names are those of the OpenDP deployments registry where they fit; everything on the card is public.
"""

from __future__ import annotations

from dataclasses import asdict

from gridveil import __version__
from gridveil.core.band import TargetSource
from gridveil.sectors.describe import demand_unit
from gridveil.sectors.gas.network import GasNetwork
from gridveil.service.pipeline import Release

SIMULATION_NOTICE = "SIMULATION, NOT PRIVATE: the noise was made from a seed and protects nobody"
POWER_UNPROTECTED = (
    "topology, parameters and limits of the network",
    "generator limits and costs",
    "which buses have load sites, and how many",
)
GAS_UNPROTECTED = (
    "topology, parameters and limits of the network",
    "regulated pressures, and the fixed injections of other supplies (their sum is near the total demand)",
    "which junctions have delivery sites, and how many",
)
POWER_UNIT = (
    "the complex power P + jQ of one site may change by up to alpha, all other sites being known to the attacker"
)
GAS_UNIT = "the withdrawal of one site may change by up to alpha, all other sites being known to the attacker"
TARGET_UNPROTECTED = {
    TargetSource.PUBLIC: ("the optimal cost of the true demands: it is the cost target, taken as public knowledge",),
    TargetSource.FORECAST: ("the forecast of the cost, as given by the curator",),
    TargetSource.PRIVATE: (),
    TargetSource.DERIVED: (),
}


def card(release: Release) -> dict[str, object]:
    """Give the card as plain values for YAML."""
    noisy, result, target = release.draw.noisy, release.released.result, release.target
    mechanism, settings, network = noisy.mechanism, release.settings, release.case.network
    gas = isinstance(network, GasNetwork)
    always = GAS_UNPROTECTED if gas else POWER_UNPROTECTED
    return {
        "name": SIMULATION_NOTICE if noisy.simulation else "Network with differentially private demands",
        "simulation": noisy.simulation,
        "software": f"gridveil {__version__}",
        "data_product_type": "network with synthetic demands",
        "dp_flavor": {
            "name": "pure differential privacy: (epsilon, alpha)-indistinguishability",
            "unprotected_quantities": [*always, *TARGET_UNPROTECTED[target.source]],
        },
        "privacy_loss": {
            "privacy_unit": "one delivery site" if gas else "one load site",
            "privacy_unit_description": GAS_UNIT if gas else POWER_UNIT,
            "privacy_parameters": {
                "epsilon": release.draw.epsilon,
                "epsilon_demands": mechanism.epsilon,
                "epsilon_cost": release.draw.private_cost.epsilon if release.draw.private_cost else 0.0,
                "alpha": mechanism.alpha,
                "alpha_unit": demand_unit(network),
            },
        },
        "implementation": {
            "mechanism": mechanism.name,
            "lattice_step": mechanism.step,
            "scale": mechanism.scale,
            "expected_squared_noise": mechanism.expected_square,
            "proof": mechanism.proof_note,
        },
        "cost_target": {
            "mode": target.source.value,
            "value": target.value,
            "beta": target.beta,
            "unit": release.cost_unit,
        },
        "post_processing": {
            "method": settings.method.value,
            "demand_bounds": settings.demand_bounds.value,
            "optimal_cost": result.cost,
            "squared_distance_to_noisy": result.delta,
            "monotone": result.monotonicity.holds,
        },
        "certificate": asdict(release.certificate),
    }
