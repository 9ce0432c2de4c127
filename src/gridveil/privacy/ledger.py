"""The privacy ledger: one file per data set that holds every charge, on disk before the draw it pays for.

``Ledger.charge`` returns only when its line has been forced to disk; the caller draws after that. A process killed at
any step can leave a charge without a draw (over-counted), never a draw without a charge.

The header names the data set, the physical unit of every α in the file (MVA, kg/s), the reference α, and the cap on
total ε. α is never per unit: the base of a case file can be rewritten, and α would then mean something else at the same
price. A charge that states another unit is refused.

Each line ends with a SHA-256 over itself and the checksum before it, so an edited, inserted, removed or reordered line
is an error. A line that a crash cut off counts as far as its charges can be read, and is void otherwise (no draw followed
it); the next charge seals it that way.

**What is verified when**: opening a ledger verifies the whole file. The object then keeps the checksum and the total of
what it has verified, and later reads only what was appended, if the file is the same, has not become shorter, was not
changed without growing, and still ends its last known line as before; in any other case it reads everything anew. An
edit of an old line that comes together with a new line is found by the next opening.

**What the file alone cannot show**: whole lines cut from the end, an older copy put back, the file deleted and made
anew. Keep it where only the curator can write, and back it up. (A ``Ledger`` object does notice when lines that it has
itself seen are gone, and ``LedgerBook`` when the file is.) The checksum has no key: it finds accidents and clumsy edits,
not someone who recomputes it. Nothing of the demands is written; ``name``, ``mechanism`` and ``purpose`` are the caller's
words, so keep demands out of them.

**One number for several α**: charges are added up (sequential composition) at the ledger's reference α, in exact
fractions; ``Charge.at`` states how a charge made at another α is converted, and why that never under-counts.

**One draw for one charge**: a charge whose draw was lost in a crash pays for the draw that takes its place. So that this
cannot happen twice, in copies of a folder say, the ledger holds the keyed digest of the draw that was kept.

**δ**: a draw of Gaussian noise is charged as (ε, δ); both are added up, and the total δ has a limit of its own. Its ρ is on
file, but charges are not composed by it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from gridveil.core.choices import Protects
from gridveil.core.errors import InputError
from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.ledger_file import (
    Charge,
    ChargePart,
    ChargeRequest,
    Exact,
    Header,
    References,
    Verified,
    charge_fields,
    charge_from,
    creation_was_cut_off,
    exact_text,
    extend,
    kept_fields,
    line,
    salvage,
    seal_fields,
    with_references,
)

__all__ = ["Charge", "ChargeHistory", "ChargePart", "ChargeRequest", "Exact", "Ledger", "exact_text"]

LARGEST_DELTA = Fraction(1, 10**5)
"""Limit on the total δ of a ledger, whatever its cap on ε: far below one in the number of participants of any network."""


@dataclass(frozen=True, kw_only=True)
class ChargeHistory(Header):
    """Contents of a ledger at one moment: α in ``unit``; ``cap``, ``spent``, ``remaining`` are ε at the reference α."""

    charges: tuple[Charge, ...]
    spent: Fraction
    """The total ε of all charges."""
    references: References
    """The α at which each further secret is counted."""
    kept: Mapping[str, str]
    """The digest of each draw that was kept, by its id: no other may take its place under the same charge."""
    voids: int
    """Lines that a crash cut off before a charge could be read; no draw followed them."""

    @property
    def remaining(self) -> Fraction:
        """The ε that may still be charged."""
        return max(self.cap - self.spent, Fraction(0))

    @property
    def delta(self) -> Fraction:
        """The total δ of all charges."""
        return sum((charge.delta for charge in self.charges), Fraction(0))


@dataclass(frozen=True)
class _Seen:
    """What an object has verified, and which file in which state that was."""

    view: Verified
    inode: tuple[int, int]
    size: int
    modified: int


class Ledger:
    """The ledger of one data set. Every access looks at the file under a lock, so several processes may share it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # Resolved once: no later change of directory or link may lead to another ledger or sync another folder.
        self._file = self.path.resolve()
        # Replaced as a whole, never changed, so that threads may share the object.
        self._seen: _Seen | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        dataset: str,
        name: str,
        unit: str,
        alpha: Exact,
        cap: Exact,
        protects: Protects = Protects.PROFILE,
    ) -> Ledger:
        """Create the ledger of a data set: reference ``alpha`` in its physical ``unit``, ``cap`` on total ε at it.

        ``dataset`` is the digest of the data set's identity and ``name`` what people call it. A ledger made here is not
        in the register of ``LedgerBook``, which is what notices a second one for the same data set.
        """
        header = cls.header(dataset=dataset, name=name, unit=unit, alpha=alpha, cap=cap, protects=protects)
        return cls.start(path, header)

    @staticmethod
    def header(
        *,
        dataset: str,
        name: str,
        unit: str,
        alpha: Exact,
        cap: Exact,
        protects: Protects = Protects.PROFILE,
    ) -> Header:
        """Create the header of a new ledger, without a file yet; InputError names an invalid value."""
        return Header.checked(
            id=secrets.token_hex(8),
            created=datetime.now(UTC),
            dataset=dataset,
            name=name,
            unit=unit,
            alpha=alpha,
            cap=cap,
            protects=protects,
        )

    @classmethod
    def start(cls, path: str | os.PathLike[str], header: Header) -> Ledger:
        """Write a new ledger with this header."""
        ledger = cls(path)
        if not ledger._file.parent.is_dir():
            raise InputError(f"{path}: the folder does not exist; make it first")
        with disk.locked(ledger._file, ledger.path, disk.MAKE) as descriptor:
            # A creation that a crash cut off may be done again: without a whole header nothing can have been charged.
            if not creation_was_cut_off(disk.read(descriptor)):
                raise InputError(f"{path}: already exists; open it, since a new ledger would forget what was spent")
            disk.truncate(descriptor, 0)
            ledger._append(descriptor, header.fields(), Verified())
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open an existing ledger and verify it."""
        ledger = cls(path)
        ledger.history()
        return ledger

    def charge(
        self,
        *,
        epsilon: Exact,
        alpha: Exact,
        unit: str,
        mechanism: str,
        purpose: str,
        rounding: Exact | None = None,
        draw: str | None = None,
        delta: Exact = 0,
        rho: Exact | None = None,
        parts: tuple[ChargePart, ...] = (),
    ) -> Charge:
        """Record a charge on disk, or refuse it with InputError. Draw only after this has returned.

        The arguments are those of ``ChargeRequest``.
        """
        request = ChargeRequest(
            epsilon=epsilon,
            alpha=alpha,
            unit=unit,
            mechanism=mechanism,
            purpose=purpose,
            rounding=rounding,
            draw=draw,
            delta=delta,
            rho=rho,
            parts=parts,
        )
        return self.charge_many([request])[0]

    def charge_many(self, requests: Sequence[ChargeRequest]) -> tuple[Charge, ...]:
        """Record charges on disk in one write, all of them or none. Draw only after this has returned."""
        now = datetime.now(UTC)
        charges = tuple(charge_from(request, id=secrets.token_hex(8), time=now) for request in requests)
        if not charges:
            return ()
        with disk.locked(self._file, self.path, disk.WRITE) as descriptor:
            view = self._mended(descriptor)
            history = _history(view, b"")
            self._refuse_other_unit(history, requests)
            self._refuse_over_cap(history, charges)
            self._refuse_over_delta(history, charges)
            self._append(descriptor, charge_fields(charges), view)
        return charges

    def keep(self, draw: str, digest: str) -> None:
        """Record which draw was kept under an id. The first one counts: another one under the same id is refused.

        Use a draw only after this has returned: a copy of what was announced could otherwise be drawn from as well.
        """
        if self.history().kept.get(draw) == digest:
            return  # known already, which a ledger that can only be read is enough for
        with disk.locked(self._file, self.path, disk.WRITE) as descriptor:
            view = self._mended(descriptor)
            known = view.kept.get(draw)
            if known not in (None, digest):
                raise self.kept_elsewhere()
            if known is None:
                self._append(descriptor, kept_fields(draw, digest), view)

    def kept_elsewhere(self) -> InputError:
        """What to say to whoever asks for a second draw under one charge."""
        return InputError(
            f"{self.path}: the draw that this charge paid for was kept in another folder, of which this one may be a copy; "
            "use that draw again (--reuse), or choose another --out"
        )

    def history(self) -> ChargeHistory:
        """Read the file: a consistent view of charges, total and cap."""
        with disk.locked(self._file, self.path, disk.READ) as descriptor:
            return _history(*self._look(descriptor))

    def find(self, charge_id: str) -> Charge:
        """Return the charge with this id: the proof that reusing its draw is paid for. InputError if there is none."""
        for charge in self.charges:
            if charge.id == charge_id:
                return charge
        raise InputError(
            f"{self.path}: no charge has the id {charge_id!r}; use the ledger that this draw was charged to"
        )

    @property
    def id(self) -> str:
        """The random id of this ledger, which a copy shares."""
        return self.history().id

    @property
    def dataset(self) -> str:
        """The digest of the data set that the ledger belongs to."""
        return self.history().dataset

    @property
    def name(self) -> str:
        """Display name of the data set."""
        return self.history().name

    @property
    def unit(self) -> str:
        """The physical unit of every α in the ledger."""
        return self.history().unit

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, oldest first."""
        return self.history().charges

    @property
    def protects(self) -> Protects:
        """Whose change the totals bound."""
        return self.history().protects

    @property
    def alpha(self) -> Fraction:
        """The reference α of the totals, in the ledger's unit."""
        return self.history().alpha

    @property
    def cap(self) -> Fraction:
        """The largest total ε at the reference α."""
        return self.history().cap

    @property
    def spent(self) -> Fraction:
        """The total ε charged, at the reference α."""
        return self.history().spent

    @property
    def remaining(self) -> Fraction:
        """The ε at the reference α that may still be charged."""
        return self.history().remaining

    def _look(self, descriptor: int) -> tuple[Verified, bytes]:
        """Verify what this object has not verified yet; return all whole lines, and what a crash left after them."""
        seen, status = self._seen, os.fstat(descriptor)
        inode = (status.st_dev, status.st_ino)
        if seen is None:
            view, tail = extend(self.path, Verified(), disk.read(descriptor))
        elif inode == seen.inode and _has_only_grown(descriptor, status, seen):
            view, tail = extend(self.path, seen.view, disk.read(descriptor, seen.view.size))
        else:
            view, tail = self._verify_anew(disk.read(descriptor), seen.view)
        self._seen = _Seen(view, inode, status.st_size, status.st_mtime_ns)
        return view, tail

    def _mended(self, descriptor: int) -> Verified:
        """All whole lines; what a crash left after them is sealed first, so that a line can follow."""
        view, tail = self._look(descriptor)
        if tail:
            disk.truncate(descriptor, view.size)
            view = self._append(descriptor, seal_fields(tail), view)
        return view

    def _verify_anew(self, content: bytes, known: Verified) -> tuple[Verified, bytes]:
        gone = f"{self.path}: lines that were there before are gone; restore the ledger before any draw"
        if len(content) < known.size:
            raise InputError(gone)
        view, tail = extend(self.path, Verified(), content[: known.size])
        if tail or view.check != known.check:
            raise InputError(gone)
        return extend(self.path, view, content[known.size :])

    def _refuse_other_unit(self, history: ChargeHistory, requests: Sequence[ChargeRequest]) -> None:
        for request in requests:
            if request.unit != history.unit:
                raise InputError(
                    f"{self.path}: this ledger states α in {history.unit}, not in {request.unit!r}; state α in "
                    f"{history.unit}"
                )

    def _refuse_over_cap(self, history: ChargeHistory, charges: tuple[Charge, ...]) -> None:
        references = with_references(history.references, charges)
        asked = sum((charge.at(history.alpha, references) for charge in charges), Fraction(0))
        remaining = history.remaining
        if asked <= remaining:
            return
        unit, advice, number = history.unit, "", ""
        if len(charges) > 1:
            number = f" for {len(charges)} draws together"
        elif remaining:
            largest = remaining * charges[0].epsilon / asked
            advice = f"ask for ε ≤ {exact_text(largest)} at α = {exact_text(charges[0].alpha)} {unit} or "
        raise InputError(
            f"{self.path}: over budget, nothing may be drawn: spent ε = {exact_text(history.spent)}, "
            f"remaining ε = {exact_text(remaining)}, asked ε = {exact_text(asked)}{number}, all at α = "
            f"{exact_text(history.alpha)} {unit}; {advice}reuse an earlier draw, which is free"
        )

    def _refuse_over_delta(self, history: ChargeHistory, charges: tuple[Charge, ...]) -> None:
        asked = sum((charge.delta for charge in charges), Fraction(0))
        if asked and history.delta + asked > LARGEST_DELTA:
            raise InputError(
                f"{self.path}: over the limit of δ, nothing may be drawn: spent δ = {float(history.delta):g}, asked δ = "
                f"{float(asked):g}, limit {float(LARGEST_DELTA):g}; ask for a smaller delta, or for noise without one"
            )

    def _append(self, descriptor: int, fields: dict[str, Any], known: Verified) -> Verified:
        """Add a line after those known, and return when it is on disk and has been read back."""
        text = line(fields, previous=known.check)
        disk.append(descriptor, text, self._file.parent)
        view, tail = self._look(descriptor)
        if not disk.is_at(self._file, descriptor) or tail or view.size != known.size + len(text):
            raise InputError(
                f"{self.path}: changed by another program during the charge, so nothing may be drawn; let only "
                "gridveil write to it, on a file system whose locks work"
            )
        return view


def _has_only_grown(descriptor: int, status: os.stat_result, seen: _Seen) -> bool:
    """Whether the file may be read from where it was left: its last known line is as it was, and nothing else moved."""
    if status.st_size < seen.view.size or (status.st_size <= seen.size and status.st_mtime_ns != seen.modified):
        return False
    end = seen.view.end
    return disk.read_part(descriptor, seen.view.size - len(end), len(end)) == end


def _history(view: Verified, tail: bytes) -> ChargeHistory:
    assert view.header is not None, "a file without a header is refused when it is read"
    header, cut_off = view.header, salvage(tail)
    references = with_references(view.references, cut_off)
    return ChargeHistory(
        **vars(header),
        charges=(*view.charges, *cut_off),
        spent=sum((charge.at(header.alpha, references) for charge in cut_off), view.spent),
        references=references,
        kept=view.kept,
        voids=view.voids + (bool(tail) and not cut_off),
    )
