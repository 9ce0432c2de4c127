"""Totals as rows on the data: the structured solver's many rows against Ipopt, dense algebra and a closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gridveil.core.band import CostTarget, DataRows
from gridveil.core.choices import CostTargetMode
from gridveil.privacy.curator import published_values
from gridveil.programs.bus_order import analyse
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.backend import HalfSpace
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.structured.backend import StructuredBackend
from gridveil.solvers.structured.blocks import (
    factorise,
    forward_border,
    invert_symmetric,
    substitute_bordered,
    subtract_border_squares,
)


def zone_rows(d: np.ndarray, groups: int, share: float) -> DataRows:
    """Active and reactive totals of equal runs of sites, within a share of the apparent total."""
    n = len(d) // 2
    zone = np.arange(n) * groups // n
    matrix = np.zeros((2 * groups, 2 * n))
    for z in range(groups):
        matrix[z, :n] = matrix[groups + z, n:] = zone == z
    totals = matrix @ d
    width = share * np.tile(np.hypot(totals[:groups], totals[groups:]), 2)
    return DataRows(matrix=matrix, lower=totals - width, upper=totals + width)


@pytest.fixture(scope="module")
def setting():
    case = load_case("case118_ieee")
    model = build_model(case.network)
    truth = model.layout.to_program(published_values(case))
    noisy = truth + 0.17 * np.random.default_rng(5).normal(size=len(truth))
    structured = StructuredBackend(model)
    cost = structured.dispatch(truth).cost
    band = CostTarget(value=cost, beta=0.01 * cost, source=CostTargetMode.PUBLIC)
    return model, truth, noisy, structured, IpoptBackend(model.program), band


@pytest.mark.parametrize("groups", [1, 4, 33])  # one row more than are dense, some, and more than a word has bits
def test_structured_and_ipopt_agree_on_all_joint_problems(setting, groups):
    _, truth, noisy, structured, ipopt, band = setting
    kept = replace(band, rows=zone_rows(truth, groups, 0.005))
    ours, theirs = (backend.nearest(noisy, kept) for backend in (structured, ipopt))
    assert ours.converged
    assert theirs.converged
    assert ours.delta == pytest.approx(theirs.delta, rel=1e-5)
    assert np.max(np.abs(ours.d - theirs.d)) < 1e-4
    assert kept.keeps(ours.d)
    radius = 1.2 * ours.delta
    pushes = [backend.push(noisy, kept, radius, start=ours.start) for backend in (structured, ipopt)]
    assert pushes[0].proxy == pytest.approx(pushes[1].proxy, rel=1e-6)
    normal = np.ones(len(noisy)) / np.sqrt(len(noisy))
    half_space = HalfSpace(normal, float(normal @ ours.d) + 1e-3)
    cuts = [backend.cut(noisy, kept, half_space, start=ours.start) for backend in (structured, ipopt)]
    assert cuts[0].delta == pytest.approx(cuts[1].delta, rel=1e-5)
    assert all(kept.shrunk(-1e-5).keeps(answer.d) for answer in (*pushes, *cuts))


def test_without_the_rows_totals_are_missed(setting):
    _, truth, noisy, structured, _, band = setting
    rows = zone_rows(truth, 4, 0.005)
    free, kept = structured.nearest(noisy, band), structured.nearest(noisy, replace(band, rows=rows))
    assert not rows.hold_at(free.d)
    assert kept.delta > 10 * free.delta


def test_inside_a_free_network_totals_are_an_orthogonal_projection(setting):
    _, truth, _, structured, _, band = setting
    # Near the true demands nothing else binds: each member of a zone moves by the same amount.
    noisy = truth.copy()
    noisy[:30] += 0.002
    rows = zone_rows(truth, 3, 1e-4)
    found = structured.nearest(noisy, replace(band, beta=100 * band.beta, rows=rows))
    lambdas = np.maximum(rows.matrix @ noisy - rows.upper, 0) - np.maximum(rows.lower - rows.matrix @ noisy, 0)
    expected = noisy - rows.matrix.T @ (lambdas / rows.matrix.sum(axis=1))
    assert np.max(np.abs(lambdas)) > 1e-3
    assert np.max(np.abs(found.d - expected)) < 1e-6


def test_bordered_substitution_against_dense_algebra():
    rng, n, m = np.random.default_rng(1), 12, 70
    start, end = np.arange(n - 1), np.arange(1, n)
    order = analyse(n, start, end, np.zeros(n, bool))
    diag = rng.normal(size=(n, 4, 4))
    diag = diag + diag.transpose(0, 2, 1) + 6 * np.diag([1.0, 1, -1, -1])
    upper = rng.normal(size=(len(order.pattern.row), 4, 4))
    matrix = np.zeros((4 * n, 4 * n))
    for j in range(n):
        matrix[4 * j : 4 * j + 4, 4 * j : 4 * j + 4] = diag[j]
    for a, (i, j) in enumerate(zip(order.pattern.row, order.pattern.col, strict=True)):
        matrix[4 * j : 4 * j + 4, 4 * i : 4 * i + 4] = upper[a]
        matrix[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = upper[a].T
    half, touched = np.zeros((n * m, 4)), np.zeros((n, m), bool)
    for r in range(m):
        bus = rng.integers(n)
        half[bus * m + r, 2] = rng.normal()
        touched[bus, r] = True
    border = half.reshape(n, m, 4).transpose(0, 2, 1).reshape(4 * n, m).copy()
    corner = np.diag(rng.uniform(1, 2, m))
    pivots, factor = diag.copy(), np.zeros_like(upper)
    factorise(order.pattern, pivots, upper.copy(), factor)
    forward_border(order.pattern, factor, half, touched)
    schur = -corner.copy()
    subtract_border_squares(pivots, half, touched, schur)
    assert np.allclose(schur, -corner - border.T @ np.linalg.solve(matrix, border))
    negative = invert_symmetric(schur, m)
    assert negative == int(np.sum(np.linalg.eigvalsh(-corner - border.T @ np.linalg.solve(matrix, border)) < 0))
    right, rho = rng.normal(size=(n, 4)), rng.normal(size=m)
    whole = np.block([[matrix, border], [border.T, -corner]])
    expected = np.linalg.solve(whole, np.concatenate([right.ravel(), rho]))
    substitute_bordered(order.pattern, pivots, factor, half, touched, schur, right, rho)
    assert np.allclose(np.concatenate([right.ravel(), rho]), expected)
