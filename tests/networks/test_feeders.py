"""Feeders on a base far above their demand: an error that is small per unit must be small beside the demand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conftest import Matpower
from gridveil.programs import Follower
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.structured.backend import StructuredBackend

KILOWATTS = (17.6, 28.0, 56.0, 17.6, 56.0, 56.0, 28.0, 28.0, 17.6, 56.0, 28.0)


@pytest.fixture
def feeder(tmp_path):
    """A chain of eleven customers, 0.4 MW in all on a base of 100 MVA, fed from one end."""
    net = Matpower()
    net.add_bus(1, kind=3, v=(1.0, 1.0))
    net.add_gen(1, p=(0.0, 10.0), q=(-10.0, 10.0), cost=(0.0, 20.0, 0.0))
    for bus, demand in enumerate(KILOWATTS, start=2):
        net.add_bus(bus, pd=demand / 1000, qd=demand / 1000)
        net.add_branch(bus - 1, bus, r=0.6, x=0.6)
    path = tmp_path / "feeder.m"
    path.write_text(net.text())
    return load_case(str(path))


def test_both_solvers_agree_at_the_scale_of_the_demand(feeder):
    """Without refinement Ipopt stops where the cost is still wrong by 1.2e-5 of itself."""
    model = build_model(feeder.network)
    d = model.layout.to_program(feeder.values.reveal())
    structured, ipopt = StructuredBackend(model).dispatch(d).cost, Follower(model.program).solve(d).cost
    coarse = Follower(replace(model.program, fine_below=0.0)).solve(d).cost
    assert structured == pytest.approx(ipopt, rel=1e-8)
    assert abs(coarse - ipopt) > 5e-6 * ipopt
