"""The location of ledgers, and the register of every ledger ever created.

A ledger belongs to a data set, not to a file name: ``dataset_digest`` names the data set by what makes its network this
network, or by the curator's own name for it. So a case file that is copied, renamed, moved or rewritten in another base
leads to the ledger that its data set already has.

All of it lies in one folder of the user, ``GRIDVEIL_HOME`` or else the usual place of the system for such data:
``ledgers/<dataset>.ledger``, and ``register.jsonl``, to which lines are only ever appended, each with a checksum over
itself and the line before. A ledger is announced in the register before its file is made and confirmed after, so one
whose making was cut off in between is picked up by the next ``find`` or ``create``.

**What this cannot notice**: a register that is deleted as a whole, or another ``GRIDVEIL_HOME``. ``find`` then still sees
``ledgers/<dataset>.ledger`` if that is there, and enters it again. Back the folder up, and keep it to the curator.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import platformdirs

from gridveil.core.choices import Protects
from gridveil.core.errors import InputError
from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger_file import MAGIC, Exact, chain, creation_was_cut_off, line, printable, split

HOME = "GRIDVEIL_HOME"
"""The environment variable that names the folder."""
REGISTER = "register.jsonl"
LEDGERS = "ledgers"
SUFFIX = ".ledger"


def dataset_digest(identity: Sequence[str], name: str | None = None) -> str:
    """Digest what makes a data set this data set: texts of its network in any order, or the curator's own ``name``.

    A name replaces the identity. The two are marked, so no name can equal an identity.
    """
    if name is not None:
        words = ["name", printable(name, "the name of a data set")]
    elif identity:
        words = ["network", *sorted(identity)]
    else:
        raise InputError("nothing identifies this data set; name it with --dataset NAME")
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class RegisteredLedger:
    """One ledger of the register: which data set it belongs to, and where its file was made."""

    dataset: str
    name: str
    ledger: str
    path: Path
    created: datetime


class LedgerBook:
    """All ledgers of this user: at most one for each data set."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        chosen = folder or os.environ.get(HOME) or platformdirs.user_data_dir("gridveil")
        self.folder = Path(chosen).resolve()

    def create(
        self,
        dataset: str,
        *,
        name: str,
        unit: str,
        alpha: Exact,
        cap: Exact,
        path: str | os.PathLike[str] | None = None,
        protects: Protects = Protects.PROFILE,
    ) -> Ledger:
        """Make the ledger of a data set, here or at ``path``. InputError if it already has one, which is named."""
        header = Ledger.header(dataset=dataset, name=name, unit=unit, alpha=alpha, cap=cap, protects=protects)
        with self._register() as register:
            known = self._known(register, dataset, path)
            if known is not None:
                raise InputError(
                    f"{known.path}: this data set already has this ledger, with its cap fixed; leave out --budget, since a "
                    "new ledger would forget what was spent"
                )
            entry = RegisteredLedger(
                dataset=dataset,
                name=name,
                ledger=header.id,
                path=self._place(dataset, path),
                created=header.created,
            )
            register.add(entry, made=False)
            ledger = Ledger.start(entry.path, header)
            register.add(entry, made=True)
        return ledger

    def find(self, dataset: str, path: str | os.PathLike[str] | None = None) -> Ledger:
        """Open the one ledger of a data set; ``path``, if given, must lead to it. InputError says what to do if not."""
        with self._register() as register:
            known = self._known(register, dataset, path)
        if known is None:
            if path is not None and (other := _made_ledger(Path(path).resolve())) is not None:
                raise _foreign(path, other)
            raise InputError(
                "this data set has no ledger yet; create one with a cap: gridveil ledger create CASE --budget E --alpha A, "
                "or pass --budget"
            )
        if path is not None and Path(path).resolve() != known.path.resolve():
            other = _made_ledger(Path(path).resolve())
            if other is not None and other.dataset != dataset:
                raise _foreign(path, other)
            raise InputError(
                f"{path}: is not the ledger of this data set, which is {known.path}; use that one, or leave out the path"
            )
        ledger = _made_ledger(known.path)
        if ledger is None:
            raise InputError(
                f"{known.path}: the ledger of this data set is gone; restore it from a backup, since what was spent is "
                "not known without it"
            )
        history = ledger.history()
        if (history.id, history.dataset) != (known.ledger, dataset):
            raise InputError(
                f"{known.path}: another ledger lies in the place of this data set's; restore the right one from a backup"
            )
        return ledger

    def entries(self) -> tuple[RegisteredLedger, ...]:
        """List every ledger ever made, oldest first."""
        with self._register() as register:
            return tuple(register.made.values())

    def _place(self, dataset: str, path: str | os.PathLike[str] | None) -> Path:
        return self.folder / LEDGERS / f"{dataset}{SUFFIX}" if path is None else Path(path).resolve()

    def _known(self, register: _Register, dataset: str, path: str | os.PathLike[str] | None) -> RegisteredLedger | None:
        """Look a data set up; a ledger that was made without being confirmed in the register is entered now.

        Such a ledger lies where it was announced, in the usual place, or, after the loss of the register, at ``path``.
        """
        if dataset in register.made:
            return register.made[dataset]
        announced = [entry.path for entry in register.announced if entry.dataset == dataset]
        for place in (*announced, self._place(dataset, None), *([] if path is None else [self._place(dataset, path)])):
            ledger = _made_ledger(place)
            if ledger is not None and ledger.dataset == dataset:
                return register.add(_entry_of(ledger), made=True)
        return None

    @contextmanager
    def _register(self) -> Iterator[_Register]:
        disk.make_folder(self.folder / LEDGERS)
        path = self.folder / REGISTER
        with disk.locked(path, path, disk.MAKE) as descriptor:
            yield _Register(path, descriptor)


class _Register:
    """The register while its lock is held: ledgers known to be made, by data set, and those only announced."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor
        self.made: dict[str, RegisteredLedger] = {}
        self.announced: list[RegisteredLedger] = []
        content = disk.read(descriptor)
        lines, tail = split(content)
        self._check = chain(lines, b"", path=path, previous="", before=0)
        # A line that was cut off announced a ledger that was not made, or confirmed one that an earlier line announces.
        self._cut_off_at = len(content) - len(tail) if tail else None
        for text in lines:
            fields = json.loads(text)
            self._note(_entry_from(fields, path), made=fields["kind"] == "made")

    def add(self, entry: RegisteredLedger, *, made: bool) -> RegisteredLedger:
        """Append an entry and return when it is on disk."""
        fields = {
            "kind": "made" if made else "announced",
            "dataset": entry.dataset,
            "name": entry.name,
            "ledger": entry.ledger,
            "path": str(entry.path),
            "created": entry.created.isoformat(),
        }
        if self._cut_off_at is not None:
            disk.truncate(self.descriptor, self._cut_off_at)
            self._cut_off_at = None
        text = line(fields, previous=self._check)
        disk.append(self.descriptor, text, self.path.parent)
        if not disk.is_at(self.path, self.descriptor):
            raise InputError(
                f"{self.path}: replaced by another program meanwhile; let only gridveil write to it, and repeat"
            )
        self._check = chain([text[:-1]], b"", path=self.path, previous=self._check, before=0)
        self._note(entry, made=made)
        return entry

    def _note(self, entry: RegisteredLedger, *, made: bool) -> None:
        if made:
            self.made[entry.dataset] = entry
        else:
            self.announced.append(entry)


def _entry_from(fields: dict[str, Any], path: Path) -> RegisteredLedger:
    try:
        return RegisteredLedger(
            dataset=fields["dataset"],
            name=fields["name"],
            ledger=fields["ledger"],
            path=Path(fields["path"]),
            created=datetime.fromisoformat(fields["created"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not written by this version of gridveil; use the version that wrote it") from error


def _entry_of(ledger: Ledger) -> RegisteredLedger:
    history = ledger.history()
    return RegisteredLedger(
        dataset=history.dataset,
        name=history.name,
        ledger=history.id,
        path=ledger.path,
        created=history.created,
    )


def _made_ledger(path: Path) -> Ledger | None:
    """Open the ledger at a path, or return None if none was ever completed there; a damaged one is an error."""
    disk.refuse_device(path)
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        # Not to be taken for "none was made": that would open a fresh budget.
        raise InputError(f"{path}: this ledger cannot be read ({error.strerror}); solve this first") from error
    if creation_was_cut_off(content) or not content.startswith(MAGIC):
        return None
    return Ledger.open(path)


def _foreign(path: str | os.PathLike[str], ledger: Ledger) -> InputError:
    return InputError(
        f"{path}: belongs to another data set, {ledger.name}; leave out the path, or name the right ledger"
    )


def curator_key(folder: str | os.PathLike[str] | None = None) -> bytes:
    """The curator's own key, made when it is first needed: it binds stored draws to their data and tells nothing by itself."""
    path = LedgerBook(folder).folder / "curator.key"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | disk.AS_BYTES, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            os.link(draft, path)  # fails if another process was first, whose key then counts
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return path.read_bytes()
