"""Write a release: DIR/public for the world, DIR/curator for the curator alone. Nothing is public before it is verified.

The public folder comes first and is complete once it is there; the certificate, which takes longer than the release itself on
large networks, joins it later, and then the curator's folder is filled.
"""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import yaml

from gridveil.core.errors import InputError
from gridveil.privacy.curator import Curator
from gridveil.privacy.limits import numbers_from_secret
from gridveil.privacy.noisy import Draw
from gridveil.privacy.secret_leaks import secret_leaks
from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of
from gridveil.service.card import card
from gridveil.service.registry_card import registry_entry
from gridveil.service.release import PublicRelease, Release
from gridveil.service.reuse import store_draw
from gridveil.service.summary import summary
from gridveil.service.written import verify_written

PUBLIC, SIMULATION, CURATOR = "public", "simulation", "curator"
CARD_FILE, CARD_PAGE, REGISTRY_FILE = "card.yaml", "card.html", "registry.yaml"
CERTIFICATE_FILE = "certificate.yaml"
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
    release: Release,
    case: Case,
    folder: Path,
    *,
    simulation_as_public: bool,
    card_page: CardPage | None = None,
    published: Callable[[Path], None] = lambda folder: None,
) -> Release:
    """Write both folders; return the release with what the check of the written file found. ``card_page`` adds a page.

    A simulation goes to DIR/simulation instead of DIR/public, unless the caller insists. ``published`` gets that folder as
    soon as it is complete.
    """
    made = release.public
    name = PUBLIC if not made.simulation or simulation_as_public else SIMULATION
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".staging-") as staging:
        staged = Path(staging) / name
        staged.mkdir()
        made = _write_public(made, staged, card_page)
        shutil.move(str(staged), str(folder / name))
    release = replace(release, public=made)
    keep_draw(made.draw, release.curator.curator, folder)
    published(folder / name)
    _write_yaml(folder / name / CERTIFICATE_FILE, asdict(made.certificate))
    _write_curator(release, case, folder / CURATOR)
    return release


def list_files(folder: Path) -> list[str]:
    """Files of a release, relative to its folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _write_public(release: PublicRelease, folder: Path, card_page: CardPage | None) -> PublicRelease:
    """Write and verify; the release is returned with what holds for the written file."""
    title = SIMULATION_TITLE if release.simulation else TITLE
    network = release.case.network
    path = sector_of(network).write(network, release.values, folder, release.case.file_format, title=title)
    released = verify_written(
        release.prepared, release.released, release.target, path, solver=release.settings.solver.value
    )
    release = replace(release, released=released)
    write_cards(folder, card(release), registry_entry(release), card_page)
    return release


def write_cards(
    folder: Path, facts: Mapping[str, object], entry: Mapping[str, object], card_page: CardPage | None
) -> None:
    """Write a card, its page where there is one, and the entry of the registry."""
    for name, document in ((CARD_FILE, facts), (REGISTRY_FILE, entry)):
        _write_yaml(folder / name, document)
    page = card_page(facts) if card_page is not None else None
    if page is not None:
        (folder / CARD_PAGE).write_text(page, encoding="utf-8")


def _write_yaml(path: Path, document: Mapping[str, object]) -> None:
    """Write a file that is complete whenever it is there."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's, where yaml was built with it
    part = path.with_name(f".{path.name}")
    part.write_text(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True), encoding="utf-8")
    part.replace(path)


def _write_curator(release: Release, case: Case, folder: Path) -> None:
    made, curator = release.public, release.curator.curator
    report = {
        "warning": "contains true values: do not share",
        "public_numbers_that_equal_a_secret": secret_leaks(case) if case.field.parts else numbers_from_secret(case),
    }
    (folder / "report.json").write_text(json.dumps(report | summary(release), indent=2) + "\n")
    if curator.field.parts:
        _write_values(curator, made, folder / "values.csv")
        return
    with (folder / "demands.csv").open("w", newline="") as file:
        table = csv.writer(file)
        parts = ("p", "q") if curator.field.is_complex else ("flow",)
        table.writerow(["site", *(f"{kind}_{part}_pu" for kind in ("true", "noisy", "released") for part in parts)])
        for site, *values in curator.table(made.draw.noisy, made.values):
            table.writerow([site, *(number for d in values for number in (d.real, d.imag)[: len(parts)])])


def _write_values(curator: Curator, made: PublicRelease, path: Path) -> None:
    """Every value of every secret, true, noisy and released, in per unit of its field (impedances as logarithms)."""
    secret = [part.field.name for part in curator.field.parts for _ in part.field.places]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            ["secret", "place", *(f"{kind}_{part}" for kind in ("true", "noisy", "released") for part in ("re", "im"))]
        )
        for name, (place, *values) in zip(secret, curator.table(made.draw.noisy, made.values), strict=True):
            table.writerow([name, place, *(number for value in values for number in (value.real, value.imag))])
