"""The public side of a release, built once per network: model, solver and what they share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import DemandBounds, Formulation
from gridveil.core.errors import GridveilError
from gridveil.core.secret import SecretField
from gridveil.sectors.case import Case, Network
from gridveil.sectors.model import Model
from gridveil.sectors.registry import build_model, sector_of
from gridveil.solvers.backend import Backend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

Vector = NDArray[np.float64]

LOADINGS = (0.5, 0.8)  # of the supply: networks differ in which of them is tight


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicCase:
    """What is public of a case: everything but the true values. Cards and writers accept nothing else."""

    name: str
    network: Network
    field: SecretField
    file_format: str
    unprotected: tuple[str, ...] = ()
    sites_declared: bool = True

    @classmethod
    def of(cls, case: Case) -> PublicCase:
        """The public part of a case."""
        return cls(
            name=case.name,
            network=case.network,
            field=case.field,
            file_format=case.file_format,
            unprotected=case.unprotected,
            sites_declared=case.sites_declared,
        )


@dataclass(frozen=True, kw_only=True)
class CostScale:
    """A cost that is usual for a network, from public facts alone, and in words which data it belongs to."""

    value: float
    origin: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """One network's model and backend, for everything that happens after the mechanism."""

    public: PublicCase
    model: Model
    backend: Backend

    @cached_property
    def solves(self) -> Solves:
        """The solves of the bilevel methods on this backend."""
        return Solves(self.backend)

    def made_up(self, seed: int = 0, loading: float | None = None) -> tuple[Vector, str]:
        """Data that the network can serve, made from public facts alone: the program's d, and in words how."""
        network, generator = self.public.network, np.random.default_rng(seed)
        return sector_of(network).simulate(network, self.public.field, self.solves.nearest_data, generator, loading)

    @cached_property
    def cost_scale(self) -> CostScale | None:
        """Optimal cost at made-up data, for networks whose cost may vanish; None elsewhere, and where it is not found."""
        if not self.model.cost_vanishes:
            return None
        try:
            data, origin = self.made_up()
        except GridveilError:
            return None
        answer = self.solves.afresh(data)
        return CostScale(value=abs(answer.cost), origin=origin) if answer.converged else None

    @cached_property
    def relaxation_gap(self) -> float:
        """How far the relaxed cost lies below the optimal one at made-up data of two loadings, as a share.

        NaN where that is not known.
        """
        gaps = [self._gap_at(loading) for loading in LOADINGS]
        return float(np.nanmax(gaps)) if np.any(np.isfinite(gaps)) else math.nan

    def _gap_at(self, loading: float) -> float:
        try:
            data, _ = self.made_up(loading=loading)
        except GridveilError:
            return math.nan
        answer = self.solves.soon(data)
        bound = self.model.relaxation.relaxed_cost(data) if self.model.relaxation is not None else None
        return (
            (answer.cost - bound) / abs(answer.cost)
            if answer.converged and answer.cost and bound is not None
            else math.nan
        )


def prepare(
    public: PublicCase,
    *,
    solver: str,
    bounds: DemandBounds = DemandBounds.NONE,
    formulation: Formulation = Formulation.AC,
) -> Prepared:
    """Build the public side of a release."""
    model = build_model(public.network, formulation, bounds)
    return Prepared(public=public, model=model, backend=backend_for(model, solver))
