"""Write a release: DIR/public for the world, DIR/curator for the curator alone. Nothing is public before it is verified."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from gridveil.core.errors import InputError, NoReleaseError
from gridveil.privacy.curator import Curator, published_values
from gridveil.privacy.limits import numbers_from_secret
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of
from gridveil.service.card import card
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.registry_card import registry_entry
from gridveil.service.release import PublicRelease, Release
from gridveil.service.reuse import store_draw
from gridveil.service.summary import summary

PUBLIC, SIMULATION, CURATOR = "public", "simulation", "curator"
CARD_FILE, CARD_PAGE, REGISTRY_FILE = "card.yaml", "card.html", "registry.yaml"
TITLE, SIMULATION_TITLE = "gridveil_release", "SIMULATION_NOT_PRIVATE"

CardPage = Callable[[Mapping[str, object]], str | None]
"""Makes a page from the card and nothing else, so that no secret can enter; None when it cannot."""


@contextmanager
def destination(folder: Path) -> Iterator[None]:
    """Take a new or empty folder for one release, before any budget is spent; another release cannot take it as well.

    A folder that holds something or cannot be written to is refused. What fails before anything is written leaves nothing
    behind, so it can be asked for again with the same folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: already exists and is not an empty folder; choose another --out")
    missing = [path for path in (folder / CURATOR, folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CURATOR).mkdir()  # of two releases that got here, one fails
    except FileExistsError:
        raise InputError(f"{folder}: another release is being written to this folder; choose another --out") from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written to ({error.strerror}); choose another --out") from None
    try:
        yield
    finally:
        for path in missing:
            if not any(path.iterdir()):
                path.rmdir()


def keep_draw(draw: Draw, curator: Curator, folder: Path) -> None:
    """Put the draw into DIR/curator, for ``--reuse``: whatever comes of the release, it has been paid for."""
    (folder / CURATOR).mkdir(parents=True, exist_ok=True)
    store_draw(draw, curator, folder / CURATOR)


def publish(
    release: Release, case: Case, folder: Path, *, simulation_as_public: bool, card_page: CardPage | None = None
) -> list[str]:
    """Write both folders and list the files, relative to ``folder``. ``card_page`` adds the card as a page.

    A simulation goes to DIR/simulation instead of DIR/public, unless the caller insists.
    """
    made = release.public
    name = PUBLIC if not made.simulation or simulation_as_public else SIMULATION
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".staging-") as staging:
        staged = Path(staging) / name
        staged.mkdir()
        _write_public(made, staged, card_page)
        shutil.move(str(staged), str(folder / name))
    keep_draw(made.draw, release.curator.curator, folder)
    _write_curator(release, case, folder / CURATOR)
    return list_files(folder)


def list_files(folder: Path) -> list[str]:
    """Files of a release, relative to its folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _write_public(release: PublicRelease, folder: Path, card_page: CardPage | None) -> None:
    title = SIMULATION_TITLE if release.simulation else TITLE
    network = release.case.network
    path = sector_of(network).write(network, release.values, folder, release.case.file_format, title=title)
    _verify_written(release, path)
    facts = card(release)
    for name, document in ((CARD_FILE, facts), (REGISTRY_FILE, registry_entry(release))):
        (folder / name).write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
    page = card_page(facts) if card_page is not None else None
    if page is not None:
        (folder / CARD_PAGE).write_text(page, encoding="utf-8")


def _verify_written(release: PublicRelease, path: Path) -> None:
    """Read the file back as its reader would, solve it, and insist that its optimum lies in the band."""
    network = release.case.network
    written = sector_of(network).read_back(network, path)
    prepared = prepare(PublicCase.of(written), solver=release.settings.solver.value)
    answer = prepared.solves.released(prepared.model.layout.to_program(published_values(written)))
    if not (answer.converged and release.target.contains(answer.cost)):
        raise NoReleaseError(
            f"the written {release.case.file_format} file does not keep the optimum in the band: the format loses a part "
            "of the network; convert the case to another format first"
        )


def _write_curator(release: Release, case: Case, folder: Path) -> None:
    made, curator = release.public, release.curator.curator
    report = {
        "warning": "contains true values: do not share",
        "public_numbers_that_equal_a_secret": numbers_from_secret(case),
    }
    (folder / "report.json").write_text(json.dumps(report | summary(release), indent=2) + "\n")
    with (folder / "demands.csv").open("w", newline="") as file:
        table = csv.writer(file)
        parts = ("p", "q") if curator.field.is_complex else ("flow",)
        table.writerow(["site", *(f"{kind}_{part}_pu" for kind in ("true", "noisy", "released") for part in parts)])
        for site, *values in curator.table(made.draw.noisy, made.values):
            table.writerow([site, *(number for d in values for number in (d.real, d.imag)[: len(parts)])])
