"""The last resort where O does not grow with the proxy: a point between public data that cost enough and the high point.

Pushing the proxy finds the band only where O is monotone. In a gas network with fixed supplies O can be zero over a wide
range of demands and grow on both sides of it; a push may then end where O is zero, and prices there say nothing. The
program's typical data, scaled up or down, leave that range: O(k·typical) enters the band at some k. On the way from the
high point to these data O enters the band too, and from there price cuts lead nearer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import StepKind
from gridveil.bilevel.run import MethodRun
from gridveil.solvers.backend import Effort

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class AnchorSettings:
    """Constants of the search; steps are factors of the typical data."""

    steps: tuple[float, ...] = (1.25, 0.8)
    """Up first: cost usually grows with demand."""
    most_steps: int = 20
    """On either side, until the cost lies in the band."""
    narrow: float = 1e-3
    """Share of the way to the anchor at which the search along it ends."""


USUAL = AnchorSettings()


def confirm_patiently(run: MethodRun) -> bool:
    """Verify point after point where only anchors would be left: those lie far away, so none is given up before."""
    while run.candidates and run.backend.program.typical is not None:
        if run.confirm():
            return True
    return False


def search_from_anchors(run: MethodRun, settings: AnchorSettings = USUAL) -> bool:
    """Add points in the band that lie on the way from the high point to public data; True if there are any."""
    typical = run.backend.program.typical
    if typical is None or run.highpoint is None:
        return False
    for step in settings.steps:
        anchor = _anchor(run, typical, step, settings)
        if anchor is not None:
            _approach(run, run.highpoint.d, anchor, settings)
    return bool(run.candidates)


def _anchor(run: MethodRun, typical: Vector, step: float, settings: AnchorSettings) -> Vector | None:
    """Typical data, scaled until their cost lies in the band; None if it does not on this side."""
    below, beyond = 0.0, float("nan")
    for _ in range(settings.most_steps):
        exponent = (below + beyond) / 2 if beyond > below else below + 1
        data: Vector = step**exponent * typical
        cost = _evaluate(run, data)
        if run.band.contains(cost):
            return data
        below, beyond = (exponent, beyond) if cost < run.band.lower else (below, exponent)
    return None


def _approach(run: MethodRun, base: Vector, anchor: Vector, settings: AnchorSettings) -> None:
    """Halve the way from the anchor, whose cost is in the band, to the base, whose cost is below it."""
    near, far = 0.0, 1.0
    while far - near > settings.narrow:
        middle = (near + far) / 2
        reaches = _evaluate(run, base + middle * (anchor - base)) >= run.band.lower
        near, far = (near, middle) if reaches else (middle, far)


def _evaluate(run: MethodRun, d: Vector) -> float:
    """O(d) from public starts, NaN if not found soon; recorded as a step, and a candidate if it lies in the band."""
    clock = time.perf_counter()
    follower = run.backend.dispatch(d, effort=Effort.BRIEF)
    if follower.converged:
        follower = run.solves.lowest(d, [follower], run.band)
    joint = replace(follower, delta=float(np.sum((d - run.noisy) ** 2)))
    usable = run.evaluate(StepKind.ANCHOR, joint.delta, joint, clock, known=follower)
    return usable.cost if usable is not None else float("nan")
