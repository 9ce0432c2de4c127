"""Write a release: DIR/public for the world, DIR/curator for the curator alone. Nothing is public before it is verified.

The public folder comes first and is complete once it is there; the certificate, which takes longer than the release itself on
large networks, joins it later, and then the curator's folder is filled.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

import yaml

from gridveil.core.errors import InputError
from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.curator import Curator
from gridveil.privacy.limits import in_words
from gridveil.privacy.noisy import Draw
from gridveil.privacy.secret_leaks import secret_leaks
from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of
from gridveil.service.begun import FILE as BEGUN_FILE
from gridveil.service.begun import was_begun
from gridveil.service.card import card
from gridveil.service.public_files import CARD_FILE, CARD_PAGE, file_hashes, write_proofs
from gridveil.service.publication import UNSTATED, Publication
from gridveil.service.registry_card import registry_entry
from gridveil.service.release import PublicRelease, Release
from gridveil.service.reuse import FILE as DRAW_FILE
from gridveil.service.reuse import store_draw
from gridveil.service.summary import summary
from gridveil.service.written import verify_written

PUBLIC, SIMULATION, CURATOR = "public", "simulation", "curator"
REGISTRY_FILE = "registry.yaml"
CERTIFICATE_FILE = "certificate.yaml"
STAGING = ".staging-"
TITLE, SIMULATION_TITLE = "gridveil_release", "SIMULATION_NOT_PRIVATE"

CardPage = Callable[[Mapping[str, object]], str | None]
"""Makes a page from the card and nothing else, so that no secret can enter; None when it cannot."""


@contextmanager
def destination(folder: Path, *, go_on: bool = False, record: str = BEGUN_FILE) -> Iterator[None]:
    """Take a new or empty folder for one release, before any budget is spent; another release cannot take it as well.

    A folder that holds something or cannot be written to is refused, unless ``go_on`` and it holds a release that was begun,
    as the file ``record`` says.
    What fails before anything is written leaves nothing behind, so it can be asked for again with the same folder.
    """
    going_on = go_on and was_begun(folder, record)
    if folder.exists() and not going_on and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder}: already exists and is not an empty folder; choose another --out{_finished(folder)}"
        )
    missing = [path for path in (folder / CURATOR, folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CURATOR).mkdir(mode=disk.OWN, exist_ok=going_on)  # of two releases that got here, one fails
        held = disk.held_folder(folder / CURATOR)
    except FileExistsError:
        held = None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written to ({error.strerror}); choose another --out") from None
    if held is None:
        raise InputError(f"{folder}: another release is being written to this folder; choose another --out")
    try:
        if going_on and not was_begun(folder, record):
            raise InputError(f"{folder}: another command has just completed this release; choose another --out")
        for left in folder.glob(f"{STAGING}*"):
            shutil.rmtree(left)
        yield
    finally:
        os.close(held)
        for path in missing:
            if not any(path.iterdir()):
                path.rmdir()


def _finished(folder: Path) -> str:
    if not (folder / CURATOR / DRAW_FILE).is_file():
        return ""
    return f" (it holds a release; --reuse {folder} takes its draw at no cost)"


def keep_draw(draw: Draw, curator: Curator, folder: Path) -> None:
    """Put the draw into DIR/curator, for ``--reuse``: whatever comes of the release, it has been paid for."""
    (folder / CURATOR).mkdir(mode=disk.OWN, parents=True, exist_ok=True)
    store_draw(draw, curator, folder / CURATOR)


def publish(
    release: Release,
    case: Case,
    folder: Path,
    *,
    simulation_as_public: bool,
    card_page: CardPage | None = None,
    published: Callable[[Path], None] = lambda folder: None,
    publication: Publication = UNSTATED,
) -> Release:
    """Write both folders; return the release with what the check of the written file found. ``card_page`` adds a page.

    A simulation goes to DIR/simulation instead of DIR/public, unless the caller insists. ``published`` gets that folder as
    soon as it is complete; ``publication`` is what the publisher states.
    """
    made = replace(release.public, publication=publication)
    name = PUBLIC if not made.simulation or simulation_as_public else SIMULATION
    folder.mkdir(parents=True, exist_ok=True)
    keep_draw(made.draw, release.curator.curator, folder)
    made = made.certificate_begun()
    with tempfile.TemporaryDirectory(dir=folder, prefix=STAGING) as staging:
        staged = Path(staging) / name
        staged.mkdir()
        made = _write_public(made, staged, card_page)
        shutil.move(str(staged), str(folder / name))
    release = replace(release, public=made)
    (folder / CURATOR / BEGUN_FILE).unlink(missing_ok=True)
    published(folder / name)
    if made.distance_ahead is not None:
        with suppress(Exception):  # what fails here fails again, and is told, where it is needed
            _ = made.profiles  # beside the certificate, as nothing that follows upon the truth may be
    write_yaml(folder / name / CERTIFICATE_FILE, asdict(made.certificate))
    # Once more, with the hash of the certificate; a page that could not be made is not tried again.
    write_card(folder / name, card(made), card_page if (folder / name / CARD_PAGE).is_file() else None)
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
        release.prepared,
        release.released,
        release.target,
        path,
        solver=release.settings.solver.value,
        keeping=release.keeping,
    )
    release = replace(release, released=released)
    write_yaml(folder / REGISTRY_FILE, registry_entry(release))
    write_proofs(folder)
    write_card(folder, card(release), card_page)
    return release


def write_card(folder: Path, facts: Mapping[str, object], card_page: CardPage | None) -> None:
    """Write a card, with the hashes of the files that are there, and its page where there is one."""
    facts = {**facts, "files": file_hashes(folder)}
    write_yaml(folder / CARD_FILE, facts)
    page = card_page(facts) if card_page is not None else None
    if page is not None:
        draft = folder / f".{CARD_PAGE}"
        draft.write_text(page, encoding="utf-8")
        draft.replace(folder / CARD_PAGE)


def write_yaml(path: Path, document: Mapping[str, object]) -> None:
    """Write a file that is complete whenever it is there."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's, where yaml was built with it
    part = path.with_name(f".{path.name}")
    part.write_text(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True), encoding="utf-8")
    part.replace(path)


def _write_curator(release: Release, case: Case, folder: Path) -> None:
    made, curator = release.public, release.curator.curator
    report = {
        "warning": "contains true values: do not share",
        "public_numbers_that_equal_a_secret": secret_leaks(case)
        if case.field.parts
        else in_words(release.curator.equal_numbers),
    }
    (folder / "report.json").write_text(json.dumps(report | summary(release, with_fidelity=True), indent=2) + "\n")
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
