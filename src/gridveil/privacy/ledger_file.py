"""The format of a ledger file: exact numbers, checksummed lines, and what can be read of a line that a crash cut off.

The file is JSON lines: a header, then one line for each write. A line holds all charges of that write, so a batch is on
file as a whole or not at all. Each line ends with a SHA-256 over itself and the checksum before it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from gridveil.core.choices import Protects
from gridveil.core.errors import InputError
from gridveil.core.secret_choice import DEMAND

Exact = int | str | Decimal | Fraction
"""A number without rounding: an integer, a fraction, a decimal, or their text ("0.1", "1/3"). A float is refused."""

VERSION = 2
MAGIC = b'{"gridveil-ledger": '
_CHECK = re.compile(rb'(?P<body>.*), "check": "(?P<check>[0-9a-f]{64})"\}', re.DOTALL)
_CHARGES = ', "charges": ['
# The limits on digits keep a text such as 1e999999999 from filling the memory.
_NUMBER = re.compile(r"[0-9]{1,100}(\.[0-9]{0,100})?([eE][+-]?[0-9]{1,2})?|[0-9]{1,2000}/[0-9]{1,2000}")
_DATASET = re.compile(r"[0-9a-f]{64}")
_DRAW = re.compile(r"[0-9a-f]{8,64}")
_KEPT_DRAW = re.compile(r"[0-9a-f]{8,64}(/[a-z]+)?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_END_KEPT = 4096
VOID, KEPT = "void", "kept"
_UNREADABLE = (ValueError, KeyError, TypeError, InputError)


@dataclass(frozen=True, kw_only=True)
class ChargePart:
    """What a draw of several secrets costs for one of them: ε for a change of its values by α, in its own unit.

    ``rounding`` as in ``ChargeRequest``.
    """

    field: str
    unit: str
    epsilon: Fraction
    alpha: Fraction
    rounding: Fraction | None

    def at(self, alpha: Fraction) -> Fraction:
        """ε at another α, never less than the true loss: see ``Charge.at``."""
        if self.rounding is None:
            return self.epsilon * math.ceil(alpha / self.alpha)
        return self.epsilon * (alpha + self.rounding) / (self.alpha + self.rounding)


References = Mapping[str, Fraction]
"""The α at which each further secret is counted, in its unit: that of its first charge."""
NO_REFERENCES: References = {}


@dataclass(frozen=True, kw_only=True)
class ChargeRequest:
    """A draw to be paid for: ε for neighbours at distance α, α in the physical ``unit`` of the ledger.

    ``rounding`` (same unit): pass it only for a mechanism whose proof gives the linear loss of ``Charge.at``.
    ``draw`` is the random id, in hex, that the file of the draw will carry, so that its reuse can be tied to the charge.
    ``delta`` and ``rho`` belong to a draw that is ρ-zCDP and charged as (ε, δ).
    ``parts`` divide the ε of a draw that covers several secrets: they must add up to it, exactly.
    """

    epsilon: Exact
    alpha: Exact
    unit: str
    mechanism: str
    purpose: str
    rounding: Exact | None = None
    draw: str | None = None
    delta: Exact = 0
    rho: Exact | None = None
    parts: tuple[ChargePart, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One draw that has been paid for: (ε, α)-indistinguishable, α in the physical unit of its ledger.

    ``id`` names the charge and ``draw`` what was drawn: store both beside d̃, so that a later reuse of the same d̃ can be
    tied to this charge. ``time`` is UTC. ``recovered``: read back from a line that a crash cut off; no draw followed it,
    but it counts.
    """

    id: str
    time: datetime
    epsilon: Fraction
    alpha: Fraction
    rounding: Fraction | None
    mechanism: str
    purpose: str
    draw: str | None = None
    recovered: bool = False
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    parts: tuple[ChargePart, ...] = ()
    """Of a draw that covers several secrets; demands count at the ledger's α, others at the α of their first charge."""

    def at(self, alpha: Fraction, references: References = NO_REFERENCES) -> Fraction:
        """Return the ε of this charge for neighbours at distance ``alpha``, exactly, never less than the true loss.

        With ``rounding`` = ρ the mechanism claims that its loss at distance r is at most c·(r + ρ): Laplace noise, ρ
        being what rounding to the lattice added to the sensitivity. That is ε·(alpha + ρ)/(α + ρ), for ρ = 0 ε·alpha/α.
        Without it only the definition is used: neighbours at distance ``alpha`` are joined by ⌈alpha/α⌉ steps of at
        most α, each costing ε, and a smaller distance may cost all of ε. This holds for any mechanism.
        A draw that is ρ-zCDP is m²·ρ-zCDP over m steps, which gives at most m²·ε at the same δ.
        A draw of several secrets is the sum of its parts; ``references`` states the α of those that are no demands.
        """
        if self.parts:
            return sum((part.at(_reference(part, alpha, references)) for part in self.parts), Fraction(0))
        if self.rounding is None:
            steps = math.ceil(alpha / self.alpha)
            return self.epsilon * (steps if self.rho is None else steps**2)
        return self.epsilon * (alpha + self.rounding) / (self.alpha + self.rounding)


def _reference(part: ChargePart, alpha: Fraction, references: References) -> Fraction:
    return alpha if part.field == DEMAND else references.get(part.field, part.alpha)


def with_references(known: References, charges: Iterable[Charge]) -> References:
    """Add the α of every further secret that is charged for the first time."""
    found = dict(known)
    for charge in charges:
        for part in charge.parts:
            if part.field != DEMAND:
                found.setdefault(part.field, part.alpha)
    return found


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a ledger is for: the data set, the physical unit of all α, the reference α, and the cap on total ε at it.

    ``protects`` says whose change the totals bound: everything about one participant, or one hour of one participant.
    """

    id: str
    created: datetime
    dataset: str
    name: str
    unit: str
    alpha: Fraction
    cap: Fraction
    protects: Protects = Protects.PROFILE

    @classmethod
    def checked(
        cls,
        *,
        id: str,
        created: datetime,
        dataset: str,
        name: str,
        unit: str,
        alpha: Exact,
        cap: Exact,
        protects: Protects = Protects.PROFILE,
    ) -> Header:
        """Validate the values of a header. InputError names the first invalid one."""
        if not _DATASET.fullmatch(dataset):
            raise InputError("dataset must be the digest of a data set (64 hexadecimal digits), from dataset_digest")
        return cls(
            id=id,
            created=created,
            dataset=dataset,
            name=printable(name, "name"),
            unit=printable(unit, "unit"),
            alpha=positive(alpha, "alpha"),
            cap=positive(cap, "cap"),
            protects=protects,
        )

    def fields(self) -> dict[str, Any]:
        """Return what the first line of the file says."""
        return {
            "gridveil-ledger": VERSION,
            "ledger": self.id,
            "created": self.created.isoformat(),
            "dataset": self.dataset,
            "name": self.name,
            "unit": self.unit,
            "alpha": exact_text(self.alpha),
            "cap": exact_text(self.cap),
            **({} if self.protects is Protects.PROFILE else {"protects": self.protects.value}),
        }


@dataclass(frozen=True)
class Verified:
    """The whole lines of a file that have been verified: what they say, where they end, and how the last one ends.

    ``spent`` is the running total at the header's α. Whoever holds this can go on from ``size``, without the lines before.
    """

    header: Header | None = None
    charges: tuple[Charge, ...] = ()
    spent: Fraction = Fraction(0)
    references: References = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    voids: int = 0
    lines: int = 0
    size: int = 0
    check: str = ""
    end: bytes = b""


def exact_text(value: Fraction) -> str:
    """Write a fraction without rounding: as a decimal if it has a short one, else as n/d."""
    places = next((p for p in range(31) if 10**p % value.denominator == 0), None)
    if places is None:
        return str(value)
    digits = str(value.numerator * 10**places // value.denominator).zfill(places + 1)
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def exact(value: Exact, name: str) -> Fraction:
    """Read an exact number ≥ 0."""
    text = str(value)
    if not isinstance(value, Exact) or not _NUMBER.fullmatch(text) or re.search(r"/0+$", text):
        raise InputError(
            f"{name} must be an exact number ≥ 0, such as '0.1', '1/3' or a Fraction (a float would round); "
            f"got {text[:40]!r}"
        )
    return Fraction(text)


def positive(value: Exact, name: str) -> Fraction:
    """Read an exact number > 0."""
    number = exact(value, name)
    if number == 0:
        raise InputError(f"{name} must be greater than zero")
    return number


def printable(text: str, name: str) -> str:
    """Accept one line of printable text."""
    if not text or not text.isprintable():
        raise InputError(f"{name} must be one line of printable text that is not empty")
    return text


def charge_from(request: ChargeRequest, *, id: str, time: datetime) -> Charge:
    """Create the requested charge; InputError names an invalid value."""
    if request.draw is not None and not _DRAW.fullmatch(request.draw):
        raise InputError("draw must be the id of a draw: 8 to 64 hexadecimal digits")
    return Charge(
        id=id,
        time=time,
        epsilon=positive(request.epsilon, "epsilon"),
        alpha=positive(request.alpha, "alpha"),
        rounding=None if request.rounding is None else exact(request.rounding, "rounding"),
        mechanism=printable(request.mechanism, "mechanism"),
        purpose=printable(request.purpose, "purpose"),
        draw=request.draw,
        delta=exact(request.delta, "delta"),
        rho=None if request.rho is None else positive(request.rho, "rho"),
        parts=_checked_parts(request),
    )


def _checked_parts(request: ChargeRequest) -> tuple[ChargePart, ...]:
    total = sum((part.epsilon for part in request.parts), Fraction(0))
    if request.parts and total != positive(request.epsilon, "epsilon"):
        raise InputError("the parts of a charge must add up to its epsilon")
    for part in request.parts:
        for name in (part.field, part.unit):
            printable(name, "a part's field and unit")
        positive(part.epsilon, "epsilon")
        positive(part.alpha, "alpha")
    return request.parts


def line(fields: dict[str, Any], *, previous: str) -> bytes:
    """Write a line that follows from the checksum before it."""
    body = json.dumps(fields, ensure_ascii=False)[:-1].encode()
    return body + f', "check": "{_checksum(previous, body)}"}}\n'.encode()


def charge_fields(charges: Sequence[Charge]) -> dict[str, Any]:
    """Return what a line says about charges that are written at once."""
    return {
        "kind": "recovered" if charges[0].recovered else "charge",
        "time": charges[0].time.isoformat(),
        # What the total needs comes before the words, so that a line that was cut off can still be counted.
        "charges": [
            {
                "id": charge.id,
                "alpha": exact_text(charge.alpha),
                "rounding": None if charge.rounding is None else exact_text(charge.rounding),
                **({} if charge.rho is None else {"delta": exact_text(charge.delta), "rho": exact_text(charge.rho)}),
                "epsilon": exact_text(charge.epsilon),
                **({"parts": [_part_fields(part) for part in charge.parts]} if charge.parts else {}),
                "draw": charge.draw,
                "mechanism": charge.mechanism,
                "purpose": charge.purpose,
            }
            for charge in charges
        ],
    }


def _part_fields(part: ChargePart) -> dict[str, str | None]:
    return {
        "field": part.field,
        "unit": part.unit,
        "alpha": exact_text(part.alpha),
        "rounding": None if part.rounding is None else exact_text(part.rounding),
        "epsilon": exact_text(part.epsilon),
    }


def _part_from(fields: dict[str, Any]) -> ChargePart:
    return ChargePart(
        field=fields["field"],
        unit=fields["unit"],
        alpha=positive(fields["alpha"], "alpha"),
        rounding=None if fields["rounding"] is None else exact(fields["rounding"], "rounding"),
        epsilon=positive(fields["epsilon"], "epsilon"),
    )


def kept_fields(draw: str, digest: str) -> dict[str, Any]:
    """Return what a line says about a draw that was kept: its id, or a part of it (``id/sums``), and a keyed digest."""
    if not _KEPT_DRAW.fullmatch(draw) or not _DIGEST.fullmatch(digest):
        raise InputError("a kept draw needs its id and a digest: 64 hexadecimal digits")
    return {"kind": KEPT, "time": datetime.now(UTC).isoformat(), "draw": draw, "digest": digest}


def seal_fields(tail: bytes) -> dict[str, Any]:
    """Return the whole line that replaces what a crash cut off: its charges if they can be read, else a void."""
    charges = salvage(tail)
    if charges:
        return charge_fields(charges)
    note = "a write was cut off here before its charge could be read; no draw followed it"
    return {"kind": VOID, "time": datetime.now(UTC).isoformat(), "bytes": len(tail), "note": note}


def split(content: bytes) -> tuple[list[bytes], bytes]:
    """Separate whole lines from what a crash left: a line without its end, or with blocks never filled (NUL bytes)."""
    *lines, tail = content.split(b"\n")
    if not tail and lines and b"\0" in lines[-1]:
        tail = lines.pop() + b"\n"
    return lines, tail


def creation_was_cut_off(content: bytes) -> bool:
    """Whether there is no whole header, so that nothing can have been charged."""
    lines, tail = split(content)
    return not lines and (tail.startswith(MAGIC) or MAGIC.startswith(tail.rstrip(b"\0")))


def chain(lines: Sequence[bytes], tail: bytes, *, path: Path, previous: str, before: int) -> str:
    """Verify that lines follow from the checksum ``previous`` and from each other; return the last checksum.

    ``before`` is how many lines came earlier, for the message.
    """
    # A crash keeps a beginning of what was written, so a whole last line with a wrong checksum was edited.
    whole_tail = [tail] if _CHECK.fullmatch(tail) and b"\0" not in tail else []
    last = previous
    for number, text in enumerate([*lines, *whole_tail]):
        match = _CHECK.fullmatch(text)
        if match is None or match["check"].decode() != _checksum(previous, match["body"]):
            raise InputError(
                f"{path}: line {before + number + 1} does not follow from the lines before it (edited, removed, "
                "inserted or reordered); restore the file from a backup before any draw"
            )
        previous = match["check"].decode()
        last = previous if number < len(lines) else last
    return last


def extend(path: Path, known: Verified, content: bytes) -> tuple[Verified, bytes]:
    """Verify what follows the lines already known, from the beginning if none are; return all of it, and the tail."""
    if known.header is None:
        _check_beginning(path, content)
    lines, tail = split(content)
    check = chain(lines, tail, path=path, previous=known.check, before=known.lines)
    if not lines:
        return known, tail
    try:
        records = [json.loads(text) for text in lines]
        header = known.header or _header_from(records.pop(0))
        read = [_charges_from(record) for record in records if record["kind"] not in (VOID, KEPT)]
        kept = {record["draw"]: record["digest"] for record in records if record["kind"] == KEPT}
    except _UNREADABLE as error:
        raise InputError(f"{path}: not written by this version of gridveil; use the version that wrote it") from error
    charges = [charge for group in read for charge in group]
    references = with_references(known.references, charges)
    view = Verified(
        header=header,
        charges=(*known.charges, *charges),
        spent=sum((charge.at(header.alpha, references) for charge in charges), known.spent),
        references=references,
        kept={**known.kept, **kept},
        voids=known.voids + sum(record["kind"] == VOID for record in records),
        lines=known.lines + len(lines),
        size=known.size + len(content) - len(tail),
        check=check,
        end=lines[-1][-_END_KEPT:] + b"\n",
    )
    return view, tail


def salvage(tail: bytes) -> tuple[Charge, ...]:
    """Read the charges of a line that was cut off, as far as all of their numbers are there."""
    head, _, rest = tail.decode(errors="replace").split("\0")[0].partition(_CHARGES)
    try:
        time = datetime.fromisoformat(json.loads(head + "}")["time"])
    except _UNREADABLE:
        return ()
    decoder, position = json.JSONDecoder(), 0
    charges: list[Charge] = []
    while rest.startswith("{", position):
        try:
            entry, end = decoder.raw_decode(rest, position)
            charges.append(_charge_of(entry, time=time, recovered=True))
        except _UNREADABLE:
            return (*charges, *_salvage_entry(rest[position:], time))
        position = end + len(", ")
    return tuple(charges)


def _salvage_entry(text: str, time: datetime) -> tuple[Charge, ...]:
    unread = {"draw": None, "mechanism": "not recorded", "purpose": "not recorded"}
    end = len(text.rstrip(", "))
    while end > 0:
        try:
            return (_charge_of(unread | json.loads(text[:end] + "}"), time=time, recovered=True),)
        except _UNREADABLE:
            end = text.rfind(', "', 0, end)
    return ()


def _check_beginning(path: Path, content: bytes) -> None:
    if creation_was_cut_off(content):
        raise InputError(f"{path}: the creation of this ledger was cut off, nothing was charged; create it again")
    if not content.startswith(MAGIC):
        raise InputError(f"{path}: this is not a gridveil ledger; name the ledger of the data set")
    if re.match(rb"1\b", content[len(MAGIC) :]):
        raise InputError(
            f"{path}: is a ledger of version 1, whose α has no unit; keep it as a record, and create a new one with a cap "
            "that is lower by what it spent: gridveil ledger create CASE --budget E --alpha A"
        )


def _checksum(previous: str, body: bytes) -> str:
    return hashlib.sha256(previous.encode() + body).hexdigest()


def _header_from(fields: dict[str, Any]) -> Header:
    if fields["gridveil-ledger"] != VERSION:
        raise ValueError("unknown version")
    return Header.checked(
        id=fields["ledger"],
        created=datetime.fromisoformat(fields["created"]),
        dataset=fields["dataset"],
        name=fields["name"],
        unit=fields["unit"],
        alpha=fields["alpha"],
        cap=fields["cap"],
        protects=Protects(fields.get("protects", Protects.PROFILE.value)),
    )


def _charges_from(record: dict[str, Any]) -> tuple[Charge, ...]:
    time, recovered = datetime.fromisoformat(record["time"]), record["kind"] == "recovered"
    return tuple(_charge_of(entry, time=time, recovered=recovered) for entry in record["charges"])


def _charge_of(entry: dict[str, Any], *, time: datetime, recovered: bool) -> Charge:
    return Charge(
        id=entry["id"],
        time=time,
        epsilon=positive(entry["epsilon"], "epsilon"),
        alpha=positive(entry["alpha"], "alpha"),
        rounding=None if entry["rounding"] is None else exact(entry["rounding"], "rounding"),
        mechanism=entry["mechanism"],
        purpose=entry["purpose"],
        draw=entry["draw"],
        recovered=recovered,
        delta=exact(entry.get("delta", 0), "delta"),
        rho=None if "rho" not in entry else positive(entry["rho"], "rho"),
        parts=tuple(_part_from(part) for part in entry.get("parts", ())),
    )
