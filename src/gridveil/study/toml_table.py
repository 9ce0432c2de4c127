"""Validated reading of TOML tables: an error is one line that names the file, the table and the key."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from gridveil.core.errors import InputError

Choice = TypeVar("Choice", bound=Enum)
Value = TypeVar("Value")


def read_toml(path: Path) -> Mapping[str, Any]:
    """Read a file; what cannot be read or is not TOML is an InputError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    except RecursionError:
        raise InputError(f"{path}: nests too deep for a TOML file; correct it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not a TOML file ({str(error).splitlines()[0]}); correct it") from None


class TomlTable:
    """One table; ``where`` names it in messages."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where
        self._known: list[str] = []

    def wrong(self, problem: str) -> InputError:
        """Create an error that names this table."""
        return InputError(f"{self._where}: {problem}")

    def has(self, key: str) -> bool:
        """Whether the key is stated; it then counts as known."""
        self._known.append(key)
        return key in self._values

    def _get(self, key: str) -> Any:
        if not self.has(key):
            raise self.wrong(f"{key} is missing; add it")
        return self._values[key]

    def text(self, key: str) -> str:
        """Read one non-empty line of printable text."""
        value = self._get(key)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.wrong(f"{key} must be one line of text in quotes")
        return value

    def positive(self, key: str) -> float:
        """Read a positive, finite number."""
        return positive(self, key, self._get(key))

    def count(self, key: str, most: int) -> int:
        """Read an integer from 1 to ``most``."""
        value = self._get(key)
        if not _is_whole(value) or not 1 <= value <= most:
            raise self.wrong(f"{key} must be a whole number from 1 to {most}")
        return int(value)

    def flag(self, key: str) -> bool:
        """Read true or false."""
        value = self._get(key)
        if not isinstance(value, bool):
            raise self.wrong(f"{key} must be true or false, not {value!r}")
        return value

    def choice(self, key: str, choices: type[Choice]) -> Choice:
        """Read a value of an enumeration."""
        return choice(self, key, self._get(key), choices)

    def each(self, key: str, read: Callable[[TomlTable, str, Any], Value]) -> tuple[Value, ...]:
        """Read a non-empty list value by value; duplicates are dropped."""
        values = self._get(key)
        if not isinstance(values, list) or not values:
            raise self.wrong(f"{key} must be a list that is not empty, such as [...]")
        return tuple(dict.fromkeys(read(self, key, value) for value in values))

    def table(self, key: str) -> TomlTable:
        """Read the table under a key."""
        value = self._get(key)
        if not isinstance(value, dict):
            raise self.wrong(f"{key} must be a table, written [{key}]")
        return TomlTable(value, f"{self._where}: {key}")

    def tables(self, key: str) -> list[TomlTable]:
        """Read a non-empty list of tables."""
        values = self._get(key)
        if not isinstance(values, list) or not values or not all(isinstance(value, dict) for value in values):
            raise self.wrong(f"{key} must be one or more tables, each written [[{key}]]")
        return [TomlTable(value, f"{self._where}: {key} {number}") for number, value in enumerate(values, start=1)]

    def is_list(self, key: str) -> bool:
        """Whether the value is a list."""
        return isinstance(self._values.get(key), list)

    def finish(self) -> None:
        """Refuse unknown keys."""
        for key in self._values:
            if key not in self._known:
                raise self.wrong(f"unknown key {key!r}; known are {', '.join(dict.fromkeys(self._known))}")


def positive(table: TomlTable, key: str, value: object) -> float:
    """Read a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise table.wrong(f"{key} must be a positive number, not {value!r}")
    return float(value)


def seed(table: TomlTable, key: str, value: object) -> int:
    """Read a seed: a whole number from 0 on."""
    if not isinstance(value, int) or not _is_whole(value) or value < 0:
        raise table.wrong(f"{key} must be whole numbers from 0 on, not {value!r}")
    return value


def choice(table: TomlTable, key: str, value: object, choices: type[Choice]) -> Choice:
    """Read one of the values of an enumeration."""
    for option in choices:
        if option.value == value:
            return option
    raise table.wrong(f"{key} must be {' or '.join(repr(option.value) for option in choices)}, not {value!r}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
