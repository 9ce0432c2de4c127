"""The runner: right numbers, no task twice, no task missing, and no trial that depends on those before it."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from study_tools import assert_same_rows, comparable, write_study

from conftest import two_bus_net
from gridveil.bilevel.methods.algorithm1 import solve_bilevel
from gridveil.bilevel.result import Ending
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.methods import Method, Solver
from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_laplace
from gridveil.programs import Status
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.study import runner, trial
from gridveil.study.engine_local import LocalEngine
from gridveil.study.runner import RunReport, run_study
from gridveil.study.store import read_outcomes, summarise
from gridveil.study.study_file import NetworkEntry, read_study
from gridveil.study.trial import Rules, Task, inspect_network, prepare, run_trial

HERE = LocalEngine(workers=1)


def entry(case: str) -> NetworkEntry:
    return NetworkEntry(label=case, case=case, path=None, preset=None, checksum="")


def test_rows_hold_what_a_computation_by_hand_gives(tmp_path):
    study = read_study(write_study(tmp_path / "s.toml", networks=("veil9",), alpha=["1pu"], seeds=[0, 5]))
    run_study(study, tmp_path / "s.sqlite", HERE)
    frame = read_outcomes(tmp_path / "s.sqlite").set_index(["method", "seed"])
    case = load_case("veil9")
    model = build_model(case.network)
    truth = case.values.reveal()
    cost = frame["true_cost"].iloc[0]
    assert cost == pytest.approx(5870.751543, rel=1e-8) and frame["true_cost"].nunique() == 1
    band = CostTarget(value=cost, beta=0.01 * cost, source=CostTargetMode.PUBLIC)
    for seed, stream in ((0, 936915728), (5, 1202898847)):  # CRC-32 of "veil9 0" and "veil9 5"
        noisy = simulate_laplace(case.values, epsilon=1.0, alpha=1.0, seed=stream, sites=NoiseSites.POSITIVE)
        backend = backend_for(model, Solver.STRUCTURED)
        result = solve_bilevel(backend, model.layout.to_program(noisy.values), band)
        row = frame.loc["bisection", seed]
        assert result.d is not None and row["verified"] and row["ending"] == result.ending.name
        n = len(truth)
        released = result.d[:n] + 1j * result.d[n:]
        assert (row["cost"], row["delta"], row["optimisations"]) == (result.cost, result.delta, result.optimisations)
        assert row["released_distance"] == pytest.approx(
            np.linalg.norm(released - truth) / np.linalg.norm(truth), rel=1e-12
        )
        assert row["noisy_distance"] == pytest.approx(
            np.linalg.norm(noisy.values - truth) / np.linalg.norm(truth), rel=1e-12
        )
        assert frame.loc["auto", seed]["noisy_distance"] == row["noisy_distance"]
        steps = json.loads(row["history"])
        assert [step["cost"] for step in steps] == [None if np.isnan(s.cost) else s.cost for s in result.history]
        assert {step["joint_status"] for step in steps} == {"converged"} and steps[-1]["kind"] == "verification"
    assert (frame["cost"] - cost).abs().max() <= 0.01 * cost and frame["optimisations"].max() > 1
    facts = frame.iloc[0]
    assert (facts["kind"], facts["buses"], facts["sites"], facts["solver"]) == ("power", 9, 7, "structured")
    assert json.loads(facts["versions"]).keys() == {"gridveil", "python", "numpy", "casadi", "numba"}


def test_noise_goes_to_the_sites_that_the_study_names(tmp_path):
    net = two_bus_net()
    net.add_bus(3, pd=-5.0, qd=1.0)
    net.add_branch(2, 3)
    (tmp_path / "net.m").write_text(net.text())
    run_study(read_study(write_study(tmp_path / "s.toml", networks=("net.m",), seeds=1)), tmp_path / "s.sqlite", HERE)
    stream = np.random.default_rng(zlib.crc32(b"net.m 0"))
    radius = stream.gamma(2.0, 0.1, 2)[0]  # of the noise on the load that draws power; the other one gets none
    expected = radius / np.hypot(abs(0.4175 + 0.1325j), abs(-0.05 + 0.01j))
    assert read_outcomes(tmp_path / "s.sqlite")["noisy_distance"].tolist() == pytest.approx([expected, expected])


def test_a_trial_does_not_depend_on_those_before_it():
    """Warm starts must stay within a run: the same rows come from a fresh network and from one that has solved others."""
    rules = Rules(sites=NoiseSites.ALL, task_seconds=None)
    tasks = [
        Task(alpha=alpha, beta=0.01, epsilon=1.0, seed=seed, method=method)
        for alpha in (0.1, 1.0)
        for seed in range(3)
        for method in Method
    ]
    for case in ("veil9", "veilgas"):
        network = inspect_network(entry(case), Solver.STRUCTURED)
        worn = prepare(network)
        forwards = [run_trial(rules, worn, task) for task in tasks]
        backwards = [run_trial(rules, worn, task) for task in reversed(tasks)][::-1]
        alone = run_trial(rules, prepare(network), tasks[-1])
        assert _untimed(forwards) == _untimed(backwards)
        assert _untimed([alone]) == _untimed(forwards[-1:])


def _untimed(outcomes):
    return comparable(pd.DataFrame(outcomes)).astype(str).to_dict("records")


def test_finished_tasks_are_not_computed_again_and_workers_change_nothing(tmp_path, monkeypatch):
    path = write_study(tmp_path / "s.toml", networks=("veil2", "veil9"), seeds=2)
    ran: list[Task] = []
    original = trial.run_trial
    monkeypatch.setattr(
        "gridveil.study.engine_local.run_trial",
        lambda rules, prepared, task: (ran.append(task), original(rules, prepared, task))[1],
    )
    first = run_study(read_study(path), tmp_path / "s.sqlite", HERE)
    assert first == RunReport(tasks=8, before=0, computed=8) and len(ran) == 8
    assert run_study(read_study(path), tmp_path / "s.sqlite", HERE) == RunReport(tasks=8, before=8, computed=0)
    write_study(path, networks=("veil9", "veil2", "veilgas"), seeds=[0, 1, 7])
    assert run_study(read_study(path), tmp_path / "s.sqlite", HERE) == RunReport(tasks=18, before=8, computed=10)
    assert len(ran) == 18 and [session.tasks for session in summarise(tmp_path / "s.sqlite").sessions] == [8, 10]
    monkeypatch.undo()
    run_study(read_study(path), tmp_path / "two.sqlite", LocalEngine(workers=2))
    assert_same_rows(tmp_path / "s.sqlite", tmp_path / "two.sqlite")


def test_a_failed_task_is_a_row_with_its_reason_until_it_is_retried(tmp_path, monkeypatch):
    path = write_study(tmp_path / "s.toml", networks=("veil9", "veil2"), seeds=2, more="[limits]\ntask_seconds = 1e-9")
    store = tmp_path / "s.sqlite"
    assert run_study(read_study(path), store, HERE).computed == 8
    frame = read_outcomes(store)
    assert not frame["verified"].any() and set(frame["ending"]) == {"OUT_OF_TIME"}
    assert summarise(store).reasons == {Ending.OUT_OF_TIME.value: 8}
    assert frame["noisy_distance"].notna().all() and frame["cost"].isna().all()
    write_study(path, networks=("veil9", "veil2"), seeds=2)
    assert run_study(read_study(path), store, HERE).computed == 0

    real = trial.build_model

    def broken(network):
        if len(network.bus.id) == 9:
            raise ZeroDivisionError("d° = 41.75")
        return real(network)

    monkeypatch.setattr(trial, "build_model", broken)
    assert run_study(read_study(path), store, HERE, retry_failed=True).computed == 8
    frame = read_outcomes(store)
    assert set(frame.loc[frame["network"] == "veil9", "reason"]) == {"unexpected ZeroDivisionError"}
    assert frame.loc[frame["network"] == "veil2", "verified"].all() and len(frame) == 8
    assert set(frame.loc[frame["network"] == "veil9", "sites"]) == {7}
    monkeypatch.undo()
    assert run_study(read_study(path), store, HERE, retry_failed=True).computed == 4
    assert read_outcomes(store)["verified"].all()


def test_an_unsolved_true_optimum_fails_the_networks_rows_alone(tmp_path, monkeypatch):
    study = read_study(write_study(tmp_path / "s.toml", seeds=1))
    of_veil9 = 2 * len(load_case("veil9").field)

    class Unsolved(Solves):
        def afresh(self, d):
            found = super().afresh(d)
            return replace(found, status=Status.INFEASIBLE) if len(d) == of_veil9 else found

    monkeypatch.setattr(trial, "Solves", Unsolved)
    run_study(study, tmp_path / "s.sqlite", HERE)
    frame = read_outcomes(tmp_path / "s.sqlite")
    assert dict(frame.groupby("network")["verified"].all()) == {"veil2": True, "veil9": False}
    assert summarise(tmp_path / "s.sqlite").reasons == {
        "the optimal flow at the network's own demands was not solved (infeasible)": 2
    }


def test_a_network_that_cannot_be_read_stops_the_study_before_it_begins(tmp_path):
    (tmp_path / "net.m").write_text("function mpc = net\nmpc.version = '2';\n")
    study = read_study(write_study(tmp_path / "s.toml", networks=("veil2", "net.m")))
    with pytest.raises(InputError, match=r"network net\.m: "):
        run_study(study, tmp_path / "s.sqlite", HERE)
    assert not (tmp_path / "s.sqlite").exists()


def test_each_network_has_its_own_noise():
    assert len({trial.noise_stream(label, seed) for label in ("a", "b") for seed in range(50)}) == 100
    assert runner.task_key(
        inspect_network(entry("veilgas"), Solver.STRUCTURED),
        Task(alpha=0.1, beta=0.01, epsilon=1.0, seed=3, method=Method.AUTO),
    ) == ("veilgas", 0.1, 0.01, 1.0, 3, "auto", "ipopt")
