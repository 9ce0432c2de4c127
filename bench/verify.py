"""The full list of published optima: PGLib up to 3 000 buses and two large cases, AC and DC, and the 19 NESTA networks.

Run with ``make verify``. Prints one row per case and formulation; the exit code is 1 if any row differs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from numpy.typing import NDArray

from conftest import data_folder
from gridveil.core.choices import Formulation
from gridveil.privacy.curator import published_values
from gridveil.programs import Follower
from gridveil.sectors.case import Case
from gridveil.sectors.model import Model
from gridveil.sectors.registry import build_model, load_case
from linear_oracle import linear_optimum
from references import nesta_optima, pglib_baseline

LARGE = {"case9241_pegase", "case10000_goc"}
TOLERANCE = 1e-4


def wanted() -> list[tuple[str, str, Formulation, float]]:
    """Label, source, formulation and published optimum of every row."""
    rows = []
    for name, (buses, dc, ac, _) in pglib_baseline().items():
        if "__" not in name and (buses <= 3000 or name in LARGE):
            rows.append((name, name, Formulation.AC, ac))
            if dc is not None:
                rows.append((name, name, Formulation.DC, dc))
    for name, cost in nesta_optima().items():
        path = data_folder() / "nesta" / f"nesta_{name}.m"
        if path.exists():
            rows.append((f"nesta_{name}", str(path), Formulation.AC, cost))
    return rows


def true_data(case: Case, model: Model) -> NDArray[np.float64]:
    """The program's d at the demands of the file: these are public benchmark cases."""
    return model.layout.to_program(case.values.reveal())


def main() -> int:
    """Solve every row and print the table."""
    bad = 0
    print(
        f"{'case':28} {'form':4} {'cost':>14} {'published':>12} {'difference':>10} {'iter':>5} {'seconds':>8}  verdict"
    )
    for label, source, formulation, published in wanted():
        clock = time.perf_counter()
        case = load_case(source)
        model = build_model(case.network, formulation)
        solution = Follower(model.program).solve(model.layout.to_program(published_values(case)))
        difference = solution.cost / published - 1
        good = solution.converged and abs(difference) <= TOLERANCE
        bad += not good
        verdict = "ok" if good else f"DIFFERS ({solution.status.value})"
        if not good and formulation is Formulation.DC:
            verdict += f"; HiGHS finds {linear_optimum(model.program, true_data(case, model)):.4f} for the same program"
        print(
            f"{label:28} {formulation.value:4} {solution.cost:14.4f} {published:12.5g} {difference:10.1e}"
            f" {solution.iterations:5d} {time.perf_counter() - clock:8.2f}  {verdict}",
            flush=True,
        )
    print(f"{bad} rows differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
