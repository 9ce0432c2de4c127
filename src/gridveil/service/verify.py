"""An outsider's check of a released folder, with nothing but the folder: files, card, and the optimal cost solved anew.

It finds files that were changed, lost or added, and a card that contradicts itself, its files or the network. It cannot find
somebody who rewrites all of them consistently: a card carries hashes, not a signature. That the noise was drawn as the card
says is the curator's word; the proof notes in the folder say what it amounts to.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import yaml

from gridveil import __version__
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode, DemandBounds
from gridveil.core.errors import InputError
from gridveil.privacy.curator import published_values
from gridveil.sectors.case import Case
from gridveil.sectors.registry import load_case
from gridveil.service.card import NO_PROMISE, SIMULATION_NOTICE
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.public_files import CARD_FILE, CARD_PAGE, CARD_SCHEMA, THE_CARD
from gridveil.service.publish import CERTIFICATE_FILE, PUBLIC, REGISTRY_FILE, SIMULATION, SIMULATION_TITLE
from gridveil.service.series_publish import HOURS_FILE
from gridveil.solvers.checks import same_cost

ROUNDING = 1e-9  # relative: sums of stated numbers
ZERO = 1e-6  # per unit: a released value that is not below zero
LARGEST_HEAD = 1 << 20  # bytes of a network file that are searched for the mark of a simulation

CardPage = Callable[[Mapping[str, object]], str | None]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check: what it is about, whether it passed (None: it could not be made), and what was found."""

    name: str
    passed: bool | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """All checks of a folder, and the costs that solvers found."""

    folder: str
    simulation: bool
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(finding.passed is not False for finding in self.findings)


def verify_folder(folder: Path, *, solver: str, card_page: CardPage | None = None) -> Verification:
    """Check a released folder; InputError if it holds no card that this version can read.

    ``card_page`` renders the page of a card, to compare it with the one in the folder.
    """
    place = _public_folder(folder)
    card = _read_card(place / CARD_FILE)
    findings = [
        _finding("files", _file_faults(place, card), f"{len(card['files'])} files match the hashes on the card"),
        _finding("card", _card_faults(card), "the card is complete and does not contradict itself"),
        _finding(
            "simulation", _simulation_faults(place, card), "the files are those of a release, not of a simulation"
        ),
        _finding(
            "other files", _other_faults(place, card), "registry, certificate and proof notes agree with the card"
        ),
        _page_finding(place, card, card_page),
        *_network_findings(place, card, solver),
    ]
    return Verification(folder=str(place), simulation=bool(card["simulation"]), findings=tuple(findings))


def _finding(name: str, faults: Iterator[str], fine: str) -> Finding:
    try:
        found = list(faults)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = [f"the card lacks something or holds it in another form ({type(error).__name__}: {error})"]
    return Finding(name=name, passed=not found, detail="; ".join(found) or fine)


def _public_folder(folder: Path) -> Path:
    for place in (folder, folder / PUBLIC, folder / SIMULATION):
        if (place / CARD_FILE).is_file():
            return place
    raise InputError(f"{folder}: holds no released network with its card; name the public folder of a release")


def _read_card(path: Path) -> dict[str, Any]:
    try:
        card = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise InputError(f"{path}: cannot be read as YAML; get the folder again from its publisher") from None
    if not isinstance(card, dict) or card.get("schema") != CARD_SCHEMA:
        stated = card.get("schema") if isinstance(card, dict) else None
        raise InputError(
            f"{path}: is no card of the form {CARD_SCHEMA} but {stated or 'an older one, without hashes'}; use the version of "
            "gridveil that wrote it"
        )
    if not isinstance(card.get("files"), list) or not isinstance(card.get("simulation"), bool):
        raise InputError(f"{path}: lacks its list of files or its mark; get the folder again from its publisher")
    return card


def _file_faults(place: Path, card: Mapping[str, Any]) -> Iterator[str]:
    listed = set()
    for entry in card["files"]:
        name = PurePosixPath(str(entry["file"]))
        if name.is_absolute() or ".." in name.parts:
            yield f"{name}: leads out of the folder"
            continue
        listed.add(str(name))
        path = place / name
        if not path.is_file() or path.is_symlink():
            yield f"{name}: is missing"
        elif path.stat().st_size != entry["bytes"] or _hash(path) != entry["sha256"]:
            yield f"{name}: was changed"
    there = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    yield from (f"{name}: is not on the card" for name in sorted(there - listed - set(THE_CARD)))
    if not any(PurePosixPath(name).parts[0].startswith("network") for name in listed):
        yield "no network file is on the card"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _card_faults(card: Mapping[str, Any]) -> Iterator[str]:
    promise = card["promise"]
    for name in ("epsilon", "alpha", "participants"):
        if not (math.isfinite(promise[name]) and promise[name] > 0):
            yield f"promise.{name} is not positive"
    if not card["in_plain_words"] or not all(isinstance(line, str) for line in card["in_plain_words"]):
        yield "the plain words are missing"
    if "mechanisms" in card:
        total = sum(float(one["epsilon"]) for one in card["mechanisms"])
        if not math.isclose(total, promise["epsilon"], rel_tol=ROUNDING):
            yield f"the mechanisms spend ε = {total:g}, the promise says {promise['epsilon']:g}"
        if any(not math.isclose(float(one["alpha"]), promise["alpha"], rel_tol=ROUNDING) for one in card["mechanisms"]):
            yield "a mechanism has another alpha than the promise"
    budget = card["data_set"]
    if budget is not None and budget["epsilon"] > budget["cap"] * (1 + ROUNDING):
        yield f"the data set has spent ε = {budget['epsilon']:g}, more than its cap of {budget['cap']:g}"
    if budget is None and not card["simulation"]:
        yield "a release states what its data set has spent; this card does not"
    if "cost_target" in card and not _band(card).contains(float(card["post_processing"]["optimal_cost"])):
        yield "the optimal cost on the card lies outside the band on the card"


def _simulation_faults(place: Path, card: Mapping[str, Any]) -> Iterator[str]:
    marks = {
        "the title": SIMULATION_NOTICE in str(card["name"]),
        "the variant": card["variant"] == NO_PROMISE,
        "the network file": any(SIMULATION_TITLE.encode() in _head(path) for path in _network_files(place, card)),
    }
    if card["simulation"]:
        yield "the card says that this is a simulation, which protects nobody"
    yield from (
        f"{what} says that this is a simulation, the card's mark denies it"
        for what, marked in marks.items()
        if marked and not card["simulation"]
    )


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_HEAD)


def _network_files(place: Path, card: Mapping[str, Any]) -> list[Path]:
    names = [PurePosixPath(str(entry["file"])) for entry in card["files"]]
    return [place / name for name in names if name.parts[0].startswith("network") and (place / name).is_file()]


def _other_faults(place: Path, card: Mapping[str, Any]) -> Iterator[str]:
    for mechanism in card["mechanisms"] if "mechanisms" in card else [card["mechanism"]]:
        if not card["simulation"] and not (place / str(mechanism["proof"])).is_file():
            yield f"the proof note {mechanism['proof']} is missing"
    registry, certificate = _document(place / REGISTRY_FILE), _document(place / CERTIFICATE_FILE)
    if registry is not None:
        stated = registry["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"]
        if not math.isclose(stated, card["promise"]["epsilon"], rel_tol=ROUNDING):
            yield f"{REGISTRY_FILE} states ε = {stated:g}"
    bound = None if certificate is None else certificate.get("cost_lower_bound")
    if bound is not None and math.isfinite(bound):
        cost = float(card["post_processing"]["optimal_cost"])
        if bound > cost + same_cost(cost):
            yield f"{CERTIFICATE_FILE} proves a cost of at least {bound:g}, more than the card's"


def _document(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else None


def _page_finding(place: Path, card: Mapping[str, Any], card_page: CardPage | None) -> Finding:
    path, name = place / CARD_PAGE, "page of the card"
    if not path.is_file() or card_page is None or card.get("software") != f"gridveil {__version__}":
        return Finding(name=name, passed=None, detail="not compared: no page, or one of another version of gridveil")
    try:
        same = card_page(card) == path.read_text(encoding="utf-8")
    except Exception as error:
        return Finding(name=name, passed=None, detail=f"not compared: the card has no page ({type(error).__name__})")
    return Finding(
        name=name,
        passed=same,
        detail="says what card.yaml says" if same else f"{CARD_PAGE} is not the page of this card",
    )


def _network_findings(place: Path, card: Mapping[str, Any], solver: str) -> Iterator[Finding]:
    try:
        case = load_case(str(_network_path(place)))
        band = _hour_band(place, card) if "hours" in card else _band(card)
    except (InputError, KeyError, TypeError, ValueError) as error:
        yield Finding(name="network", passed=False, detail=f"cannot be read: {error}")
        return
    yield _finding("network", _network_faults(case, card), f"{case.name} can be read; {len(case.field)} values")
    prepared = prepare(PublicCase.of(case), solver=solver)
    prepared.backend.prepare()
    checked = prepared.solves.released(prepared.model.layout.to_program(published_values(case)))
    found = ", ".join(
        f"{check.solver} ({check.start}): {check.ended if check.cost is None else f'{check.cost:.8g}'}"
        for check in checked.checks
    )
    unit = prepared.model.program.cost_unit
    words = f"{found}; band {band.lower:.8g} to {band.upper:.8g} {unit}"
    yield Finding(name="cost in band", passed=checked.holds_in(band), detail=words)
    if "post_processing" in card and checked.answer.converged:
        stated = float(card["post_processing"]["optimal_cost"])
        near = abs(checked.answer.cost - stated) <= same_cost(stated)
        yield Finding(
            name="cost on the card", passed=near, detail=f"{checked.answer.cost:.8g} solved, {stated:.8g} stated"
        )


def _network_path(place: Path) -> Path:
    found = sorted(path for path in place.iterdir() if path.name.startswith("network"))
    if len(found) != 1:
        raise InputError(f"{place}: holds {len(found)} network files instead of one")
    return found[0]


def _network_faults(case: Case, card: Mapping[str, Any]) -> Iterator[str]:
    participants = card["promise"]["participants"]
    # A format without a table of loads loses those of zero; it never has more.
    if len(case.field) > participants:
        yield f"the network has {len(case.field)} values, the card speaks of {participants}"
    if case.field.unit != card["promise"]["unit"]:
        yield f"the network's values are in {case.field.unit}, the card's in {card['promise']['unit']}"
    bounded = card.get("post_processing", {}).get("demand_bounds") == DemandBounds.NONNEGATIVE.value
    if bounded and np.any(published_values(case).real < -ZERO):
        yield "a value is below zero, which the card excludes"


def _band(card: Mapping[str, Any]) -> CostTarget:
    target = card["cost_target"]
    return CostTarget(
        value=float(target["value"]), beta=float(target["beta"]), source=CostTargetMode(str(target["mode"]))
    )


def _hour_band(place: Path, card: Mapping[str, Any]) -> CostTarget:
    """The band of the hour that the network file of a series shows."""
    hour = str(card["network_file"]["holds"]).removeprefix("demands of ").partition(", the highest")[0]
    with (place / HOURS_FILE).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if next(iter(row.values())) == hour:
                return CostTarget(
                    value=float(row["cost_target"]), beta=float(row["beta"]), source=CostTargetMode.DERIVED
                )
    raise InputError(f"{HOURS_FILE} has no row of {hour}, which the network shows")
