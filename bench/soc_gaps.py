"""SOC gaps of PGLib cases beside those of its BASELINE.md: ``python bench/soc_gaps.py [CASE ...]``.

The gap is 100·(1 − SOC/AC) with the AC optimum of BASELINE.md, which has five digits: its rounding alone moves a gap by up to
0.005 points, as does that of the printed gap. ``margin`` is what the safe bound gives away, relative to the AC optimum.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gridveil.sectors.builtin import pglib_folder
from gridveil.sectors.power.soc import soc_lower_bound
from gridveil.sectors.registry import load_case

CASES = [
    "case3_lmbd", "case5_pjm", "case14_ieee", "case24_ieee_rts", "case30_as", "case30_ieee", "case39_epri", "case57_ieee",
    "case60_c", "case73_ieee_rts", "case89_pegase", "case118_ieee", "case162_ieee_dtc", "case179_goc", "case197_snem",
    "case200_activ", "case240_pserc", "case300_ieee", "case500_goc", "case588_sdet", "case793_goc", "case1354_pegase",
    "case1803_snem", "case1888_rte", "case1951_rte", "case2000_goc", "case2312_goc", "case2383wp_k", "case2736sp_k",
    "case2742_goc", "case2848_rte", "case2869_pegase", "case3012wp_k", "case5_pjm__api", "case30_ieee__api",
    "case118_ieee__api", "case300_ieee__api", "case5_pjm__sad", "case30_as__sad", "case118_ieee__sad", "case300_ieee__sad",
]  # fmt: skip
TOLERANCE = 0.02  # percentage points


def published() -> dict[str, tuple[float, float]]:
    """Case → (AC optimum in $/h, SOC gap in %)."""
    folder = pglib_folder()
    if folder is None:
        sys.exit("the PGLib cases are needed; install gridveil[cases]")
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in _lines(folder) if line.startswith("| pglib")
    ]
    return {row[0].removeprefix("pglib_opf_"): (float(row[4]), float(row[6])) for row in rows}


def _lines(folder: Path) -> list[str]:
    return (folder / "BASELINE.md").read_text().splitlines()


def main() -> None:
    """Print one row per case; the exit code is 1 if a gap is off by more than the tolerance."""
    baseline = published()
    print(
        f"{'case':22} {'published':>10} {'ours':>9} {'error':>8} {'margin':>9} {'iterations':>10} {'seconds':>8}  status"
    )
    misses = 0
    names = sys.argv[1:] or CASES
    for name in names:
        case = load_case(name)
        ac, gap = baseline[name]
        bound = soc_lower_bound(case.network.grid, case.values.reveal()[case.network.served])
        ours = float("nan") if bound.value is None else 100 * (1 - bound.value / ac)
        misses += not abs(ours - gap) <= TOLERANCE
        print(
            f"{name:22} {gap:10.2f} {ours:9.3f} {ours - gap:8.3f} {bound.margin / ac:9.1e} {bound.iterations:10} "
            f"{bound.seconds:8.2f}  {bound.status.name.lower()}",
            flush=True,
        )
    print(f"{len(names) - misses} of {len(names)} within {TOLERANCE} percentage points")
    sys.exit(misses > 0)


if __name__ == "__main__":
    main()
