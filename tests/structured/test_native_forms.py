"""Branches in vectors, each once, leave every number of a slot as branches bus by bus do, which is the form of a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from batch_cases import needs_compiler, network_of, shaken
from test_batch_joint import made_tasks

from gridveil.solvers.batch.engine import RunOptions
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.joint import lower_tasks
from gridveil.solvers.batch.layout import OFFSETS, STEP_OFFSETS
from gridveil.solvers.batch.network import lower_network
from gridveil.solvers.batch.starts import StartKind, same_start

pytestmark = needs_compiler

SAME = 1e-6
SLOPE, PHI, PRICE = 26, 27, 23  # of the enumeration Scalar in slot.cuh


def slot_after(network, fill, iterations: int, by_bus: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The arrays of a slot by name after so many iterations, and its limits' softness."""
    options = RunOptions(tolerance=1e-9, max_iterations=iterations, cold_iterations=iterations)
    stream = NativeEngine(threads=1, by_bus=by_bus).open(network, 1, options)
    fill(stream.arrays.given)
    stream.begin(np.array([0]))
    stream.work(np.array([0, 0, 1, 1], np.int32))
    assert stream.numbers(np.array([0])).iterations[0] == iterations
    sizes, memory = network.sizes(network.rows > 0), stream._kept[0][0]
    names = {f"o_{name}" for name in OFFSETS | STEP_OFFSETS}
    ends = sorted((at, name) for name, at in sizes.items() if name in names)
    pieces = np.split(memory, [at for at, _ in ends])
    return dict(zip(["before", *(name for _, name in ends)], pieces, strict=True)), stream._kept[1].copy()


def assert_same(fill, network, iterations: int) -> dict[str, np.ndarray]:
    (wide, soft), (by_bus, soft_by_bus) = (slot_after(network, fill, iterations, form) for form in (False, True))
    for name, found in wide.items():
        scale = np.abs(by_bus[name]).max(initial=0.0)
        if name == "o_scalar":
            scale = np.maximum(np.abs(by_bus[name]), 1e-12)
        assert np.all(np.abs(found - by_bus[name]) <= SAME * scale), (name, iterations)
    assert np.array_equal(soft, soft_by_bus)
    return wide


@pytest.mark.parametrize("iterations", [1, 2, 4, 7])
@pytest.mark.parametrize("name, load", [("case14_ieee", 1.0), ("case57_ieee", 1.2), ("case300_ieee", 1.0)])
def test_dispatches_leave_the_same_slot(name, load, iterations):
    _, network, _, _ = network_of(name)
    given = shaken(name, 2)

    def fill(inputs) -> None:
        inputs.demand_p[0], inputs.demand_q[0] = load * given.demand_p[1], load * given.demand_q[1]
        inputs.start[:] = same_start(StartKind.COLD, 1e-2, np.array([0.1])).choice

    slot = assert_same(fill, network, iterations)
    assert slot["o_scalar"][SLOPE] != 0.0 and slot["o_scalar"][PHI] != 0.0 and slot["o_scalar"][PRICE] > 0.0


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("kind", ["cut", "push, kept"])
def test_joint_tasks_leave_the_same_slot(kind, iterations):
    arrays, tasks, _ = made_tasks("case57_ieee", kind, 1)
    network = lower_network(arrays, joint=True).keeping(tasks.n_kept)
    lowered = lower_tasks(network, tasks)

    def fill(inputs) -> None:
        inputs.demand_p[:], inputs.demand_q[:] = tasks.target_p, tasks.target_q
        inputs.local[:], inputs.rows[:] = lowered.local, lowered.rows
        inputs.start[:] = same_start(StartKind.COLD, 1e-2, np.array([0.1])).choice

    assert_same(fill, network, iterations)


@pytest.mark.parametrize("iterations", [1, 2])
def test_voltages_anywhere_leave_the_same_slot(iterations):
    """Angles of several radians: all quarter turns of sine and cosine, and limits violated by much."""
    _, network, p, q = network_of("case118_ieee")
    angle = np.random.default_rng(4).uniform(-4.0, 4.0, network.grid.n_bus)

    def fill(inputs) -> None:
        inputs.demand_p[0], inputs.demand_q[0] = p, q
        inputs.warm[0, : 4 * network.grid.n_bus : 4] = angle
        inputs.warm[0, 1 : 4 * network.grid.n_bus : 4] = 1.0
        inputs.start[:] = same_start(StartKind.AT_POINT, 1e-2, np.array([0.1])).choice

    assert_same(fill, network, iterations)


@pytest.mark.parametrize("name, load, first", [("case5_pjm", 1.0, 6), ("case24_ieee_rts", 1.3, 4)])
def test_second_order_corrections_leave_the_same_slot(name, load, first):
    """``first`` is the first iteration that asks for them."""
    _, network, p, q = network_of(name)

    def fill(inputs) -> None:
        inputs.demand_p[0], inputs.demand_q[0] = load * p, load * q
        inputs.start[:] = same_start(StartKind.COLD, 1e-2, np.array([0.1])).choice

    before, after = (assert_same(fill, network, count)["o_surplus"] for count in (first - 1, first))
    assert not before.any() and after.any()
