"""Two different true demands with the same noisy ones give byte-identical public folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import powerio
import pytest

from gridveil.bilevel.repair import repair
from gridveil.core.band import CostTarget, TargetSource, Tolerance
from gridveil.core.choices import Formulation
from gridveil.core.secret import SecretDemand
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.load import load_case
from gridveil.sectors.model import build_model
from gridveil.service.choices import CostTargetMode
from gridveil.service.export import export
from gridveil.service.pipeline import make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.ipopt import Engine

FORMATS = {
    "matpower": "case.m",
    "psse": "case.raw",
    "powermodels-json": "case.json",
    "egret-json": "case.json",
    "pandapower-json": "case.json",
    "powerworld": "case.aux",
    "pypsa-csv": "case",
}


def settings_for(token: str, mode: CostTargetMode) -> ReleaseSettings:
    no_costs = token == "psse"
    target = CostTargetSettings(mode=mode, forecast=0.0 if no_costs else 5900.0)
    return ReleaseSettings(epsilon="1", alpha="0.1", beta=Tolerance.parse("1" if no_costs else "2%"), target=target)


def public_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "public").rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("mode", [CostTargetMode.FORECAST, CostTargetMode.DERIVED])
@pytest.mark.parametrize("token", FORMATS)
def test_public_folders_are_byte_identical(tmp_path, token, mode):
    source = tmp_path / FORMATS[token]
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), token, str(source))
    case = load_case(str(source))
    noisy = replace(simulate_laplace(case.demand, epsilon=1.0, alpha=0.1, seed=3), simulation=False)
    other = replace(case, demand=SecretDemand(1.7 * case.demand.reveal() + 0.05j))
    folders = []
    for name, one in (("a", case), ("b", other)):
        made = make_release(one, settings_for(token, mode), None, reuse=Draw(noisy=noisy))
        export(made, tmp_path / name, simulation_as_public=False)
        folders.append(public_files(tmp_path / name))
    assert folders[0] == folders[1]
    assert "public/card.yaml" in folders[0]


def test_post_processing_refuses_a_secret():
    case = load_case("veil2")
    model = build_model(case.network, Formulation.AC)
    target = CostTarget(value=1400.0, beta=50.0, source=TargetSource.FORECAST)
    with pytest.raises(TypeError, match="noisy demands only"):
        repair(Engine(model.program), model.layout, case.demand, target)
    with pytest.raises(TypeError, match="secret"):
        model.layout.to_program(case.demand)


def test_the_curator_sees_the_difference(tmp_path):
    """The same two releases differ on the curator's side: the comparison is with each case's own truth."""
    case = load_case("veil9")
    noisy = simulate_laplace(case.demand, epsilon=1.0, alpha=0.1, seed=3)
    other = replace(case, demand=SecretDemand(np.array(1.7 * case.demand.reveal())))
    mine, theirs = (
        make_release(one, settings_for("matpower", CostTargetMode.FORECAST), None, reuse=Draw(noisy=noisy))
        for one in (case, other)
    )
    assert mine.curator != theirs.curator
