"""Private totals: exact sums, one ε for all groups, noise of the stated law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil.core.secret import SecretValues
from gridveil.privacy.curator import Curator
from gridveil.privacy.group_sums import GroupSums, sums_mechanism
from gridveil.privacy.mechanisms.exact_sampling import SeededEntropy
from gridveil.sectors.registry import load_case

EPSILON, ALPHA = Fraction(1, 2), Fraction(1, 10)


def mechanism(field, seed=1):
    return sums_mechanism(field, epsilon=EPSILON, alpha=ALPHA, finest=Fraction(1), entropy=SeededEntropy(seed, 2))


def test_sums_are_exact():
    values = np.array([1e16 + 1j, 1.0, -1e16, 2.0 - 1j])
    exact = GroupSums(group=np.array([0, 0, 0, 1]), n_groups=2).exact_values(values)
    assert exact == [(Fraction(1), Fraction(1)), (Fraction(2), Fraction(-1))]


def test_one_participant_moves_one_sum_by_no_more_than_its_own_move():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 5, 40)
    query = GroupSums(group=group, n_groups=5)
    values = rng.normal(size=40) + 1j * rng.normal(size=40)
    for site in range(40):
        moved = values.copy()
        moved[site] += 0.1 * np.exp(1j * site)
        differences = [
            tuple(b - a for a, b in zip(first, second, strict=True))
            for first, second in zip(query.exact_values(values), query.exact_values(moved), strict=True)
        ]
        changed = [position for position, parts in enumerate(differences) if any(parts)]
        assert changed == [group[site]]
        by = Fraction(moved[site].real) - Fraction(values[site].real)
        assert differences[group[site]][0] == by  # no rounding that could add to the sensitivity


def noise_on_zones(case, draw_sums, runs=400):
    """Noise on two zones of a case over many draws, and the law that the mechanism states."""
    half = (np.arange(len(case.field)) % 2).astype(np.int64)
    query = GroupSums(group=half, n_groups=2)
    truth = query.sums(case.values.reveal())
    noise = np.array([draw_sums(Curator(case), query, mechanism(case.field, seed)) - truth for seed in range(runs)])
    return noise, mechanism(case.field)


@pytest.mark.parametrize("name", ["veil9", "veilgas"])
def test_totals_have_the_noise_that_is_charged(name):
    noise, law = noise_on_zones(load_case(name), Curator.draw_group_sums)
    assert np.mean(np.abs(noise) ** 2) == pytest.approx(law.expected_square, rel=0.2)
    assert abs(np.corrcoef(noise[:, 0].real, noise[:, 1].real)[0, 1]) < 0.2


def test_an_unnoised_total_would_be_noticed():
    noise, law = noise_on_zones(load_case("veil9"), lambda curator, query, _: curator.declared_sums(query))
    assert np.mean(np.abs(noise) ** 2) != pytest.approx(law.expected_square, rel=0.2)


def test_a_group_of_one_is_as_private_as_a_single_value():
    case = load_case("veil9")
    lattice = mechanism(case.field)
    alone = GroupSums(group=np.arange(len(case.field)), n_groups=len(case.field))
    zero = replace(case, secret=replace(case.secret, values=SecretValues(0 * case.values.reveal())))
    drawn = Curator(zero).draw_group_sums(alone, lattice)
    assert np.array_equal(drawn, mechanism(case.field).draw(np.zeros(len(case.field), complex)))
    assert lattice.loss(ALPHA) == EPSILON
