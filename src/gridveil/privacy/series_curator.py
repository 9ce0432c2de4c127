"""The curator of a time series: holds the true values of every hour, and what may be computed from them."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField, SecretValues
from gridveil.core.text import plural
from gridveil.privacy.curator import Curator
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.mechanisms.profile import ProfileMechanism
from gridveil.sectors.case import Case

Table = NDArray[Any]
DAY = 24


@dataclass(frozen=True, kw_only=True)
class SeriesErrors:
    """How far a series is from the truth, as shares of the true mean size of a value. Never to be published.

    ``hourly``: root mean square over hours and participants. ``daily``: of the means over 24 hours (or the whole of a
    shorter series), which is the energy of a day. ``peak``: of the largest active value of each participant.
    ``total``: of the sum over participants, hour by hour, as a share of its own mean. NaN where all true values are zero.
    """

    hourly: float
    daily: float
    peak: float
    total: float


class SeriesCurator:
    """The true values of a series of hours on one network."""

    def __init__(self, case: Case, hours: Sequence[SecretValues]) -> None:
        for hour, values in enumerate(hours):
            if len(values) != len(case.field) or values.is_complex != case.field.is_complex:
                raise InputError(
                    f"hour {hour}: its values do not match the {plural(case.field.participant)} of {case.name}; give one "
                    "value for each"
                )
        self.__case, self.__hours = case, tuple(hours)

    @property
    def field(self) -> SecretField:
        """What is hidden. Public."""
        return self.__case.field

    def __len__(self) -> int:
        return len(self.__hours)

    def hour(self, hour: int) -> Curator:
        """The curator of one hour."""
        return Curator(self.__case.with_values(self.__hours[hour]))

    def draw(self, mechanism: Mechanism | ProfileMechanism) -> Table:
        """Noise on every value by itself, or on every profile as a whole: (hours, participants). The caller has paid."""
        truth = self._truth()
        if isinstance(mechanism, ProfileMechanism):
            return mechanism.draw(truth)
        return np.asarray(mechanism.draw(truth.ravel())).reshape(truth.shape)

    def errors(self, values: Table) -> SeriesErrors:
        """Measure a series against the truth; hours without a value (NaN) are left out. Never to be published."""
        kept = np.isfinite(values).all(axis=1)
        return series_errors(self._truth()[kept], values[kept])

    def digest(self, key: bytes) -> str:
        """Keyed digest of all hours: binds stored draws to their data, and tells nothing without the key."""
        found = hmac.new(key, digestmod=hashlib.sha256)
        for hour in range(len(self)):
            found.update(self.hour(hour).digest(key).encode())
        return found.hexdigest()

    def _truth(self) -> Table:
        return np.stack([hour.reveal() for hour in self.__hours])


def series_errors(truth: Table, values: Table) -> SeriesErrors:
    """Compare two series, shape (hours, participants)."""
    size = float(np.mean(np.abs(truth)))
    days = max(len(truth) // DAY, 1)
    used = days * DAY if len(truth) >= DAY else len(truth)
    error = values - truth
    daily = error[:used].reshape(days, -1, truth.shape[1]).mean(axis=1)
    peak = values.real.max(axis=0) - truth.real.max(axis=0)
    total, whole = error.sum(axis=1), float(np.mean(np.abs(truth.sum(axis=1))))
    return SeriesErrors(
        hourly=_root_mean_square(error, size),
        daily=_root_mean_square(daily, size),
        peak=_root_mean_square(peak, size),
        total=_root_mean_square(total, whole),
    )


def _root_mean_square(values: Table, size: float) -> float:
    """As a share of a size; NaN without one."""
    return float(np.sqrt(np.mean(np.abs(values) ** 2))) / size if size > 0 else math.nan
