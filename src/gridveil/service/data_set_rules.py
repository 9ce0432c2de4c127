"""How scenarios of a data set differ: loads by a rule, outages of one element. Row i depends on the seed and i alone."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Outages
from gridveil.core.errors import InputError
from gridveil.solvers.batch.contract import Scenarios
from gridveil.solvers.batch.draws import normal_rows, uniform_rows

if TYPE_CHECKING:
    from gridveil.sectors.power.arrays import OpfArrays

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOADS_STREAM, OUTAGE_STREAM = 1, 2
"""Streams of random numbers, so that the same loads meet other outages."""
DRAWN_AT_ONCE = 50_000
"""Factors that are drawn at a time: they stay in a processor's cache, and memory is touched for the demands alone."""
NEAR = 0.2
"""Spread up to which the optimum for the loads themselves is a good start for scenarios; profiles lead farther away."""
USAGE = "write lognormal:5% or profile:FILE"


@dataclass(frozen=True, eq=False, kw_only=True)
class LoadRule:
    """Factors on the loads: lognormal with mean 1 and this standard deviation of the logarithm, or rows of a profile."""

    text: str
    sigma: float = 0.0
    profile: Floats | None = None
    """(T, 1) or (T, D)"""

    @property
    def stays_near(self) -> bool:
        """Whether scenarios have about the loads themselves."""
        return self.profile is None and self.sigma <= NEAR

    def factors(self, seed: int, begin: int, end: int, n_load: int) -> Floats:
        """(end − begin, D) factors of scenarios begin … end − 1; P and Q of a load share theirs."""
        if self.profile is not None:
            if self.profile.shape[1] not in (1, n_load):
                raise InputError(
                    f"the profile has {self.profile.shape[1]} columns: give one, or one for each of {n_load} load sites"
                )
            rows = self.profile[np.arange(begin, end) % len(self.profile)]
            return np.broadcast_to(rows, (end - begin, n_load)).copy()
        drawn: Floats = np.exp(self.sigma * normal_rows(seed, LOADS_STREAM, begin, end, n_load) - 0.5 * self.sigma**2)
        return drawn


def load_rule(text: str) -> LoadRule:
    """Read ``lognormal:5%`` or ``profile:FILE``, a CSV file of factors with one row per time step, no header needed."""
    kind, _, value = text.partition(":")
    if kind == "lognormal":
        try:
            sigma = float(value.removesuffix("%")) / (100.0 if value.endswith("%") else 1.0)
        except ValueError:
            raise InputError(f"--loads {text}: {value!r} is no number; {USAGE}") from None
        if not 0.0 <= sigma <= 1.0:
            raise InputError(f"--loads {text}: the spread must lie between 0 and 100 %")
        return LoadRule(text=text, sigma=sigma)
    if kind == "profile" and value:
        return LoadRule(text=text, profile=_read_profile(Path(value)))
    raise InputError(f"--loads {text}: {USAGE}")


def _read_profile(path: Path) -> Floats:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    try:
        numbers = np.array([[float(cell) for cell in row] for row in rows])
    except ValueError:
        try:  # the first row is a header
            numbers = np.array([[float(cell) for cell in row] for row in rows[1:]])
        except ValueError:
            raise InputError(f"{path}: a profile holds numbers only, one row per time step") from None
    if numbers.ndim != 2 or not numbers.size or not np.all(np.isfinite(numbers)):
        raise InputError(f"{path}: a profile holds finite numbers, as many in every row")
    return numbers


def outage_states(arrays: OpfArrays) -> Ints:
    """(K, 2) states (branch out, generator out), −1 for none: nothing out, each branch that is no bridge, each generator."""
    branches = [(b, -1) for b in np.flatnonzero(~_bridges(arrays)).tolist()]
    generators = [(-1, g) for g in range(len(arrays.gen_bus))]
    return np.array([(-1, -1), *branches, *generators], np.int64)


def _bridges(arrays: OpfArrays) -> NDArray[np.bool_]:
    """(L,) branches without which the network falls apart: those that no way round replaces (Tarjan 1974)."""
    n_bus, n_branch = arrays.n_bus, len(arrays.branch_from)
    ways: list[list[tuple[int, int]]] = [[] for _ in range(n_bus)]
    for b, (i, j) in enumerate(zip(arrays.branch_from.tolist(), arrays.branch_to.tolist(), strict=True)):
        ways[i].append((j, b))
        ways[j].append((i, b))
    found, order, lowest, clock = np.zeros(n_branch, bool), [-1] * n_bus, [0] * n_bus, 0
    for root in range(n_bus):
        if order[root] >= 0:
            continue
        order[root] = lowest[root] = clock
        path = [(root, -1, iter(ways[root]))]
        while path:
            bus, came, rest = path[-1]
            for other, b in rest:
                if b == came:
                    continue
                if order[other] < 0:
                    clock += 1
                    order[other] = lowest[other] = clock
                    path.append((other, b, iter(ways[other])))
                    break
                lowest[bus] = min(lowest[bus], order[other])
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    lowest[before] = min(lowest[before], lowest[bus])
                    found[came] = lowest[bus] > order[before]
        clock += 1
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Sampler:
    """The scenarios of one data set."""

    demand_p: Floats
    demand_q: Floats
    loads: LoadRule
    states: Ints | None
    """What may be out; None if nothing ever is."""
    seed: int

    def rows(self, begin: int, end: int) -> Scenarios:
        """Scenarios begin … end − 1."""
        n_load = len(self.demand_p)
        demand_p, demand_q = np.empty((2, end - begin, n_load))
        step = max(1, DRAWN_AT_ONCE // max(1, n_load))
        for first in range(begin, end, step):
            last = min(first + step, end)
            factor, rows = self.loads.factors(self.seed, first, last, n_load), slice(first - begin, last - begin)
            np.multiply(factor, self.demand_p, out=demand_p[rows])
            np.multiply(factor, self.demand_q, out=demand_q[rows])
        if self.states is None:
            return Scenarios(demand_p=demand_p, demand_q=demand_q)
        drawn = uniform_rows(self.seed, OUTAGE_STREAM, begin, end, 1)[:, 0]
        out = self.states[(drawn * len(self.states)).astype(np.int64)]
        return Scenarios(demand_p=demand_p, demand_q=demand_q, branch_out=out[:, :1], gen_out=out[:, 1:])


def sampler(arrays: OpfArrays, demand: NDArray[np.complex128], loads: LoadRule, outages: Outages, seed: int) -> Sampler:
    """The scenarios of a network with the given demands (D,), per unit."""
    states = outage_states(arrays) if outages is Outages.N_1 else None
    return Sampler(demand_p=demand.real, demand_q=demand.imag, loads=loads, states=states, seed=seed)
