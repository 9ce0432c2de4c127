"""A program that writes its expressions when they are asked for, and is otherwise like any other."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

from gridveil.core.errors import InputError
from gridveil.programs import Follower, ParametricProgram
from gridveil.sectors.power.acopf import ac_opf
from gridveil.sectors.registry import load_case


def at_least(n_d: int = 1) -> ParametricProgram:
    """Min x² with x ≥ d."""
    x, d = ca.MX.sym("x"), ca.MX.sym("d", n_d)
    return ParametricProgram(
        name="square", x=x, d=d, cost=x**2, g=x - d[0], g_lower=[0.0], g_upper=[np.inf],
        x_lower=[0.0], x_upper=[9.0], x_start=[1.0],
    )  # fmt: skip


def deferred(written: list[ParametricProgram], **numbers: object) -> ParametricProgram:
    def write() -> ParametricProgram:
        written.append(at_least())
        return written[-1]

    plain = {"x_lower": [0.0], "x_upper": [9.0], "x_start": [1.0]} | numbers
    return ParametricProgram.deferred(name="square", n_d=1, write=write, **plain)


def test_it_is_written_once_when_an_expression_is_asked_for():
    written: list[ParametricProgram] = []
    program = deferred(written)
    assert (program.n_x, program.n_d, program.cost_unit) == (1, 1, "cost") and program.d_upper[0] == np.inf
    assert not written
    assert program.n_g == 1 and program.g_upper[0] == np.inf and program.proxy.numel() == 1
    assert len(written) == 1
    assert Follower(program).solve(np.array([3.0])).cost == pytest.approx(9.0)
    assert len(written) == 1
    with pytest.raises(AttributeError, match="no_such"):
        _ = program.no_such


def test_a_changed_copy_keeps_expressions_and_takes_the_change():
    program = replace(deferred([]), d_lower=np.array([0.5]))
    assert program.d_lower[0] == 0.5 and Follower(program).solve(np.array([2.0])).cost == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"x_lower": [0.0, 0.0]}, "x_lower has shape"),
        ({"x_lower": [10.0]}, "x_lower exceeds x_upper"),
        ({"x_start": [np.inf]}, "x_start must be finite"),
        ({"d_lower": [0.0, 1.0]}, "d_lower has shape"),
    ],
)
def test_numbers_are_checked_at_once(numbers, message):
    with pytest.raises(InputError, match=message):
        deferred([], **numbers)


def test_expressions_of_other_sizes_are_refused():
    program = ParametricProgram.deferred(
        name="square", n_d=2, write=at_least, x_lower=[0.0], x_upper=[9.0], x_start=[1.0]
    )
    with pytest.raises(InputError, match="other sizes"):
        _ = program.cost


def test_the_power_flow_announces_the_limits_that_it_writes():
    program = ac_opf(load_case("veil9").network)
    written = program._write()
    for name in ("x_lower", "x_upper", "x_start", "d_lower", "d_upper"):
        assert np.array_equal(getattr(program, name), getattr(written, name))
    assert (program.n_x, program.n_d, program.cost_unit) == (written.n_x, written.n_d, written.cost_unit)
