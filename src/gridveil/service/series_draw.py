"""The curator's part of a series: one charge for all of it, then the draws. It solves nothing at the truth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from gridveil.bilevel.cost_estimate import LinearCost
from gridveil.core.choices import Protects
from gridveil.core.quantity import parse_distance
from gridveil.core.secret import SecretField
from gridveil.privacy.mechanisms import mechanism_for, profile_mechanism_for
from gridveil.privacy.mechanisms.basis import Basis
from gridveil.privacy.mechanisms.exact_sampling import SYSTEM_ENTROPY, SeededEntropy
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.mechanisms.profile import ProfileMechanism
from gridveil.privacy.noisy import SeriesDraw
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.service.account import Account, NoAccount, Price
from gridveil.service.draw import draw_total
from gridveil.service.reuse import keyed_digest
from gridveil.service.series_settings import SeriesSettings

# The streams of a seeded simulation: values, and the seeds of the hours' sums.
VALUES, SUMS = 0, 1


@dataclass(frozen=True)
class Paid(NoAccount):
    """An account for draws that one charge has already paid for."""

    charge: str | None = None

    def pay(
        self, field: SecretField, price: Price, *, mechanism: str, purpose: str, draw: str | None = None
    ) -> str | None:
        """Name the charge that paid."""
        return self.charge


def draw_series(
    curator: SeriesCurator,
    settings: SeriesSettings,
    basis: Basis,
    share: Fraction,
    account: Account,
    *,
    purpose: str,
    announce: Callable[[], str | None],
    approve: Callable[[Price], None] = lambda price: None,
) -> SeriesDraw:
    """Charge the whole series, sums of cost targets included, and draw its noisy values.

    ``approve`` may refuse the price. ``announce`` is called just before the charge and gives the id of the draw. A draw that
    was paid for under this id was lost before anybody saw it: it is not charged again.
    """
    mechanism = series_mechanism(curator.field, settings, basis, share)
    price = series_price(mechanism, settings, share, len(curator), account.protects)
    account.check(curator.field, price)
    approve(price)
    draw_id = announce()
    charge = None if draw_id is None else account.owed(draw_id, curator.field, price)
    if charge is None:
        words = f"{len(curator)} hours: {mechanism!r}" + (", and a weighted sum each" if share else "")
        charge = account.pay(curator.field, price, mechanism=words, purpose=purpose, draw=draw_id)
    return SeriesDraw(
        values=curator.draw(mechanism),
        mechanism=mechanism.facts(),
        simulation=not mechanism.is_private,
        charge_id=charge,
        draw_id=draw_id,
        share=share,
    )


def bind_series(draw: SeriesDraw, account: Account) -> None:
    """Have the ledger hold the draws of a series to their charge, before they are used: see ``reuse.bind_draw``."""
    if draw.draw_id is None or draw.simulation:
        return
    account.keep(draw.draw_id, keyed_digest({"values": hashlib.sha256(draw.values.tobytes()).hexdigest()}))
    if draw.totals is not None:
        sums = [None if total is None else total.value for total in draw.totals]
        account.keep(_sums_id(draw.draw_id), keyed_digest({"sums": sums}))


def _sums_id(draw_id: str) -> str:
    return f"{draw_id}/sums"


def series_mechanism(
    field: SecretField, settings: SeriesSettings, basis: Basis, share: Fraction
) -> Mechanism | ProfileMechanism:
    """The noise that the settings ask for."""
    chosen = settings.release
    alpha = parse_distance(chosen.alpha, field)
    entropy = SYSTEM_ENTROPY if chosen.seed is None else SeededEntropy(chosen.seed, VALUES)
    if settings.protects is Protects.HOUR:
        return mechanism_for(
            field, epsilon=(1 - share) * chosen.exact_epsilon, alpha=alpha, name=chosen.mechanism, entropy=entropy
        )
    return profile_mechanism_for(
        field,
        epsilon=chosen.exact_epsilon,
        alpha=alpha,
        basis=basis,
        name=settings.mechanism,
        delta=settings.delta,
        entropy=entropy,
    )


def series_price(
    mechanism: Mechanism | ProfileMechanism, settings: SeriesSettings, share: Fraction, hours: int, counted: Protects
) -> Price:
    """What a series costs where totals bound one hour, or a whole profile: there the losses of independent hours add up."""
    if isinstance(mechanism, ProfileMechanism):
        return Price(
            epsilon=mechanism.epsilon,
            alpha=mechanism.alpha,
            rounding=mechanism.rounding,
            delta=mechanism.delta,
            rho=mechanism.rho,
        )
    times = hours if counted is Protects.PROFILE else 1
    # The sums have a rounding of their own: without a law, other distances count in full steps.
    rounding = None if share else mechanism.rounding
    return Price(epsilon=times * settings.release.exact_epsilon, alpha=mechanism.alpha, rounding=rounding)


def draw_sums(
    curator: SeriesCurator,
    linear: Sequence[LinearCost | None],
    settings: SeriesSettings,
    draw: SeriesDraw,
    account: Account,
) -> SeriesDraw:
    """Draw the price-weighted sum of every hour, with the share of ε that the charge of the series has paid for, once."""
    if draw.draw_id is not None:
        account.refuse_kept(_sums_id(draw.draw_id))
    paid, chosen = Paid(charge=draw.charge_id), settings.release
    totals = tuple(
        None
        if cost is None
        else draw_total(curator.hour(hour), cost, replace(chosen, seed=hour_seed(chosen.seed, hour)), draw.share, paid)
        for hour, cost in enumerate(linear)
    )
    return replace(draw, totals=totals)


def hour_seed(seed: int | None, hour: int) -> int | None:
    """The seed of one hour's own stream."""
    return None if seed is None else int(np.random.SeedSequence([seed, SUMS, hour]).generate_state(1, np.uint64)[0])
