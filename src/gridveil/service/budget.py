"""The ledger that a release is charged to, and what it holds in plain values."""

from __future__ import annotations

import os

from gridveil.core.choices import Protects
from gridveil.core.quantity import parse_distance, physical
from gridveil.privacy.ledger import ChargePart, Exact, Ledger, exact_text
from gridveil.privacy.ledger_book import LedgerBook, dataset_digest
from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of
from gridveil.service.guards import Confirm, confirm_alpha
from gridveil.service.prepare import PublicCase
from gridveil.service.settings import ReleaseSettings


def ledger_of(
    case: Case,
    *,
    name: str | None = None,
    path: str | os.PathLike[str] | None = None,
    alpha: str | None = None,
    cap: Exact | None = None,
    protects: Protects = Protects.PROFILE,
) -> Ledger:
    """Open the one ledger of a case's data set, or, given a ``cap``, create it with this reference α.

    The data set is known by its network, or by the curator's ``name`` for it. There is no ledger without a cap. A new ledger
    ``protects`` everything about one participant, or one hour of one; this cannot be changed later.
    """
    dataset = dataset_digest(sector_of(case.network).identity(case.network), name)
    if cap is None:
        return LedgerBook().find(dataset, path)
    field = case.field
    reference = physical(parse_distance(alpha or "", field), field)
    return LedgerBook().create(
        dataset, name=name or case.name, unit=field.unit, alpha=reference, cap=cap, path=path, protects=protects
    )


def registered_ledger(
    case: Case | PublicCase, *, name: str | None = None, path: str | os.PathLike[str] | None = None
) -> Ledger | None:
    """Open the ledger of a case's data set if it has one; None if it has none yet."""
    dataset = dataset_digest(sector_of(case.network).identity(case.network), name)
    book = LedgerBook()
    if path is None and all(entry.dataset != dataset for entry in book.entries()):
        return None
    return book.find(dataset, path)


def ledger_to_charge(
    case: Case,
    settings: ReleaseSettings,
    confirm: Confirm,
    *,
    name: str | None = None,
    path: str | os.PathLike[str] | None = None,
    cap: Exact | None = None,
    protects: Protects = Protects.PROFILE,
) -> Ledger:
    """Open the ledger for a release, or make it with a ``cap``: after α, its reference for ever, has been confirmed."""
    if cap is not None:
        confirm_alpha(PublicCase.of(case), settings, confirm)
    return ledger_of(case, name=name, path=path, alpha=settings.alpha, cap=cap, protects=protects)


def describe_ledger(ledger: Ledger) -> dict[str, object]:
    """Totals and charges as plain values; ``spent``, ``cap``, ``remaining`` and ``total`` are ε at ``alpha``."""
    history = ledger.history()
    charges, total = [], 0 * history.spent
    for charge in history.charges:
        total += charge.at(history.alpha, history.references)
        charges.append(
            {
                "id": charge.id,
                "time": charge.time.isoformat(),
                "epsilon": exact_text(charge.epsilon),
                "alpha": exact_text(charge.alpha),
                "total": exact_text(total),
                "mechanism": charge.mechanism,
                "purpose": charge.purpose,
                "recovered": charge.recovered,
                **({"parts": [_part(part) for part in charge.parts]} if charge.parts else {}),
                **(
                    {} if charge.rho is None else {"delta": f"{float(charge.delta):g}", "rho": f"{float(charge.rho):g}"}
                ),
            }
        )
    return {
        "ledger": str(ledger.path),
        "dataset": history.dataset,
        "name": history.name,
        "unit": history.unit,
        "alpha": exact_text(history.alpha),
        "spent": exact_text(history.spent),
        "cap": exact_text(history.cap),
        "remaining": exact_text(history.remaining),
        "delta": f"{float(history.delta):g}",
        "protects": history.protects.value,
        "draws": len(history.charges),
        "charges": charges,
    }


def _part(part: ChargePart) -> dict[str, object]:
    return {
        "field": part.field,
        "epsilon": exact_text(part.epsilon),
        "alpha": exact_text(part.alpha),
        "unit": part.unit,
    }


def ledger_numbers(ledger: Ledger) -> dict[str, object]:
    """The same for programs: numbers instead of exact text, which ``exact`` keeps for the totals."""
    history, told = ledger.history(), describe_ledger(ledger)
    exact = {name: told[name] for name in ("alpha", "spent", "cap", "remaining")}
    total, charges = 0 * history.spent, []
    for charge, fields in zip(history.charges, _charge_rows(told), strict=True):
        total += charge.at(history.alpha, history.references)
        numbers = {"epsilon": float(charge.epsilon), "alpha": float(charge.alpha), "total": float(total)}
        more = {} if charge.rho is None else {"delta": float(charge.delta), "rho": float(charge.rho)}
        charges.append(fields | numbers | more)
    return told | {
        "alpha": float(history.alpha),
        "spent": float(history.spent),
        "cap": float(history.cap),
        "remaining": float(history.remaining),
        "delta": float(history.delta),
        "exact": exact,
        "charges": charges,
    }


def _charge_rows(told: dict[str, object]) -> list[dict[str, object]]:
    rows = told["charges"]
    return rows if isinstance(rows, list) else []
