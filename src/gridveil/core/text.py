"""Words for numbers: significant digits, thin spaces between thousands, a true minus sign; plurals; lists of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable

THIN_SPACE, MINUS = "\u2009", "\u2212"
IRREGULAR = {"datum": "data"}


def plural(word: str) -> str:
    """Write the plural of a noun: demands, capacities, branches, data."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word.endswith(("s", "x", "ch", "sh")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"


def number(value: float | None, digits: int = 4) -> str:
    """Format a number: significant digits, thin spaces between thousands, a true minus sign."""
    if value is None or not math.isfinite(value):
        return "–" if value is None or math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e9:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{_tidy(mantissa)}·10^{int(exponent)}".replace("-", MINUS)
    return _tidy(fixed(value, digits - 1 - math.floor(math.log10(size)) if size else 0))


def fixed(value: float, decimals: int) -> str:
    """Format a finite number with some decimals (none if negative), thin spaces between thousands, a true minus sign."""
    text = f"{value:,.{max(decimals, 0)}f}"
    if not text.strip("-0,."):
        text = text.lstrip("-")
    return text.replace(",", THIN_SPACE).replace("-", MINUS)


def percent(value: float | None, digits: int = 3) -> str:
    """Format a share as a percentage."""
    return "–" if value is None or not math.isfinite(value) else f"{number(100 * value, digits)}{THIN_SPACE}%"


def limits_words(low: float, high: float) -> str:
    """Format a range on one line."""
    return f"{number(low)} to {number(high)}".replace(" ", "\u00a0")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """End of a message: the known word that is nearest to a wrong one; empty where none is near."""
    import difflib  # only a wrong word needs it

    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[near[0]]}?" if near else ""


def ranges(numbers: Iterable[int]) -> str:
    """List whole numbers in growing order, runs as ranges: ``1–3, 7``."""
    runs: list[list[int]] = []
    for value in sorted(set(numbers)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def _tidy(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def odds_above(epsilon: float) -> str:
    """e^ε in three digits, never less."""
    value = math.exp(epsilon)
    scale = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / scale - 1e-9) * scale:.6g}"
