"""The numbers in the paper's Tables I–VI, as printed, for comparison. Each is an average."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

RUNS = 50  # each of the paper's averages is over this many runs
EPSILON = 1.0  # of all its runs
FILES = ("times", "costs", "distances")
SOURCE = (
    "T. W. K. Mak, F. Fioretto and P. Van Hentenryck, Bilevel Optimization for Differentially Private Optimization in "
    "Energy Systems, Tables I–VI"
)


@dataclass(frozen=True, kw_only=True)
class PublishedNumber:
    """A number as the paper prints it."""

    value: float
    decimals: int

    @property
    def text(self) -> str:
        """The number with its printed decimals; a printed −0.0 is 0.0."""
        return f"{self.value + 0.0:.{self.decimals}f}"

    @property
    def rounding(self) -> float:
        """Standard deviation of what its rounding took away (uniform over one unit of the last decimal)."""
        return float(10.0**-self.decimals / 12**0.5)


Key = tuple[str, str, str, str, str]


@cache
def _numbers() -> dict[Key, PublishedNumber]:
    """(table, network, method, setting, quantity) → number; a setting is ``alpha=1`` or ``beta=0.01``."""
    found: dict[Key, PublishedNumber] = {}
    for name in FILES:
        text = (files("gridveil.study") / "published" / f"{name}.csv").read_text(encoding="utf-8")
        for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
            key = (row["table"], row["network"], row["method"], row["setting"], row["quantity"])
            decimals = len(row["value"].partition(".")[2])
            found[key] = PublishedNumber(value=float(row["value"]), decimals=decimals)
    return found


def published_number(table: str, network: str, method: str, setting: str, quantity: str) -> PublishedNumber | None:
    """Look up a number in the paper; None where it prints none."""
    return _numbers().get((table, network, method, setting, quantity))


def published_networks(table: str) -> list[str]:
    """List the networks of one of the paper's tables, in its order."""
    return list(dict.fromkeys(key[1] for key in _numbers() if key[0] == table))
