"""How scenarios of a data set differ: loads by a rule, outages of one element. Row i depends on the seed and i alone."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.service.data_set_content import content_hash
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
PROFILE = (
    "a profile is a CSV file of factors separated by commas, one row per time step, at most one header without numbers"
)


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

    @property
    def content(self) -> str | None:
        """SHA-256 of the factors of a profile."""
        return None if self.profile is None else content_hash(self.profile)

    def refuse_other_sites(self, n_load: int) -> None:
        """Refuse a profile of other load sites than so many."""
        if self.profile is not None and self.profile.shape[1] not in (1, n_load):
            raise InputError(
                f"the profile has {self.profile.shape[1]} columns: give one, or one for each of {n_load} load sites"
            )

    def factors(self, seed: int, begin: int, end: int, n_load: int) -> Floats:
        """(end − begin, D) factors of scenarios begin … end − 1; P and Q of a load share theirs."""
        if self.profile is not None:
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
    """(T, 1) or (T, D) factors; no message holds a value of the file."""
    lines = _lines(path)
    if not lines:
        raise InputError(f"{path}: holds no factors; {PROFILE}")
    first, columns = lines[0][0], len(lines[0][1])
    for line, cells in lines:
        if len(cells) != columns:
            raise InputError(
                f"{path}: line {line} has another number of columns than line {first} ({len(cells)}, not {columns}); "
                "give as many in every row"
            )
    found = [(line, [_number(cell) for cell in cells]) for line, cells in lines]
    if all(number is None for number in found[0][1]):
        del found[0]  # a header
    if not found:
        raise InputError(f"{path}: holds no factors; {PROFILE}")
    for line, numbers in found:
        if None in numbers:
            raise InputError(f"{path}: line {line} holds something that is no number; {PROFILE}")
    factors = np.array([numbers for _, numbers in found], float)
    infinite = np.flatnonzero(~np.isfinite(factors).all(axis=1))
    if len(infinite):
        raise InputError(f"{path}: line {found[infinite[0]][0]} holds a factor that is not finite; give finite numbers")
    return factors


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The lines of a CSV file that are not blank, with their numbers; a byte order mark is no part of the first."""
    unreadable = InputError(f"{path}: is no text in UTF-8; save the profile as CSV in UTF-8")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise unreadable from None
    if "\0" in text:  # UTF-16 without a mark
        raise unreadable
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        return [(reader.line_num, cells) for cells in reader if len(cells) > 1 or (cells and cells[0].strip())]
    except csv.Error:
        raise InputError(f"{path}: cannot be read as CSV; {PROFILE}") from None


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def outage_states(arrays: OpfArrays, *, reference_stays: bool = False) -> Ints:
    """(K, 2) states (branch out, generator out), −1 for none: nothing out, each branch that is no bridge, each generator.

    With ``reference_stays`` no generator at a reference bus is out.
    """
    branches = [(b, -1) for b in np.flatnonzero(~_bridges(arrays)).tolist()]
    stays = np.isin(arrays.gen_bus, arrays.reference) & reference_stays
    generators = [(-1, g) for g in np.flatnonzero(~stays).tolist()]
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


def sampler(
    arrays: OpfArrays, demand: NDArray[np.complex128], loads: LoadRule, states: Ints | None, seed: int
) -> Sampler:
    """The scenarios of a network with the given demands (D,), per unit; ``states`` are the ``outage_states``, if any."""
    loads.refuse_other_sites(len(demand))
    return Sampler(demand_p=demand.real, demand_q=demand.imag, loads=loads, states=states, seed=seed)
