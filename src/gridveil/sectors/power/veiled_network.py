"""A power network whose costs, ratings or impedances are secret too: nothing of them is left in it.

``hide`` moves the chosen quantities out of a case's public network into its ``SecretValues`` and leaves stand-ins that
depend on nothing: no cost, no rating, one impedance for all branches. ``filled`` puts values back, released ones for
example. What one value is:

- *cost*: the incremental cost of one generator in $/MWh. Of a curve that is not a straight line it is the mean slope
  between the generator's limits, and nothing else of the curve is published: neither its bend nor its constant, nor a
  cost of reactive power.
- *limit*: the rating of one branch, per unit. Which branches have one is public.
- *impedance*: ln(r + jx) of one branch, so that α is a relative change of the impedance, and ln of its charging
  susceptance, which would give its length away. Which branches have charging is public. Other admittances at their ends
  are not published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.quantity import parse_distance
from gridveil.core.secret import Secret, SecretField, SecretPart, SecretValues
from gridveil.core.secret_choice import COST, DEMAND, IMPEDANCE, LIMIT, SecretChoice, shares_of
from gridveil.sectors.case import Case
from gridveil.sectors.power.costs import GeneratorCosts, cost_levels, no_costs
from gridveil.sectors.power.network import Bools, Branches, Floats, PowerNetwork

CHARGING = "charging"
STAND_IN = 0.1j  # impedance of every branch, per unit, where it is secret
COST_LIMITS = ("0", "1000")  # $/MWh
RATING_LIMITS = ("1", "100000")  # MVA
SIZE_LIMITS = ("1e-6", "100")  # |r + jx| and the charging susceptance, per unit
QUARTER_TURN = np.pi / 2  # r ≥ 0

Values = NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class VeiledNetwork:
    """The public side of such a case: a network of stand-ins, and which of its numbers they stand for."""

    kind: ClassVar[str] = "power with further secrets"

    grid: PowerNetwork
    """With stand-ins, and so not the network that anybody runs."""
    choices: tuple[SecretChoice, ...]
    parts: tuple[SecretPart, ...]
    limited: Bools
    """Which branches have a rating."""
    charged: Bools
    """Which branches have a charging susceptance."""
    public_demand: NDArray[np.complex128] | None
    """Per unit, one per load site, where demands are no secret."""

    def __post_init__(self) -> None:
        """Refuse a network in which anything secret is left: dispatches put values in its place and would not notice."""
        names, branch, generator = {choice.name for choice in self.choices}, self.grid.branch, self.grid.generator
        clean = {
            COST: _is_nothing(generator.cost) and _is_nothing(generator.reactive_cost),
            LIMIT: bool(np.all(np.isinf(branch.rate))),
            IMPEDANCE: not np.any([branch.impedance - STAND_IN, branch.shunt_from, branch.shunt_to]),
        }
        if not all(clean.get(name, True) for name in names):
            raise InputError("something secret is left in the public network, so nothing is drawn; please report this")

    def part(self, name: str) -> SecretPart | None:
        """The part of that name; None where it is no secret."""
        return next((part for part in self.parts if part.field.name == name), None)

    @property
    def served(self) -> Bools:
        """Whether each value of each part takes part in the power flow."""
        network = self.grid
        on = {
            DEMAND: network.served,
            COST: network.generator_on,
            LIMIT: network.branch_on[self.limited],
            IMPEDANCE: network.branch_on,
            CHARGING: network.branch_on[self.charged],
        }
        return np.concatenate([on[part.field.name] for part in self.parts])


def hide(case: Case, choices: tuple[SecretChoice, ...], public_demand: NDArray[np.complex128] | None) -> Case:
    """The same case with the chosen quantities secret; ``public_demand`` where the demand is not among them."""
    network = case.network
    if not isinstance(network, PowerNetwork):
        raise InputError("only power networks have costs, limits and impedances to hide; leave out --secret")
    _refuse_unusual(network, {choice.name for choice in choices})
    limited, charged = np.isfinite(network.branch.rate), _charging(network.branch) > 0
    secrets = [_secret(case, network, choice, limited, charged) for choice in choices]
    parts = _parts(choices, [[secret.field for secret in group] for group in secrets])
    values = [secret.values for group in secrets for secret in group]
    veiled = VeiledNetwork(
        grid=_with_stand_ins(network, {choice.name for choice in choices}),
        choices=choices,
        parts=parts,
        limited=limited,
        charged=charged,
        public_demand=public_demand,
    )
    return replace(
        case,
        network=veiled,
        secret=Secret(field=_whole(choices, parts), values=values[0].followed_by(*values[1:])),
        notes=(),
        sites_declared=case.sites_declared or public_demand is not None,
        unprotected=(*case.unprotected, *_also_public(veiled)),
    )


def filled(network: VeiledNetwork, values: Values) -> tuple[PowerNetwork, NDArray[np.complex128]]:
    """The network with values in place of its stand-ins, and the demand of each load site (per unit)."""
    found = {part.field.name: np.asarray(values)[part.run] for part in network.parts}
    grid, branch = network.grid, network.grid.branch
    if COST in found:
        cost = _straight(found[COST].real * grid.base_mva)
        grid = replace(grid, generator=replace(grid.generator, cost=cost))
    if LIMIT in found:
        branch = replace(branch, rate=_placed(network.limited, found[LIMIT].real, np.inf))
    if IMPEDANCE in found:
        own = found.get(CHARGING, np.zeros(0))
        half = np.asarray(_placed(network.charged, np.exp(own.real) / 2, 0.0) * 1j, dtype=np.complex128)
        branch = replace(branch, impedance=np.exp(found[IMPEDANCE]), shunt_from=half, shunt_to=half)
    demand = found.get(DEMAND, network.public_demand)
    assert demand is not None, "demands are secret or public"
    return replace(grid, branch=branch), np.asarray(demand, dtype=complex)


def _placed(where: Bools, values: Floats, elsewhere: float) -> Floats:
    column = np.full(len(where), elsewhere)
    column[where] = values
    return column


def _is_nothing(cost: GeneratorCosts) -> bool:
    return not np.any(cost.polynomial) and len(cost.line_generator) == len(cost.points) == 0


def _straight(slope: Floats) -> GeneratorCosts:
    cost = no_costs(len(slope))
    cost.polynomial[1] = slope
    return cost


def _with_stand_ins(network: PowerNetwork, names: set[str]) -> PowerNetwork:
    branch, generator, n = network.branch, network.generator, len(network.branch.rate)
    if COST in names:
        nothing = no_costs(len(generator.bus))
        generator = replace(generator, cost=nothing, reactive_cost=nothing)
    if LIMIT in names:
        branch = replace(branch, rate=np.full(n, np.inf))
    if IMPEDANCE in names:
        none = np.zeros(n, dtype=complex)
        branch = replace(branch, impedance=np.full(n, STAND_IN), shunt_from=none, shunt_to=none)
    return replace(network, branch=branch, generator=generator)


def _refuse_unusual(network: PowerNetwork, names: set[str]) -> None:
    """Refuse what would stay in the file beside the secret and tell it."""
    if LIMIT in names and np.any(np.isfinite(network.branch.current)):
        raise InputError("limits on currents are not covered by the secret 'limit'; state ratings in MVA instead")
    if LIMIT in names and not np.any(np.isfinite(network.branch.rate)):
        raise InputError("no branch has a rating, so there is no limit to hide; leave it out of --secret")
    if IMPEDANCE in names and np.any(network.branch.impedance == 0):
        raise InputError("a branch out of service has no impedance; remove it, or give it one")


def _charging(branch: Branches) -> Floats:
    return np.asarray((branch.shunt_from + branch.shunt_to).imag)


def _secret(
    case: Case, network: PowerNetwork, choice: SecretChoice, limited: Bools, charged: Bools
) -> tuple[Secret, ...]:
    """The fields of one choice with their true values: one, and two for impedances."""
    branch = network.branch
    if choice.name == DEMAND:
        return (case.secret,)
    if choice.name == COST:
        field = _field(COST, "incremental cost of each generator", "generator", 1, "$/MWh", 1.0, _generators(network))
        return (Secret(field=field, values=SecretValues(_mean_slopes(network))),)
    if choice.name == LIMIT:
        rows = np.flatnonzero(limited)
        places = _branches(network, rows.tolist())
        field = _field(LIMIT, "rating of each branch", "branch", 1, "MVA", network.base_mva, places)
        return (Secret(field=field, values=SecretValues(branch.rate[limited])),)
    places = _branches(network, range(len(branch.rate)))
    field = _field(IMPEDANCE, "series impedance of each branch", "branch", 2, "%", 100.0, places)
    found = [Secret(field=field, values=SecretValues(np.log(branch.impedance)))]
    if np.any(charged):
        places = _branches(network, np.flatnonzero(charged).tolist())
        field = _field(CHARGING, "charging susceptance of each branch", "branch", 1, "%", 100.0, places)
        found.append(Secret(field=field, values=SecretValues(np.log(_charging(branch)[charged]))))
    return tuple(found)


def _field(
    name: str, meaning: str, participant: str, dimension: int, unit: str, base: float, places: tuple[str, ...]
) -> SecretField:
    return SecretField(
        name=name, meaning=meaning, participant=participant, dimension=dimension, unit=unit, base=base, places=places
    )


def _generators(network: PowerNetwork) -> tuple[str, ...]:
    buses = network.bus.id[network.generator.bus].tolist()
    return tuple(f"generator {row} at bus {bus}" for row, bus in enumerate(buses, start=1))


def _branches(network: PowerNetwork, rows: Any) -> tuple[str, ...]:
    start, end = network.bus.id[network.branch.from_bus], network.bus.id[network.branch.to_bus]
    return tuple(f"branch {row + 1} from {start[row]} to {end[row]}" for row in rows)


def _mean_slopes(network: PowerNetwork) -> Floats:
    """Mean slope of each cost between the generator's limits, in $/MWh; the slope at zero where those are no range."""
    generator, cost = network.generator, network.generator.cost
    slope = np.array(cost.polynomial[1])
    low, high = generator.p_min, generator.p_max
    ranged = np.isfinite(low) & np.isfinite(high) & (high > low)
    low, high = np.where(ranged, low, 0.0), np.where(ranged, high, 1.0)
    bent = np.any(cost.polynomial[2:] != 0, axis=0)
    ends = [np.polynomial.polynomial.polyval(p, cost.polynomial, tensor=False) for p in (low, high)]
    slope[bent & ranged] = ((ends[1] - ends[0]) / (high - low))[bent & ranged]
    if cost.piecewise.size:
        levels = [cost_levels(cost, p) for p in (low, high)]
        slope[cost.piecewise] = (levels[1] - levels[0]) / (high - low)[cost.piecewise]
    return np.asarray(slope / network.base_mva)


def _parts(choices: tuple[SecretChoice, ...], groups: list[list[SecretField]]) -> tuple[SecretPart, ...]:
    parts: list[SecretPart] = []
    start = 0
    for choice, share, fields in zip(choices, shares_of(choices), groups, strict=True):
        alpha = parse_distance(choice.alpha, fields[0], f"alpha of {choice.name}")
        for field in fields:
            lower, upper = _limits(choice, field)
            each = share / len(fields)
            parts.append(SecretPart(field=field, alpha=alpha, share=each, start=start, lower=lower, upper=upper))
            start += len(field)
    return tuple(parts)


def _limits(choice: SecretChoice, field: SecretField) -> tuple[complex, complex]:
    """Public limits of released values, per unit: as declared, or usual ones that depend on nothing in the file."""
    if field.name == DEMAND:
        if choice.limits is not None:
            raise InputError("demands have no limits here; use --demand-bounds")
        return complex(-np.inf, -np.inf), complex(np.inf, np.inf)
    usual = {COST: COST_LIMITS, LIMIT: RATING_LIMITS}.get(field.name, SIZE_LIMITS)
    low, high = (_number(text, choice) for text in choice.limits or usual)
    if low > high or (field.name != COST and low <= 0):
        raise InputError(f"the limits of {choice.name} must be a range, above zero for limits and impedances")
    if field.name in (IMPEDANCE, CHARGING):
        turn = QUARTER_TURN if field.is_complex else 0.0
        return complex(np.log(low), -turn), complex(np.log(high), turn)
    return complex(low / field.base), complex(high / field.base)


def _number(text: str, choice: SecretChoice) -> float:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"the limits of {choice.name} must be two numbers, such as [0..300], not {text!r}") from None


def _whole(choices: tuple[SecretChoice, ...], parts: tuple[SecretPart, ...]) -> SecretField:
    """The field of all parts. Where there is one choice its words and unit hold; else values are in units of α."""
    first, one = parts[0].field, len(choices) == 1
    participants = list(dict.fromkeys(part.field.participant for part in parts))
    return SecretField(
        name=first.name if one else "secret value",
        meaning="; ".join(part.field.meaning for part in parts),
        participant=first.participant if one else " or ".join([", ".join(participants[:-1]), participants[-1]]),
        dimension=2,
        unit=first.unit if one else "alpha",
        base=first.base if one else 1.0,
        places=tuple(place for part in parts for place in part.field.places),
        parts=parts,
    )


def _also_public(network: VeiledNetwork) -> tuple[str, ...]:
    """What is published as the file states it, since it was not declared secret."""
    names = {part.field.name for part in network.parts}
    words = {
        DEMAND: "the demand of every load: not declared secret",
        COST: "costs of generators: not declared secret",
        LIMIT: "ratings of branches: not declared secret",
        IMPEDANCE: "impedances and charging of branches: not declared secret",
    }
    known = [text for name, text in words.items() if name not in names]
    if LIMIT in names:
        known.append("which branches have a rating")
    if CHARGING in names:
        known.append("which branches have charging")
    return tuple(known)
