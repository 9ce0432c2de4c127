"""Cases with several secrets for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from conftest import Matpower
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.secret_choice import parse_secrets
from gridveil.privacy.curator import Curator
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.draw import make_draw
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.secrets import with_secrets
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

ALL = "demand=1MVA,cost=2$/MWh,limit=20MVA,impedance=5%"
EACH = ("demand=1MVA", "cost=2$/MWh", "limit=20MVA", "impedance=5%")
NOBODY = NoAccount(simulation=False)


def settings_for(secret: str, mode: CostTargetMode = CostTargetMode.DERIVED, **more: object) -> ReleaseSettings:
    share = {"share": "0.2"} if mode is CostTargetMode.PRIVATE else {}
    usual = {"epsilon": "1", "alpha": "1MVA", "beta": Tolerance.parse("1%"), "secrets": parse_secrets(secret)}
    return ReleaseSettings(**(usual | {"target": CostTargetSettings(mode=mode, **share)} | more))  # type: ignore[arg-type]


def secret_case(source: str, secret: str) -> Case:
    case = replace(load_case(source), sites_declared=True)
    return with_secrets(case, parse_secrets(secret))


def a_draw(case: Case, settings: ReleaseSettings, seed: int = 3) -> Draw:
    """A seeded draw that is passed off as private, so that it takes the way of a real release and can be repeated."""
    prepared = prepare(PublicCase.of(case), solver="structured")
    draw = make_draw(Curator(case), prepared, replace(settings, seed=seed), NoAccount(), "test")
    total = None if draw.total is None else replace(draw.total, simulation=False)
    return replace(draw, noisy=replace(draw.noisy, simulation=False), total=total)


def other_network(net: Matpower, seed: int = 5) -> Matpower:
    """Another truth on the same topology: other costs (bent ones too), ratings, impedances, charging and ratings B and C."""
    rng, other = np.random.default_rng(seed), Matpower(base=net.base)
    other.bus = [[*row] for row in net.bus]
    other.gen = [[*row] for row in net.gen]
    other.gencost = [[2, 0, 0, 3, rng.uniform(0.01, 0.1), rng.uniform(5, 90), rng.uniform(0, 9)] for _ in net.gencost]
    for row in net.branch:
        moved = [*row]
        moved[2:4] = [value * rng.uniform(0.3, 3) for value in row[2:4]]
        moved[4] = row[4] * rng.uniform(0.3, 3)
        moved[5:8] = [value * rng.uniform(0.3, 3) for value in row[5:8]]
        other.branch.append(moved)
    return other


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "public").rglob("*"))
        if path.is_file()
    }
