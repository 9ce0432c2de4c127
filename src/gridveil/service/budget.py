"""Where a data set's ledger is, and how it comes to be."""

from __future__ import annotations

from pathlib import Path

from gridveil.core.errors import InputError
from gridveil.privacy.ledger import Ledger, exact_text

SUFFIX = ".ledger"


def ledger_path(case: str) -> Path:
    """Give the ledger of a case: beside its file, or, for a built-in name, in the current folder."""
    return Path(f"{case}{SUFFIX}")


def open_or_create(path: Path, *, alpha: str, cap: str | None) -> Ledger:
    """Open a ledger, or start one whose totals are stated at this α. A cap can only be set at the start."""
    if path.exists():
        ledger = Ledger.open(path)
        if cap is not None:
            raise InputError(f"{path}: already exists, with its cap fixed; leave out --budget, or name another ledger")
        return ledger
    return Ledger.create(path, alpha=alpha, cap=cap)


def find_ledger(source: str) -> Ledger:
    """Open the ledger named by its own path or by its case."""
    path = Path(source) if source.endswith(SUFFIX) else ledger_path(source)
    if not path.exists():
        raise InputError(f"{path}: no such ledger; nothing has been charged there, or it is kept elsewhere")
    return Ledger.open(path)


def describe_ledger(ledger: Ledger) -> dict[str, object]:
    """Give totals and charges as plain values; ε is stated at the ledger's reference α."""
    history = ledger.history()
    return {
        "ledger": str(ledger.path),
        "alpha": exact_text(history.alpha),
        "spent": exact_text(history.spent),
        "cap": None if history.cap is None else exact_text(history.cap),
        "remaining": None if history.remaining is None else exact_text(history.remaining),
        "charges": [
            {
                "id": charge.id,
                "time": charge.time.isoformat(),
                "epsilon": exact_text(charge.epsilon),
                "alpha": exact_text(charge.alpha),
                "mechanism": charge.mechanism,
                "purpose": charge.purpose,
                "recovered": charge.recovered,
            }
            for charge in history.charges
        ],
    }
