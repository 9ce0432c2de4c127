"""Studies and explorations in batches: the rows that worker processes give, within the tolerance of the solvers."""

from __future__ import annotations

import numpy as np
import pytest
from study_tools import write_study

from gridveil.core.choices import BatchEngine
from gridveil.core.errors import NoReleaseError
from gridveil.sectors.registry import load_case
from gridveil.solvers.batch.engine_native import missing_compiler
from gridveil.study import batches
from gridveil.study.engine_batch import BatchTaskEngine
from gridveil.study.engine_local import LocalEngine
from gridveil.study.explore import ExploreGrid, explore_public
from gridveil.study.runner import run_study
from gridveil.study.store import read_outcomes
from gridveil.study.study_file import read_study

pytestmark = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))

KEY = ["network", "alpha", "beta", "method", "seed"]
NATIVE = BatchTaskEngine(choice=BatchEngine.NATIVE, workers=1)


def rows_of(study, path, engine):
    run_study(study, path, engine)
    return read_outcomes(path).set_index(KEY).sort_index()


def test_rows_of_a_study_are_those_of_worker_processes(tmp_path):
    """Power networks in batches, a gas network one by one after them."""
    study = read_study(
        write_study(tmp_path / "s.toml", networks=("veil9", "veilgas"), alpha=["0.1pu"], seeds=[0, 1, 2])
    )
    expected = rows_of(study, tmp_path / "local.sqlite", LocalEngine(workers=1))
    found = rows_of(study, tmp_path / "batch.sqlite", NATIVE)
    assert list(found.index) == list(expected.index) and found["verified"].equals(expected["verified"])
    power = found.loc["veil9"]
    assert len(power) and power["verified"].all()
    assert power["delta"].to_numpy() == pytest.approx(expected.loc["veil9", "delta"].to_numpy(), rel=1e-3, abs=1e-6)
    gas, alone = found.loc["veilgas"], expected.loc["veilgas"]
    assert np.array_equal(gas["delta"], alone["delta"], equal_nan=True)


def test_a_network_that_cannot_be_prepared_fails_in_its_rows(tmp_path, monkeypatch):
    study = read_study(write_study(tmp_path / "s.toml", networks=("veil9",), alpha=["0.1pu"], seeds=[0, 1]))

    def refuse(network):
        raise NoReleaseError("planted")

    monkeypatch.setattr(batches, "prepare", refuse)
    found = rows_of(study, tmp_path / "s.sqlite", NATIVE)
    assert len(found) and not found["verified"].any() and set(found["reason"]) == {"planted"}


def test_an_exploration_in_batches_shows_the_same():
    grid = ExploreGrid(alphas=("0.05pu", "0.2pu"), epsilons=("1",), betas=("1%", "20%"), seeds=3)
    alone, found = (
        explore_public(load_case("veil9"), grid, batch=way) for way in (BatchEngine.STRUCTURED, BatchEngine.NATIVE)
    )
    for one, other in zip(alone.rows, found.rows, strict=True):
        assert (one.alpha, one.beta, one.verified) == (other.alpha, other.beta, other.verified)
        assert one.distance_released is not None and other.distance_released is not None
        assert other.distance_released.mean == pytest.approx(one.distance_released.mean, rel=1e-3)
