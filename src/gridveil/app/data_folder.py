"""The data folder of the app: case files, uploads, and one folder for each release.

Nothing that a browser sends becomes part of a path: it must equal one of the names listed here.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridveil.core.errors import InputError
from gridveil.privacy import ledger_disk as disk
from gridveil.sectors.registry import list_names
from gridveil.service.publish import CURATOR, PUBLIC, list_files
from gridveil.service.reuse import FILE as DRAW_FILE

CASES, RELEASES, LAST = "cases", "releases", "last.json"
CASE_SUFFIXES = {".m", ".raw", ".json", ".aux", ".zip", ".nc", ".h5", ".net"}
LIST_SUFFIXES = {".csv", ".txt"}
UPLOAD_SUFFIXES = CASE_SUFFIXES | LIST_SUFFIXES | {".scn", ".cs"}  # the other two files of a GasLib network
MOST_FILES = 500
VERSION = 1
OTHER_FILES = {"card", "registry", "certificate"}  # beside the network in a public folder


@dataclass(frozen=True, kw_only=True)
class StoredRelease:
    """A release that was asked for: plain values of the form, its folder, and whether both sides of it are complete.

    NAME.json beside the folder is written before the release begins, so that one that was stopped is found again; what was
    drawn and charged is in the folder's own record.
    """

    name: str
    folder: Path
    request: Mapping[str, Any]
    finished: bool

    def write(self) -> None:
        """Write the record down, as a whole."""
        fields = {"gridveil-app-release": VERSION, "request": dict(self.request), "finished": self.finished}
        disk.write_whole(_record(self.folder), (json.dumps(fields, indent=1) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> StoredRelease | None:
        """The record of a folder; None where there is none that can be read."""
        try:
            fields = json.loads(_record(folder).read_text(encoding="utf-8"))
            if fields["gridveil-app-release"] != VERSION:
                return None
            return cls(
                name=folder.name, folder=folder, request=dict(fields["request"]), finished=bool(fields["finished"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @property
    def drawn(self) -> bool:
        """Whether its draw is stored: finishing it then costs nothing, whatever the ledger holds."""
        return (self.folder / CURATOR / DRAW_FILE).is_file()

    def files(self) -> list[str]:
        """Files that may be looked at or downloaded, as paths within the folder."""
        return [name for name in list_files(self.folder) if not name.startswith(".") and "/." not in name]

    def path_of(self, name: str) -> Path | None:
        """A file by its listed name; None for anything else."""
        return self.folder / name if name in self.files() else None

    def network_file(self) -> str | None:
        """The released network's file, as a path within the folder."""
        found = [name for name in self.files() if name.startswith(f"{PUBLIC}/") and Path(name).stem not in OTHER_FILES]
        return next((name for name in found if name.count("/") == 1), None)

    def zipped(self, *, public_only: bool) -> bytes:
        """The folder as an archive; ``public_only`` leaves out what only the curator may see."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in self.files():
                if name.startswith(f"{PUBLIC}/") or not public_only:
                    archive.write(self.folder / name, f"{self.name}/{name}")
        return buffer.getvalue()


@dataclass(frozen=True)
class DataFolder:
    """A folder with everything of the app; ``given`` is a case that was named when it was started."""

    folder: Path
    given: str | None = None

    def __post_init__(self) -> None:
        for path in (self.folder, self.folder / CASES, self.folder / RELEASES):
            try:
                disk.make_folder(path)
            except InputError:
                raise InputError(f"{self.folder}: cannot be written to; name another folder with --data") from None

    def sources(self) -> dict[str, dict[str, str]]:
        """What can be released, by group: shown name by what ``load_case`` takes."""
        files = self._files(CASE_SUFFIXES)
        given = {} if self.given is None or self.given in files else {self.given: Path(self.given).name}
        built_in = {name: name for name in list_names()}
        built_in = {name: built_in[name] for name in sorted(built_in, key=lambda one: not one.startswith("veil"))}
        groups = {"Named at the start": given, "In the data folder": files, "Built in, public demands": built_in}
        return {group: names for group, names in groups.items() if names}

    def is_source(self, source: str) -> bool:
        """Whether a text that came from a browser is one of the listed sources."""
        return any(source in names for names in self.sources().values())

    def site_lists(self) -> dict[str, str]:
        """Files that may be lists of sites: shown name by path."""
        return self._files(LIST_SUFFIXES)

    def take_upload(self, path: Path, name: str) -> str:
        """Move an uploaded file among the cases, for this user alone, and return it as a source."""
        stem, suffix = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:60], Path(name).suffix.lower()
        if suffix not in UPLOAD_SUFFIXES:
            raise InputError(f"files that end in {suffix or 'nothing'} are not cases; see the list of file formats")
        target = self.folder / CASES / f"{stem or 'case'}{suffix}"
        if target.exists() and target.read_bytes() != path.read_bytes():
            target = target.with_name(f"{target.stem}-{secrets.token_hex(3)}{suffix}")
        shutil.copyfile(path, target)
        target.chmod(0o600)
        path.unlink(missing_ok=True)
        return str(target)

    def new_release(self, case: str, request: Mapping[str, Any]) -> StoredRelease:
        """Name a release, for which nothing is made yet."""
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", case).strip("-")[:40] or "case"
        name = f"{slug}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        return StoredRelease(name=name, folder=self.folder / RELEASES / name, request=request, finished=False)

    def releases(self) -> list[StoredRelease]:
        """All releases that were begun here, the newest first."""
        records = sorted((self.folder / RELEASES).glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        found = (StoredRelease.read(path.with_suffix("")) for path in records)
        return [one for one in found if one is not None]

    def release(self, name: str) -> StoredRelease | None:
        """A release by its listed name."""
        return next((one for one in self.releases() if one.name == name), None)

    def reusable(self, source: str, dataset: str) -> dict[str, str]:
        """Releases of the same case whose draw can be used again; whether the data are the same is checked at the release."""
        asked = {"source": source, "dataset": dataset}
        return {
            one.name: f"that of {one.name}, at no cost"
            for one in self.releases()
            if one.finished and one.drawn and {key: one.request.get(key) for key in asked} == asked
        }

    def unfinished(self) -> list[StoredRelease]:
        """Releases that were stopped before they were complete."""
        return [one for one in self.releases() if not one.finished]

    def remember(self, values: Mapping[str, Any]) -> None:
        """Keep the form for the next start; it holds nothing secret."""
        disk.write_whole(self.folder / LAST, json.dumps(dict(values), indent=1).encode())

    def remembered(self) -> dict[str, Any]:
        """The form as it was last."""
        try:
            found = json.loads((self.folder / LAST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _files(self, suffixes: set[str]) -> dict[str, str]:
        """Files in the folder and in ``cases``; links that lead out of the folder are no part of it."""
        here = self.folder.resolve()
        found = [path for place in (self.folder, self.folder / CASES) for path in sorted(place.iterdir())]
        kept = [
            path
            for path in found
            if path.is_file()
            and path.suffix.lower() in suffixes
            and path.name != LAST
            and path.resolve().is_relative_to(here)
        ]
        return {str(path): str(path.relative_to(self.folder)) for path in kept[:MOST_FILES]}


def _record(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")
