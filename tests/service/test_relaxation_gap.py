"""The gap of the relaxation at made-up data, which decides whether a private cost target is worth its share of ε."""

from __future__ import annotations

import math

import pytest

from gridveil.sectors.registry import load_case
from gridveil.service.prepare import PublicCase, prepare
from gridveil.solvers.ipopt import IpoptBackend


def test_nobody_waits_for_ipopt_before_a_draw(monkeypatch):
    """Made-up demands of case1951_rte can barely be served: Ipopt took 24 s over them, and changed nothing."""

    def asked(*_, **__):
        pytest.fail("Ipopt was asked")

    for problem in ("dispatch", "nearest"):
        monkeypatch.setattr(IpoptBackend, problem, asked)
    gap = prepare(PublicCase.of(load_case("case1951_rte")), solver="structured").relaxation_gap
    assert gap == pytest.approx(0.134, abs=0.005)


def test_small_networks_are_solved_whatever_it_takes():
    gap = prepare(PublicCase.of(load_case("case30_ieee")), solver="structured").relaxation_gap
    assert math.isfinite(gap) and gap > 0.1  # a relaxation that is known to be loose
