"""The curator's part of a release: two draws from exact mechanisms, and nothing else.

It solves nothing, so it cannot fail, take another branch or take longer because of the truth: whatever the true values
are, the same charges are made, and values of the same kind are drawn.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from gridveil.bilevel.cost_estimate import LinearCost, linear_cost
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.quantity import parse_distance
from gridveil.privacy.curator import Curator
from gridveil.privacy.mechanisms import mechanism_for, provider_of
from gridveil.privacy.mechanisms.exact_sampling import SYSTEM_ENTROPY, EntropySource, SeededEntropy
from gridveil.privacy.noisy import Draw, NoisyData, NoisySum
from gridveil.privacy.weighted_sum import WeightedSum
from gridveil.service.account import Account, Price
from gridveil.service.prepare import Prepared
from gridveil.service.settings import ReleaseSettings

LEAST_SHARE, USUAL_SHARE, LARGEST_SHARE = Fraction(1, 10), Fraction(1, 5), Fraction(2, 5)
LOADING = 0.5  # share of the supply that a typical demand uses
LOOSE = 0.1  # share of the cost that a relaxation may miss before its slopes say little about prices
PRICE_SPREAD = 1.4  # largest weight of the sum over the mean price, as seen on PGLib networks


def cost_share(prepared: Prepared, settings: ReleaseSettings) -> Fraction:
    """The share of ε for a private cost target: zero for any other, else as stated or chosen from public data.

    Chosen so that the noise on the cost has about the standard deviation β; within limits, as the noisy values need ε too.
    Zero, so that the target is derived from the noisy values, where public data show that the sum would tell little: without
    a relaxation (gas), or where the noise cannot be made small and the relaxation is loose.
    """
    model = prepared.model
    if settings.target.mode is not CostTargetMode.PRIVATE:
        return Fraction(0)
    if settings.target.share is not None:
        return Fraction(settings.target.share)
    if model.relaxation is None:
        return Fraction(0)
    if model.supply is None or not settings.beta.relative:
        return USUAL_SHARE
    alpha = float(parse_distance(settings.alpha, prepared.public.field))
    relative_noise = PRICE_SPREAD * 2**0.5 * alpha / (float(settings.exact_epsilon) * LOADING * model.supply)
    share = max(Fraction(round(100 * relative_noise / settings.beta.amount), 100), LEAST_SHARE)
    if share <= LARGEST_SHARE:
        return share
    return Fraction(0) if prepared.relaxation_gap > LOOSE else LARGEST_SHARE


def draw_values(
    curator: Curator, settings: ReleaseSettings, share: Fraction, account: Account, purpose: str
) -> NoisyData:
    """Charge and draw d̃ with what the cost target leaves of ε."""
    field = curator.field
    alpha = parse_distance(settings.alpha, field)
    mechanism = mechanism_for(
        field,
        epsilon=(1 - share) * settings.exact_epsilon,
        alpha=alpha,
        name=settings.mechanism,
        entropy=_entropy(settings, 0),
    )
    if (mechanism.epsilon, mechanism.alpha) != ((1 - share) * settings.exact_epsilon, alpha):
        raise InputError(
            f"the mechanism {settings.mechanism!r} promises another ε or α than it was asked for; report this"
        )
    price = Price(epsilon=mechanism.epsilon, alpha=mechanism.alpha, rounding=mechanism.rounding)
    # The sum's own rounding is not known yet; without it its price counts in full, which is never less.
    rest = [Price(epsilon=share * settings.exact_epsilon, alpha=alpha, rounding=None)] if share else []
    account.check(field, price, *rest)
    noisy = curator.draw(mechanism, charge_id=account.pay(field, price, mechanism=repr(mechanism), purpose=purpose))
    return replace(noisy, mechanism=replace(noisy.mechanism, provided_by=provider_of(settings.mechanism)))


def draw_total(
    curator: Curator, linear: LinearCost, settings: ReleaseSettings, share: Fraction, account: Account
) -> NoisySum:
    """Charge and draw the weighted sum of the true values."""
    field, alpha = curator.field, parse_distance(settings.alpha, curator.field)
    query = WeightedSum(weights=linear.weights)
    mechanism = query.mechanism(epsilon=share * settings.exact_epsilon, alpha=alpha, entropy=_entropy(settings, 1))
    price = Price(epsilon=mechanism.epsilon, alpha=alpha, rounding=query.rounding(mechanism))
    charge = account.pay(field, price, mechanism=f"weighted sum: {mechanism!r}", purpose="cost target")
    facts = query.facts(mechanism, alpha)
    return curator.draw_sum(query, mechanism, facts, offset=linear.constant, charge_id=charge)


def make_draw(curator: Curator, prepared: Prepared, settings: ReleaseSettings, account: Account, purpose: str) -> Draw:
    """Draw everything that the settings ask for.

    The weights of the sum come from d̃ and public data; where they cannot be found, which the truth has no part in, the
    cost target is left to the noisy values alone and its share of ε stays unspent.
    """
    share = cost_share(prepared, settings)
    draw = Draw(noisy=draw_values(curator, settings, share, account, purpose))
    linear = linear_cost(prepared.model, prepared.solves, draw.noisy) if share else None
    return draw if linear is None else replace(draw, total=draw_total(curator, linear, settings, share, account))


def _entropy(settings: ReleaseSettings, stream: int) -> EntropySource:
    return SYSTEM_ENTROPY if settings.seed is None else SeededEntropy(settings.seed, stream)
