"""Comparison of our means with the paper's, in standard errors of both samples, allowing for the paper's rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from gridveil.study.paper_numbers import RUNS, PublishedNumber

AGREEMENT = 3.0  # standard errors


class Verdict(Enum):
    """Comparison of a cell with the paper's number."""

    AGREES = "agrees"
    BETTER = "better"
    DIFFERS = "differs"
    NO_NUMBER = "not in the paper"
    TOO_FEW = "too few runs"


class Goal(Enum):
    """What makes a number better: a smaller one, a smaller violation of β, or nothing (then it agrees or differs)."""

    SMALLER = "smaller"
    IN_BAND = "in band"
    NONE = "none"


class SpreadModel(Enum):
    """The paper prints no spread: it is taken to be ours, in absolute terms or relative to the mean."""

    SAME = "same"
    PROPORTIONAL = "proportional"


@dataclass(frozen=True, kw_only=True)
class PaperComparison:
    """A verdict, and the difference (ours − paper's) in combined standard errors; NaN where nothing was compared."""

    verdict: Verdict
    standard_errors: float


def compare(
    values: NDArray[np.float64],
    failed: NDArray[np.bool_],
    number: PublishedNumber | None,
    *,
    goal: Goal,
    spread: SpreadModel,
    band: float = math.inf,
) -> PaperComparison:
    """Compare the mean of our runs (shape n, NaN where a run has no value) with the paper's.

    Better has to hold even if every failed run had been as bad as our worst run, or the paper's mean if that is worse:
    those that failed may be the hard ones. ``band`` is β in the unit of the values.
    """
    found = values[np.isfinite(values)]
    if number is None:
        return PaperComparison(verdict=Verdict.NO_NUMBER, standard_errors=math.nan)
    if len(found) < 2:
        return PaperComparison(verdict=Verdict.TOO_FEW, standard_errors=math.nan)
    mean, error = float(found.mean()), _combined_error(found, number, spread)
    worst = max([*found, number.value], key=lambda value: _loss(value, goal, band))
    cautious = np.where(failed | ~np.isfinite(values), worst, values)
    gain = _loss(number.value, goal, band) - _loss(float(cautious.mean()), goal, band)
    if abs(mean - number.value) <= AGREEMENT * error:
        verdict = Verdict.AGREES
    elif gain > AGREEMENT * error:
        verdict = Verdict.BETTER
    else:
        verdict = Verdict.DIFFERS
    return PaperComparison(verdict=verdict, standard_errors=(mean - number.value) / error)


def _combined_error(values: NDArray[np.float64], number: PublishedNumber, spread: SpreadModel) -> float:
    """Standard error of the difference of both means: our sample's, the paper's, and the paper's rounding."""
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    scale = abs(number.value / mean) if spread is SpreadModel.PROPORTIONAL and mean else 1.0
    return math.hypot(deviation / math.sqrt(len(values)), scale * deviation / math.sqrt(RUNS), number.rounding)


def _loss(value: float, goal: Goal, band: float) -> float:
    """Loss of a value: smaller is better."""
    match goal:
        case Goal.SMALLER:
            return value
        case Goal.IN_BAND:
            return max(0.0, abs(value) - band)
        case Goal.NONE:
            return 0.0
