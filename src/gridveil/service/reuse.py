"""Keep d̃ beside the curator's report, so that another β, method or solver costs no further ε."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import numpy as np

from gridveil.core.errors import InputError
from gridveil.privacy.ledger import Ledger, exact_text
from gridveil.privacy.mechanisms.exact_sampling import positive_fraction
from gridveil.privacy.noisy import Draw, MechanismFacts, NoisyDemand, PrivateCost
from gridveil.sectors.case import Case

FILE = "draw.json"
VERSION = 1
SAME_PROMISE = 1e-12  # relative: ε and α of a draw are kept as floats


def store_draw(draw: Draw, folder: Path) -> None:
    """Write d̃ with its mechanism and charge. It is as private as the release, but of no use to the public."""
    noisy = draw.noisy
    document = {
        "gridveil-draw": VERSION,
        "simulation": noisy.simulation,
        "charge": noisy.charge_id,
        "mechanism": asdict(noisy.mechanism),
        "complex": bool(np.iscomplexobj(noisy.values)),
        "real": noisy.values.real.tolist(),
        "imaginary": noisy.values.imag.tolist(),
        "private_cost": asdict(draw.private_cost) if draw.private_cost else None,
    }
    (folder / FILE).write_text(json.dumps(document, indent=1) + "\n")


def kept_promise(draw: Draw, epsilon: str | None, alpha: str | None) -> tuple[str, str]:
    """Give ε and α of a draw that is used again, as text; nothing can change them, so other values stated are refused."""
    paid = (draw.epsilon, draw.noisy.mechanism.alpha)
    for stated, value, name in zip((epsilon, alpha), paid, ("epsilon", "alpha"), strict=True):
        if stated is not None and abs(float(positive_fraction(stated, name)) - value) > SAME_PROMISE * value:
            raise InputError(
                f"the draw to be reused has ε = {paid[0]:g} at α = {paid[1]:g}; leave out epsilon and alpha, or draw anew"
            )
    return exact_text(Fraction(repr(paid[0]))), exact_text(Fraction(repr(paid[1])))


def load_draw(folder: Path, case: Case, ledger: Ledger | None) -> Draw:
    """Read the d̃ of an earlier release of the same case; the ledger must know the charge that paid for it."""
    path = folder / "curator" / FILE
    try:
        document = json.loads(path.read_text())
        if document["gridveil-draw"] != VERSION:
            raise ValueError
        values = np.array(document["real"], dtype=float)
        if document["complex"]:
            values = values + 1j * np.array(document["imaginary"], dtype=float)
        noisy = NoisyDemand(
            values=values,
            mechanism=MechanismFacts(**document["mechanism"]),
            simulation=bool(document["simulation"]),
            charge_id=document["charge"],
        )
        cost = document["private_cost"]
        private_cost = PrivateCost(**cost) if cost else None
    except OSError:
        raise InputError(
            f"{folder}: holds no earlier release ({path.name} is missing); name the folder of one"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: is not the draw of a release; name the folder of an earlier release") from None
    if len(noisy.values) != len(case.demand) or np.iscomplexobj(noisy.values) != case.demand.is_complex:
        raise InputError(f"{folder}: was made from another case; its load sites do not match")
    if not noisy.simulation:
        if ledger is None or noisy.charge_id is None:
            raise InputError(
                f"{folder}: reusing its draw needs the ledger that it was charged to; name it with --ledger"
            )
        ledger.find(noisy.charge_id)
    return Draw(noisy=noisy, private_cost=private_cost)
