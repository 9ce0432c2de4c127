"""Releases in rows for tests: noisy data of a case with their bands, what single releases say, and batches that fail."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.together.releases import release_together
from gridveil.bilevel.together.rows import Bands
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.methods import Solver
from gridveil.privacy.curator import published_values
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.batch.contract import BatchStatus
from gridveil.solvers.batch.engine_native import NativeEngine
from gridveil.solvers.batch.power import PowerBatches
from gridveil.solvers.batch.stream import RowNumbers
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

COLD, WARM, SOFTENED, HELD, NEAR, THIN = 0, 1, 2, 4, 5, 8


class Setting:
    """A public case, its backend and batches, and noisy data around it with a band for each row."""

    def __init__(self, name, settings, count, *, bounds=None, engine=None):
        case = load_case(name)
        model = build_model(case.network)
        self.model = model if bounds is None else model.bounded(bounds)
        self.program = self.model.program
        self.backend = backend_for(self.model, Solver.STRUCTURED)
        self.batches = PowerBatches.of_model(self.model, engine or NativeEngine(threads=1))
        d = model.layout.to_program(published_values(case))
        cost, generator = Solves(self.backend).afresh(d).cost, np.random.default_rng(7)
        scale = np.repeat([alpha for alpha, _ in settings], count)
        self.noisy = d + scale[:, None] * generator.laplace(size=(len(scale), len(d)))
        bands = [Tolerance.parse(beta).around(cost, CostTargetMode.PUBLIC) for _, beta in settings]
        self.targets = [band for band in bands for _ in range(count)]

    @property
    def bands(self):
        return Bands(*(np.array([getattr(one, name) for one in self.targets]) for name in ("value", "beta")))

    def together(self, **options):
        (found,) = self.parts(**options)
        return found

    def parts(self, **options):
        return release_together(self.batches.rows, self.program, self.noisy, self.bands, **options)

    def alone(self, row, solve=solve_auto):
        return solve(self.backend, self.noisy[row], self.targets[row])


def assert_same(found, alone, target):
    """Everything that a single release tells, within the solver's tolerance."""
    assert found.verified and alone.verified and target.contains(found.cost)
    assert found.ending is alone.ending and found.optimisations == alone.optimisations
    assert found.delta == pytest.approx(alone.delta, rel=1e-6, abs=1e-9)
    assert found.cost == pytest.approx(alone.cost, rel=1e-6)
    assert found.d == pytest.approx(alone.d, abs=1e-4) and found.x == pytest.approx(alone.x, abs=1e-3)
    assert found.highpoint.delta == pytest.approx(alone.highpoint.delta, rel=1e-6, abs=1e-9)
    assert found.highpoint.cost == pytest.approx(alone.highpoint.cost, rel=1e-6)
    assert [step.kind for step in found.history] == [step.kind for step in alone.history]
    for mine, other in zip(found.history, alone.history, strict=True):
        for name in ("radius", "delta", "proxy", "joint_cost", "cost"):
            assert getattr(mine, name) == pytest.approx(getattr(other, name), rel=1e-4, abs=1e-6), (mine.kind, name)
        assert mine.joint_status is other.joint_status and mine.follower_status is other.follower_status
        assert mine.seconds > 0
    assert found.monotonicity.points == alone.monotonicity.points and found.seconds > 0


@dataclass(frozen=True)
class Ended:
    """Problems of rows that have ended."""

    cost: np.ndarray
    status: np.ndarray
    iterations: np.ndarray
    feasible: np.ndarray
    point: np.ndarray


def spoiled(setting, monkeypatch, spoil):
    """Change what problems come to, knowing whether they are joint and how they started."""
    engine = setting.batches.rows.engine
    opened = engine.open

    def open_spoiled(network, rows, options):
        stream = opened(network, rows, options)
        numbers, arrays = stream.numbers, stream.arrays

        def changed(mine):
            raw = Ended(**vars(numbers(mine)), point=arrays.made["point"][mine])
            raw = spoil(network.rows > 0, arrays.given.start[mine, 0], raw)
            arrays.made["point"][mine], arrays.made["cost"][mine] = raw.point, raw.cost
            return RowNumbers(cost=raw.cost, status=raw.status, iterations=raw.iterations, feasible=raw.feasible)

        monkeypatch.setattr(stream, "numbers", changed)
        return stream

    monkeypatch.setattr(engine, "open", open_spoiled)


def failing(raw, which):
    return replace(
        raw, status=np.where(which, int(BatchStatus.NO_STEP), raw.status), cost=np.where(which, np.nan, raw.cost)
    )


class Refusing:
    """Releases that hand everything back, and count."""

    def __init__(self):
        self.asked = 0

    @staticmethod
    def takes(asked):
        return True

    def answer(self, asked, give):
        self.asked += len(asked)
        for place in range(len(asked)):
            give(place, None)
        yield
