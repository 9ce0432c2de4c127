"""DC lines with voltage source converters and FACTS devices of PSS/E files, which powerio passes over: read and written.

What these devices are set to may follow the demand, so it is not used. Their ratings are equipment: SMAX and IMAX of a converter
bound its power, MAXQ and MINQ its reactive power, SHMX the shunt part of a FACTS device.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gridveil.core.errors import InputError
from gridveil.core.text import ranges
from gridveil.sectors.power.matpower_tables import CompensatorRow
from gridveil.sectors.power.psse_sections import FACTS, MULTI_TERMINAL, VSC, section_span
from gridveil.sectors.power.tables import CompensatorTable, DcLineTable
from gridveil.sectors.power.write_elements import number

OFF, VOLTAGE_CONTROL = 0, 1
LINES_PER_VSC = 3
DC_KV = 100.0
"""Any voltage will do in a written file: losses depend on the quotient of BLOSS and the voltage."""
KW = 1000.0

Row = dict[str, Any]
Fields = list[str]


@dataclass(frozen=True, kw_only=True)
class PsseDevices:
    """DC lines in the form of powerio's rows, compensators, and what was simplified."""

    dc_lines: tuple[Row, ...] = ()
    compensators: tuple[CompensatorRow, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Converter:
    """One end of a VSC line: powers in MW and MVAr, losses in kW and kW per A of direct current."""

    bus: int
    mode: int
    set_to: float
    constant_loss: float
    loss_per_ampere: float
    rating: float
    """MVA, infinite where the file states none."""
    q_min: float
    q_max: float


def read_devices(text: str, base_kv: dict[int, float]) -> PsseDevices:
    """Read both sections of a file with named sections; ``base_kv`` of each bus turns a current into a power."""
    lines, without_voltage = [], []
    records = _records(text, VSC)
    if len(records) % LINES_PER_VSC:
        raise InputError("a PSS/E voltage source converter line does not have its three records; export the file again")
    for place, start in enumerate(range(0, len(records), LINES_PER_VSC), start=1):
        rows, known = _vsc_rows(place, records[start : start + LINES_PER_VSC], base_kv)
        lines += rows
        if not known:
            without_voltage.append(place)
    _refuse_multi_terminal(_records(text, MULTI_TERMINAL))
    compensators = [_compensator(place, fields) for place, fields in enumerate(_records(text, FACTS), start=1)]
    notes = []
    if any(row["in_service"] for row in lines):
        notes.append(
            "VSC lines: power within SMAX and IMAX at 1 p.u., reactive power within MAXQ and MINQ, each by itself; what they are "
            "set to is not used, and losses in the resistance of the line are not modelled"
        )
    if without_voltage:
        notes.append(
            f"VSC lines without a DC voltage (records {ranges(without_voltage)}): losses by BLOSS are not modelled"
        )
    if any(row.in_service for row in compensators):
        notes.append(
            "FACTS devices: their shunt part as a susceptance within SHMX at 1 p.u.; what they are set to is not used"
        )
    return PsseDevices(dc_lines=tuple(lines), compensators=tuple(compensators), notes=tuple(notes))


def _vsc_rows(place: int, records: Sequence[Fields], base_kv: dict[int, float]) -> tuple[list[Row], bool]:
    """DC lines for one VSC line, and whether its losses are complete.

    Losses that grow with the current take one line for each direction: with one, power that flows back would gain what it loses.
    Each then has the constant loss of the converter at its end; a single line has both at its end.
    """
    name = f"VSC line {place}"
    first, second = (_converter(name, fields, base_kv) for fields in records[1:])
    on = _whole(name, records[0], 1) != OFF and OFF not in (first.mode, second.mode)
    rating = min(first.rating, second.rating)
    if on and not math.isfinite(rating):
        raise InputError(
            f"{name}: the file states no rating, and what it is set to may follow the demand; give SMAX or IMAX of a converter, "
            "or switch it off"
        )
    if not on:
        rating = min(rating, 0.0)
    voltage = next((end.set_to for end in (first, second) if end.mode == VOLTAGE_CONTROL), 0.0)
    per_ampere = first.loss_per_ampere + second.loss_per_ampere
    share = per_ampere / voltage if voltage > 0 else 0.0
    both: Row = {"in_service": on, "cost": None, "loss1": share, "pmax": rating}
    forward: Row = {
        "from": first.bus,
        "to": second.bus,
        "pmin": 0.0 if share else -rating,
        "loss0": (second.constant_loss + (0.0 if share else first.constant_loss)) / KW,
        "qminf": max(first.q_min, -rating),
        "qmaxf": min(first.q_max, rating),
        "qmint": max(second.q_min, -rating),
        "qmaxt": min(second.q_max, rating),
    }
    backward: Row = {"from": second.bus, "to": first.bus, "pmin": 0.0, "loss0": first.constant_loss / KW}
    idle: Row = dict.fromkeys(("qminf", "qmaxf", "qmint", "qmaxt"), 0.0)
    rows = [both | forward, *([both | backward | idle] if share else [])]
    return rows, bool(share) or per_ampere == 0 or not on


def _converter(name: str, fields: Fields, base_kv: dict[int, float]) -> _Converter:
    bus = _whole(name, fields, 0)
    power, current = _real(name, fields, 8, 0.0), _real(name, fields, 9, 0.0)
    by_current = math.sqrt(3) * current * base_kv.get(bus, 0.0) / KW
    stated = [rating for rating in (power, by_current) if rating > 0]
    return _Converter(
        bus=bus,
        mode=_whole(name, fields, 1),
        set_to=_real(name, fields, 3, 0.0),
        constant_loss=max(_real(name, fields, 5, 0.0), _real(name, fields, 7, 0.0)),
        loss_per_ampere=_real(name, fields, 6, 0.0),
        rating=min(stated, default=math.inf),
        q_max=_real(name, fields, 11, 9999.0),
        q_min=_real(name, fields, 12, -9999.0),
    )


def _compensator(place: int, fields: Fields) -> CompensatorRow:
    name = f"FACTS device {place}"
    on = _whole(name, fields, 3) != OFF
    if on and fields[2].strip() not in ("", "0"):
        raise InputError(
            f"{name}: it has a series part, which is not modelled; switch it off, or replace it by a branch and a shunt device"
        )
    rating = _real(name, fields, 7, 9999.0)
    return CompensatorRow(bus=_whole(name, fields, 1), b_min=-rating, b_max=rating, in_service=on)


def _refuse_multi_terminal(records: Sequence[Fields]) -> None:
    """Refuse multi-terminal lines in service: a record with counts of converters, buses and lines, whose records follow."""
    place, start = 0, 0
    while start < len(records):
        place, name = place + 1, f"multi-terminal DC line {place + 1}"
        if _whole(name, records[start], 4) != OFF:
            raise InputError(f"{name}: it is in service and not modelled; switch it off, or replace it by VSC lines")
        start += 1 + sum(_whole(name, records[start], field) for field in (1, 2, 3))


def _records(text: str, section: str) -> list[Fields]:
    """Records of a section, as words."""
    span = section_span(text, section)
    lines = [] if span is None else text[span[0] : span[1]].splitlines()
    kept = [line for line in lines if line.strip() and not line.lstrip().startswith("@!")]
    return [[word.strip() for word in row] for row in csv.reader(kept, quotechar="'", skipinitialspace=True)]


def _real(name: str, fields: Fields, place: int, usual: float) -> float:
    word = fields[place].partition("/")[0].strip() if place < len(fields) else ""
    try:
        value = float(word) if word else usual
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{name}: field {place + 1} of a record is no finite number; correct it")
    return value


def _whole(name: str, fields: Fields, place: int) -> int:
    return int(_real(name, fields, place, 0.0))


def with_devices(text: str, line: DcLineTable, compensator: CompensatorTable) -> str:
    """Add DC lines and compensators, as they are read here, to a written file; set-points get neutral values."""
    text = _inserted(text, VSC, _vsc_records(line))
    return _inserted(text, FACTS, _facts_records(compensator))


def _vsc_records(line: DcLineTable) -> list[str]:
    """Three records for each line: one row where power flows both ways, two rows, there and back, where losses grow."""
    records, row = [], 0
    while row < len(line.from_id):
        share, rating = float(line.loss_1[row]), float(line.p_max[row])
        first, second = (line.loss_0[row + 1], line.loss_0[row]) if share else (0.0, line.loss_0[row])
        records.append(f"'VSC {row + 1}', {int(line.in_service[row])}, 0.0, 1, 1.0")
        for kind, bus, set_to, loss, high, low in (
            (1, line.from_id[row], DC_KV, first, line.q_from_max[row], line.q_from_min[row]),
            (2, line.to_id[row], 0.0, second, line.q_to_max[row], line.q_to_min[row]),
        ):
            lost = f"{number(KW * loss)}, {number(share * DC_KV / 2)}, 0.0"
            limits = f"{number(rating)}, 0.0, 1.0, {number(high)}, {number(low)}"
            records.append(f"{int(bus)}, {kind}, 1, {set_to}, 1.0, {lost}, {limits}, 0, 100.0")
        row += 2 if share else 1
    return records


def _facts_records(compensator: CompensatorTable) -> list[str]:
    columns = (compensator.bus_id, compensator.b_max, compensator.in_service)
    return [
        f"'FACTS {place}', {int(bus)}, 0, {int(on)}, 0.0, 0.0, 1.0, {number(rating)}"
        for place, (bus, rating, on) in enumerate(zip(*columns, strict=True), start=1)
    ]


def _inserted(text: str, section: str, records: list[str]) -> str:
    if not records:
        return text
    span = section_span(text, section)
    if span is None:
        raise ValueError(f"a PSS/E file without the section {section} was written")
    return text[: span[1]] + "".join(f"{record}\n" for record in records) + text[span[1] :]
