"""The one container that true demands may live in."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray


class SecretDemand:
    """True demands of the load sites: complex (P + jQ) for power, real for gas, shape (n_sites,).

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
        """Give the true values (read-only). Only curator-side code may call this."""
        return self.__values

    @property
    def is_complex(self) -> bool:
        """Whether the demands are complex power rather than one real quantity."""
        return np.iscomplexobj(self.__values)

    def scaled(self, factor: float) -> SecretDemand:
        """Give the same demands in another unit, without revealing them."""
        return SecretDemand(self.__values * factor)

    def first_not_finite(self) -> int | None:
        """Give the position of the first NaN or infinite value, or None. The value itself is not told."""
        bad = np.flatnonzero(~np.isfinite(self.__values))
        return int(bad[0]) if bad.size else None

    def __len__(self) -> int:
        return len(self.__values)

    def __repr__(self) -> str:
        return f"SecretDemand({len(self)} sites, values hidden)"

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
