"""What a user declares secret: ``demand=0.1MVA,cost=2$/MWh@0.3,limit=20MVA,impedance=5%``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gridveil.core.errors import InputError

DEMAND, COST, LIMIT, IMPEDANCE = "demand", "cost", "limit", "impedance"
SECRETS = (DEMAND, COST, LIMIT, IMPEDANCE)
EXAMPLE = "demand=0.1MVA,cost=2$/MWh,limit=20MVA,impedance=5%"
_CHOICE = re.compile(
    r"\s*(?P<name>\w+)\s*=\s*(?P<alpha>[^@\[\]]+?)\s*"
    r"(?:\[\s*(?P<lower>[^\[\]]+?)\s*\.\.\s*(?P<upper>[^\[\]]+?)\s*\])?\s*(?:@\s*(?P<share>[0-9./]+))?\s*"
)


@dataclass(frozen=True, kw_only=True)
class SecretChoice:
    """One quantity to hide: α as text with its unit, its share of ε, and the public limits of released values.

    Without a share, what others leave is divided equally. Limits are in the unit of the quantity ($/MWh, MVA; for an
    impedance the size in per unit); without them the sector's usual ones hold.
    """

    name: str
    alpha: str
    share: str | None = None
    limits: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.name not in SECRETS:
            raise InputError(f"there is no secret {self.name!r}; choose among {', '.join(SECRETS)}")


def parse_secrets(text: str) -> tuple[SecretChoice, ...]:
    """Read a list such as ``cost=2$/MWh[0..300]@0.3,limit=20MVA``."""
    found = [_CHOICE.fullmatch(entry) for entry in text.split(",")]
    if not all(found):
        raise InputError(f"cannot read the secrets {text!r}; write, for example, {EXAMPLE}")
    return checked_secrets(
        SecretChoice(
            name=one["name"],
            alpha=one["alpha"],
            share=one["share"],
            limits=None if one["lower"] is None else (one["lower"], one["upper"]),
        )
        for one in found
        if one is not None
    )


def stated_secrets(stated: str | Mapping[str, str] | None) -> tuple[SecretChoice, ...]:
    """Read secrets as a script states them: the text of the command line, or a mapping from names to texts."""
    if stated is None:
        return ()
    if isinstance(stated, Mapping):
        return parse_secrets(",".join(f"{name}={value}" for name, value in stated.items()))
    return parse_secrets(stated)


def checked_secrets(choices: Iterable[SecretChoice]) -> tuple[SecretChoice, ...]:
    """Put choices into the usual order; each name once, and shares that leave something for all."""
    found = sorted(choices, key=lambda one: SECRETS.index(one.name))
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise InputError("a quantity is declared secret twice; name each once")
    shares_of(found)
    return tuple(found)


def demand_alpha(choices: Iterable[SecretChoice]) -> str | None:
    """The α of demands, which a new ledger takes as its reference; None where demands are not among the secrets."""
    return next((one.alpha for one in choices if one.name == DEMAND), None)


def split_off_demand(choices: tuple[SecretChoice, ...]) -> tuple[str | None, tuple[SecretChoice, ...]]:
    """Demands alone are what a release hides anyway: their α, and no further secrets. Else None, and the choices."""
    if [one.name for one in choices] == [DEMAND] and choices[0].limits is None:
        return choices[0].alpha, ()
    return None, choices


def shares_of(choices: Sequence[SecretChoice]) -> list[Fraction]:
    """Each one's share of ε: as stated, and equal parts of the rest. They add up to one, exactly."""
    stated = [None if one.share is None else _share(one) for one in choices]
    rest = 1 - sum((share for share in stated if share is not None), Fraction(0))
    open_ones = sum(share is None for share in stated)
    if (open_ones and rest <= 0) or (not open_ones and rest != 0):
        raise InputError("the shares of epsilon must add up to 1, or to less if a secret states none; correct them")
    return [rest / open_ones if share is None else share for share in stated]


def _share(choice: SecretChoice) -> Fraction:
    try:
        share = Fraction(choice.share or "")
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise InputError(f"the share of epsilon of {choice.name} must lie between 0 and 1, such as @0.3")
    return share
