"""The same secrets in the notebook interface, study files and explore; demands alone take the way they always took."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

import gridveil
from gridveil.core.errors import InputError
from gridveil.core.methods import Method, Solver
from gridveil.privacy.mechanisms.simulation import NoiseSites
from gridveil.sectors.registry import load_case
from gridveil.study.study_file import read_study
from gridveil.study.trial import Rules, Task, inspect_network, prepare, run_trial
from secrets_helpers import ALL

STUDY = """
name = "mine"
epsilon = 1.0
methods = ["auto"]
seeds = 1
[[grid]]
alpha = ["1pu"]
beta = ["1%"]
[[network]]
case = "veil9"
label = "costs"
secret = "cost=2$/MWh"
[[network]]
case = "veil9"
"""


def test_a_notebook_releases_several_secrets(tmp_path):
    case = gridveil.load("veil9")
    secret = {"cost": "2$/MWh", "limit": "20MVA", "impedance": "5%"}
    made = case.release(epsilon=1, secret=secret, beta="2%", budget=2)
    assert made.status == "verified" and made.card["promise"]["epsilon"] == 1.0
    assert [one["field"] for one in made.summary()["secrets"]] == ["cost", "limit", "impedance", "charging"]
    assert "curator" not in made.summary() and "error" not in json.dumps(made.summary()["secrets"])
    frame = made.curator.to_pandas()
    assert set(frame["secret"]) == {"cost", "limit", "impedance", "charging"} and np.isfinite(frame["true_re"]).all()
    readers = made.solve()
    assert readers.cost == pytest.approx(made.cost, rel=1e-4)
    again = case.release(secret=secret, beta="5%", reuse=made)
    assert np.array_equal(again.draw.noisy.values, made.draw.noisy.values)
    assert "public/network.m" in made.save(tmp_path / "out")
    with pytest.raises(InputError, match="leave out alpha"):
        case.release(epsilon=1, alpha="10MVA", secret=secret, beta="1%", seed=1)


def test_demands_alone_are_released_as_they_always_were(cli, tmp_path):
    """--secret demand=… is another spelling of --alpha: the same files, to the last byte."""
    asked = ("release", "veil9", "--seed", "3", "--simulation", "-q", "--out")
    assert cli(*asked, tmp_path / "a", "--alpha", "10MVA").code == 0
    assert cli(*asked, tmp_path / "b", "--secret", "demand=10MVA").code == 0
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "public").rglob("*") if path.is_file()}
        for name in "ab"
    )
    assert first == second and "secrets" not in yaml.safe_load(first["card.yaml"])


def test_the_command_refuses_two_ways_to_say_how_much_is_hidden(cli, tmp_path):
    found = cli("release", "veil9", "--secret", ALL, "--alpha", "1MVA", "--out", tmp_path / "out")
    assert found.code == 2 and "takes no --alpha" in found.err


def test_costs_alone_need_no_list_of_sites_and_leave_demands_as_they_are(cli, tmp_path):
    found = cli("release", "veil9", "--secret", "cost=2$/MWh", "--budget", "2", "--out", tmp_path / "out", "-q")
    assert found.code == 0, found.err
    released = load_case(str(tmp_path / "out" / "public" / "network.m"))
    before, after = load_case("veil9"), released
    assert after.values.reveal() == pytest.approx(before.values.reveal(), abs=1e-11)
    costs = [one.network.generator.cost.polynomial[1] for one in (before, after)]
    assert np.all(costs[0] != costs[1]) and not np.any(after.network.generator.cost.polynomial[2:])
    card = yaml.safe_load((tmp_path / "out" / "public" / "card.yaml").read_text())
    assert "the demand of every load: not declared secret" in card["unprotected"]
    assert card["promise"] | {"epsilon": 1.0} == card["promise"] and card["promise"]["unit"] == "$/MWh"


def test_a_study_hides_what_each_network_states(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    costs, demands = (inspect_network(entry, Solver.STRUCTURED) for entry in read_study(path).networks)
    assert costs.solver is Solver.STRUCTURED and costs.sites != demands.sites
    task = Task(alpha=1.0, beta=0.01, epsilon=1.0, seed=0, method=Method.AUTO)
    row = run_trial(Rules(sites=NoiseSites.ALL, task_seconds=None), prepare(costs), task)
    assert row.verified and row.cost is not None and row.true_cost is not None
    assert abs(row.cost / row.true_cost - 1) <= 0.01
    path.write_text(STUDY.replace("cost=2$/MWh", "price=2"))
    with pytest.raises(InputError, match="there is no secret 'price'"):
        read_study(path)


def test_explore_tries_multiples_of_what_is_stated(cli, tmp_path):
    asked = (
        "explore",
        "veil9",
        "--secret",
        "cost=2$/MWh,limit=20MVA",
        "--alpha",
        "0.5pu,2pu",
        "--beta",
        "1%",
        "--seeds",
        "2",
    )
    found = cli(*asked, "--json")
    assert found.code == 0, found.err
    rows = json.loads(found.out)["rows"]
    assert [row["verified"] for row in rows] == [2, 2]
    assert rows[0]["distance_noisy"]["mean"] < rows[1]["distance_noisy"]["mean"]
    simulated = cli(*asked[:4], "--alpha", "1pu", "--beta", "1%", "--seeds", "1", "--demands", "simulated", "--json")
    assert simulated.code == 0 and json.loads(simulated.out)["rows"][0]["verified"] == 1, simulated.err
