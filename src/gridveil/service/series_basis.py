"""The public basis of profiles: by name from the calendar, from a public table, or chosen from public data."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridveil.core.choices import Protects
from gridveil.core.errors import InputError
from gridveil.core.quantity import parse_distance
from gridveil.core.secret import SecretField
from gridveil.privacy.mechanisms import SHARED_SHAPE, profile_mechanism_for
from gridveil.privacy.mechanisms.basis import Basis, block_basis, hourly_basis
from gridveil.privacy.mechanisms.shared_shape import SharedShape
from gridveil.sectors.series_table import SeriesLayout, read_table
from gridveil.service.draw import LOADING
from gridveil.service.prepare import Prepared
from gridveil.service.series_settings import SeriesSettings

if TYPE_CHECKING:
    import pandas as pd

HOURS, LEVEL, PARTS, WEEK = "hours", "level", "parts", "week"
BASES = (HOURS, LEVEL, PARTS, WEEK)
PART_MINUTES, DAY_MINUTES = 4 * 60, 24 * 60
# What a basis misses of a profile, as a share of its mean: as measured on the profiles of bench/series_mechanisms.py.
MISFIT = {LEVEL: 0.29, PARTS: 0.16, WEEK: 0.14}
SHARED_MISFIT = 0.19


def plan_series(settings: SeriesSettings, layout: SeriesLayout, prepared: Prepared) -> tuple[SeriesSettings, Basis]:
    """The noise and the basis that the settings name; for profiles without them, those of the least expected error.

    The choice is made from public data alone: ε, δ, α, the timestamps and the supply of the network.
    """
    if settings.protects is Protects.HOUR:
        return settings, hourly_basis(len(layout.timestamps))
    if settings.basis is not None:
        return settings, named_basis(settings.basis, layout)
    if settings.mechanism == SHARED_SHAPE:
        return settings, named_basis(WEEK, layout)
    supply = prepared.model.supply
    plans = [(settings, named_basis(name, layout)) for name in MISFIT]
    if settings.mechanism is None and settings.delta is None:
        plans.append((replace(settings, mechanism=SHARED_SHAPE), named_basis(WEEK, layout)))
    if supply is None:
        return plans[-1]
    size = LOADING * supply / len(prepared.public.field)
    return min(plans, key=lambda plan: _expected_error(plan[0], plan[1], size, prepared.public.field))


def _expected_error(settings: SeriesSettings, basis: Basis, size: float, field: SecretField) -> float:
    """Noise and misfit of an hour, as a share of the size of a typical value."""
    mechanism = profile_mechanism_for(
        field,
        epsilon=settings.release.exact_epsilon,
        alpha=parse_distance(settings.release.alpha, field),
        basis=basis,
        name=settings.mechanism,
        delta=settings.delta,
    )
    noise = math.sqrt(mechanism.expected_square) / size
    if isinstance(mechanism, SharedShape):
        return math.hypot(noise, math.sqrt(mechanism.sum_square) / (size * len(field)), SHARED_MISFIT)
    return math.hypot(noise, MISFIT[basis.name])


def named_basis(words: str, layout: SeriesLayout) -> Basis:
    """A basis by its name: every hour, one level, or the calendar; else one level with the shape of a public table.

    Of the calendar: the hour of the day (``week``), or its four-hour part (``parts``), on workdays and on weekends.
    """
    hours = len(layout.timestamps)
    if words == HOURS:
        return hourly_basis(hours)
    if words == LEVEL:
        return block_basis(words, np.zeros(hours))
    if words not in BASES:
        return block_basis(f"level, shape of {Path(words).name}", np.zeros(hours), _public_shape(words, layout))
    times = _dates(layout.timestamps)
    minutes = np.asarray(times.hour * 60 + times.minute) + DAY_MINUTES * np.asarray(times.dayofweek >= 5)
    return block_basis(words, minutes // PART_MINUTES if words == PARTS else minutes)


def _dates(timestamps: pd.Index) -> pd.DatetimeIndex:
    import pandas as pd

    try:
        return pd.DatetimeIndex(pd.to_datetime(timestamps))
    except (ValueError, TypeError):
        raise InputError(
            "the timestamps of the series are no dates, which this basis needs; use --basis hours or level"
        ) from None


def _public_shape(path: str, layout: SeriesLayout) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The last column of a public table with one row for each timestamp of the series."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such basis; choose one of {', '.join(BASES)}, or a public table of one shape")
    frame = read_table(Path(path))
    if layout.time_name not in frame.columns or list(frame[layout.time_name]) != list(layout.timestamps):
        raise InputError(
            f"{path}: a public shape needs the column {layout.time_name!r} with the timestamps of the series, in their order"
        )
    try:
        return np.asarray(frame.iloc[:, -1].to_numpy(dtype=float))
    except (ValueError, TypeError):
        raise InputError(f"{path}: the last column of a public shape must hold numbers; mend the table") from None
