"""The audit accepts our mechanism and catches a pipeline that spends more than it says."""

from __future__ import annotations

import json

import numpy as np

from gridveil.privacy.mechanisms.exact_sampling import suggested_step
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.service.pipeline_audit import audit_pipeline, epsilon_lower_bound

STEP = suggested_step(epsilon="1", alpha="0.1")


class HalfNoise(PlanarLaplace):
    """Claims ε but draws with half of the noise."""

    def add_noise(self, values):
        return PlanarLaplace(epsilon=2 * self.epsilon, alpha=self.alpha, step=self.step).add_noise(values)


class NoiseOnQOnly(PlanarLaplace):
    """Leaves the active power as it is."""

    def add_noise(self, values):
        noisy = super().add_noise(values)
        return type(noisy)(index=noisy.index, values=values.real + 1j * noisy.values.imag)


def test_the_pipeline_spends_no_more_than_it_says():
    audit = audit_pipeline(PlanarLaplace(epsilon="1", alpha="0.1", step=STEP), runs=150)
    assert audit.passed and audit.runs == 300


def test_a_pipeline_without_noise_on_the_active_power_is_caught():
    assert not audit_pipeline(NoiseOnQOnly(epsilon="1", alpha="0.1", step=STEP), runs=60).passed


def test_half_the_noise_is_caught_by_the_estimator():
    """At the level of draws, where many are cheap: 2ε is told from ε."""
    rng = np.random.default_rng(0)
    n = 20_000
    for factor, caught in ((1.0, False), (0.5, True)):
        scale = 3.0 * factor
        low, high = -0.5 * 3 + rng.laplace(0, scale, n), 0.5 * 3 + rng.laplace(0, scale, n)
        assert (epsilon_lower_bound(low, high) > 1.0) is caught


def test_audit_command(cli, tmp_path):
    assert cli("release", "veil2", "--out", tmp_path / "out", "--seed", 1).code == 0
    result = cli("audit", "veil2", "--runs", 20, "--draws", 20000, "--released", tmp_path / "out", "--json")
    report = json.loads(result.out)
    assert result.code == 0 and report["passed"]
    assert {row["name"] for row in report["attacks"]} >= {"power flow from set-points", "demands in comments"}
