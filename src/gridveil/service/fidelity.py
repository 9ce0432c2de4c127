"""What a release keeps of what people use a network for, beside noise alone and the high point.

A *profile* is what one reads off an optimum: prices, full lines, losses, balances of zones, severity of outages. Profiles of
released, noisy and high-point demands come from private draws and public data; the true one is the curator's alone, and so
is every difference from it. Nothing here is written to public files.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.profile import OperatingProfile, bus_zones, profiled, worst_lines
from gridveil.solvers.profiles import optimum_near, profile_of

if TYPE_CHECKING:
    from gridveil.service.release import PublicRelease, Release

Floats = NDArray[np.float64]

RELEASED, NOISY, HIGHPOINT = "released", "noisy", "highpoint"
WITHOUT_FUEL = "dispatch by fuel is left out: fuel types are not among the facts that gridveil reads"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How one profile differs from a reference; None where either has no optimum, or a number does not exist.

    Errors are relative. ``congestion`` is the Jaccard index of full lines: 1 where the same lines are full (or none is).
    """

    feasible: bool
    cost_error: float | None
    losses_error: float | None
    price_error: float | None
    """Root mean square of the errors of price quantiles, over the mean size of the reference's."""
    price_rank_correlation: float | None
    """Spearman's ρ of nodal prices over load sites."""
    congestion: float | None
    zone_demand_error: float | None
    """Root mean square over zones, over the mean size of the reference's."""
    zone_generation_error: float | None
    severity_error: float | None
    """Mean absolute difference of the worst loading after an outage."""


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """Profiles of a release, of noise alone and of the high point, and how each differs from a reference.

    The reference is the true profile (curator's eyes only), or, for readers, the release itself: ``reference_is`` says which.
    ``profiles`` and ``differences`` stand in the same order as ``names``.
    """

    reference_is: str
    reference: OperatingProfile
    names: tuple[str, ...]
    profiles: tuple[OperatingProfile, ...]
    differences: tuple[Difference, ...]
    zones_are: str
    outages: tuple[str, ...]
    """The lines whose outage is looked at, as bus--bus: the fullest of the released network."""
    notes: tuple[str, ...]

    def numbers(self) -> dict[str, object]:
        """Differences as plain values, for ``release --json``: one object per name, and what they mean."""
        found: dict[str, object] = {
            name: asdict(difference) for name, difference in zip(self.names, self.differences, strict=True)
        }
        return found | {"zones_are": self.zones_are, "outages": list(self.outages), "notes": list(self.notes)}


@dataclass(frozen=True, kw_only=True)
class PublicProfiles:
    """Profiles of released, noisy and high-point demands: from private draws and public data, without the truth."""

    outages: tuple[int, ...]
    """The lines whose outage is looked at: the fullest of the released network."""
    released: OperatingProfile
    noisy: OperatingProfile
    highpoint: OperatingProfile


def public_profiles(made: PublicRelease) -> PublicProfiles | None:
    """Solve for the profiles; None for networks that have none."""
    network, backend, layout = profiled(made.case.network), made.prepared.backend, made.prepared.model.layout
    if network is None or made.prepared.model.arrays is None:
        return None
    d, high = layout.to_program(made.values), made.released.highpoint.d
    optimum = optimum_near(backend, d, made.released.result.x)
    outages = worst_lines(profile_of(network, d, optimum))
    released = profile_of(network, d, optimum, outages)
    noisy = layout.to_program(made.draw.noisy.values)
    return PublicProfiles(
        outages=outages,
        released=released,
        noisy=profile_of(network, noisy, optimum_near(backend, noisy), outages),
        # a high point in the band is what is released
        highpoint=released
        if np.array_equal(high, d)
        else profile_of(network, high, optimum_near(backend, high), outages),
    )


def reader_fidelity(release: Release) -> Fidelity | None:
    """Compare noise alone and the high point with the release: from private draws and public data, without the truth."""
    found = release.public.profiles
    return None if found is None else _fidelity(release.public, found, found.released, RELEASED)


def curator_fidelity(release: Release) -> Fidelity | None:
    """Compare release, noise alone and high point with the truth. Curator's eyes only; after everything public is complete."""
    found, record = release.public.profiles, release.curator
    if found is None:
        return None
    truth = record.curator.profile(record.optimum, outages=found.outages)
    return _fidelity(release.public, found, truth, "true")


def _fidelity(made: PublicRelease, found: PublicProfiles, reference: OperatingProfile, reference_is: str) -> Fidelity:
    network = profiled(made.case.network)
    assert network is not None  # it has profiles
    profiles = {RELEASED: found.released, NOISY: found.noisy, HIGHPOINT: found.highpoint}
    names = tuple(name for name in profiles if name != reference_is)
    ids = network.grid.bus.id
    notes = [WITHOUT_FUEL]
    if not found.noisy.solved:
        notes.append(
            "no optimum was found for the noisy demands as they are: most likely the network cannot serve them"
        )
    return Fidelity(
        reference_is=reference_is,
        reference=reference,
        names=names,
        profiles=tuple(profiles[name] for name in names),
        differences=tuple(difference(profiles[name], reference) for name in names),
        zones_are=bus_zones(network)[0],
        outages=tuple(f"{ids[network.grid.from_bus[k]]}--{ids[network.grid.to_bus[k]]}" for k in found.outages),
        notes=tuple(notes),
    )


def difference(profile: OperatingProfile, reference: OperatingProfile) -> Difference:
    """Measure one profile against another of the same network."""
    both = profile.solved and reference.solved
    return Difference(
        feasible=profile.solved,
        cost_error=_relative(profile.cost, reference.cost),
        losses_error=_relative(profile.losses, reference.losses),
        price_error=_spread(profile.price_quantiles, reference.price_quantiles) if both else None,
        price_rank_correlation=rank_correlation(profile.prices, reference.prices) if both else None,
        congestion=jaccard(profile.binding, reference.binding) if both else None,
        zone_demand_error=_spread(profile.zone_demand, reference.zone_demand),
        zone_generation_error=_spread(profile.zone_generation, reference.zone_generation) if both else None,
        severity_error=_mean_difference(profile.severity, reference.severity) if both else None,
    )


def jaccard(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """Share of all full lines that are full in both; 1 where no line is full in either."""
    one, two = set(first), set(second)
    return len(one & two) / len(one | two) if one | two else 1.0


def rank_correlation(first: tuple[float, ...], second: tuple[float, ...]) -> float | None:
    """Spearman's ρ with mean ranks of ties; None where either does not vary."""
    ranks = [_ranks(np.array(values)) for values in (first, second)]
    if len(first) < 2 or min(float(np.std(rank)) for rank in ranks) == 0:
        return None
    return float(np.asarray(np.corrcoef(ranks))[0, 1])


def _ranks(values: Floats) -> Floats:
    _, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    mean: Floats = np.cumsum(counts).astype(float) - (counts - 1) / 2
    return np.take(mean, position)


def _relative(value: float | None, reference: float | None) -> float | None:
    return None if value is None or not reference else (value - reference) / abs(reference)


def _spread(values: tuple[float, ...], reference: tuple[float, ...]) -> float | None:
    size = float(np.mean(np.abs(reference))) if reference else 0.0
    if size == 0 or len(values) != len(reference):
        return None
    return float(np.sqrt(np.mean(np.square(np.array(values) - np.array(reference))))) / size


def _mean_difference(values: tuple[float, ...], reference: tuple[float, ...]) -> float | None:
    gaps = np.abs(np.array(values) - np.array(reference)) if len(values) == len(reference) else np.zeros(0)
    known = gaps[np.isfinite(gaps)]
    return float(np.mean(known)) if len(known) and math.isfinite(float(np.mean(known))) else None
