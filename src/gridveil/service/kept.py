"""Kept totals: who is in which group, the share of ε, the draw, and the targets with their bands as rows on the data.

Targets come from what was drawn, declared or forecast, and from the noisy values, by weighted least squares: sums of zones
then add up to the total, and all of it is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import DataRows
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.kept import Kept, KeptNumber, KeptSource
from gridveil.core.quantity import parse_distance
from gridveil.core.secret import SecretField
from gridveil.privacy.curator import Curator
from gridveil.privacy.group_sums import GroupSums, sums_mechanism
from gridveil.privacy.mechanisms.exact_sampling import SYSTEM_ENTROPY, SeededEntropy
from gridveil.privacy.noisy import Draw, DrawnTotals, NoisyData
from gridveil.sectors.model import DataLayout
from gridveil.sectors.partition import participant_groups
from gridveil.service.account import Account, Price
from gridveil.service.prepare import Prepared, PublicCase
from gridveil.service.settings import ReleaseSettings

Values = NDArray[Any]
Ints = NDArray[np.int64]

LEAST_SHARE, USUAL_SHARE, LARGEST_SHARE = Fraction(1, 20), Fraction(1, 5), Fraction(2, 5)
LOADING = 0.5  # share of the supply that a typical demand uses
FIRST_STREAM = 2  # of a seed: the first two are those of the values and of the cost target
AIMS = (
    0.2,
    1.0,
)  # shares of the bands that a repair aims at, one after the other: the nearer to the targets the better
NINETY_FIVE = 1.96
TOLD = 1e-9  # below one: rounding of a leverage
FIRM = 1e-9  # variance, over that of one noisy value, of a target that is stated: least squares keep to it


@dataclass(frozen=True, eq=False, kw_only=True)
class Groups:
    """A kept sum, the labels of its groups and the group of each participant."""

    number: KeptNumber
    labels: tuple[str, ...]
    group: Ints

    @property
    def query(self) -> GroupSums:
        """The sums over the groups."""
        return GroupSums(group=self.group, n_groups=len(self.labels))


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptTarget:
    """One total that is kept: all members' values add up to ``value`` within ``half_width``, both per unit.

    Where values are complex the distance is that in the plane, unless a forecast states active power alone
    (``active_only``). ``error``: how far the target may lie from the true total, at 95 %; None where nobody can say.
    """

    name: str
    label: str
    source: KeptSource
    value: complex
    half_width: float
    members: NDArray[np.bool_]
    active_only: bool = False
    error: float | None = None

    @property
    def words(self) -> str:
        """How messages call it."""
        return self.name if not self.label else f"{self.name.removesuffix('s')} {self.label}"

    def off(self, values: Values) -> float:
        """How far the total of given values, one per participant, lies from the target."""
        difference = complex(np.sum(values[self.members])) - self.value
        return abs(difference.real) if self.active_only else abs(difference)


def groups_of(public: PublicCase, kept: Kept) -> tuple[Groups, ...]:
    """Resolve the groups of all kept sums on a network; refuse what would publish one participant's value."""
    found = []
    for number in kept.sums:
        labels, group = participant_groups(public.network, number.name, number.parts)
        if number.source is KeptSource.FORECAST:
            unknown = {label for label, _ in number.forecast} ^ set(labels)
            if unknown:
                raise InputError(
                    f"a forecast of {number.name} needs one value for each, no more and no fewer: look at {min(unknown)!r}"
                )
            for _, quantity in number.forecast:
                parse_distance(quantity, public.field, "a forecast")
        found.append(Groups(number=number, labels=labels, group=group))
    _refuse_telling_one(public.field, [group for group in found if group.number.source is KeptSource.PUBLIC])
    return tuple(found)


def _refuse_telling_one(field: SecretField, declared: list[Groups]) -> None:
    """Refuse declared sums that give one participant's value: as a group of its own, or as a difference of groups.

    Participants of the same groups cannot be told apart. One that shares its groups with nobody has its value told if the
    rows of all sums span the row of that value alone: then its leverage is one.
    """
    if not declared:
        return
    atoms, atom = np.unique(np.stack([group.group for group in declared]), axis=1, return_inverse=True)
    rows = np.concatenate(
        [own == np.arange(len(group.labels))[:, None] for group, own in zip(declared, atoms, strict=True)]
    )
    matrix = rows.astype(float)
    leverage = np.einsum("ag,ga->a", np.linalg.pinv(matrix), matrix)
    alone = np.bincount(atom.reshape(-1)) == 1
    told = np.flatnonzero((alone & (leverage > 1 - TOLD))[atom.reshape(-1)])
    if len(told):
        names = " and ".join(group.number.name for group in declared)
        raise InputError(
            f"{names} would publish the {field.name} of a single {field.participant} ({field.places[told[0]]}), as a sum or a "
            f"difference of what is declared public; keep {'one of them' if len(declared) > 1 else names} private"
        )


def totals_share(prepared: Prepared, settings: ReleaseSettings) -> Fraction:
    """The share of ε for private totals: as stated, or chosen from public data, within limits.

    Chosen so that the noise on the smallest kept totals has about the size of their bands.
    """
    kept = settings.keep
    if not kept.private:
        return Fraction(0)
    if kept.share is not None:
        return Fraction(kept.share)
    supply = prepared.model.supply
    if supply is None:
        return USUAL_SHARE
    alpha = float(parse_distance(settings.alpha, prepared.public.field))
    dimension = prepared.public.field.dimension
    noise = math.sqrt(dimension * (dimension + 1)) * alpha / float(settings.exact_epsilon)
    widths = [
        number.tolerance.amount
        * LOADING
        * supply
        / len(participant_groups(prepared.public.network, number.name, number.parts)[0])
        for number in kept.private
    ]
    needed = sum((Fraction(round(100 * noise / width), 100) for width in widths), Fraction(0))
    return min(max(needed, LEAST_SHARE * len(widths)), LARGEST_SHARE)


def totals_price(settings: ReleaseSettings, field: SecretField, share: Fraction) -> Price:
    """ε, α and loss law of all private totals together: one charge, whose parts are drawn on one lattice."""
    alpha = parse_distance(settings.alpha, field)
    epsilon = share * settings.exact_epsilon
    part = sums_mechanism(field, epsilon=epsilon, alpha=alpha, finest=epsilon, entropy=SYSTEM_ENTROPY)
    return Price(epsilon=epsilon, alpha=alpha, rounding=part.rounding)


def draw_totals(
    curator: Curator,
    public: PublicCase,
    settings: ReleaseSettings,
    share: Fraction,
    account: Account,
    draw_id: str | None = None,
) -> tuple[DrawnTotals, ...]:
    """Charge and draw the private totals; take those that are declared public as they are.

    A draw that was paid for under ``draw_id`` was lost before anybody saw it: it is not charged again.
    """
    field, kept = curator.field, settings.keep
    groups, charge = groups_of(public, kept), None
    epsilon = share * settings.exact_epsilon / max(len(kept.private), 1)
    price = totals_price(settings, field, share) if kept.private else None
    if price is not None and draw_id is not None:
        charge = account.owed(draw_id, field, price)
    if price is not None and charge is None:
        parts = " + ".join(f"{number.name}: {epsilon}" for number in kept.private)
        mechanism = _mechanism(field, settings, epsilon, price.epsilon, 0)
        words = f"totals of epsilon {parts}: {mechanism!r}"
        charge = account.pay(field, price, mechanism=words, purpose="kept totals", draw=draw_id)
    drawn = []
    for stream, group in enumerate(groups):
        if group.number in kept.private:
            mechanism = _mechanism(field, settings, epsilon, share * settings.exact_epsilon, stream)
            values, facts = curator.draw_group_sums(group.query, mechanism), mechanism.facts()
        elif group.number.source is KeptSource.PUBLIC:
            values, facts = curator.declared_sums(group.query), None
        else:
            continue
        drawn.append(
            DrawnTotals(
                name=group.number.name,
                labels=group.labels,
                group=group.group,
                values=values,
                mechanism=facts,
                simulation=settings.seed is not None,
                charge_id=charge if facts is not None else None,
            )
        )
    return tuple(drawn)


def _mechanism(field: SecretField, settings: ReleaseSettings, epsilon: Fraction, finest: Fraction, stream: int) -> Any:
    entropy = SYSTEM_ENTROPY if settings.seed is None else SeededEntropy(settings.seed, FIRST_STREAM + stream)
    alpha = parse_distance(settings.alpha, field)
    return sums_mechanism(field, epsilon=epsilon, alpha=alpha, finest=finest, entropy=entropy)


def kept_targets(public: PublicCase, draw: Draw, kept: Kept) -> tuple[KeptTarget, ...]:
    """Targets and bands of all kept totals, by weighted least squares of everything that is known about sums.

    The unknowns are the sums of the smallest groups that can be told apart. Known are the sums of their noisy values, and
    each total with the variance of its noise; what is declared or forecast has none.
    """
    groups = groups_of(public, kept)
    if not groups:
        return ()
    drawn = {totals.name: totals for totals in draw.totals}
    atoms, atom = np.unique(np.stack([group.group for group in groups]), axis=1, return_inverse=True)
    atom = atom.reshape(-1)
    unit = draw.noisy.mechanism.expected_square
    n_atoms = atoms.shape[1]
    rows, values, variances = [np.eye(n_atoms)], [_sums(draw.noisy.values, atom, n_atoms)], [np.bincount(atom) * unit]
    active = []
    for number, group in enumerate(groups):
        if group.number.source is KeptSource.PRIVATE and group.number not in kept.private:
            active.append(False)  # the total of private zones: nothing is known of it but what they tell
            continue
        known, variance, active_only = _known(group, drawn.get(group.number.name), public.field, draw.noisy)
        rows.append((atoms[number] == np.arange(len(group.labels))[:, None]).astype(float))
        values.append(known)
        variances.append(np.full(len(group.labels), max(variance, FIRM * unit)))
        active.append(active_only)
    weight = 1 / np.sqrt(np.concatenate(variances))
    matrix, right = np.concatenate(rows), np.concatenate(values)
    found, *_ = np.linalg.lstsq(weight[:, None] * matrix, weight * right, rcond=None)
    covariance = np.linalg.pinv(matrix.T @ (weight[:, None] ** 2 * matrix))
    targets = []
    for number, group in enumerate(groups):
        members = atoms[number] == np.arange(len(group.labels))[:, None]
        spread = np.sqrt(np.einsum("ga,ab,gb->g", members, covariance, members))
        known_error = group.number.source is KeptSource.PRIVATE
        for position, label in enumerate(group.labels):
            value = complex(members[position] @ found)
            size = abs(value.real) if active[number] else abs(value)
            targets.append(
                KeptTarget(
                    name=group.number.name,
                    label=label,
                    source=group.number.source,
                    value=value,
                    half_width=group.number.tolerance.half_width(size),
                    members=group.group == position,
                    active_only=active[number],
                    error=NINETY_FIVE * float(spread[position]) if known_error else None,
                )
            )
    return tuple(targets)


def _known(
    group: Groups, drawn: DrawnTotals | None, field: SecretField, noisy: NoisyData
) -> tuple[Values, float, bool]:
    """What is known of a kept sum: values per group, their variance, and whether that is active power alone."""
    if group.number.source is KeptSource.FORECAST:
        given = dict(group.number.forecast)
        active = np.array([float(parse_distance(given[label], field, "a forecast")) for label in group.labels])
        if not field.is_complex:
            return active, 0.0, False
        return active + 1j * _sums(noisy.values, group.group, len(group.labels)).imag, 0.0, True
    if drawn is None or drawn.labels != group.labels or not np.array_equal(drawn.group, group.group):
        raise InputError(f"the draw to be reused knows nothing of {group.number.name}; draw anew")
    if (drawn.mechanism is None) != (group.number.source is KeptSource.PUBLIC):
        made = "declared public, as it is" if drawn.mechanism is None else "drawn with noise, not declared public"
        raise InputError(
            f"{group.number.name} of the draw to be reused was {made}, and the card must say so; state it as then, or draw anew"
        )
    return drawn.values, 0.0 if drawn.mechanism is None else drawn.mechanism.expected_square, False


def _sums(values: Values, group: Ints, count: int) -> Values:
    return GroupSums(group=group, n_groups=count).sums(np.asarray(values))


def kept_rows(targets: tuple[KeptTarget, ...], layout: DataLayout, noisy: Values, aim: float) -> DataRows | None:
    """The bands of totals, narrowed to a share ``aim``, as rows on the program's d; None if there are none.

    A distance in the plane is kept by the square inside it: both parts within half_width/√2. Participants that take no part
    in the flow keep their noisy value, so the others make up for it.
    """
    n = int(layout.served.sum())
    matrix, centre, half = [], [], []
    for target in targets:
        members = target.members[layout.served].astype(float)
        fixed = complex(np.sum(noisy[target.members & ~layout.served]))
        planar = layout.with_reactive and not target.active_only
        width = aim * target.half_width / (math.sqrt(2) if planar else 1)
        parts = ((0, target.value.real - fixed.real), (n, target.value.imag - fixed.imag))
        for first, value in parts[: 1 + planar]:
            if not members.any():
                continue
            row = np.zeros(n * (1 + layout.with_reactive))
            row[first : first + n] = members
            matrix.append(row)
            centre.append(value)
            half.append(width)
    if not matrix:
        return None
    return DataRows(
        matrix=np.array(matrix), lower=np.array(centre) - np.array(half), upper=np.array(centre) + np.array(half)
    )


def moved_to_totals(targets: tuple[KeptTarget, ...], layout: DataLayout, noisy: NoisyData) -> NoisyData:
    """The noisy values moved as little as possible until they have the target totals: post-processing."""
    rows = kept_rows(targets, layout, noisy.values, 0.0)
    if rows is None:
        return noisy
    d = layout.to_program(noisy.values)
    step, *_ = np.linalg.lstsq(rows.matrix @ rows.matrix.T, rows.lower - rows.matrix @ d, rcond=None)
    values = layout.to_sites(d + rows.matrix.T @ step, noisy.values)
    return NoisyData(values=values, mechanism=noisy.mechanism, simulation=noisy.simulation, charge_id=noisy.charge_id)


def refuse_unkept(targets: tuple[KeptTarget, ...], values: Values, field: SecretField) -> None:
    """Refuse values, one per participant and per unit, that do not keep a total within its band."""
    for target in targets:
        off = target.off(values)
        if not off <= target.half_width:
            raise NoReleaseError(
                f"no release: {target.words} would be off its target by {off * field.base:.6g} {field.unit}, more than "
                f"{target.half_width * field.base:.6g}; keep it less closely on the same draw (--reuse)"
            )
