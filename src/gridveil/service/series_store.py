"""The draws of a series on the curator's side, so that a run that was stopped goes on without a second charge.

Before the charge, DIR/curator/series.json announces the draw under a random id, which the charge then carries. After the draw it
is stored beside it. A run that finds the announcement and the charge but no draw was stopped in between: nobody has seen that
draw, and a new one takes its place under the same charge. Draws are bound by a keyed digest to the data and the promise.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import secrets
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.core.errors import InputError
from gridveil.privacy import ledger_disk as disk
from gridveil.privacy.ledger_book import curator_key
from gridveil.privacy.noisy import SeriesDraw, facts_from
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.service.account import Account
from gridveil.service.reuse import total_fields, total_from
from gridveil.service.series_settings import SeriesSettings

STATE, VALUES = "series.json", "series.npy"
VERSION = 1
ANNOUNCED, DRAWN = "announced", "drawn"


@dataclass(frozen=True)
class SeriesStore:
    """The folder of one series on the curator's side."""

    folder: Path
    curator: SeriesCurator
    settings: SeriesSettings

    @property
    def exists(self) -> bool:
        """Whether a series was begun here."""
        return (self.folder / STATE).is_file()

    def announce(self) -> str:
        """Write down, before the charge, which draw is going to be made; return its id. An announcement is kept."""
        if self.exists:
            return str(self._read()["draw"])
        draw_id = secrets.token_hex(16)
        self.folder.mkdir(mode=disk.OWN, parents=True, exist_ok=True)
        self._write({"state": ANNOUNCED, "draw": draw_id})
        return draw_id

    def keep(self, draw: SeriesDraw) -> None:
        """Store a draw; it replaces the announcement when all of it is on disk."""
        self.folder.mkdir(mode=disk.OWN, parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.save(buffer, draw.values)
        disk.write_whole(self.folder / VALUES, buffer.getvalue())
        totals = None if draw.totals is None else [total_fields(total) for total in draw.totals]
        self._write(
            {
                "state": DRAWN,
                "draw": draw.draw_id,
                "simulation": draw.simulation,
                "mechanism": asdict(draw.mechanism),
                "charge": draw.charge_id,
                "totals": totals,
                "share": str(draw.share),
                "values": hashlib.sha256(buffer.getvalue()).hexdigest(),
            }
        )

    def load(self, account: Account) -> SeriesDraw | None:
        """Read the draw, or None if it was announced and not made; whatever does not belong to it is refused."""
        document = self._read()
        if document["state"] == ANNOUNCED:
            return None
        content = self._content()
        if hashlib.sha256(content).hexdigest() != document["values"]:
            raise InputError(f"{self.folder / VALUES}: was changed after it was written; draw anew in another folder")
        if not document["simulation"] and account.paid(document["draw"]) != document["charge"]:
            raise InputError(
                f"{self.folder}: its draws are not in the ledger of this data set; name the right one with --ledger"
            )
        totals = document["totals"]
        return SeriesDraw(
            values=np.load(io.BytesIO(content), allow_pickle=False),
            mechanism=facts_from(document["mechanism"]),
            simulation=document["simulation"],
            charge_id=document["charge"],
            draw_id=document["draw"],
            totals=None
            if totals is None
            else tuple(None if one is None else total_from(one, simulation=document["simulation"]) for one in totals),
            # Records of earlier versions do not state it: no sums are drawn for them any more.
            share=Fraction(document.get("share", "0")),
        )

    def _promise(self) -> dict[str, Any]:
        """What the draws were paid for; β, method and solver may be others when they are used again."""
        chosen = self.settings.release
        return {
            "epsilon": str(chosen.exact_epsilon),
            "alpha": chosen.alpha,
            "protects": self.settings.protects.value,
            "mechanism": [chosen.mechanism, self.settings.mechanism],
            "basis": self.settings.basis,
            "delta": self.settings.delta,
            "cost_target": [chosen.target.mode.value, chosen.target.share],
            "seed": chosen.seed,
        }

    def _write(self, fields: dict[str, Any]) -> None:
        document = {"gridveil-series": VERSION, "promise": self._promise(), "data": self._data()} | fields
        text = json.dumps(document | {"digest": _digest(document)}, indent=1) + "\n"
        disk.write_whole(self.folder / STATE, text.encode())

    def _read(self) -> dict[str, Any]:
        path = self.folder / STATE
        try:
            document: dict[str, Any] = json.loads(path.read_text())
            if document["gridveil-series"] != VERSION:
                raise InputError(f"{path}: was written by another version of gridveil; draw anew in another folder")
        except FileNotFoundError:
            raise InputError(f"{self.folder}: holds no series ({STATE} is missing); name the folder of one") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(f"{path}: is not the record of a series; name the folder of one") from None
        if not hmac.compare_digest(document.pop("digest", ""), _digest(document)):
            raise InputError(
                f"{path}: was changed after it was written, or by another curator; draw anew in another folder"
            )
        if not hmac.compare_digest(document["data"], self._data()):
            raise InputError(
                f"{self.folder}: was made from other data; name the same series, or draw anew in another folder"
            )
        for name, value in self._promise().items():
            if document["promise"][name] != value:
                raise InputError(
                    f"{self.folder}: its draws were made with another {name.replace('_', ' ')}; repeat that, or draw anew in "
                    "another folder"
                )
        return document

    def _content(self) -> bytes:
        try:
            return (self.folder / VALUES).read_bytes()
        except OSError:
            raise InputError(f"{self.folder / VALUES}: is gone; restore it, or draw anew in another folder") from None

    def _data(self) -> str:
        return self.curator.digest(curator_key())


def _digest(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True)
    return hmac.new(curator_key(), text.encode(), hashlib.sha256).hexdigest()
