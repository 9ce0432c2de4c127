"""A program of one's own: what its cost target spends."""

from __future__ import annotations

from fractions import Fraction

import casadi as ca
import numpy as np
import pytest

from gridveil import ParametricProgram, protect
from gridveil.privacy.ledger import Ledger

DATASET = "0" * 64


def orders() -> ParametricProgram:
    x, d = ca.MX.sym("x", 1), ca.MX.sym("d", 3)
    return ParametricProgram(
        name="orders", x=x, d=d, cost=3 * x + 0.1 * x**2, g=x - ca.sum1(d), g_lower=np.zeros(1),
        g_upper=np.array([np.inf]), x_lower=np.zeros(1), x_upper=np.array([np.inf]), x_start=np.array([20.0]),
        proxy=ca.sum1(d),
    )  # fmt: skip


@pytest.mark.parametrize(("share", "spent"), [(None, [Fraction(1)]), ("1/5", [Fraction(4, 5), Fraction(1, 5)])])
def test_a_stated_share_pays_for_a_second_draw(tmp_path, share, spent):
    ledger = Ledger.create(tmp_path / "orders.ledger", dataset=DATASET, name="orders", unit="t", alpha="1", cap="2")
    options = {"epsilon": "1", "alpha": "1", "beta": "5%", "cost_share": share, "ledger": ledger}
    assert protect(orders(), [12.0, 9.0, 15.0], **options).verified
    assert [charge.epsilon for charge in ledger.charges] == spent
