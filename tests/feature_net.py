"""One small network with every feature that a formulation can get wrong."""

from __future__ import annotations

import numpy as np

from conftest import Matpower


def feature_net(seed: int, *, curve: str) -> Matpower:
    """A random mesh with everything that bites: a negative load, shunts, a transformer, a shifter, parallel lines both ways."""
    rng = np.random.default_rng(seed)
    net = Matpower()
    for bus in range(1, 7):
        sign = -1 if bus == 2 else 1
        pd, qd = sign * rng.uniform(5, 50), rng.uniform(-10, 15)
        net.add_bus(bus, kind=3 if bus in (1, 6) else 1, pd=pd, qd=qd, gs=rng.uniform(0, 2), bs=rng.uniform(-5, 5))
    for bus in (1, 3, 4, 4, 6):
        slope = rng.uniform(10, 40)
        cost = {
            "quadratic": (rng.uniform(0.01, 0.2), slope, 3.0),
            "pieces": [(0.0, 5.0), (40.0, 5 + 40 * slope), (90.0, 5 + 120 * slope), (150.0, 5 + 300 * slope)],
            "cubic": (1e-4, -0.01, slope, 1.0),
            "concave": (-0.02, slope, 0.0),
        }[curve]
        net.add_gen(bus, cost=cost, p=(0.0, 150.0), q=(-80.0, 80.0))
    for i, j in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1), (1, 3), (3, 1), (1, 3)]:
        r, x = rng.uniform(0.001, 0.03), rng.uniform(0.005, 0.15)
        angle = (-float(rng.uniform(3, 30)), float(rng.uniform(3, 30)))
        net.add_branch(i, j, r=r, x=x, b=rng.uniform(0, 0.05), rate=float(rng.choice([0.0, 80.0, 150.0])), angle=angle)
    net.branch[1][8], net.branch[2][9], net.branch[6][8] = 0.97, 2.0, 1.03
    return net  # bus 6 is an island of its own
