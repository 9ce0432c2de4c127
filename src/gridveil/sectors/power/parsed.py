"""Open a case for powerio: convert what it does not know, complete what it would misread, and parse it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import powerio

from gridveil.core.errors import InputError
from gridveil.sectors.case import ValuesOverTime
from gridveil.sectors.power.cgmes import CGMES, pandapower_file
from gridveil.sectors.power.matpower_checks import check_matpower
from gridveil.sectors.power.matpower_code import MatpowerText, plain_matpower
from gridveil.sectors.power.psse_sections import named_sections
from gridveil.sectors.power.pypsa_files import NETCDF, completed_folder, folder_of_file
from gridveil.sectors.power.pypsa_time import is_over_time, without_time
from gridveil.sectors.power.source import MATPOWER, PSSE
from gridveil.sectors.redaction import redact

LARGEST_FILE = 64 << 20
"""Bytes. The largest public network, with 82 000 buses, has a third of it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ParsedSource:
    """A case as powerio read it: ``path`` is the source itself, or a completed or converted copy of it.

    ``matpower`` holds the tables of a MATPOWER file, among them those that powerio does not know. ``notes`` says what was
    completed. ``over_time`` are the loads of a file that states them at several moments, in MW and by row. ``psse`` is the
    text of a PSS/E file, with its sections named.
    """

    path: Path
    module: powerio.PioModule[powerio.BalancedNetwork]
    matpower: MatpowerText | None = None
    notes: tuple[str, ...] = ()
    over_time: ValuesOverTime | None = None
    psse: str | None = None


@contextmanager
def parsed(path: Path) -> Iterator[ParsedSource]:
    """Parse a file or folder; copies last as long as the context. What cannot be used is an InputError of one line."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; check the path, or name a built-in case such as veil9")
    with tempfile.TemporaryDirectory(
        prefix="gridveil-"
    ) as scratch:  # for this user alone: true demands pass through it
        plain = path.resolve()  # powerio refuses symbolic links
        if plain.is_file():
            _refuse_size(plain)
        if plain.suffix.lower() in NETCDF:
            plain = folder_of_file(plain, Path(scratch))
        if plain.is_dir():
            yield _parsed_folder(plain, path, Path(scratch))
        elif plain.suffix.lower() in CGMES:
            yield _parsed(*pandapower_file(plain, Path(scratch)), shown=path)
        else:
            yield _parsed(plain, [], shown=path)


def _parsed_folder(path: Path, shown: Path, scratch: Path) -> ParsedSource:
    """Parse a PyPSA folder without its time, and completed."""
    if not (path / "network.csv").exists():
        raise InputError(f"{path}: is a folder, not a case file; only PyPSA folders (with a network.csv) can be read")
    if not is_over_time(path):
        return _parsed(*completed_folder(path, scratch), shown=shown)
    flat = without_time(path, scratch)
    plain, notes = completed_folder(flat.path, scratch)
    return replace(_parsed(plain, [*notes, *flat.notes], shown=shown), over_time=flat.over_time)


def _parsed(path: Path, notes: list[str], *, shown: Path) -> ParsedSource:
    if path.suffix.lower() == ".m":
        file = plain_matpower(_text(path))
        module = _parse(path, shown, file.text, MATPOWER)
        return ParsedSource(path=path, module=module, matpower=file, notes=(*notes, *check_matpower(file)))
    if path.suffix.lower() == ".raw":
        text = named_sections(_text(path))
        return ParsedSource(path=path, module=_parse(path, shown, text, PSSE), notes=tuple(notes), psse=text)
    return ParsedSource(path=path, module=_parse(path, shown), notes=tuple(notes))


def _parse(
    path: Path, shown: Path, text: str | None = None, text_format: str | None = None
) -> powerio.PioModule[powerio.BalancedNetwork]:
    try:
        content = str(path) if text is None else text.encode()
        module = powerio.parse(content, format=text_format, name=None if text is None else path.name)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{shown}: cannot be read as a power case: {redact(_reason(error))}") from None
    except BaseException as error:
        # A panic of the Rust reader arrives as a BaseException of its own; Ctrl-C must still get through.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise InputError(
            f"{shown}: cannot be read as a power case: the file is malformed; check or re-export it"
        ) from None
    if not isinstance(module.value, powerio.BalancedNetwork):
        kind = type(module.value).__name__
        raise InputError(
            f"{shown}: holds a {kind}, not one transmission network; export a single snapshot of a network"
        )
    return module


def _reason(error: Exception) -> str:
    """Return the parser's message without its code, plus a hint for files in no known format."""
    text = str(error)
    code, _, rest = text.partition(": ")
    if code == "REQUEST.FORMAT.UNKNOWN":
        return "unknown format; give a MATPOWER .m, PSS/E .raw, PowerModels, pandapower or Egret .json file, or a PyPSA folder"
    return f"{rest or text}; check or re-export the file"


def _refuse_size(path: Path) -> None:
    if path.stat().st_size > LARGEST_FILE:
        raise InputError(
            f"{path}: is larger than {LARGEST_FILE >> 20} MiB, the most that is read (reading takes up to 100 times as much "
            "memory); remove tables that describe no network, such as results"
        )


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; check or re-export the file") from None
