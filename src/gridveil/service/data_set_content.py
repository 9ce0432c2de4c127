"""What a data set is made from, as a hash: the same folder, or the same file name, may hold something else the next time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def content_hash(*parts: Any) -> str:
    """SHA-256 of data classes, arrays and plain values, by content; numbers count to twelve digits.

    The last digits of what is computed while a file is read, such as turns ratios, differ between processors.
    """
    total = hashlib.sha256()
    for text in _texts(parts):
        total.update(f"{text}\n".encode())
    return total.hexdigest()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray):
        yield f"{value.shape}"
        # Adding zero makes no difference between 0 and −0.
        plain = np.ascontiguousarray(value, complex).reshape(-1).view(float) + 0.0
        yield ",".join(map("{:.11e}".format, plain.tolist()))
    elif is_dataclass(value):
        for each in fields(value):
            yield each.name
            yield from _texts(getattr(value, each.name))
    elif isinstance(value, tuple):
        yield f"{len(value)}"
        for each in value:
            yield from _texts(each)
    else:
        yield f"{value}"
