"""Shared helpers: tiny MATPOWER files, the benchmark folder, the command line in process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings

from fake_cupy import cupy  # noqa: F401, a fixture
from gridveil.cli import main
from gridveil.cli.output import OutputMode, set_output_mode
from gridveil.core.choices import Formulation
from gridveil.privacy.mechanisms import exact_sampling
from gridveil.programs import Follower, FollowerSolution
from gridveil.sectors.case import Case
from gridveil.sectors.model import Model
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.backend import Answer, Backend
from gridveil.solvers.solves import Solves
from seeded_noise import seeded_system

Row = list[float]

# A shell ignores Ctrl-C in what it starts in the background, and processes inherit that: tests that interrupt would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, however slow the machine. To look for new ones: pytest --hypothesis-profile=default
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")


LONG = {"test_readme.py", "test_app_kills.py", "test_study_kill.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first: one of them at the end would leave the other worker idle."""
    items.sort(key=lambda item: item.path.name not in LONG)


def data_folder() -> Path:
    return Path(os.environ.get("GRIDVEIL_DATA", Path(__file__).parents[2] / "shared" / "data"))


def nesta(name: str) -> Path:
    """Path of a NESTA network; skips the test, by name, where the benchmark folder is absent."""
    path = data_folder() / "nesta" / f"nesta_{name}.m"
    if not path.exists():
        pytest.skip(f"needs {path.name} from the folder named by GRIDVEIL_DATA")
    return path


@dataclass
class Matpower:
    """A MATPOWER file under construction; each table is a list of rows in the usual column order."""

    bus: list[Row] = field(default_factory=list)
    gen: list[Row] = field(default_factory=list)
    branch: list[Row] = field(default_factory=list)
    gencost: list[Row] = field(default_factory=list)
    reactive_cost: list[Row] = field(default_factory=list)
    dcline: list[Row] = field(default_factory=list)
    dclinecost: list[Row] = field(default_factory=list)
    storage: list[Row] = field(default_factory=list)
    switch: list[Row] = field(default_factory=list)
    currents: list[float] = field(default_factory=list)
    compensators: list[Row] = field(default_factory=list)
    base: float = 100.0

    def add_bus(
        self, bus: int, kind: int = 1, pd: float = 0, qd: float = 0, gs: float = 0, bs: float = 0, v=(0.9, 1.1)
    ) -> None:
        self.bus.append([bus, kind, pd, qd, gs, bs, 1, 1, 0, 230, 1, v[1], v[0]])

    def add_gen(self, bus: int, p=(0.0, 1000.0), q=(-1000.0, 1000.0), cost=(0.0, 10.0, 0.0), status: int = 1) -> None:
        """``cost`` are polynomial coefficients, highest first, or a list of (MW, $/h) points."""
        self.gen.append([bus, 0, 0, q[1], q[0], 1, self.base, status, p[1], p[0]])
        self.gencost.append(cost_row(cost))

    def add_branch(
        self, i: int, j: int, r=0.0, x=0.1, b=0.0, rate=0.0, tap=0.0, shift=0.0, angle=(-60.0, 60.0), status: int = 1
    ) -> None:
        self.branch.append([i, j, r, x, b, rate, rate, rate, tap, shift, status, *angle])

    def add_dcline(
        self, i: int, j: int, p=(0.0, 100.0), q_from=(0.0, 0.0), q_to=(0.0, 0.0), loss=(0.0, 0.0), status=1, cost=None
    ) -> None:
        """``loss`` is constant (MW) and share; the stored operating point is not zero, so that a leak of it shows."""
        self.dcline.append([i, j, status, 12.125, 11.375, 3.625, 4.875, 1, 1, *p, *q_from, *q_to, *loss])
        if cost is not None:
            self.dclinecost.append(cost_row(cost))

    def add_storage(self, bus: int, charge: float, discharge: float, q=(0.0, 0.0), status: int = 1) -> None:
        """The stored operating point and energy are not zero, so that a leak of them shows."""
        self.storage.append(
            [bus, 7.125, 2.375, 20.625, 100.0, charge, discharge, 0.9, 0.9, 1000.0, *q, 0, 0, 0, 0, status]
        )

    def text(self) -> str:
        tables = {"bus": self.bus, "gen": self.gen, "branch": self.branch}
        tables["gencost"] = padded(self.gencost + self.reactive_cost)
        more = {"dcline": self.dcline, "dclinecost": padded(self.dclinecost), "storage": self.storage}
        tables |= {name: rows for name, rows in (more | {"switch": self.switch}).items() if rows}
        parts = ["function mpc = tiny", "mpc.version = '2';", f"mpc.baseMVA = {self.base!r};"]
        for name, rows in tables.items():
            body = "\n".join("\t" + "\t".join(repr(value) for value in row) + ";" for row in rows)
            parts.append(f"mpc.{name} = [\n{body}\n];")
        if self.currents:
            parts += ["%column_names% c_rating_a", f"mpc.branch_currents = {self.currents};".replace(",", ";")]
        if self.compensators:
            body = "\n".join(" ".join(repr(value) for value in row) + ";" for row in self.compensators)
            parts += ["%column_names% bus b_min b_max status", f"mpc.static_var_compensator = [\n{body}\n];"]
        return "\n".join(parts) + "\n"


def cost_row(cost) -> Row:
    """``cost`` are polynomial coefficients, highest first, or a list of (MW, $/h) points."""
    flat = [value for point in cost for value in point] if isinstance(cost, list) else cost
    return [1 if isinstance(cost, list) else 2, 0, 0, len(cost), *flat]


def padded(rows: list[Row]) -> list[Row]:
    width = max((len(row) for row in rows), default=0)
    return [row + [0.0] * (width - len(row)) for row in rows]


def two_bus_net() -> Matpower:
    """A generator, a line and a load with recognisable demands: 41.75 MW and 13.25 MVAr."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=41.75, qd=13.25)
    net.add_gen(1)
    net.add_branch(1, 2, r=0.01, rate=90.0)
    return net


def optimum(case: Case, formulation: Formulation = Formulation.AC) -> FollowerSolution:
    """O at the case's own demands; fails the test if the solver does not converge."""
    model = build_model(case.network, formulation)
    solution = Follower(model.program).solve(model.layout.to_program(case.values.reveal()))
    assert solution.converged, solution.detail
    return solution


def solve_true(case: Case, model: Model, backend: Backend) -> Answer:
    """O at the case's own demands by a given backend, from public starts."""
    return Solves(backend).afresh(model.layout.to_program(case.values.reveal()))


@pytest.fixture(autouse=True)
def ledger_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for the ledgers of each test, so that none is charged to those of the person who runs it."""
    folder = tmp_path_factory.mktemp("gridveil-home")
    monkeypatch.setenv("GRIDVEIL_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def same_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Private draws are the same in every run of a test."""
    monkeypatch.setattr(exact_sampling, "os", seeded_system(request.node.name))


@pytest.fixture(autouse=True)
def usual_output() -> None:
    """A command that another test ran with --json in this process left it silent."""
    set_output_mode(OutputMode())


@pytest.fixture
def load_text(tmp_path: Path) -> Callable[[str], Case]:
    def load(text: str, name: str = "tiny.m") -> Case:
        path = tmp_path / name
        path.write_text(text)
        return load_case(str(path))

    return load


@dataclass(frozen=True)
class CliResult:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., CliResult]:
    """Run the command line in this process."""

    def run(*arguments: object) -> CliResult:
        monkeypatch.setattr(sys, "argv", ["gridveil", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return CliResult(code, captured.out, captured.err)

    return run
