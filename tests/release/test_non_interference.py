"""Two data sets with the same draws end alike: byte-identical public folders, or the same failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import powerio
import pytest

from conftest import CliResult
from gridveil.bilevel.repair import repair
from gridveil.core.band import CostTarget, Tolerance
from gridveil.core.choices import CostTargetMode, Formulation
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Method, Solver
from gridveil.core.secret import SecretValues
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms.lattice import LatticeMechanism
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace
from gridveil.privacy.noisy import Draw
from gridveil.report.card_page import card_page
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.registry import build_model, load_case, write_network
from gridveil.service.account import NoAccount
from gridveil.service.draw import make_draw
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.publish import publish
from gridveil.service.release import make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.ipopt import IpoptBackend

FORMATS = {
    "matpower": "case.m",
    "psse": "case.raw",
    "powermodels-json": "case.json",
    "egret-json": "case.json",
    "pandapower-json": "case.json",
    "powerworld": "case.aux",
    "pypsa-csv": "case",
}
MODES = list(CostTargetMode)
DECLARED = 5900.0  # what both curators declare public, and forecast
NOBODY = NoAccount(simulation=False)


def settings_for(mode: CostTargetMode, *, no_costs: bool = False, **choices: object) -> ReleaseSettings:
    cost = 0.0 if no_costs else DECLARED
    target = CostTargetSettings(mode=mode, forecast=cost if mode is CostTargetMode.FORECAST else None)
    beta = Tolerance.parse("1$/h" if no_costs else "2%")
    return ReleaseSettings(epsilon="1", alpha="0.05pu", beta=beta, target=target, **choices)  # type: ignore[arg-type]


def as_private(draw: Draw) -> Draw:
    """A seeded draw that is passed off as private, so that it takes the way of a real release and can be repeated."""
    total = None if draw.total is None else replace(draw.total, simulation=False)
    return replace(draw, noisy=replace(draw.noisy, simulation=False), total=total)


def a_draw(case: Case, settings: ReleaseSettings, seed: int = 3) -> Draw:
    seeded = replace(settings, seed=seed)
    drawn = make_draw(Curator(case), prepare(PublicCase.of(case), solver="structured"), seeded, NoAccount(), "test")
    return as_private(drawn)


def others(case: Case) -> list[Case]:
    """Other true values on the same network: a neighbour, far ones, and ones that no generator can serve."""
    truth = np.array(case.values.reveal())
    moved = truth.copy()
    moved[0] += 0.05
    return [case.with_values(SecretValues(values)) for values in (moved, 1.7 * truth + 0.05, 60 * truth, 0 * truth)]


def public_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "public").rglob("*"))
        if path.is_file()
    }


def published(case: Case, settings: ReleaseSettings, draw: Draw, folder: Path) -> dict[str, bytes]:
    made = make_release(case, settings, NOBODY, reuse=draw)
    publish(made, case, folder, simulation_as_public=False, card_page=card_page)
    return public_files(folder)


def assert_identical(cases: list[Case], settings: ReleaseSettings, draw: Draw, folder: Path) -> None:
    first, *rest = (published(one, settings, draw, folder / str(k)) for k, one in enumerate(cases))
    assert {"public/card.yaml", "public/card.html", "public/registry.yaml"} < set(first)
    assert all(files == first for files in rest)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("token", FORMATS)
def test_public_folders_are_byte_identical_in_every_format(tmp_path, token, mode):
    source, no_costs = tmp_path / FORMATS[token], token == "psse"
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), token, str(source))
    case = replace(load_case(str(source)), sites_declared=True)
    assert case.file_format == token
    settings = settings_for(mode, no_costs=no_costs)
    draw = a_draw(case, settings)
    if mode is CostTargetMode.PUBLIC:
        draw = replace(draw, declared_cost=0.0 if no_costs else DECLARED)
    if not no_costs:
        assert (draw.total is not None) == (mode is CostTargetMode.PRIVATE)
    assert_identical([case, others(case)[1]], settings, draw, tmp_path / "out")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("solver", list(Solver), ids=lambda solver: solver.value)
@pytest.mark.parametrize("method", list(Method), ids=lambda method: method.value)
def test_public_folders_are_byte_identical_for_every_method_and_solver(tmp_path, mode, solver, method):
    case = load_case("veil2")
    target = CostTargetSettings(mode=mode, forecast=1300.0 if mode is CostTargetMode.FORECAST else None)
    settings = replace(settings_for(CostTargetMode.DERIVED, solver=solver, method=method), target=target)
    draw = a_draw(case, settings)
    if mode is CostTargetMode.PUBLIC:
        draw = replace(draw, declared_cost=1300.0)
    assert_identical([case, *others(case)], settings, draw, tmp_path)


@pytest.mark.parametrize("method", list(Method), ids=lambda method: method.value)
def test_a_failure_does_not_depend_on_the_truth(method):
    """No demands of veil2 cost 10^9: every truth ends with the same words."""
    case = load_case("veil2")
    target = CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=1e9)
    settings = replace(settings_for(CostTargetMode.DERIVED, method=method), target=target, beta=Tolerance.parse("1$/h"))
    draw, words = a_draw(case, settings), []
    for one in [case, *others(case)]:
        with pytest.raises(NoReleaseError) as caught:
            make_release(one, settings, NOBODY, reuse=draw)
        words.append(str(caught.value))
    assert len(set(words)) == 1


# --- the whole command, the mechanisms replaced by ones that look at nothing -------------------------------------------


@dataclass(frozen=True)
class Ending:
    """All that leaves the curator: exit code, messages, what is printed, the public files, and what was charged."""

    code: int
    messages: str
    printed: dict[str, object]
    public: dict[str, bytes]
    names: tuple[str, ...]
    charges: tuple[tuple[Fraction, Fraction, Fraction | None, str, str], ...]


FIXED, SUM = 0.4 + 0.1j, 1.1 + 0.3j
CURATOR_ONLY = {"curator", "seconds"}


@pytest.fixture
def fixed_draws(monkeypatch):
    """Noise that outweighs everything: what is drawn is the same whatever the truth is."""

    def draw(self, values):
        return self.lattice_values(self.lattice_index(np.full(len(values), FIXED)))

    def sums(self, points):
        return self.lattice_values(self.lattice_index(np.full(len(points), SUM)))

    monkeypatch.setattr(LatticeMechanism, "draw", draw)
    monkeypatch.setattr(LatticeMechanism, "draw_exact_points", sums)
    monkeypatch.setattr(ScalarLaplace, "draw_exact", lambda self, value: 6000.0)


def ending(cli: Callable[..., CliResult], values, folder: Path, monkeypatch, *options: object) -> Ending:
    """Run ``gridveil release`` on a file with these values, in a folder and with a ledger of its own."""
    folder.mkdir()
    case = load_case("veil9")
    write_network(case.network, values, folder, "matpower", title="town")
    (folder / "sites.txt").write_text("\n".join(case.field.places))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GRIDVEIL_HOME", "home")
    asked = ("--sites", "sites.txt", "--budget", "5", "--ledger", "town.ledger", "--out", "out", "--json")
    result = cli("release", "network.m", *asked, *options)
    charges = Ledger.open("town.ledger").charges
    return Ending(
        code=result.code,
        messages=result.err.replace(str(folder), "."),
        printed={
            k: v for k, v in json.loads((result.out or "{}").replace(str(folder), ".")).items() if k not in CURATOR_ONLY
        },
        public=public_files(Path("out")),
        names=tuple(sorted(str(path) for path in Path("out").rglob("*"))),
        charges=tuple((c.epsilon, c.alpha, c.rounding, c.mechanism, c.purpose) for c in charges),
    )


@pytest.mark.parametrize(
    ("options", "code", "draws"),
    [
        ((), 0, 2),
        (("--cost-target", "derived"), 0, 1),
        (("--cost-target", "forecast", "--forecast-cost", "5900"), 0, 1),
        (("--solver", "ipopt", "--method", "bisection"), 0, 2),
        (("--cost-target", "forecast", "--forecast-cost", "1e9", "--beta", "1$/h"), 3, 1),
        (("--epsilon", "9"), 2, 0),
        (("--keep", "zones:2=40%"), 0, 2),
        (("--time-limit", "0.000001", "--names", "keep"), 3, 2),
    ],
    ids=["private", "derived", "forecast", "ipopt and bisection", "unreachable", "over budget", "zones", "no time"],
)
def test_the_command_ends_alike_whatever_the_truth_is(cli, tmp_path, monkeypatch, fixed_draws, options, code, draws):
    truth = np.array(load_case("veil9").values.reveal())
    tables = {"usual": truth, "large": 1.7 * truth + 0.05, "infeasible": 60 * truth, "zero": 0 * truth}
    for name, value in {"huge": 9e5 - 9e5j, "tiny": 1e-310, "negative zero": complex(-0.0, -0.0)}.items():
        tables[name] = np.where(np.arange(len(truth)) == 1, value, truth)
    first, *rest = (ending(cli, values, tmp_path / n, monkeypatch, *options) for n, values in tables.items())
    assert first.code == code, first.messages
    assert len(first.charges) == draws
    assert ("public/card.yaml" in first.public) == (code == 0)
    for other in rest:
        assert other == first


def test_a_total_without_noise_is_noticed(cli, tmp_path, monkeypatch, fixed_draws):
    """The planted fault: the kept sums come out as they are."""

    def bare(self, points):
        return np.array([complex(*map(float, point)) for point in points])

    monkeypatch.setattr(LatticeMechanism, "draw_exact_points", bare)
    truth = np.array(load_case("veil9").values.reveal())
    first, second = (
        ending(cli, scale * truth, tmp_path / str(scale), monkeypatch, "--keep", "zones:2=40%") for scale in (1, 1.1)
    )
    assert first.code == 0 and first.public != second.public


def test_post_processing_refuses_a_secret():
    case = load_case("veil2")
    model = build_model(case.network, Formulation.AC)
    target = CostTarget(value=1400.0, beta=50.0, source=CostTargetMode.FORECAST)
    with pytest.raises(TypeError, match="noisy data only"):
        repair(IpoptBackend(model.program), model.layout, case.values, target)
    with pytest.raises(TypeError, match="secret"):
        model.layout.to_program(case.values)


def test_the_curator_sees_the_difference():
    """The same two releases differ on the curator's side: the comparison is with each case's own truth."""
    case = load_case("veil9")
    settings = settings_for(CostTargetMode.FORECAST)
    draw = a_draw(case, settings)
    mine, theirs = (make_release(one, settings, NOBODY, reuse=draw).curator for one in (case, others(case)[1]))
    assert mine.comparison != theirs.comparison and mine.optimum.cost != theirs.optimum.cost
