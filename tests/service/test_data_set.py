"""Data sets made from a release: private by post-processing, deterministic, resumable, and true to the layouts they claim."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from gridveil.core.choices import BatchEngine, Outages, TableLayout
from gridveil.core.cluster import connected
from gridveil.core.errors import InputError
from gridveil.core.graph import components
from gridveil.sectors.power.arrays import structured_arrays
from gridveil.sectors.registry import load_case, write_network
from gridveil.service import data_set_here, data_set_shards
from gridveil.service.data_set import make_data_set
from gridveil.service.data_set_rules import load_rule, outage_states
from gridveil.service.data_set_source import DataSetRequest
from gridveil.service.public_files import file_hashes
from gridveil.solvers.batch.engine_native import missing_compiler

ENGINE = BatchEngine.STRUCTURED if missing_compiler() else BatchEngine.NATIVE
PGLEARN = [
    "input/pd", "input/qd", "input/gen_status", "input/branch_status", "input/seed",
    *(f"ACOPF/primal/{name}" for name in ("vm", "va", "pg", "qg", "pf", "pt", "qf", "qt")),
    *(f"ACOPF/dual/{name}" for name in (
        "kcl_p", "kcl_q", "vm", "pg", "qg", "ohm_pf", "ohm_pt", "ohm_qf", "ohm_qt", "pf", "pt", "qf", "qt", "va_diff",
        "sm_fr", "sm_to", "slack_bus")),
    *(f"ACOPF/meta/{name}" for name in (
        "seed", "formulation", "primal_objective_value", "primal_status", "dual_status", "termination_status")),
]  # fmt: skip


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Path:
    """A folder as a private release leaves it, of demands that the network serves well."""
    folder = tmp_path_factory.mktemp("released")
    (folder / "public").mkdir()
    case = load_case("veil9")
    write_network(case.network, 0.8 * case.values.reveal(), folder / "public", case.file_format, title="released")
    promise = {"field": "demand", "epsilon": 1.0, "alpha": 10.0, "unit": "MVA"}
    card = {"simulation": False, "promise": promise, "files": file_hashes(folder / "public")}
    (folder / "public" / "card.yaml").write_text(yaml.safe_dump(card))
    return folder


def made(released: Path, out: Path, **changes) -> dict:
    request = {"source": str(released), "scenarios": 40, "loads": "lognormal:5%", "retries": 0, **changes}
    return make_data_set(DataSetRequest(**request), out, ENGINE)


def vectors(frame: pd.DataFrame, name: str) -> np.ndarray:
    return np.stack(frame[name].to_numpy()).astype(float)


def test_the_command_makes_a_data_set_of_a_release_and_leaves_its_ledger_alone(cli, tmp_path, ledger_home):
    promise = ("--epsilon", "1", "--alpha", "1MVA", "--beta", "5%", "--budget", "3")
    assert cli("release", "veil9", *promise, "--out", tmp_path / "out").code == 0
    before = bytes_of(Path(ledger_home))
    result = cli(
        "generate", tmp_path / "out", "--scenarios", 5, "--engine", ENGINE.value, "--out", tmp_path / "data", "--json"
    )
    assert result.code == 0
    facts = json.loads(result.out)
    assert facts["private"] and facts["solved"] + facts["failed"] == 5
    assert facts["promise"]["alpha"] == pytest.approx(1.0)
    assert before and bytes_of(Path(ledger_home)) == before


def test_a_data_set_says_that_it_spends_nothing(released, tmp_path):
    facts = made(released, tmp_path / "data")
    assert facts["private"] and "spends no epsilon" in facts["privacy"] and facts["promise"]["epsilon"] == 1.0
    assert facts["solved"] == 40 and facts["failed"] == 0
    assert yaml.safe_load((tmp_path / "data" / "metadata.yaml").read_text())["complete"] is True


def test_pglearn_columns_satisfy_the_optimality_conditions_of_pglearns_own_model(released, tmp_path):
    """Its model, written out from its constraints and JuMP's signs; derivatives by finite differences."""
    made(released, tmp_path / "data", outages=Outages.N_1, scenarios=60)
    frame = pd.read_parquet(tmp_path / "data" / "solved")
    assert list(frame.columns)[: len(PGLEARN)] == PGLEARN and len(frame) > 20
    network = load_case(str(released / "public" / "network.m")).network
    a = structured_arrays(network)
    listed = [name for name in PGLEARN if "meta" not in name and not name.endswith(("seed", "slack_bus"))]
    column = {name.split("/", 1)[1]: vectors(frame, name) for name in listed}
    fr, to, n = a.branch_from, a.branch_to, a.n_bus
    seen = set()
    for s in range(len(frame)):
        row = {name: values[s] for name, values in column.items()}
        on = row["branch_status"] > 0.5
        seen |= {"branch"} if not on.all() else set()
        seen |= {"generator"} if not (row["gen_status"] > 0.5).all() else set()

        def flows(va, vm, on=on):
            v = vm * np.exp(1j * va)
            return on * v[fr] * np.conj(a.y_ff * v[fr] + a.y_ft * v[to]), on * v[to] * np.conj(
                a.y_tf * v[fr] + a.y_tt * v[to]
            )

        sf, st = flows(row["primal/va"], row["primal/vm"])
        assert row["primal/pf"] + 1j * row["primal/qf"] == pytest.approx(sf, abs=1e-5)
        assert row["primal/pt"] + 1j * row["primal/qt"] == pytest.approx(st, abs=1e-5)
        balance = np.zeros(n, complex)
        np.add.at(balance, a.gen_bus, row["primal/pg"] + 1j * row["primal/qg"])
        np.subtract.at(balance, fr, sf)
        np.subtract.at(balance, to, st)
        np.subtract.at(balance, a.load_bus, row["pd"] + 1j * row["qd"])
        balance -= (a.shunt_g - 1j * a.shunt_b) * row["primal/vm"] ** 2
        assert np.abs(balance).max() < 1e-5
        # JuMP: the gradient of the objective is the sum of multipliers times gradients of the constraints.
        slope = (a.cost_1 + 2 * a.cost_2 * np.tile(row["primal/pg"], 2))[: len(a.gen_bus)]
        generating = row["gen_status"] > 0.5
        price = row["dual/kcl_p"][a.gen_bus]
        scale = np.abs(row["dual/kcl_p"]).max()
        assert (price + row["dual/pg"])[generating] == pytest.approx(slope[generating], abs=1e-4 * scale)
        assert (row["dual/kcl_q"][a.gen_bus] + row["dual/qg"])[generating] == pytest.approx(0.0, abs=1e-4 * scale)
        for name, taking_part in (("pg", generating), ("qg", generating), ("ohm_pf", on), ("ohm_qt", on)):
            assert not row[f"dual/{name}"][~taking_part].any(), name
        for name, bus, limit in (("pf", fr, "sm_fr"), ("qf", fr, "sm_fr"), ("pt", to, "sm_to"), ("qt", to, "sm_to")):
            kcl = row["dual/kcl_p" if name[0] == "p" else "dual/kcl_q"][bus]
            total = -kcl - row[f"dual/ohm_{name}"] + 2 * row[f"primal/{name}"] * row[f"dual/{limit}"]
            assert total[on] == pytest.approx(0.0, abs=1e-3 * scale)

        def lagrangian(va, vm, row=row, on=on):
            f, t = flows(va, vm)
            terms = row["dual/ohm_pf"] * f.real + row["dual/ohm_qf"] * f.imag + row["dual/ohm_pt"] * t.real
            terms = terms + row["dual/ohm_qt"] * t.imag + row["dual/va_diff"] * on * (va[fr] - va[to])
            shunts = (row["dual/kcl_q"] * a.shunt_b - row["dual/kcl_p"] * a.shunt_g) * vm**2
            return terms.sum() + shunts.sum() + row["dual/vm"] @ vm

        step = 1e-5
        for i in range(n):
            e = step * (np.arange(n) == i)
            va, vm = row["primal/va"], row["primal/vm"]
            by_v = (lagrangian(va, vm + e) - lagrangian(va, vm - e)) / (2 * step)
            by_a = (lagrangian(va + e, vm) - lagrangian(va - e, vm)) / (2 * step)
            assert abs(by_v) < 2e-3 * scale and abs(by_a) < 2e-3 * scale, (s, i)
        assert np.all(row["dual/sm_fr"] <= 0) and np.all(row["dual/sm_to"] <= 0)
    assert seen == {"branch", "generator"}


def test_gridfm_tables_describe_one_power_flow(released, tmp_path):
    made(released, tmp_path / "data", layout=TableLayout.GRIDFM, outages=Outages.N_1, scenarios=230)
    raw = tmp_path / "data" / "raw"
    bus, gen, branch, y_bus = (
        pd.read_parquet(raw / f"{name}_data.parquet") for name in ("bus", "gen", "branch", "y_bus")
    )
    assert {"scenario", "load_scenario_idx", "bus", "Pd", "Qd", "Pg", "Qg", "Vm", "Va", "PQ", "PV", "REF", "vn_kv",
            "min_vm_pu", "max_vm_pu", "GS", "BS", "scenario_partition"} == set(bus.columns)  # fmt: skip
    assert {"p_mw", "q_mvar", "cp1_eur_per_mw", "in_service", "is_slack_gen"} <= set(gen.columns)
    assert {"pf", "qf", "Yff_r", "Ytt_i", "tap", "shift", "rate_a", "br_status"} <= set(branch.columns)
    assert set(bus["scenario_partition"].astype(int)) == {0, 1} and (raw / "n_scenarios.txt").read_text() == "230\n"
    assert bus["scenario"].nunique() == branch["scenario"].nunique() > 100
    feeding = gen[gen["in_service"] == 1].groupby(["scenario", "bus"]).size()
    typed = bus[bus["REF"] == 0].set_index(["scenario", "bus"])
    held = typed.index.isin(feeding.index)
    assert np.array_equal(typed["PV"] == 1, held) and np.array_equal(typed["PQ"] == 0, held)  # as the consumer asks
    assert (gen["in_service"] == 0).any()
    off = branch[branch["br_status"] == 0]
    assert len(off) and off[["pf", "qf", "Yff_r", "Ytf_i"]].abs().max().max() == 0
    for scenario in [*bus["scenario"].unique()[:3], *off["scenario"].unique()[:3]]:
        b, y = bus[bus["scenario"] == scenario].sort_values("bus"), y_bus[y_bus["scenario"] == scenario]
        matrix = np.zeros((9, 9), complex)
        matrix[y["index1"], y["index2"]] = y["G"] + 1j * y["B"]
        voltage = b["Vm"].to_numpy() * np.exp(1j * np.radians(b["Va"].to_numpy()))
        injected = (b["Pg"] - b["Pd"] + 1j * (b["Qg"] - b["Qd"])).to_numpy()
        assert 100 * voltage * np.conj(matrix @ voltage) == pytest.approx(injected, abs=1e-3)
        g = gen[gen["scenario"] == scenario]
        assert g["p_mw"].sum() == pytest.approx(b["Pg"].sum(), abs=1e-6)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_stopped_run_goes_on_and_ends_as_an_unbroken_one(released, tmp_path, monkeypatch):
    monkeypatch.setattr(data_set_shards, "SHARD_NUMBERS", 0)  # the smallest shards, of 200 scenarios
    monkeypatch.setattr(data_set_here, "MOST_WRITERS", 1)
    request = DataSetRequest(source=str(released), scenarios=450, loads="lognormal:5%", retries=0)
    make_data_set(request, tmp_path / "whole", ENGINE)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_data_set(request, tmp_path / "stopped", ENGINE, advance=stop)
    assert 0 < len(list((tmp_path / "stopped" / "solved").iterdir())) < 3
    kept = (tmp_path / "stopped" / "solved" / "part-00000.parquet").stat().st_mtime_ns
    facts = make_data_set(request, tmp_path / "stopped", ENGINE)
    assert facts["solved"] == 450
    assert (tmp_path / "stopped" / "solved" / "part-00000.parquet").stat().st_mtime_ns == kept
    assert bytes_of(tmp_path / "stopped") == bytes_of(tmp_path / "whole")


def test_workers_of_a_cluster_make_the_files_of_one_machine(released, tmp_path, monkeypatch):
    """Two workers in processes of their own, one of which is killed after the first shard; paths are relative here."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(data_set_shards, "SHARD_NUMBERS", 0)
    monkeypatch.setattr(data_set_shards, "PARTITION", 60)
    monkeypatch.chdir(released.parent)
    request = DataSetRequest(source=released.name, scenarios=700, loads="lognormal:5%", outages=Outages.N_1, retries=0)
    make_data_set(request, tmp_path / "here", ENGINE)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as local:
        killed: list[int] = []

        def kill_one() -> None:
            if not killed:
                killed.append(local.workers[0].process.pid)
                os.kill(killed[0], signal.SIGKILL)

        with connected(local.scheduler_address, pytest.fail) as cluster:
            facts = make_data_set(request, tmp_path / "cluster", ENGINE, cluster=cluster, advance=kill_one)
            with pytest.raises(InputError, match="seed differ"):
                make_data_set(replace(request, seed=1), tmp_path / "cluster", ENGINE, cluster=cluster)
    assert killed and facts["engine"] == ENGINE.value and facts["solved"] + facts["failed"] == 700
    assert bytes_of(tmp_path / "cluster") == bytes_of(tmp_path / "here")


def test_rows_do_not_depend_on_how_many_there_are_or_on_shards(released, tmp_path, monkeypatch):
    made(released, tmp_path / "few", outages=Outages.N_1, scenarios=30)
    monkeypatch.setattr(data_set_shards, "SHARD_NUMBERS", 0)
    monkeypatch.setattr(data_set_shards, "PARTITION", 16)
    made(released, tmp_path / "many", outages=Outages.N_1, scenarios=50)
    few, many = (pd.read_parquet(tmp_path / name / "solved").set_index("input/seed") for name in ("few", "many"))
    assert len(list((tmp_path / "many" / "solved").iterdir())) == 4
    for name in ("input/pd", "ACOPF/primal/va", "ACOPF/dual/kcl_q"):
        assert np.array_equal(vectors(few, name), vectors(many.loc[few.index], name))


def test_failures_are_kept_with_their_inputs(released, tmp_path):
    (tmp_path / "profile.csv").write_text("factor\n1.0\n9.0\n")
    facts = made(released, tmp_path / "data", loads=f"profile:{tmp_path / 'profile.csv'}", scenarios=4, retries=1)
    assert (facts["solved"], facts["failed"]) == (2, 2)
    failures = pd.read_parquet(tmp_path / "data" / "failures")
    assert failures["scenario"].tolist() == [1, 3] and failures["status"][0] == "INFEASIBLE"
    unsolved = pd.read_parquet(tmp_path / "data" / "unsolved")
    assert unsolved["input/seed"].tolist() == [1, 3]
    solved = pd.read_parquet(tmp_path / "data" / "solved")
    assert vectors(unsolved, "input/pd")[0] == pytest.approx(9 * vectors(solved, "input/pd")[0], rel=1e-6)
    assert unsolved["ACOPF/meta/termination_status"].tolist()[0] == "LOCALLY_INFEASIBLE"


def test_true_demands_need_a_word_and_are_stamped(tmp_path):
    with pytest.raises(InputError, match="needs --not-private"):
        made(Path("veil9"), tmp_path / "data")
    facts = made(Path("veil9"), tmp_path / "data", not_private=True)
    folder = tmp_path / "data" / "not-private"
    assert not facts["private"] and facts["promise"] is None and facts["privacy"].startswith("NOT PRIVATE")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["not-private"]
    for path in folder.rglob("*.parquet"):
        assert pq.read_schema(path).metadata[b"gridveil_privacy"].startswith(b"NOT PRIVATE")


def test_a_simulation_counts_as_not_private(released, tmp_path):
    folder = tmp_path / "simulated" / "simulation"
    folder.mkdir(parents=True)
    for path in (released / "public").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    card = yaml.safe_load((folder / "card.yaml").read_text()) | {"simulation": True}
    (folder / "card.yaml").write_text(yaml.safe_dump(card))
    with pytest.raises(InputError, match="simulation"):
        made(tmp_path / "simulated", tmp_path / "data")
    assert not made(tmp_path / "simulated", tmp_path / "data", not_private=True)["private"]


@pytest.mark.parametrize("name", ["network.m", "network-true.m"])
def test_a_network_that_the_card_was_not_written_for_has_no_promise(released, tmp_path, name):
    """Before: whatever was called network… beside a card got its promise, true demands as well."""
    folder = tmp_path / "mixed"
    shutil.copytree(released / "public", folder)
    case = load_case("veil9")
    write_network(case.network, case.values.reveal(), tmp_path, case.file_format, title="true")
    shutil.copy(tmp_path / "network.m", folder / name)
    with pytest.raises(InputError, match="not the one that the card was written for"):
        made(folder, tmp_path / "data")
    facts = made(folder, tmp_path / "data", not_private=True)
    assert not facts["private"] and facts["privacy"].startswith("NOT PRIVATE")


def test_another_data_set_is_not_overwritten(released, tmp_path):
    made(released, tmp_path / "data")
    with pytest.raises(InputError, match="seed differ"):
        made(released, tmp_path / "data", seed=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="not empty"):
        made(released, tmp_path / "other")


def test_the_structured_solver_alone_makes_the_same_rows(released, tmp_path):
    request = DataSetRequest(source=str(released), scenarios=3, loads="lognormal:5%", outages=Outages.N_1, seed=4)
    for engine in (ENGINE, BatchEngine.STRUCTURED):
        make_data_set(request, tmp_path / engine.value, engine)
    first, second = (pd.read_parquet(tmp_path / engine.value / "solved") for engine in (ENGINE, BatchEngine.STRUCTURED))
    assert len(first) == len(second) > 0
    costs = [frame["ACOPF/meta/primal_objective_value"].to_numpy() for frame in (first, second)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6)
    assert vectors(first, "ACOPF/primal/vm") == pytest.approx(vectors(second, "ACOPF/primal/vm"), abs=1e-4)


@pytest.mark.parametrize("name", ["veil9", "case14_ieee", "case30_ieee"])
def test_outages_leave_out_exactly_the_branches_that_cut_the_network(name):
    arrays = structured_arrays(load_case(name).network)
    whole = components(arrays.n_bus, arrays.branch_from, arrays.branch_to).max()
    cutting = []
    for b in range(len(arrays.branch_from)):
        kept = np.arange(len(arrays.branch_from)) != b
        parts = components(arrays.n_bus, arrays.branch_from[kept], arrays.branch_to[kept]).max()
        cutting += [b] if parts > whole else []
    states = outage_states(arrays)
    listed = states[states[:, 0] >= 0, 0].tolist()
    assert sorted({*range(len(arrays.branch_from))} - {*listed}) == cutting
    assert len(states) == 1 + len(listed) + len(arrays.gen_bus)


def test_lognormal_loads_have_the_mean_and_spread_that_they_claim():
    factors = load_rule("lognormal:5%").factors(3, 0, 4000, 10)
    assert factors.mean() == pytest.approx(1.0, abs=2e-3)
    assert np.log(factors).std() == pytest.approx(0.05, rel=0.03)


@pytest.mark.parametrize(
    "text", ["lognormal", "lognormal:x", "lognormal:-1%", "lognormal:300%", "uniform:5%", "profile:"]
)
def test_rules_that_mean_nothing_are_refused(text):
    with pytest.raises(InputError, match="--loads"):
        load_rule(text)
