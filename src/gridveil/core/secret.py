"""Secrets: what is hidden about each participant (public), and the one container that true values may live in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class SecretField:
    """What is hidden about each participant, and in which unit. Everything here is public.

    One value per participant, in the order of ``places``: a real number (``dimension`` 1) or a complex one (2), per unit.
    """

    name: str
    """One word, as users write it: ``demand``."""
    meaning: str
    """What one value is, in words for the card: ``active and reactive power of each load``."""
    participant: str
    """Who owns one value: ``load site``."""
    dimension: int
    unit: str
    """Physical unit of the size of a value: ``MVA``, ``kg/s``."""
    base: float
    """How many of that unit are one per unit."""
    places: tuple[str, ...]
    """Bus, junction or other place of each participant, as the file names it."""
    parts: tuple[SecretPart, ...] = ()
    """Where several quantities are hidden together: each of them, in the order of ``places``. Empty for one alone."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def is_complex(self) -> bool:
        """Whether values are complex."""
        return self.dimension == 2

    @property
    def unit_words(self) -> str:
        """What values and α are measured in."""
        return f"per unit of {self.base:g} {self.unit}"


@dataclass(frozen=True, kw_only=True)
class SecretPart:
    """One of several quantities that are hidden together: a run of the participants of the whole, from ``start`` on.

    ``alpha`` (exact) and the limits are in the per-unit values of ``field``. Everything here is public, and no limit may
    depend on a true value: released values are kept within them.
    """

    field: SecretField
    alpha: Fraction
    share: Fraction
    """Of the ε that is spent on values."""
    start: int
    lower: complex
    upper: complex

    @property
    def run(self) -> slice:
        """Its place among all values."""
        return slice(self.start, self.start + len(self.field))

    def within_limits(self, values: NDArray[Any]) -> NDArray[Any]:
        """Move values into the public limits, real and imaginary parts each for themselves."""
        real = np.clip(values.real, self.lower.real, self.upper.real)
        if not self.field.is_complex:
            return np.asarray(real)
        return np.asarray(real + 1j * np.clip(values.imag, self.lower.imag, self.upper.imag))


class SecretValues:
    """True values of all participants: complex (P + jQ for a power demand) or real, per unit, shape (n,).

    Nothing implicit shows the values: not repr, str, format, iteration, comparison, numpy conversion, pickling or copying.
    ``reveal`` is the only way out, and a test lists the modules that may call it.
    """

    __slots__ = ("__values",)

    def __init__(self, values: NDArray[Any]) -> None:
        array = np.array(values, dtype=complex if np.iscomplexobj(values) else float)
        if array.ndim != 1:
            raise ValueError("demands must be a one-dimensional array")
        array.setflags(write=False)
        self.__values = array

    def reveal(self) -> NDArray[Any]:
        """Return the true values (read-only). Only curator-side code may call this."""
        return self.__values

    @property
    def is_complex(self) -> bool:
        """Whether the demands are complex power rather than one real quantity."""
        return np.iscomplexobj(self.__values)

    def scaled(self, factor: float) -> SecretValues:
        """The same values in another unit, without revealing them."""
        return SecretValues(self.__values * factor)

    def followed_by(self, *others: SecretValues) -> SecretValues:
        """These values and then those of others, complex, without revealing them."""
        arrays = [values.__values for values in (self, *others)]
        return SecretValues(np.concatenate(arrays).astype(complex))

    def at(self, positions: Sequence[int]) -> SecretValues:
        """The values at these positions, and zero where one is negative, without revealing them."""
        chosen = np.asarray(positions, dtype=np.int64)
        return SecretValues(np.where(chosen < 0, 0, np.append(self.__values, 0)[chosen]))

    def first_not_finite(self) -> int | None:
        """Find the position of the first NaN or infinite value, or None, without revealing the value."""
        bad = np.flatnonzero(~np.isfinite(self.__values))
        return int(bad[0]) if bad.size else None

    def __len__(self) -> int:
        return len(self.__values)

    def __repr__(self) -> str:
        return f"SecretValues({len(self)} sites, values hidden)"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("true demands are secret: they cannot be copied, pickled, compared or converted")

    __array__ = _refuse
    __reduce_ex__ = _refuse
    __reduce__ = _refuse
    __copy__ = _refuse
    __deepcopy__ = _refuse
    __eq__ = _refuse
    __iter__ = _refuse
    __getitem__ = _refuse
    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False, kw_only=True)
class Secret:
    """A field and its true values."""

    field: SecretField
    values: SecretValues

    def __post_init__(self) -> None:
        if len(self.values) != len(self.field) or self.values.is_complex != self.field.is_complex:
            raise ValueError(
                f"the values do not match the {len(self.field)} participants of the field {self.field.name}"
            )
