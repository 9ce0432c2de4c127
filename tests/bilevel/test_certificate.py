"""The certificate of a release: proofs where the relaxation gives them, honest words where it does not."""

from __future__ import annotations

import json

import pytest
import yaml


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_on_a_power_network(cli, tmp_path, seed):
    result = cli("release", "veil9", "--out", tmp_path / "out", "--seed", seed, "--alpha", "0.2pu", "--json")
    report = json.loads(result.out)
    proof = report["certificate"]
    lower = report["cost_target"] - report["beta"]
    assert proof["relaxation"] == "second-order cone"
    assert proof["cost_lower_bound"] <= report["cost"] * (1 + 1e-6)
    assert proof["band"] == ("global" if proof["cost_lower_bound"] >= lower else "local")
    assert proof["distance_lower_bound"] <= report["delta"] + 1e-9
    assert proof["distance_lower_bound"] <= proof["local_distance_bound"] + 1e-6
    expected = 1 - proof["distance_lower_bound"] / report["delta"] if report["delta"] else 0.0
    assert proof["gap"] == pytest.approx(max(expected, 0.0), abs=1e-9)
    published = yaml.safe_load((tmp_path / "out/simulation/certificate.yaml").read_text())
    assert published == {name: proof[name] for name in published} and len(published) == 6


def test_gas_is_local_only(cli, tmp_path):
    result = cli("release", "veilgas", "--out", tmp_path / "out", "--alpha", "0.5pu", "--seed", 1, "--json")
    proof = json.loads(result.out)["certificate"]
    assert (proof["band"], proof["relaxation"]) == ("local", "none: local only")
    assert proof["gap"] is None and proof["cost_lower_bound"] is None
