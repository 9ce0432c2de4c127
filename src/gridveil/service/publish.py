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
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from gridveil.bilevel.repair import refusal
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.privacy.curator import Curator, published_values
from gridveil.privacy.limits import numbers_from_secret
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of
from gridveil.service.card import card
from gridveil.service.kept import refuse_unkept
from gridveil.service.losses import losses_at
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.registry_card import registry_entry
from gridveil.service.release import PublicRelease, Release
from gridveil.service.reuse import store_draw
from gridveil.service.summary import summary
from gridveil.solvers.backend import Effort, Start
from gridveil.solvers.checks import CheckedCost, same_cost

PUBLIC, SIMULATION, CURATOR = "public", "simulation", "curator"
CARD_FILE, CARD_PAGE, REGISTRY_FILE = "card.yaml", "card.html", "registry.yaml"
CERTIFICATE_FILE = "certificate.yaml"
SAME_NUMBER = 1e-11  # relative and per unit: files state twelve digits
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
    release = _verify_written(release, path)
    facts = card(release)
    for name, document in ((CARD_FILE, facts), (REGISTRY_FILE, registry_entry(release))):
        _write_yaml(folder / name, document)
    page = card_page(facts) if card_page is not None else None
    if page is not None:
        (folder / CARD_PAGE).write_text(page, encoding="utf-8")
    return release


def _write_yaml(path: Path, document: Mapping[str, object]) -> None:
    """Write a file that is complete whenever it is there."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's, where yaml was built with it
    part = path.with_name(f".{path.name}")
    part.write_text(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True), encoding="utf-8")
    part.replace(path)


def _verify_written(release: PublicRelease, path: Path) -> PublicRelease:
    """Read the file back as its reader would, and insist that its optimum, as readers find it, lies in the band.

    A file that states the problem that was checked before writing is solved once more, from the optimum that was found;
    any other is checked from all starts. The release is returned with the checks that hold for the file.
    """
    network, released = release.case.network, release.released
    written = sector_of(network).read_back(network, path)
    prepared = prepare(PublicCase.of(written), solver=release.settings.solver.value)
    values = published_values(written)
    d = prepared.model.layout.to_program(values)
    if release.keeping.totals:
        _refuse_unkept_file(release, values)
    same = _states_same_problem(release, prepared, d)
    if same and released.checked is not None and _is_reproduced(released.checked, prepared, d):
        return release
    own = released.result.x
    checked = prepared.solves.released(d, own if own is not None and len(own) == prepared.model.program.n_x else None)
    if checked.holds_in(release.target):
        losses = release.keeping.losses
        if losses is not None and not losses.contains(losses_at(prepared.model, checked.answer.x, d)):
            raise NoReleaseError("the written file does not keep the losses; keep them less closely (--reuse)")
        result = replace(released.result, cost=checked.answer.cost)
        return replace(release, released=replace(released, checked=checked, result=result))
    if same:
        raise NoReleaseError(refusal(checked, release.target))
    raise NoReleaseError(
        f"the written {release.case.file_format} file does not keep the optimum in the band: the format loses a part of the "
        "network; convert the case to another format first"
    )


def _refuse_unkept_file(release: PublicRelease, values: NDArray[Any]) -> None:
    """Add up the totals again from what the written file states, as its reader would."""
    if len(values) != len(release.case.field):
        raise NoReleaseError(
            f"the written {release.case.file_format} file lists other {release.case.field.participant}s, so its totals cannot "
            "be checked; convert the case to another format first"
        )
    refuse_unkept(release.keeping.totals, values, release.case.field)


def _states_same_problem(release: PublicRelease, written: Prepared, d: NDArray[np.float64]) -> bool:
    """Whether network and data of a written file equal those that were checked, up to the rounding of printed numbers."""
    checked = release.prepared.model
    released_d = checked.layout.to_program(release.values)
    if checked.arrays is None or written.model.arrays is None or released_d.shape != d.shape:
        return False
    before, after = asdict(checked.arrays(0.0)), asdict(written.model.arrays(0.0))
    pairs = [(released_d, d), *((before[name], after[name]) for name in before)]
    return all(a.shape == b.shape and np.allclose(a, b, rtol=SAME_NUMBER, atol=SAME_NUMBER) for a, b in pairs)


def _is_reproduced(checked: CheckedCost, written: Prepared, d: NDArray[np.float64]) -> bool:
    """Whether the cheapest optimum found before is an optimum of the written file too, at the same cost."""
    again = written.backend.dispatch(d, start=Start(checked.answer.x, d), effort=Effort.NEAR)
    return again.converged and abs(again.cost - checked.answer.cost) <= same_cost(checked.answer.cost)


def _write_curator(release: Release, case: Case, folder: Path) -> None:
    made, curator = release.public, release.curator.curator
    report = {
        "warning": "contains true values: do not share",
        "public_numbers_that_equal_a_secret": numbers_from_secret(case),
    }
    (folder / "report.json").write_text(json.dumps(report | summary(release, with_fidelity=True), indent=2) + "\n")
    with (folder / "demands.csv").open("w", newline="") as file:
        table = csv.writer(file)
        parts = ("p", "q") if curator.field.is_complex else ("flow",)
        table.writerow(["site", *(f"{kind}_{part}_pu" for kind in ("true", "noisy", "released") for part in parts)])
        for site, *values in curator.table(made.draw.noisy, made.values):
            table.writerow([site, *(number for d in values for number in (d.real, d.imag)[: len(parts)])])
