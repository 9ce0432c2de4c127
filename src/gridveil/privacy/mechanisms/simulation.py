"""The float noise of the paper's studies, kept so that published numbers can be repeated. It protects nobody.

A seeded release uses the exact mechanisms with seeded entropy instead.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np

from gridveil.core.secret import Secret, SecretValues
from gridveil.privacy.noisy import MechanismFacts, NoisyData, PartFacts


class NoiseSites(Enum):
    """Which sites receive noise: all of them, or, as in the paper's experiments, those that draw active power."""

    ALL = "all"
    POSITIVE = "positive"


def simulate_laplace(
    demand: SecretValues, *, epsilon: float, alpha: float, seed: int, sites: NoiseSites = NoiseSites.ALL
) -> NoisyData:
    """Laplace noise of scale α/ε: planar on complex demands (radius Gamma(2, α/ε)), scalar on real ones.

    Choosing sites by the sign of their demand reveals that sign, which is why it is for studies only.
    """
    values = demand.reveal()
    generator, scale, n = np.random.default_rng(seed), alpha / epsilon, len(values)
    if np.iscomplexobj(values):
        noise = generator.gamma(2.0, scale, n) * np.exp(1j * generator.uniform(0.0, 2 * np.pi, n))
        name, expected_square = "planar Laplace (simulated)", 6 * scale**2
    else:
        noise = generator.laplace(0.0, scale, n)
        name, expected_square = "Laplace (simulated)", 2 * scale**2
    chosen = np.ones(n, dtype=bool) if sites is NoiseSites.ALL else values.real > 0
    return NoisyData(
        values=values + np.where(chosen, noise, 0),
        mechanism=MechanismFacts(
            name=name,
            epsilon=epsilon,
            alpha=alpha,
            rounding=0.0,
            step=0.0,
            scale=scale,
            expected_square=expected_square,
            proof_note="none: a simulation protects nobody",
        ),
        simulation=True,
    )


def simulate_noise(
    secret: Secret, *, epsilon: float, alpha: float, seed: int, sites: NoiseSites = NoiseSites.ALL
) -> NoisyData:
    """Simulated noise on a secret; of several ones, each has its share of ε and ``alpha`` times its own α."""
    parts, values = secret.field.parts, secret.values.reveal()
    if not parts:
        return simulate_laplace(secret.values, epsilon=epsilon, alpha=alpha, seed=seed, sites=sites)
    drawn = []
    for place, part in enumerate(parts):
        own = values[part.run] if part.field.is_complex else values[part.run].real
        stream = int(np.random.SeedSequence((seed, place)).generate_state(1)[0])
        loss, distance = float(part.share) * epsilon, alpha * float(part.alpha)
        drawn.append(simulate_laplace(SecretValues(own), epsilon=loss, alpha=distance, seed=stream))
    noisy = [part.within_limits(one.values) for part, one in zip(parts, drawn, strict=True)]
    facts = tuple(PartFacts.of_part(part, one.mechanism) for part, one in zip(parts, drawn, strict=True))
    whole = replace(drawn[0].mechanism, name="Laplace on each secret (simulated)", epsilon=epsilon, parts=facts)
    return NoisyData(values=np.concatenate(noisy).astype(complex), mechanism=whole, simulation=True)
