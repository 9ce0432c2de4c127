"""What a release keeps besides its optimal cost: losses, and totals of all participants, of zones or of areas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from gridveil.core.band import Tolerance
from gridveil.core.errors import InputError

COST, LOSS, TOTAL, ZONES, AREAS = "cost", "loss", "total", "zones", "areas"
SUMS = (TOTAL, ZONES, AREAS)
EXAMPLE = "cost=1%,loss=2%,total=0.5%,zones=1%"
MOST_PARTS = 1000


class KeptSource(Enum):
    """Where the target of a kept number comes from.

    PRIVATE: the true sum with noise of its own. PUBLIC: the true number, declared public by the curator. FORECAST: a number
    that is given. DERIVED: what the noisy values tell.
    """

    PRIVATE = "private"
    PUBLIC = "public"
    FORECAST = "forecast"
    DERIVED = "derived"


@dataclass(frozen=True, kw_only=True)
class KeptNumber:
    """One kind of number that is kept: ``total``, ``zones``, ``areas`` or ``loss``.

    ``parts`` asks for that many zones of the graph instead of the file's own (``zones:10``). ``forecast`` holds pairs of a
    label (of a zone or area; empty for ``total`` and ``loss``) and a quantity with its unit.
    """

    name: str
    tolerance: Tolerance
    source: KeptSource = KeptSource.PRIVATE
    parts: int | None = None
    forecast: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in (*SUMS, LOSS):
            raise InputError(f"nothing is called {self.name!r} that a release could keep; write {EXAMPLE}, or areas=1%")
        if (self.source is KeptSource.FORECAST) != bool(self.forecast):
            raise InputError(f"a forecast of {self.name} and its value go together; give both or neither of them")
        if self.name == LOSS and self.source is KeptSource.PRIVATE:
            raise InputError(
                "losses follow from the optimum, and one demand can change them without bound, so no noise hides them; "
                "keep them near a forecast, declare them public, or leave them to be derived"
            )
        if self.name != LOSS and self.source is KeptSource.DERIVED:
            raise InputError(f"{self.name}: a target derived from the noisy values would keep what they are anyway")
        if self.parts is not None and (self.name != ZONES or not 1 < self.parts <= MOST_PARTS):
            raise InputError(f"only zones can be asked for by number, from 2 to {MOST_PARTS}: write zones:10=1%")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept besides the cost, each kind once. ``share`` of ε is spent on private totals; None chooses it."""

    numbers: tuple[KeptNumber, ...] = ()
    share: str | None = None

    def __post_init__(self) -> None:
        names = [number.name for number in self.numbers]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"{name} is kept twice; state it once")
        if self.share is not None and not self.private:
            raise InputError("only private totals spend a share of epsilon; leave out the share")

    @property
    def sums(self) -> tuple[KeptNumber, ...]:
        """Totals, of whatever source."""
        return tuple(number for number in self.numbers if number.name in SUMS)

    @property
    def private(self) -> tuple[KeptNumber, ...]:
        """Sums that are drawn with noise of their own: a private total follows from private zones or areas."""
        private = tuple(number for number in self.numbers if number.source is KeptSource.PRIVATE)
        parts = tuple(number for number in private if number.name != TOTAL)
        return parts or private

    @property
    def drawn(self) -> tuple[KeptNumber, ...]:
        """Sums that come from the true values, with noise of their own or declared public."""
        private = self.private
        return tuple(number for number in self.sums if number in private or number.source is KeptSource.PUBLIC)

    @property
    def loss(self) -> KeptNumber | None:
        """Losses, if they are kept."""
        return next((number for number in self.numbers if number.name == LOSS), None)


NOTHING_KEPT = Kept()
"""Of a release that keeps its cost alone."""


def parse_keep(
    text: str, *, declared: Iterable[str] = (), forecasts: Iterable[str] = (), share: str | None = None
) -> tuple[Tolerance | None, Kept]:
    """Read ``cost=1%,total=0.5%,zones:10=1%``: β, if cost is named, and the rest.

    ``declared`` names what the curator declares public; ``forecasts`` are texts such as ``total=7300MW``, ``loss=150MW`` or
    ``zones/2=810MW``.
    """
    cost, tolerances = _tolerances(text)
    public = set(declared)
    given: dict[str, list[tuple[str, str]]] = {}
    for forecast in forecasts:
        name, label, quantity = _forecast(forecast)
        given.setdefault(name, []).append((label, quantity))
    for name in (*public, *given):
        if name not in tolerances:
            raise InputError(f"{name} is not kept, so it needs no target; add {name}=1% to --keep")
    for name in public & set(given):
        raise InputError(f"{name} cannot be declared public and forecast; give one of the two")
    numbers = tuple(
        KeptNumber(
            name=name,
            tolerance=tolerance,
            parts=parts,
            source=_source(name, name in public, name in given),
            forecast=tuple(given.get(name, ())),
        )
        for name, (tolerance, parts) in tolerances.items()
    )
    return cost, Kept(numbers=numbers, share=share)


def agreed_beta(stated: Tolerance | None, cost: Tolerance | None) -> Tolerance | None:
    """β, which may be stated as such or as the tolerance of cost; both must agree. None where neither is stated."""
    if stated is not None and cost is not None and stated != cost:
        raise InputError("beta and the cost that shall be kept differ; they are the same thing, so state one of them")
    return cost if stated is None else stated


def _tolerances(text: str) -> tuple[Tolerance | None, dict[str, tuple[Tolerance, int | None]]]:
    cost, found = None, {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = item.partition("=")
        name, colon, parts = name.strip().partition(":")
        if not equals or name not in (COST, LOSS, *SUMS) or (colon and not parts.isdecimal()):
            raise InputError(
                f"{item!r} says nothing that a release could keep; write {EXAMPLE}, zones:10=1% or areas=1%"
            )
        if name in found or (name == COST and cost is not None):
            raise InputError(f"{name} is kept twice; state it once")
        try:
            tolerance = Tolerance.parse(amount)
        except InputError:
            raise InputError(f"{item!r}: how far {name} may be off must be a positive share such as 1%") from None
        if name == COST:
            cost = tolerance
        elif not tolerance.relative:
            raise InputError(f"{item!r}: write how far {name} may be off as a share, such as 1%")
        else:
            found[name] = (tolerance, int(parts) if colon else None)
    return cost, found


def _forecast(text: str) -> tuple[str, str, str]:
    name, equals, quantity = text.partition("=")
    name, slash, label = name.strip().partition("/")
    if not equals or name not in (LOSS, *SUMS) or bool(slash) != (name in (ZONES, AREAS)):
        raise InputError(f"{text!r} is no forecast; write total=7300MW, loss=150MW or zones/2=810MW")
    return name, label.strip(), quantity.strip()


def _source(name: str, public: bool, forecast: bool) -> KeptSource:
    if public:
        return KeptSource.PUBLIC
    if forecast:
        return KeptSource.FORECAST
    return KeptSource.DERIVED if name == LOSS else KeptSource.PRIVATE
