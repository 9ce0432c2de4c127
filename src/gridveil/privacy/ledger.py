"""The privacy ledger: one file per data set that holds every charge, on disk before the draw it pays for.

``Ledger.charge`` returns only when its line has been forced to disk; the caller draws after that. A process killed at
any step can leave a charge without a draw (over-counted), never a draw without a charge.

The file is JSON lines: a header (reference α, cap), then one line per charge. Each line ends with a SHA-256 over itself
and the checksum before it, so an edited, inserted, removed or reordered line is an error. A line that a crash cut off
counts if its charge can be read, and is void otherwise (no draw followed it); the next charge seals it that way.

**What the file alone cannot show**: whole lines cut from the end, an older copy put back, the file deleted and made
anew. Keep it where only the curator can write, and back it up. (A ``Ledger`` object does notice when lines that it has
itself seen are gone.) The checksum has no key: it finds accidents and clumsy edits, not someone who recomputes it.
Nothing of the demands is written; ``mechanism`` and ``purpose`` are the caller's words, so keep demands out of them.

**One number for several α**: charges are added up (sequential composition) at the ledger's reference α, in exact
fractions; ``Charge.at`` states how a charge made at another α is converted, and why that never under-counts.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from gridveil.core.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

Exact = int | str | Decimal | Fraction
"""A number without rounding: an integer, a fraction, a decimal, or their text ("0.1", "1/3"). A float is refused."""

_MAGIC = b'{"gridveil-ledger": '
_VERSION = 1
_CHECK = re.compile(rb'(?P<body>.*), "check": "(?P<check>[0-9a-f]{64})"\}', re.DOTALL)
# The limits on digits keep a text such as 1e999999999 from filling the memory.
_NUMBER = re.compile(r"[0-9]{1,100}(\.[0-9]{0,100})?([eE][+-]?[0-9]{1,2})?|[0-9]{1,2000}/[0-9]{1,2000}")


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One draw that has been paid for: (ε, α)-indistinguishable, α in the unit of the data set's demands.

    ``id`` names the draw: store it beside d̃, so that a later reuse of the same d̃ can be tied to this charge.
    ``time`` is UTC. ``recovered``: read back from a line that a crash cut off; no draw followed it, but it counts.
    """

    id: str
    time: datetime
    epsilon: Fraction
    alpha: Fraction
    rounding: Fraction | None
    mechanism: str
    purpose: str
    recovered: bool = False

    def at(self, alpha: Fraction) -> Fraction:
        """Give the ε of this charge for neighbours at distance ``alpha``, exactly, never less than the true loss.

        With ``rounding`` = ρ the mechanism claims that its loss at distance r is at most c·(r + ρ): Laplace noise, ρ
        being what rounding to the lattice added to the sensitivity. That is ε·(alpha + ρ)/(α + ρ), for ρ = 0 ε·alpha/α.
        Without it only the definition is used: neighbours at distance ``alpha`` are joined by ⌈alpha/α⌉ steps of at
        most α, each costing ε, and a smaller distance may cost all of ε. This holds for any mechanism.
        """
        if self.rounding is None:
            return self.epsilon * math.ceil(alpha / self.alpha)
        return self.epsilon * (alpha + self.rounding) / (self.alpha + self.rounding)


@dataclass(frozen=True, kw_only=True)
class History:
    """What a ledger held at one moment: ``alpha`` is the reference α; ``cap``, ``spent``, ``remaining`` are ε at it."""

    alpha: Fraction
    cap: Fraction | None
    charges: tuple[Charge, ...]
    voids: int
    """Lines that a crash cut off before their charge could be read; no draw followed them."""

    @property
    def spent(self) -> Fraction:
        """The total ε of all charges."""
        return sum((charge.at(self.alpha) for charge in self.charges), Fraction(0))

    @property
    def remaining(self) -> Fraction | None:
        """The ε that may still be charged, or None without a cap."""
        return None if self.cap is None else max(self.cap - self.spent, Fraction(0))


@dataclass(frozen=True)
class _Parsed:
    """A verified file: the checksum of each whole line, the bytes these lines take, and what follows them."""

    history: History
    checks: tuple[str, ...]
    size: int
    tail: bytes


class Ledger:
    """The ledger of one data set. Every access reads and verifies the file anew, so several processes may share it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # Resolved once: no later change of directory or link may lead to another ledger or sync another folder.
        self._file = self.path.resolve()
        self._seen: tuple[str, ...] = ()

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, alpha: Exact, cap: Exact | None = None) -> Ledger:
        """Start the ledger of a data set: reference ``alpha`` in the unit of its demands, ``cap`` on total ε."""
        ledger = cls(path)
        header = {
            "gridveil-ledger": _VERSION,
            "ledger": secrets.token_hex(8),
            "created": datetime.now(UTC).isoformat(),
            "alpha": exact_text(_positive(alpha, "alpha")),
            "cap": None if cap is None else exact_text(_positive(cap, "cap")),
        }
        if not ledger._file.parent.is_dir():
            raise InputError(f"{path}: the folder does not exist; make it first")
        with ledger._locked(os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor:
            # A creation that a crash cut off may be done again: without a whole header nothing can have been charged.
            if not _creation_was_cut_off(_read(descriptor)):
                raise InputError(f"{path}: already exists; open it, since a new ledger would forget what was spent")
            _truncate(descriptor, 0)
            ledger._append(descriptor, _line(header, previous=""), start=0)
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open an existing ledger and verify it."""
        ledger = cls(path)
        ledger.history()
        return ledger

    def charge(
        self, *, epsilon: Exact, alpha: Exact, mechanism: str, purpose: str, rounding: Exact | None = None
    ) -> Charge:
        """Record a charge on disk, or refuse it with InputError. Draw only after this has returned.

        ``rounding`` (unit of alpha): pass it only for a mechanism whose proof gives the linear loss of ``Charge.at``.
        """
        charge = Charge(
            id=secrets.token_hex(8),
            time=datetime.now(UTC),
            epsilon=_positive(epsilon, "epsilon"),
            alpha=_positive(alpha, "alpha"),
            rounding=None if rounding is None else _exact(rounding, "rounding"),
            mechanism=_printable(mechanism, "mechanism"),
            purpose=_printable(purpose, "purpose"),
        )
        with self._locked(os.O_RDWR | os.O_APPEND) as descriptor:
            parsed = self._parse(descriptor)
            if parsed.tail:
                parsed = self._seal(descriptor, parsed)
            self._refuse_over_cap(parsed.history, charge)
            self._append(descriptor, _line(_charge_fields(charge), previous=parsed.checks[-1]), start=parsed.size)
        return charge

    def history(self) -> History:
        """Read and verify the file: one consistent view of charges, total and cap."""
        with self._locked(os.O_RDONLY) as descriptor:
            return self._parse(descriptor).history

    def find(self, charge_id: str) -> Charge:
        """Give the charge with this id: the proof that reusing its draw is paid for. InputError if there is none."""
        for charge in self.charges:
            if charge.id == charge_id:
                return charge
        raise InputError(
            f"{self.path}: no charge has the id {charge_id!r}; use the ledger that this draw was charged to"
        )

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, oldest first."""
        return self.history().charges

    @property
    def alpha(self) -> Fraction:
        """The reference α of the totals, in the unit of the demands."""
        return self.history().alpha

    @property
    def cap(self) -> Fraction | None:
        """The largest total ε at the reference α, or None."""
        return self.history().cap

    @property
    def spent(self) -> Fraction:
        """The total ε charged, at the reference α."""
        return self.history().spent

    @property
    def remaining(self) -> Fraction | None:
        """The ε at the reference α that may still be charged, or None without a cap."""
        return self.history().remaining

    def _parse(self, descriptor: int) -> _Parsed:
        parsed = _parse(self.path, _read(descriptor))
        if parsed.checks[: len(self._seen)] != self._seen:
            raise InputError(f"{self.path}: lines that were there before are gone; restore the ledger before any draw")
        self._seen = parsed.checks
        return parsed

    def _refuse_over_cap(self, history: History, charge: Charge) -> None:
        asked, remaining = charge.at(history.alpha), history.remaining
        if remaining is None or asked <= remaining:
            return
        largest = remaining * charge.epsilon / asked
        advice = f"ask for ε ≤ {exact_text(largest)} at α = {exact_text(charge.alpha)} or " if largest else ""
        raise InputError(
            f"{self.path}: over budget, nothing may be drawn: spent ε = {exact_text(history.spent)}, "
            f"remaining ε = {exact_text(remaining)}, asked ε = {exact_text(asked)}, all at α = "
            f"{exact_text(history.alpha)}; {advice}reuse an earlier draw, which is free"
        )

    def _seal(self, descriptor: int, parsed: _Parsed) -> _Parsed:
        """Replace what a crash cut off by a whole line: the charge if it can be read, else a void that says so."""
        note = "a write was cut off here before its charge could be read; no draw followed it"
        void = {"kind": "void", "time": datetime.now(UTC).isoformat(), "bytes": len(parsed.tail), "note": note}
        charge = _salvage(parsed.tail)
        _truncate(descriptor, parsed.size)
        line = _line(_charge_fields(charge) if charge else void, previous=parsed.checks[-1])
        return self._append(descriptor, line, start=parsed.size)

    def _append(self, descriptor: int, line: bytes, *, start: int) -> _Parsed:
        written = 0
        while written < len(line):
            written += os.write(descriptor, line[written:])
        _sync(descriptor)
        # Not only at creation: whoever made or moved the file may have been killed before it synced the folder.
        _sync_folder(self._file.parent)
        parsed = self._parse(descriptor)
        if not _is_at(self._file, descriptor) or parsed.size != start + len(line):
            raise InputError(
                f"{self.path}: changed by another program during the charge, so nothing may be drawn; let only "
                "gridveil write to it, on a file system whose locks work"
            )
        return parsed

    @contextmanager
    def _locked(self, flags: int) -> Iterator[int]:
        """Open and lock the file, shared to read, exclusive to write. The system frees the lock if its holder dies."""
        if fcntl is None:
            raise InputError(f"{self.path}: the ledger needs the file locks of Linux or macOS; on Windows use WSL")
        try:
            held = False
            while not held:
                descriptor = os.open(self._file, flags, 0o666)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_SH if flags == os.O_RDONLY else fcntl.LOCK_EX)
                    # The file may have been replaced while this process waited for the lock of the old one.
                    held = _is_at(self._file, descriptor)
                    if held:
                        yield descriptor
                finally:
                    # Closing is not enough: a child forked meanwhile by another thread would keep the lock.
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
                    os.close(descriptor)
        except FileNotFoundError as error:
            raise InputError(f"{self.path}: there is no ledger here; create one, once per data set") from error
        except OSError as error:
            raise InputError(
                f"{self.path}: the ledger cannot be used ({error.strerror}), so nothing may be drawn; solve this first"
            ) from error


def exact_text(value: Fraction) -> str:
    """Write a fraction without rounding: as a decimal if it has a short one, else as n/d."""
    places = next((p for p in range(31) if 10**p % value.denominator == 0), None)
    if places is None:
        return str(value)
    digits = str(value.numerator * 10**places // value.denominator).zfill(places + 1)
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def _exact(value: Exact, name: str) -> Fraction:
    text = str(value)
    if not isinstance(value, Exact) or not _NUMBER.fullmatch(text) or re.search(r"/0+$", text):
        raise InputError(
            f"{name} must be an exact number ≥ 0, such as '0.1', '1/3' or a Fraction (a float would round); "
            f"got {text[:40]!r}"
        )
    return Fraction(text)


def _positive(value: Exact, name: str) -> Fraction:
    number = _exact(value, name)
    if number == 0:
        raise InputError(f"{name} must be greater than zero")
    return number


def _printable(text: str, name: str) -> str:
    if not text or not text.isprintable():
        raise InputError(f"{name} must be one line of printable text that is not empty")
    return text


def _charge_fields(charge: Charge) -> dict[str, Any]:
    # What the total needs comes before the words, so that a line that was cut off can still be counted.
    return {
        "kind": "recovered" if charge.recovered else "charge",
        "id": charge.id,
        "time": charge.time.isoformat(),
        "alpha": exact_text(charge.alpha),
        "rounding": None if charge.rounding is None else exact_text(charge.rounding),
        "epsilon": exact_text(charge.epsilon),
        "mechanism": charge.mechanism,
        "purpose": charge.purpose,
    }


def _charge_from(fields: dict[str, Any]) -> Charge:
    return Charge(
        id=fields["id"],
        time=datetime.fromisoformat(fields["time"]),
        epsilon=_positive(fields["epsilon"], "epsilon"),
        alpha=_positive(fields["alpha"], "alpha"),
        rounding=None if fields["rounding"] is None else _exact(fields["rounding"], "rounding"),
        mechanism=fields["mechanism"],
        purpose=fields["purpose"],
        recovered=fields["kind"] == "recovered",
    )


def _line(fields: dict[str, Any], *, previous: str) -> bytes:
    body = json.dumps(fields, ensure_ascii=False)[:-1].encode()
    return body + f', "check": "{_checksum(previous, body)}"}}\n'.encode()


def _checksum(previous: str, body: bytes) -> str:
    return hashlib.sha256(previous.encode() + body).hexdigest()


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    """Separate whole lines from what a crash left: a line without its end, or with blocks never filled (NUL bytes)."""
    *lines, tail = content.split(b"\n")
    if not tail and lines and b"\0" in lines[-1]:
        tail = lines.pop() + b"\n"
    return lines, tail


def _creation_was_cut_off(content: bytes) -> bool:
    lines, tail = _split(content)
    return not lines and (tail.startswith(_MAGIC) or _MAGIC.startswith(tail.rstrip(b"\0")))


def _parse(path: Path, content: bytes) -> _Parsed:
    if _creation_was_cut_off(content):
        raise InputError(f"{path}: the creation of this ledger was cut off, nothing was charged; create it again")
    lines, tail = _split(content)
    if not content.startswith(_MAGIC):
        raise InputError(f"{path}: this is not a gridveil ledger; name the ledger of the data set")
    # A crash keeps a beginning of what was written, so a whole last line with a wrong checksum was edited.
    whole_tail = [tail] if _CHECK.fullmatch(tail) and b"\0" not in tail else []
    checks = [""]
    for number, line in enumerate(lines + whole_tail, start=1):
        match = _CHECK.fullmatch(line)
        if match is None or match["check"].decode() != _checksum(checks[-1], match["body"]):
            raise InputError(
                f"{path}: line {number} does not follow from the lines before it (edited, removed, inserted or "
                "reordered); restore the ledger from a backup before any draw"
            )
        checks.append(match["check"].decode())
    try:
        history = _interpret([json.loads(line) for line in lines], tail)
    except (ValueError, KeyError, TypeError, InputError) as error:
        raise InputError(f"{path}: not written by this version of gridveil; use the version that wrote it") from error
    return _Parsed(history, tuple(checks[1 : len(lines) + 1]), len(content) - len(tail), tail)


def _interpret(records: list[dict[str, Any]], tail: bytes) -> History:
    header, *entries = records
    if header["gridveil-ledger"] != _VERSION:
        raise ValueError("unknown version")
    cut_off = _salvage(tail)
    charges = [_charge_from(entry) for entry in entries if entry["kind"] != "void"]
    return History(
        alpha=_positive(header["alpha"], "alpha"),
        cap=None if header["cap"] is None else _positive(header["cap"], "cap"),
        charges=(*charges, *([cut_off] if cut_off else [])),
        voids=len(entries) - len(charges) + (bool(tail) and cut_off is None),
    )


def _salvage(tail: bytes) -> Charge | None:
    """Read the charge of a line that was cut off, or None if not all of its numbers are there."""
    unread = {"mechanism": "not recorded", "purpose": "not recorded"}
    text = tail.decode(errors="replace")
    end = len(text)
    while end > 0:
        try:
            return _charge_from(unread | json.loads(text[:end] + "}") | {"kind": "recovered"})
        except (ValueError, KeyError, TypeError, InputError):
            end = text.rfind(', "', 0, end)
    return None


def _is_at(path: Path, descriptor: int) -> bool:
    return os.path.samestat(path.stat(), os.fstat(descriptor))


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def _truncate(descriptor: int, size: int) -> None:
    os.ftruncate(descriptor, size)
    _sync(descriptor)


def _sync(descriptor: int) -> None:
    """Force a file or folder to the disk itself; on macOS plain fsync stops at the drive's cache."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)
