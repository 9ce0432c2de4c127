"""How often an audit catches a pipeline that spends twice the ε it claims, and how often it accuses a right one.

    python bench/audit_power.py [--audits 20] [--runs 1200] [--case veil2]

The planted fault halves the noise on the values. Each audit is the whole of ``audit_pipeline``.
"""

from __future__ import annotations

import argparse
from unittest import mock

from gridveil.core.band import Tolerance
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.sectors.registry import load_case
from gridveil.service.pipeline_audit import audit_pipeline
from gridveil.service.settings import ReleaseSettings


def main() -> None:
    """Audit a right pipeline and a faulty one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--audits", type=int, default=20)
    parser.add_argument("--runs", type=int, default=1200)
    parser.add_argument("--case", default="veil2")
    arguments = parser.parse_args()
    case = load_case(arguments.case)
    settings = ReleaseSettings(epsilon="1", alpha="10MVA", beta=Tolerance.parse("5%"))
    for name, faulty in (("half the noise", True), ("as it is", False)):
        caught = 0
        for number in range(1, arguments.audits + 1):
            with mock.patch.object(PlanarLaplace, "draw", half_planar) if faulty else mock.MagicMock():
                caught += not audit_pipeline(case, settings, runs=arguments.runs).passed
            print(f"{name}: {caught} of {number} audits failed", flush=True)


def half_planar(self: PlanarLaplace, values: object) -> object:
    """Draw with twice the ε that is claimed."""
    return PlanarLaplace(epsilon=2 * self.epsilon, alpha=self.alpha, step=self.step).add_noise(values).values  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
