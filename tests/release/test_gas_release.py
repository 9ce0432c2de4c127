"""gridveil on gas networks: inspect, solve, release and audit, as on power."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from conftest import data_folder
from gridveil.core.band import Tolerance
from gridveil.core.secret import SecretDemand
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw
from gridveil.programs import Follower
from gridveil.sectors.gas.boundary import GasBoundary, preset_boundary
from gridveil.sectors.gas.check import check_gas_point
from gridveil.sectors.gas.ogf import ogf_point
from gridveil.sectors.load import load_case
from gridveil.sectors.model import build_model
from gridveil.service.choices import CostTargetMode
from gridveil.service.export import export
from gridveil.service.pipeline import make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

STUDIES = {
    "24-pipe": ("case-30.m", 45.72),
    "gaslib-40": ("gaslib-40-E.m", 31.35),
    "gaslib-135": ("gaslib-135-F.m", 64.58),
}


def study_file(name: str):
    path = data_folder() / "gas" / STUDIES[name][0]
    if not path.exists():
        pytest.skip(f"needs {path.name} from the folder named by GRIDVEIL_DATA")
    return path


@pytest.mark.parametrize("name", STUDIES)
def test_nominal_cost_of_the_studies(cli, name):
    report = json.loads(cli("solve", study_file(name), "--preset", name, "--json").out)
    assert (report["status"], report["formulation"]) == ("converged", "ogf")
    assert report["cost"] == pytest.approx(STUDIES[name][1], rel=1e-3)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("beta", ["10%", "1%", "0.1%"])
def test_releases_of_the_studies_end_verified(cli, tmp_path, name, beta):
    options = ["--preset", name, "--beta", beta, "--seed", 3, "--json"]
    result = cli("release", study_file(name), "--out", tmp_path / "out", *options)
    assert result.code == 0, result.err
    report = json.loads(result.out)
    assert abs(report["cost_error"]) <= float(beta.rstrip("%")) / 100
    written = load_case(
        str(tmp_path / "out/simulation/network.m"), GasBoundary(flow_base=preset_boundary(name).flow_base)
    )
    model = build_model(written.network)
    demand = written.demand.reveal()
    solution = Follower(model.program).solve(demand)
    in_kg_per_s = demand * written.network.flow_base
    check = check_gas_point(written.network, in_kg_per_s, ogf_point(written.network, solution.x))
    assert check.worst < 1e-6
    assert check.cost == pytest.approx(report["cost"], rel=1e-3)


def test_inspect_shows_no_demand(cli):
    report = json.loads(cli("inspect", "veilgas", "--json").out)
    assert (report["kind"], report["demand_sites"], report["compressors"]) == ("gas", 6, 2)


def test_release_of_a_built_in_network(cli, tmp_path):
    options = ["--flow-base", "100", "--alpha", "0.01", "--ledger", tmp_path / "l.ledger", "--json"]
    result = cli("release", "veilgas", "--out", tmp_path / "out", *options)
    assert result.code == 0, result.err
    card = yaml.safe_load((tmp_path / "out/public/card.yaml").read_text())
    assert card["privacy_loss"]["privacy_parameters"]["alpha_unit"] == "per unit of 100 kg/s"
    assert card["implementation"]["mechanism"] == "ScalarLaplace"
    assert any("injections" in text for text in card["dp_flavor"]["unprotected_quantities"])


def test_alpha_without_a_flow_base_is_in_kg_per_second(cli, tmp_path):
    result = cli("release", "veilgas", "--out", tmp_path / "out", "--alpha", "0.5", "--seed", 1)
    assert result.code == 0, result.err
    card = yaml.safe_load((tmp_path / "out/simulation/card.yaml").read_text())
    assert card["privacy_loss"]["privacy_parameters"]["alpha_unit"] == "per unit of 1 kg/s"


@pytest.mark.parametrize("mode", [CostTargetMode.FORECAST, CostTargetMode.DERIVED])
@pytest.mark.parametrize("file_format", ["matgas", "gaslib"])
def test_non_interference(tmp_path, mode, file_format):
    """Two different true demands with the same noisy ones give byte-identical public folders."""
    case = replace(load_case("veilgas"), file_format=file_format)
    noisy = replace(simulate_laplace(case.demand, epsilon=1.0, alpha=0.3, seed=3), simulation=False)
    other = replace(case, demand=SecretDemand(1.3 * case.demand.reveal() + 0.1))
    target = CostTargetSettings(mode=mode, forecast=6.7)
    settings = ReleaseSettings(epsilon="1", alpha="0.3", beta=Tolerance.parse("5%"), target=target)
    folders = []
    for name, one in (("a", case), ("b", other)):
        export(make_release(one, settings, None, reuse=Draw(noisy=noisy)), tmp_path / name, simulation_as_public=False)
        public = tmp_path / name / "public"
        folders.append({path.name: path.read_bytes() for path in sorted(public.iterdir())})
    assert folders[0] == folders[1] and "card.yaml" in folders[0]


def test_audit_of_a_gas_release(cli, tmp_path):
    assert cli("release", "veilgas", "--out", tmp_path / "out", "--alpha", "0.5", "--seed", 1).code == 0
    options = ["--alpha", "0.5", "--runs", 20, "--draws", 5000, "--released", tmp_path / "out", "--json"]
    report = json.loads(cli("audit", "veilgas", *options).out)
    assert report["mechanism"].startswith("ScalarLaplace")
    assert {row["unit"] for row in report["attacks"] if "unit" in row} == {"kg/s"}


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--slack", "nowhere=5MPa"], "nowhere"),
        (["--slack", "1"], "JUNCTION=PRESSURE"),
        (["--slack", "1=5furlong"], "unit"),
        (["--sound-speed", "fast"], "number"),
        (["--flow-base", "-3"], "positive"),
        (["--preset", "moon"], "known"),
    ],
)
def test_bad_boundary_conditions(cli, options, hint):
    result = cli("solve", "veilgas", *options)
    assert result.code == 2 and hint in result.err and result.err.count("\n") == 1


def test_distances_follow_the_noise():
    """Laplace noise of scale α on n sites: the mean distance is near α·√(2n)/‖d°‖."""
    case = load_case("veilgas-national")
    truth = case.demand.reveal()
    mean = np.mean(
        [
            np.linalg.norm(simulate_laplace(case.demand, epsilon=1.0, alpha=0.2, seed=k).values - truth)
            for k in range(40)
        ]
    )
    assert mean == pytest.approx(0.2 * np.sqrt(2 * len(truth)), rel=0.05)
