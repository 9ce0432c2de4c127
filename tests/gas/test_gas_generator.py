"""Synthetic networks: same seed, same network; feasible and with a compression that cannot be avoided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gas_builders import network_of
from hypothesis import given, settings
from hypothesis import strategies as st

from gas_check import check_gas_point
from gridveil.core.errors import InputError
from gridveil.programs import Follower, Status
from gridveil.sectors.gas.generator import BUILT_IN, generate_gas_network
from gridveil.sectors.gas.ogf import ogf_point, optimal_gas_flow


@settings(max_examples=20, deadline=None)
@given(stations=st.integers(1, 6), more=st.integers(0, 25), seed=st.integers(0, 2**32 - 1))
def test_generated_networks_are_feasible_and_need_compression(stations, more, seed):
    tables = generate_gas_network(deliveries=2 * stations + more, stations=stations, seed=seed)
    network, demand = network_of(tables)
    assert (network.n_site, len(network.compressor.id)) == (2 * stations + more, stations)
    assert demand.min() > 0
    solution = Follower(optimal_gas_flow(network)).solve(demand)
    assert solution.converged, solution.detail
    assert solution.cost > 0.01 * demand[0]
    assert check_gas_point(network, demand, ogf_point(network, solution.x)).worst < 1e-6
    idle = replace(tables.compressor, ratio_max=np.ones(stations))
    without, _ = network_of(replace(tables, compressor=idle))
    assert Follower(optimal_gas_flow(without)).solve(demand).status is Status.INFEASIBLE


def test_same_seed_same_network():
    first, second, other = (generate_gas_network(deliveries=30, stations=4, seed=seed) for seed in (5, 5, 6))
    for column in ("from_junction", "to_junction", "diameter", "length"):
        np.testing.assert_array_equal(getattr(first.pipe, column), getattr(second.pipe, column))
    np.testing.assert_array_equal(first.delivery.withdrawal.reveal(), second.delivery.withdrawal.reveal())
    assert not np.array_equal(first.pipe.length, other.pipe.length)


@pytest.mark.parametrize(
    ("name", "junctions", "stations", "sites", "loops", "cost"),
    [("veilgas", 13, 2, 6, 3, 6.7194), ("veilgas-national", 255, 22, 180, 30, 304.1748)],
)
def test_built_in_networks(name, junctions, stations, sites, loops, cost):
    network, demand = network_of(BUILT_IN[name]())
    assert (network.n_junction, len(network.compressor.id), network.n_site) == (junctions, stations, sites)
    assert len(network.pipe.id) + stations - junctions + 1 == loops
    solution = Follower(optimal_gas_flow(network)).solve(demand)
    assert solution.converged
    assert solution.cost == pytest.approx(cost, rel=1e-5)


@pytest.mark.parametrize(("deliveries", "stations"), [(0, 0), (5, 0), (3, 2), (-1, -1)])
def test_impossible_sizes_are_refused(deliveries, stations):
    with pytest.raises(InputError):
        generate_gas_network(deliveries=deliveries, stations=stations, seed=1)
