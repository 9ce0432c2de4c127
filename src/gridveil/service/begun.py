"""The record of a release that was begun, so that the same folder can be gone on with after Ctrl-C, a crash or a failure.

DIR/curator/begun.json announces the draw, before the first charge, under random ids that the charges then carry; draw.json
beside it holds what has been drawn. A run that finds the announcement and a charge but no draw was stopped in between: nobody
has seen that draw, and a new one takes its place under the same charge. The ledger holds the digest of the draw that was kept,
so a copy of the record gives no second one. The record is bound by a keyed digest to the data and to the promise, and goes when
the release is published.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from gridveil.core.errors import InputError
from gridveil.core.quantity import physical
from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger, exact_text
from gridveil.privacy.ledger_book import curator_key
from gridveil.service.alpha import alpha_of
from gridveil.service.draw import Begun, Shares
from gridveil.service.reuse import FILE as DRAW_FILE
from gridveil.service.reuse import load_draw
from gridveil.service.settings import ReleaseSettings

FILE = "begun.json"
VERSION = 1
ANNOUNCED, DRAWN = "announced", "drawn"
WORDS = {
    "seed": "seed",
    "epsilon": "epsilon",
    "alpha": "alpha",
    "secrets": "secrets",
    "keep": "kept totals",
    "mechanism": "mechanism",
    "cost_target": "cost target",
}


def was_begun(folder: Path, record: str = FILE) -> bool:
    """Whether a release was begun in DIR/curator and not published; ``record`` is the file that says so."""
    finished = any((folder / name).exists() for name in ("public", "simulation"))
    return (folder / "curator" / record).is_file() and not finished


@dataclass(frozen=True)
class BegunRelease:
    """The record in one --out folder. ``ledger`` is None for a simulation."""

    folder: Path
    curator: Curator
    settings: ReleaseSettings
    ledger: Ledger | None

    @property
    def path(self) -> Path:
        """Where the record lies."""
        return self.folder / "curator" / FILE

    def found(self) -> Begun | None:
        """What was begun here; whatever does not belong to these data and this promise is refused."""
        if not self.path.is_file():
            return None
        document = self._read()
        drawn = (self.folder / "curator" / DRAW_FILE).is_file()
        if document["state"] == DRAWN and not drawn:
            raise InputError(f"{self.folder}: its draw is gone; restore curator/{DRAW_FILE}, or choose another --out")
        return Begun(
            shares=Shares(cost=Fraction(document["shares"]["cost"]), totals=Fraction(document["shares"]["totals"])),
            values_id=document["values"],
            total_id=document["total"],
            totals_id=document["totals"],
            draw=load_draw(self.folder, self.curator, self.ledger) if drawn else None,
        )

    def announce(self, shares: Shares) -> Begun:
        """Write down, before the first charge, which draw is going to be made."""
        ids = [secrets.token_hex(16) for _ in range(3)]
        begun = Begun(shares=shares, values_id=ids[0], total_id=ids[1], totals_id=ids[2])
        document = {
            "gridveil-begun": VERSION,
            "state": ANNOUNCED,
            "promise": self._promise(),
            "data": self.curator.digest(curator_key()),
            "shares": {"cost": str(shares.cost), "totals": str(shares.totals)},
            "values": begun.values_id,
            "total": begun.total_id,
            "totals": begun.totals_id,
        }
        self._write(document)
        return begun

    def kept(self) -> None:
        """Write down that a draw has been kept: from now on nothing takes its place under the same charge."""
        if self.path.is_file():
            self._write(self._read() | {"state": DRAWN})

    def _write(self, document: dict[str, Any]) -> None:
        self.path.parent.mkdir(mode=disk.OWN, parents=True, exist_ok=True)
        disk.write_whole(self.path, json.dumps(document | {"digest": _digest(document)}, indent=1).encode() + b"\n")

    def _promise(self) -> dict[str, Any]:
        """What the draw is paid for; β, method, solver and bounds may be others when it is gone on with."""
        chosen, field = self.settings, self.curator.field
        return {
            "seed": chosen.seed,
            "epsilon": exact_text(chosen.exact_epsilon),
            "alpha": f"{exact_text(physical(alpha_of(chosen, field), field))} {field.unit}",
            "secrets": [str(one) for one in chosen.secrets],
            "keep": [
                *(f"{one.name} ({one.source.value}, {one.parts or 'own'} parts)" for one in chosen.keep.drawn),
                chosen.keep.share,
            ],
            "mechanism": chosen.mechanism,
            "cost_target": [chosen.target.mode.value, chosen.target.share],
        }

    def _read(self) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads(self.path.read_text())
            if document["gridveil-begun"] != VERSION:
                raise InputError(f"{self.path}: was written by another version of gridveil; choose another --out")
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{self.path}: is not the record of a release; choose another --out") from None
        if not hmac.compare_digest(document.pop("digest", ""), _digest(document)):
            raise InputError(
                f"{self.path}: was changed after it was written, or by another curator; choose another --out"
            )
        if not hmac.compare_digest(document["data"], self.curator.digest(curator_key())):
            raise InputError(f"{self.folder}: was begun with other data; repeat it with them, or choose another --out")
        for name, value in self._promise().items():
            before = document["promise"][name]
            if before != value:
                raise InputError(
                    f"{self.folder}: was begun with {WORDS[name]} {_plain(before)}, and its draw is bound to that, not to "
                    f"{_plain(value)}; repeat it, or choose another --out"
                )
        return document


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value if one is not None)
    return "none" if value is None else str(value)


def _digest(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True)
    return hmac.new(curator_key(), text.encode(), hashlib.sha256).hexdigest()
