"""Arithmetic of MATPOWER files: numbers, names, blocks of tables, + − * / ^ and elementary functions. Nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = NDArray[np.float64]

SECRET_COLUMNS = (3, 4)
"""PD and QD of the table of buses."""

LONGEST_FORMULA = 400  # characters; what people write is shorter, and each bracket costs a level of recursion
_TOKEN = re.compile(r"\s*(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[A-Za-z]\w*(?:\.[A-Za-z]\w*)?|\.[*/^]|\S)")
_FUNCTIONS: Mapping[str, Callable[[Value], Value]] = {
    name: getattr(np, name) for name in ("sin", "cos", "tan", "sqrt", "abs", "exp")
} | {"acos": np.arccos, "asin": np.arcsin, "atan": np.arctan}


class NotArithmetic(Exception):
    """A statement is more than the arithmetic that is evaluated; carries no text, as that may contain a demand."""


class Expression:
    """One right-hand side. It remembers whether it has read demands."""

    def __init__(self, formula: str, names: Mapping[str, Value], table: Callable[[str], Value]) -> None:
        if len(formula) > LONGEST_FORMULA:
            raise NotArithmetic
        self._tokens = _TOKEN.findall(formula)
        self._names = names
        self._table = table
        self._secret = False

    def value(self) -> Value:
        """Evaluate the whole formula."""
        with np.errstate(all="ignore"):  # what is not finite is refused when the case is checked, with its row
            value = self._sum()
        if self._tokens:
            raise NotArithmetic
        return value

    def refuse_secret(self) -> None:
        """Refuse to store what depends on demands elsewhere than in their own columns, where it is protected."""
        if self._secret:
            raise NotArithmetic

    def assign(self, index: str, table: Value, value: Value, *, secret_allowed: bool) -> None:
        """Store a value in a block of a table, as ``table(index) = value`` does."""
        rows, columns = self._block(index, table)
        if not (secret_allowed and set(columns + 1) <= set(SECRET_COLUMNS)):
            self.refuse_secret()
        if value.size > 1 and value.shape != (len(rows), len(columns)):
            raise NotArithmetic
        table[np.ix_(rows, columns)] = value

    def _sum(self) -> Value:
        value = self._product()
        while self._next() in ("+", "-"):
            value = self._product_of(self._take(), value)
        return value

    def _product_of(self, sign: str, value: Value) -> Value:
        other = self._product()
        _refuse_shapes(value, other)
        return value + other if sign == "+" else value - other

    def _product(self) -> Value:
        value = self._signed()
        while (mark := self._next()) in ("*", "/", ".*", "./"):
            self._take()
            other = self._signed()
            # Of two blocks, * and / would be operations on matrices.
            if mark in ("*", "/") and (other.size > 1 if mark == "/" else min(value.size, other.size) > 1):
                raise NotArithmetic
            _refuse_shapes(value, other)
            value = value * other if mark.endswith("*") else value / other
        return value

    def _signed(self) -> Value:
        if self._next() in ("+", "-"):
            sign = self._take()
            return self._signed() if sign == "+" else -self._signed()
        return self._power()

    def _power(self) -> Value:
        value = self._atom()
        while (mark := self._next()) in ("^", ".^"):
            self._take()
            exponent = self._atom()
            if exponent.size > 1 or (mark == "^" and value.size > 1):
                raise NotArithmetic
            value = np.power(value, exponent)
        return value

    def _atom(self) -> Value:
        token = self._take()
        if token == "(":
            value = self._sum()
            self._expect(")")
            return value
        if re.match(r"\.?\d", token):
            return np.array(float(token))
        if token == "pi":
            return np.array(np.pi)
        if token in _FUNCTIONS and self._next() == "(":
            self._take()
            value = _FUNCTIONS[token](self._sum())
            self._expect(")")
            return value
        if "." in token:
            return self._part_of(token.partition(".")[2])
        if token in self._names and self._next() != "(":
            return self._names[token]
        raise NotArithmetic

    def _part_of(self, name: str) -> Value:
        table = self._table(name)
        if self._next() != "(":
            if table.size > 1:
                raise NotArithmetic
            return table.reshape(())
        end = self._tokens.index(")") if ")" in self._tokens else len(self._tokens)
        index = " ".join(self._tokens[1:end])
        del self._tokens[: end + 1]
        rows, columns = self._block(index, table)
        self._secret |= name == "bus" and bool(set(columns + 1) & set(SECRET_COLUMNS))
        block = table[np.ix_(rows, columns)].copy()
        return block.reshape(()) if block.size == 1 else block

    def _block(self, index: str, table: Value) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        parts = re.fullmatch(r"([^,\[\]]*),\s*(\[[^\]]*\]|[^\[\],]*)", index.strip())
        if parts is None:
            raise NotArithmetic
        sizes = table.shape
        return tuple(self._places(part, size) for part, size in zip(parts.groups(), sizes, strict=True))  # type: ignore[return-value]

    def _places(self, words: str, size: int) -> NDArray[np.int64]:
        words = words.strip()
        if words == ":":
            return np.arange(size)
        names = re.split(r"[\s,]+", words.strip("[] "))
        numbers = [self._names[name] if name in self._names else _whole(name) for name in names]
        places = np.array([float(number) for number in numbers]) - 1
        if not np.all((places >= 0) & (places < size) & (places == np.floor(places))):
            raise NotArithmetic
        return places.astype(np.int64)

    def _next(self) -> str:
        return str(self._tokens[0]) if self._tokens else ""

    def _take(self) -> str:
        if not self._tokens:
            raise NotArithmetic
        return str(self._tokens.pop(0))

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise NotArithmetic


def _whole(word: str) -> Any:
    if not word.isdigit():
        raise NotArithmetic
    return np.array(float(word))


def _refuse_shapes(one: Value, other: Value) -> None:
    if one.size > 1 and other.size > 1 and one.shape != other.shape:
        raise NotArithmetic
