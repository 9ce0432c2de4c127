"""Write a release: DIR/public for the world, DIR/curator for the curator alone. Nothing is public before it is verified."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from gridveil.core.errors import InputError, NoReleaseError
from gridveil.privacy.curator import demand_table, solve_true
from gridveil.privacy.limits import limits_from_demand
from gridveil.privacy.noisy import Draw
from gridveil.sectors.model import build_model
from gridveil.sectors.publish import read_back, write_network
from gridveil.service.card import card
from gridveil.service.pipeline import Release
from gridveil.service.reuse import store_draw
from gridveil.service.summary import summary
from gridveil.solvers.choose import engine_for

PUBLIC, SIMULATION, CURATOR = "public", "simulation", "curator"
CARD_PAGE = "card.html"
TITLE, SIMULATION_TITLE = "gridveil_release", "SIMULATION_NOT_PRIVATE"

CardPage = Callable[[Mapping[str, object]], str | None]
"""Makes a page from the card and nothing else, so that no secret can enter; None when it cannot."""


def check_destination(folder: Path) -> None:
    """Refuse, before any budget is spent, a folder that already holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: already exists and is not an empty folder; choose another --out")


def keep_draw(draw: Draw, folder: Path) -> None:
    """Put the draw into DIR/curator, for ``--reuse``: whatever comes of the release, it has been paid for."""
    (folder / CURATOR).mkdir(parents=True, exist_ok=True)
    store_draw(draw, folder / CURATOR)


def export(
    release: Release, folder: Path, *, simulation_as_public: bool, card_page: CardPage | None = None
) -> list[str]:
    """Write both folders and list the files, relative to ``folder``. ``card_page`` adds the card as a page beside card.yaml.

    A simulation goes to DIR/simulation instead of DIR/public, unless the caller insists.
    """
    keep_draw(release.draw, folder)
    simulated = release.draw.noisy.simulation
    name = SIMULATION if simulated and not simulation_as_public else PUBLIC
    with tempfile.TemporaryDirectory(dir=folder, prefix=".staging-") as staging:
        staged = Path(staging) / name
        staged.mkdir()
        _write_public(release, staged, card_page)
        _write_curator(release, folder / CURATOR)
        shutil.move(str(staged), str(folder / name))
    return list_files(folder)


def list_files(folder: Path) -> list[str]:
    """List the files of a release, relative to its folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _write_public(release: Release, folder: Path, card_page: CardPage | None) -> None:
    title = SIMULATION_TITLE if release.draw.noisy.simulation else TITLE
    network, values = release.case.network, release.released.values
    _verify_written(release, write_network(network, values, folder, release.case.file_format, title=title))
    facts = card(release)
    (folder / "card.yaml").write_text(yaml.safe_dump(facts, sort_keys=False, allow_unicode=True))
    page = card_page(facts) if card_page is not None else None
    if page is not None:
        (folder / CARD_PAGE).write_text(page, encoding="utf-8")


def _verify_written(release: Release, path: Path) -> None:
    """Read the file back as a stranger would, solve it, and insist that its optimum lies in the band."""
    written = read_back(release.case.network, path)
    model = build_model(written.network)
    solution = solve_true(written, model, engine_for(written.network, model, release.settings.solver).solve_released)
    if not (solution.converged and release.target.contains(solution.cost)):
        raise NoReleaseError(
            f"the written {release.case.file_format} file does not keep the optimum in the band: the format loses a part "
            "of the network; convert the case to another format first"
        )


def _write_curator(release: Release, folder: Path) -> None:
    warnings = limits_from_demand(release.case)
    report = {"warning": "contains true demands: do not share", "limits_that_reveal_demand": warnings} | summary(
        release
    )
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    with (folder / "demands.csv").open("w", newline="") as file:
        table = csv.writer(file)
        parts = ("p", "q") if release.case.demand.is_complex else ("flow",)
        table.writerow(["site", *(f"{kind}_{part}_pu" for kind in ("true", "noisy", "released") for part in parts)])
        for site, *demands in demand_table(release.case, release.draw.noisy, release.released.values):
            table.writerow([site, *(value for d in demands for value in (d.real, d.imag)[: len(parts)])])
