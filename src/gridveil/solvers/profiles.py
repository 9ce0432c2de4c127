"""Profiles of optima: a dispatch, and what people read off it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gridveil.core.deadline import OutOfTimeError, time_limit
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.power.profile import OperatingProfile, operating_profile, unsolved_profile
from gridveil.solvers.backend import Answer, Backend, Effort, Start

Vector = NDArray[np.float64]


def profile_at(
    backend: Backend,
    network: PowerNetwork,
    d: Vector,
    *,
    x: Vector | None = None,
    outages: tuple[int, ...] = (),
    seconds: float = 60.0,
) -> OperatingProfile:
    """The profile of O(d), from ``x`` if that is known to be near it; unsolved where no optimum is found in time."""
    return profile_of(network, d, optimum_near(backend, d, x, seconds), outages)


def profile_of(
    network: PowerNetwork, d: Vector, answer: Answer | None, outages: tuple[int, ...] = ()
) -> OperatingProfile:
    """What one reads off an optimum at d; unsolved where there is none."""
    if answer is None or not answer.converged or answer.prices is None:
        return unsolved_profile(network, d)
    return operating_profile(network, answer.x, d, answer.prices, answer.cost, outages)


def optimum_near(backend: Backend, d: Vector, x: Vector | None = None, seconds: float = 60.0) -> Answer | None:
    """O(d), from ``x`` if that is known to be near it; None where time runs out."""
    try:
        with time_limit(seconds):
            if x is not None:
                near = backend.dispatch(d, start=Start(x, d), effort=Effort.NEAR)
                if near.converged:
                    return near
            # Noise alone often has no optimum at all: a brief try is enough to say so.
            return backend.dispatch(d, effort=Effort.BRIEF)
    except OutOfTimeError:
        return None
