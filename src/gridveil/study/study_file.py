"""A study as a TOML file: networks, α × β grids, ε, methods, seeds, noise and limits, checked before anything runs."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from importlib import resources
from pathlib import Path

from gridveil.bilevel.methods import method_named
from gridveil.core.errors import InputError
from gridveil.core.methods import Method, Solver
from gridveil.core.quantity import PER_UNIT, split_quantity
from gridveil.core.secret_choice import stated_secrets
from gridveil.core.text import did_you_mean
from gridveil.privacy.mechanisms.simulation import NoiseSites
from gridveil.sectors.gas.boundary import preset_boundary
from gridveil.sectors.registry import file_of
from gridveil.solvers.registry import backend_entry
from gridveil.study.measures import study_keep
from gridveil.study.toml_table import TomlTable, read_toml, seed

DATA_VARIABLE = "GRIDVEIL_DATA"
MOST_SEEDS = 1_000_000
MOST_WORKERS = 4096
MECHANISM = "laplace"
"""Simulated Laplace noise: planar on the complex loads of power networks, scalar on gas demands."""


@dataclass(frozen=True, kw_only=True)
class NetworkEntry:
    """A network of a study: a file, or the name of a built-in or PGLib case."""

    label: str
    case: str
    """As the study states it."""
    path: Path | None
    """The file behind it, absolute; None for a name."""
    preset: str | None
    """Boundary conditions of a gas network."""
    checksum: str
    """SHA-256 of the file, so that rows of a changed file are not mixed with older ones; empty for a name."""
    secret: str | None = None
    """What is hidden, as ``--secret`` takes it; None: demands alone. Values of α are then multiples of what it states."""

    @property
    def source(self) -> str:
        """What ``load_case`` takes."""
        return str(self.path) if self.path is not None else self.case


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One (α, β): α per unit, β as a share of the true cost."""

    alpha: float
    beta: float


@dataclass(frozen=True, kw_only=True)
class Limits:
    """``task_seconds``: time limit of a release, which then ends with its best verified point, or as a failed row.

    ``workers``: processes, unless stated otherwise.
    """

    task_seconds: float | None = None
    workers: int | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """A validated study with its networks located."""

    name: str
    about: str
    networks: tuple[NetworkEntry, ...]
    cells: tuple[Setting, ...]
    """All (α, β) of all grids, each once."""
    epsilon: float
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    solver: Solver
    mechanism: str
    sites: NoiseSites
    limits: Limits
    keep: str = ""
    """Totals that every release keeps, as in ``--keep``; empty where the cost alone is kept."""
    fidelity: bool = False
    """Whether prices, congestion, losses and balances are compared with the truth, which takes a few more solves."""


def shipped_studies() -> dict[str, Path]:
    """List the shipped studies by name."""
    folder = Path(str(resources.files("gridveil.study") / "studies"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def describe_shipped() -> list[dict[str, object]]:
    """Describe each shipped study: its name, number of networks and purpose; reads no networks."""
    tables = {name: read_toml(path) for name, path in shipped_studies().items()}
    return [
        {"name": name, "networks": len(table["network"]), "about": table["about"]} for name, table in tables.items()
    ]


def find_study(name_or_path: str) -> Path:
    """Locate the file of a shipped study or of the user's own."""
    shipped = shipped_studies()
    path = shipped.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise InputError(
            f"{name_or_path}: no such study file, nor a study that comes with gridveil ({', '.join(shipped)})"
            f"{did_you_mean(name_or_path, shipped)}"
        )
    return path


def read_study(path: Path, data: Path | None = None) -> Study:
    """Read and check a study. ``data`` is the folder of its networks, if they are not next to it."""
    folders = _folders(path, data)
    top = TomlTable(read_toml(path), path.name)
    study = Study(
        name=_name(top),
        about=top.text("about") if top.has("about") else "",
        epsilon=top.positive("epsilon"),
        methods=top.each("methods", _method),
        seeds=top.each("seeds", seed) if top.is_list("seeds") else tuple(range(top.count("seeds", MOST_SEEDS))),
        solver=_solver(top) if top.has("solver") else Solver.STRUCTURED,
        mechanism=_mechanism(top),
        sites=top.choice("sites", NoiseSites) if top.has("sites") else NoiseSites.ALL,
        limits=_limits(top.table("limits")) if top.has("limits") else Limits(),
        cells=tuple(dict.fromkeys(cell for grid in top.tables("grid") for cell in _cells(grid))),
        networks=tuple(_network(table, folders) for table in top.tables("network")),
        keep=_keep(top),
        fidelity=top.flag("fidelity") if top.has("fidelity") else False,
    )
    top.finish()
    labels = [network.label for network in study.networks]
    for label in labels:
        if labels.count(label) > 1:
            raise top.wrong(f"two networks have the label {label!r}; give each its own")
    return study


def _method(table: TomlTable, key: str, value: object) -> Method:
    return Method(_known(table, key, value, method_named))


def _solver(table: TomlTable) -> Solver:
    return Solver(_known(table, "solver", table.text("solver"), backend_entry))


def _known(table: TomlTable, key: str, value: object, look_up: Callable[[str], object]) -> str:
    """A name that gridveil or a plug-in knows."""
    if not isinstance(value, str):
        raise table.wrong(f"{key} must be a name, not {value!r}")
    try:
        look_up(value)
    except InputError as error:
        raise table.wrong(f"{key}: {error}") from None
    return value


def _folders(path: Path, data: Path | None) -> list[Path]:
    """Folders to search for networks: that of the study, then the data folder, if given."""
    named = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    if named is not None and not named.is_dir():
        raise InputError(f"{named}: there is no such data folder; correct --data or {DATA_VARIABLE}")
    return [path.resolve().parent, *([named.resolve()] if named is not None else [])]


def _name(top: TomlTable) -> str:
    name = top.text("name")
    if not all(character.isalnum() or character in "._-" for character in name):
        raise top.wrong("name must consist of letters, digits, '.', '_' and '-', since files are named after it")
    return name


def _mechanism(top: TomlTable) -> str:
    if top.has("mechanism") and top.text("mechanism") != MECHANISM:
        raise top.wrong(f"mechanism must be {MECHANISM!r} (planar for power, scalar for gas)")
    return MECHANISM


def _keep(top: TomlTable) -> str:
    text = top.text("keep") if top.has("keep") else ""
    try:
        study_keep(text)
    except InputError as error:
        raise top.wrong(str(error)) from None
    return text


def _limits(table: TomlTable) -> Limits:
    limits = Limits(
        task_seconds=table.positive("task_seconds") if table.has("task_seconds") else None,
        workers=table.count("workers", MOST_WORKERS) if table.has("workers") else None,
    )
    table.finish()
    return limits


def _cells(table: TomlTable) -> list[Setting]:
    alphas, betas = table.each("alpha", _per_unit), table.each("beta", _share)
    table.finish()
    return [Setting(alpha=alpha, beta=beta) for alpha in alphas for beta in betas]


def _per_unit(table: TomlTable, key: str, value: object) -> float:
    """Read α: "0.1pu". Networks of a study have different bases, so that it is per unit of each."""
    try:
        amount, unit = split_quantity(value if isinstance(value, str) else f"{value}", key, example="1pu")
    except InputError as error:
        raise table.wrong(str(error)) from None
    if unit != PER_UNIT:
        number = f"{float(amount):g}"
        raise table.wrong(
            f"{key} {value!r} must be per unit of each network's base, in quotes: write '{number}{PER_UNIT}'"
        )
    return float(amount)


def _share(table: TomlTable, key: str, value: object) -> float:
    """Read a share of the cost: "1%". A bare number is refused, as everywhere."""
    try:
        share = float(Decimal(value.strip().removesuffix("%")) / 100) if isinstance(value, str) else math.nan
    except InvalidOperation:
        share = math.nan
    if not (isinstance(value, str) and value.strip().endswith("%")) or not 0 < share < 1:
        raise table.wrong(f"{key} must be shares of the cost with their sign, such as '1%', not {value!r}")
    return share


def _network(table: TomlTable, folders: list[Path]) -> NetworkEntry:
    case = table.text("case")
    label = table.text("label") if table.has("label") else case
    preset = table.text("preset") if table.has("preset") else None
    secret = table.text("secret") if table.has("secret") else None
    table.finish()
    path = next((folder / case for folder in folders if (folder / case).exists()), None)
    try:
        if preset is not None:
            preset_boundary(preset)
        stated_secrets(secret)
        if path is None:
            _check_name(case, folders)
        checksum = _checksum(path) if path is not None else ""
        return NetworkEntry(label=label, case=case, path=path, preset=preset, checksum=checksum, secret=secret)
    except InputError as error:
        raise table.wrong(str(error)) from None


def _check_name(case: str, folders: list[Path]) -> None:
    """Refuse what is neither a file nor a known name."""
    if Path(case).name == case and not Path(case).suffix:
        file_of(case)
        return
    where = "beside the study" + (f" or in {folders[1]}" if len(folders) > 1 else "")
    advice = "correct it" if len(folders) > 1 else f"name its folder with --data or {DATA_VARIABLE}"
    raise InputError(f"there is no file {case} {where}; {advice}")


def _checksum(path: Path) -> str:
    total = hashlib.sha256()
    try:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                total.update(file.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    return total.hexdigest()
