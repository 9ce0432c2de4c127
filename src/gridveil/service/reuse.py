"""Keep a draw on the curator's side, so that another β, method or solver costs no further ε.

A stored draw is bound, by a keyed digest, to the data it was made from, to its charges and to its own content. The key
lies in the curator's folder and nowhere else; ε and α are taken from the ledger's charges, never from the file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.quantity import PER_UNIT, parse_distance
from gridveil.core.secret import SecretField
from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger, exact_text
from gridveil.privacy.ledger_book import curator_key
from gridveil.privacy.mechanisms.exact_sampling import positive_fraction
from gridveil.privacy.noisy import Draw, DrawnTotals, NoisyData, NoisySum, facts_from

FILE = "draw.json"
VERSION = 2


def store_draw(draw: Draw, curator: Curator, folder: Path) -> None:
    """Write a draw with its mechanisms, charges and digests. It is as private as the release, but of no use to the public."""
    document = {
        "gridveil-draw": VERSION,
        "simulation": draw.simulation,
        "data": curator.digest(curator_key()),
        "values": _numbers(draw.noisy.values),
        "mechanism": asdict(draw.noisy.mechanism),
        "charge": draw.noisy.charge_id,
        "total": total_fields(draw.total),
        "declared_cost": draw.declared_cost,
        "totals": [_totals_fields(totals) for totals in draw.totals],
        "declared_loss": draw.declared_loss,
    }
    text = json.dumps(document | {"digest": keyed_digest(document)}, indent=1)
    disk.write_whole(folder / FILE, text.encode() + b"\n")


def load_draw(folder: Path, curator: Curator, ledger: Ledger | None) -> Draw:
    """Read the draw of an earlier release of the same data; the ledger must know the charges that paid for it."""
    path = folder / "curator" / FILE
    document = _read(path, folder)
    if not hmac.compare_digest(document.pop("digest", ""), keyed_digest(document)):
        raise InputError(f"{path}: was changed after it was written, or by another curator; draw anew")
    if not hmac.compare_digest(document["data"], curator.digest(curator_key())):
        raise InputError(
            f"{folder}: was made from other data than this case; name a release of the same data, or draw anew"
        )
    total = document["total"]
    draw = Draw(
        noisy=NoisyData(
            values=_array(document["values"]),
            mechanism=facts_from(document["mechanism"]),
            simulation=document["simulation"],
            charge_id=document["charge"],
        ),
        total=None if total is None else total_from(total, simulation=document["simulation"]),
        declared_cost=document["declared_cost"],
        totals=tuple(_totals_from(fields, simulation=document["simulation"]) for fields in document.get("totals", ())),
        declared_loss=document.get("declared_loss"),
    )
    if not draw.simulation:
        _check_charges(draw, curator.field, ledger, folder)
    bind_draw(draw, ledger)
    return draw


def bind_draw(draw: Draw, ledger: Ledger | None) -> None:
    """Have the ledger hold each part of a stored draw to its charge, before it is used.

    A copy of a folder that was stopped could otherwise draw once more under the same charge: whichever draw comes here
    first is the one that was paid for, and any other is refused.
    """
    if ledger is None or draw.simulation:
        return
    for charge_id, content in _contents(draw):
        announced = ledger.find(charge_id or "").draw
        if announced is not None:
            ledger.keep(announced, keyed_digest(content))


def _contents(draw: Draw) -> list[tuple[str | None, dict[str, Any]]]:
    """Charge and content of each part of a draw that was charged by itself."""
    parts: list[tuple[str | None, dict[str, Any]]] = [
        # Adding zero makes a negative one positive: files do not keep that sign of complex numbers.
        (draw.noisy.charge_id, {"values": _numbers(draw.noisy.values + 0)})
    ]
    if draw.total is not None:
        parts.append((draw.total.charge_id, {"total": draw.total.value}))
    private = [totals for totals in draw.totals if totals.mechanism is not None]
    if private:
        parts.append((private[0].charge_id, {"totals": [_numbers(totals.values + 0) for totals in private]}))
    return parts


def kept_promise(
    draw: Draw, field: SecretField, ledger: Ledger | None, epsilon: str | None, alpha: str | None
) -> tuple[str, str]:
    """ε and α, with its unit, of a draw that is used again, from the ledger's charges; others than these are refused."""
    if field.parts:
        _check_parts(draw, field, ledger)
    paid_epsilon, paid_alpha = _paid(draw, field, ledger)
    stated = {
        "epsilon": (None if epsilon is None else positive_fraction(epsilon, "epsilon"), paid_epsilon),
        "alpha": (None if alpha is None else parse_distance(alpha, field), paid_alpha),
    }
    for name, (value, paid) in stated.items():
        if value is not None and value != paid:
            raise InputError(
                f"the draw to be reused was paid for at ε = {float(paid_epsilon):g} and α = {float(paid_alpha) * field.base:g} "
                f"{field.unit}; leave out {name}, or draw anew"
            )
    return exact_text(paid_epsilon), f"{exact_text(paid_alpha)}{PER_UNIT}"


def _paid(draw: Draw, field: SecretField, ledger: Ledger | None) -> tuple[Fraction, Fraction]:
    parts = _parts(draw)
    if draw.simulation or ledger is None:
        epsilon = sum((Fraction(repr(epsilon)) for _, epsilon, _ in parts), Fraction(0))
        return epsilon, Fraction(repr(draw.noisy.mechanism.alpha))
    charges = [ledger.find(charge or "") for charge, _, _ in parts]
    alpha = Fraction(1) if field.parts else charges[0].alpha / Fraction(field.base)
    return sum((charge.epsilon for charge in charges), Fraction(0)), alpha


def _check_parts(draw: Draw, field: SecretField, ledger: Ledger | None) -> None:
    """Refuse secrets with another α or share than those that the draw was made and paid for with."""
    made = [(part.field, part.facts.epsilon, part.facts.alpha * part.base) for part in draw.noisy.mechanism.parts]
    total = draw.noisy.mechanism.epsilon
    if ledger is not None and not draw.simulation:
        charge = ledger.find(draw.noisy.charge_id or "")
        made = [(part.field, float(part.epsilon), float(part.alpha)) for part in charge.parts]
        total = float(charge.epsilon)
    asked = [(one.field.name, float(one.share) * total, float(one.alpha) * one.field.base) for one in field.parts]
    same = [name for name, *_ in made] == [name for name, *_ in asked]
    if not same or not np.allclose([one[1:] for one in made], [one[1:] for one in asked], rtol=1e-9, atol=0.0):
        stated = ", ".join(f"{name}: ε = {loss:g} at α = {alpha:g}" for name, loss, alpha in made)
        raise InputError(f"the draw to be reused was made for other secrets ({stated}); state the same --secret")


def _check_charges(draw: Draw, field: SecretField, ledger: Ledger | None, folder: Path) -> None:
    if ledger is None:
        raise InputError(
            f"{folder}: reusing its draw needs the ledger that it was charged to; restore it, or name it with --ledger"
        )
    for charge_id, epsilon, alpha in _parts(draw):
        charge = ledger.find(charge_id or "")
        stated = (epsilon, alpha * field.base)
        paid = (float(charge.epsilon), stated[1] if charge.parts else float(charge.alpha))
        if bool(charge.parts) != bool(field.parts) or not np.allclose(stated, paid, rtol=1e-9, atol=0.0):
            raise InputError(f"{folder}: its draw does not match the charge that paid for it; draw anew")


def _parts(draw: Draw) -> list[tuple[str | None, float, float]]:
    """Charge, ε and α of each part of a draw that was charged by itself; all private totals are one of them."""
    drawn: list[NoisyData | NoisySum] = [draw.noisy, *([draw.total] if draw.total else [])]
    parts = [(part.charge_id, part.mechanism.epsilon, part.mechanism.alpha) for part in drawn]
    private = [totals for totals in draw.totals if totals.mechanism is not None]
    if private:
        parts.append((private[0].charge_id, sum(totals.epsilon for totals in private), parts[0][2]))
    return parts


def _totals_fields(totals: DrawnTotals) -> dict[str, Any]:
    return {
        "name": totals.name,
        "labels": list(totals.labels),
        "group": totals.group.tolist(),
        "values": _numbers(totals.values),
        "mechanism": None if totals.mechanism is None else asdict(totals.mechanism),
        "charge": totals.charge_id,
    }


def _totals_from(fields: dict[str, Any], *, simulation: bool) -> DrawnTotals:
    return DrawnTotals(
        name=fields["name"],
        labels=tuple(fields["labels"]),
        group=np.array(fields["group"], dtype=np.int64),
        values=_array(fields["values"]),
        mechanism=None if fields["mechanism"] is None else facts_from(fields["mechanism"]),
        simulation=simulation,
        charge_id=fields["charge"],
    )


def total_fields(total: NoisySum | None) -> dict[str, Any] | None:
    """A noisy sum as plain values."""
    if total is None:
        return None
    return {
        "value": total.value,
        "weights": _numbers(total.weights),
        "offset": total.offset,
        "mechanism": asdict(total.mechanism),
        "charge": total.charge_id,
    }


def total_from(fields: dict[str, Any], *, simulation: bool) -> NoisySum:
    """Make a noisy sum from its plain values."""
    return NoisySum(
        value=fields["value"],
        weights=_array(fields["weights"]),
        offset=fields["offset"],
        mechanism=facts_from(fields["mechanism"]),
        simulation=simulation,
        charge_id=fields["charge"],
    )


def _numbers(values: NDArray[Any]) -> dict[str, Any]:
    return {"complex": bool(np.iscomplexobj(values)), "real": values.real.tolist(), "imaginary": values.imag.tolist()}


def _array(numbers: dict[str, Any]) -> NDArray[Any]:
    real = np.array(numbers["real"], dtype=float)
    return real + 1j * np.array(numbers["imaginary"], dtype=float) if numbers["complex"] else real


def _read(path: Path, folder: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text())
        if document["gridveil-draw"] != VERSION:
            raise InputError(f"{path}: was written by another version of gridveil; draw anew")
    except OSError:
        raise InputError(
            f"{folder}: holds no earlier release ({path.name} is missing); name the folder of one"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: is not the draw of a release; name the folder of an earlier release") from None
    return document


def keyed_digest(document: dict[str, Any]) -> str:
    """Digest plain values with the curator's key: it tells nothing about them without it."""
    text = json.dumps(document, sort_keys=True)
    return hmac.new(curator_key(), text.encode(), hashlib.sha256).hexdigest()
