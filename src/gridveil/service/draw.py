"""The curator's part of a release: draws from exact mechanisms, and nothing else.

It solves nothing, so it cannot fail, take another branch or take longer because of the truth: whatever the true values
are, the same charges are made, and values of the same kind are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from gridveil.bilevel.cost_estimate import LinearCost, linear_cost
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField
from gridveil.privacy.curator import Curator
from gridveil.privacy.mechanisms import mechanism_for, provider_of
from gridveil.privacy.mechanisms.exact_sampling import SYSTEM_ENTROPY, EntropySource, SeededEntropy
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.mechanisms.product import ProductNoise
from gridveil.privacy.noisy import Draw, NoisyData, NoisySum
from gridveil.privacy.weighted_sum import PartSum, WeightedSum
from gridveil.service.account import Account, Price
from gridveil.service.alpha import alpha_of
from gridveil.service.kept import draw_totals, totals_price, totals_share
from gridveil.service.prepare import Prepared
from gridveil.service.secrets import divided, noise_parts, sum_parts
from gridveil.service.settings import ReleaseSettings

NOTHING = Fraction(0)
LEAST_SHARE, USUAL_SHARE, LARGEST_SHARE = Fraction(1, 10), Fraction(1, 5), Fraction(2, 5)
LOADING = 0.5  # share of the supply that a typical demand uses
LOOSE = 0.1  # share of the cost that a relaxation may miss before its slopes say little about prices
PRICE_SPREAD = 1.4  # largest weight of the sum over the mean price, as seen on PGLib networks


def cost_share(prepared: Prepared, settings: ReleaseSettings) -> Fraction:
    """The share of ε for a private cost target: zero for any other, else as stated or chosen from public data.

    Chosen so that the noise on the cost has about the standard deviation β; within limits, as the noisy values need ε too.
    Zero, so that the target is derived from the noisy values, where public data show that the sum would tell little: without
    a relaxation (gas), or where the noise cannot be made small and the relaxation is loose; and where totals are drawn that
    the release keeps: noisy values with these totals tell the cost, and no other target would agree with them.
    """
    model = prepared.model
    if settings.target.mode is not CostTargetMode.PRIVATE:
        return Fraction(0)
    if settings.target.share is not None:
        return Fraction(settings.target.share)
    if model.relaxation is None or settings.keep.private:
        return Fraction(0)
    if model.supply is None or not settings.beta.relative:
        return USUAL_SHARE
    alpha = float(alpha_of(settings, prepared.public.field))
    relative_noise = PRICE_SPREAD * 2**0.5 * alpha / (float(settings.exact_epsilon) * LOADING * model.supply)
    share = max(Fraction(round(100 * relative_noise / settings.beta.amount), 100), LEAST_SHARE)
    if share <= LARGEST_SHARE:
        return share
    return Fraction(0) if prepared.relaxation_gap > LOOSE else LARGEST_SHARE


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Shares of ε that go to the cost target and to kept totals; the values have the rest."""

    cost: Fraction = NOTHING
    totals: Fraction = NOTHING


def shares_of(prepared: Prepared, settings: ReleaseSettings) -> Shares:
    """The shares, as stated or chosen from public data; InputError if they leave nothing for the values."""
    shares = Shares(cost=cost_share(prepared, settings), totals=totals_share(prepared, settings))
    if shares.cost + shares.totals >= 1:
        raise InputError("the shares of epsilon for cost and totals leave nothing for the values; give smaller shares")
    return shares


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A draw that has been announced: ids that its charges carry, so that a charge whose draw was lost is not made twice.

    ``draw`` is what a run that was stopped has left, its sums perhaps missing.
    """

    shares: Shares
    values_id: str | None = None
    total_id: str | None = None
    totals_id: str | None = None
    draw: Draw | None = None


class DrawRecord(Protocol):
    """Where a release writes down, before the first charge, which draw it is going to make."""

    def found(self) -> Begun | None:
        """What a run that was stopped has left; None if there was none."""
        ...

    def announce(self, shares: Shares) -> Begun:
        """Write down a new draw, with these shares of ε for sums."""
        ...


@dataclass(frozen=True)
class NoRecord:
    """For draws that nobody will look for again."""

    def found(self) -> None:
        """There was none."""

    def announce(self, shares: Shares) -> Begun:
        """Write nothing down."""
        return Begun(shares=shares)


NO_RECORD = NoRecord()


def prices(field: SecretField, settings: ReleaseSettings, shares: Shares) -> tuple[Price, ...]:
    """What the draws will cost, the values first, before anything is drawn."""
    mechanism = mechanism_of(field, settings, shares)
    parts = noise_parts(mechanism) if isinstance(mechanism, ProductNoise) else ()
    price = Price(epsilon=mechanism.epsilon, alpha=mechanism.alpha, rounding=mechanism.rounding, parts=parts)
    # The sum's own rounding is not known yet; without it its price counts in full, which is never less.
    left = shares.cost * settings.exact_epsilon
    rest = (
        [Price(epsilon=left, alpha=mechanism.alpha, rounding=None, parts=divided(field, left))] if shares.cost else []
    )
    rest += [totals_price(settings, field, shares.totals)] if shares.totals else []
    return (price, *rest)


def mechanism_of(field: SecretField, settings: ReleaseSettings, shares: Shares) -> Mechanism:
    """The noise on the values, with what sums leave of ε."""
    epsilon, alpha = (1 - shares.cost - shares.totals) * settings.exact_epsilon, alpha_of(settings, field)
    mechanism = mechanism_for(
        field, epsilon=epsilon, alpha=alpha, name=settings.mechanism, entropy=_entropy(settings, 0)
    )
    if not field.parts and (mechanism.epsilon, mechanism.alpha) != (epsilon, alpha):
        raise InputError(
            f"the mechanism {settings.mechanism!r} promises another ε or α than it was asked for; report this"
        )
    return mechanism


def draw_values(
    curator: Curator,
    settings: ReleaseSettings,
    shares: Shares,
    account: Account,
    purpose: str,
    draw_id: str | None = None,
) -> NoisyData:
    """Charge and draw d̃ with what sums leave of ε.

    A draw that was paid for under ``draw_id`` was lost before anybody saw it: it is not charged again.
    """
    field = curator.field
    mechanism = mechanism_of(field, settings, shares)
    price, *rest = prices(field, settings, shares)
    charge = None if draw_id is None else account.owed(draw_id, field, price)
    if charge is None:
        account.check(field, price, *rest)
        charge = account.pay(field, price, mechanism=repr(mechanism), purpose=purpose, draw=draw_id)
    noisy = curator.draw(mechanism, charge_id=charge)
    return replace(noisy, mechanism=replace(noisy.mechanism, provided_by=provider_of(settings.mechanism)))


def draw_total(
    curator: Curator,
    linear: LinearCost,
    settings: ReleaseSettings,
    share: Fraction,
    account: Account,
    draw_id: str | None = None,
) -> NoisySum:
    """Charge and draw the weighted sum of the true values; ``draw_id`` as for the values."""
    field, alpha = curator.field, alpha_of(settings, curator.field)
    query = PartSum(weights=linear.weights, field=field) if field.parts else WeightedSum(weights=linear.weights)
    mechanism = query.mechanism(epsilon=share * settings.exact_epsilon, alpha=alpha, entropy=_entropy(settings, 1))
    parts = sum_parts(field, query.steepnesses, mechanism.epsilon) if isinstance(query, PartSum) else ()
    price = Price(epsilon=mechanism.epsilon, alpha=alpha, rounding=query.rounding(mechanism), parts=parts)
    charge = None if draw_id is None else account.owed(draw_id, field, price)
    if charge is None:
        words = f"weighted sum: {mechanism!r}"
        charge = account.pay(field, price, mechanism=words, purpose="cost target", draw=draw_id)
    facts = query.facts(mechanism, alpha)
    return curator.draw_sum(query, mechanism, facts, offset=linear.constant, charge_id=charge)


def make_draw(
    curator: Curator,
    prepared: Prepared,
    settings: ReleaseSettings,
    account: Account,
    purpose: str,
    *,
    begun: Begun | None = None,
    keep: Callable[[Draw], None] = lambda draw: None,
) -> Draw:
    """Draw everything that the settings ask for, or what is missing of a draw that was begun.

    The weights of the sum come from d̃ and public data; where they cannot be found, which the truth has no part in, the
    cost target is left to the noisy values alone and its share of ε stays unspent. ``keep`` gets each part as soon as it is
    made: the weights take a solver, and what was paid for must outlast it.
    """
    begun = begun or Begun(shares=shares_of(prepared, settings))
    draw, shares = begun.draw, begun.shares
    if draw is None:
        draw = Draw(noisy=draw_values(curator, settings, shares, account, purpose, begun.values_id))
        keep(draw)
    if not draw.totals and settings.keep.drawn:
        draw = replace(
            draw,
            totals=draw_totals(curator, prepared.public, settings, shares.totals, account, begun.totals_id),
        )
        keep(draw)
    linear = linear_cost(prepared.model, prepared.solves, draw.noisy) if shares.cost and draw.total is None else None
    if linear is not None:
        draw = replace(draw, total=draw_total(curator, linear, settings, shares.cost, account, begun.total_id))
        keep(draw)
    return draw


def _entropy(settings: ReleaseSettings, stream: int) -> EntropySource:
    return SYSTEM_ENTROPY if settings.seed is None else SeededEntropy(settings.seed, stream)
