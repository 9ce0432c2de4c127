"""Products of 4×4 blocks, and of blocks and vectors of 4, with each row in one vector register.

numba leaves loops of four to scalar code, which makes a factorisation three times as slow; so these few are handed to
the compiler as vectors. They take arrays of blocks (n, 4, 4) or of vectors (n, 4), in C order, each with the index of the
one meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LANES = 4
_ROW = ir.VectorType(ir.DoubleType(), _LANES)
# A product may be fused with the sum that it goes into.
_FUSED = ("contract",)


class _Rows:
    """The rows of the block, or of the one-row vector, at an index of an array."""

    def __init__(self, context: Any, builder: ir.IRBuilder, kind: types.Array, array: Any, index: Any) -> None:
        self._builder = builder
        size = cgutils.intp_t(_LANES ** (kind.ndim - 1))
        data = context.make_array(kind)(context, builder, array).data
        self._first = builder.gep(data, [builder.mul(index, size)])

    def _at(self, entry: int) -> Any:
        return self._builder.gep(self._first, [cgutils.intp_t(entry)])

    def _row_at(self, r: int) -> Any:
        return self._builder.bitcast(self._at(_LANES * r), _ROW.as_pointer())

    def load(self, r: int = 0) -> Any:
        return self._builder.load(self._row_at(r), align=8)

    def load_all(self) -> list[Any]:
        return [self.load(r) for r in range(_LANES)]

    def store(self, *rows: Any) -> None:
        """Store rows from the first on; all are known by then, so a result may be one of its own factors."""
        for r, row in enumerate(rows):
            self._builder.store(row, self._row_at(r), align=8)

    def spread_row(self, r: int = 0) -> list[Any]:
        """Each entry of row r in every lane of a vector of its own."""
        return [self._spread(r, c) for c in range(_LANES)]

    def spread_column(self, c: int) -> list[Any]:
        """Each entry of column c likewise."""
        return [self._spread(r, c) for r in range(_LANES)]

    def _spread(self, r: int, c: int) -> Any:
        builder, nothing = self._builder, ir.Constant(_ROW, ir.Undefined)
        one = builder.insert_element(nothing, builder.load(self._at(_LANES * r + c)), cgutils.int32_t(0))
        return _shuffle(builder, one, nothing, (0, 0, 0, 0))


def _shuffle(builder: ir.IRBuilder, first: Any, second: Any, lanes: tuple[int, int, int, int]) -> Any:
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(cgutils.int32_t, _LANES), list(lanes)))


def _sum_of_products(builder: ir.IRBuilder, factors: list[Any], rows: list[Any]) -> Any:
    total = builder.fmul(factors[0], rows[0], flags=_FUSED)
    for factor, row in zip(factors[1:], rows[1:], strict=True):
        total = builder.fadd(total, builder.fmul(factor, row, flags=_FUSED), flags=_FUSED)
    return total


def _less_products(builder: ir.IRBuilder, total: Any, factors: list[Any], rows: list[Any]) -> Any:
    for factor, row in zip(factors, rows, strict=True):
        total = builder.fsub(total, builder.fmul(factor, row, flags=_FUSED), flags=_FUSED)
    return total


def _row_sums(builder: ir.IRBuilder, rows: list[Any]) -> Any:
    """One vector with the sum of each of four rows."""
    pairs = []
    for first, second in ((rows[0], rows[1]), (rows[2], rows[3])):
        even, odd = _shuffle(builder, first, second, (0, 4, 2, 6)), _shuffle(builder, first, second, (1, 5, 3, 7))
        pairs.append(builder.fadd(even, odd))
    top, bottom = pairs
    return builder.fadd(_shuffle(builder, top, bottom, (0, 1, 4, 5)), _shuffle(builder, top, bottom, (2, 3, 6, 7)))


def _in_place(fill: Callable[[ir.IRBuilder, _Rows, _Rows, _Rows], None]) -> Any:
    """Compile ``fill(builder, result, left, right)`` as a function of three arrays, each followed by an index."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> Any:
        arrays = zip(signature.args[::2], values[::2], values[1::2], strict=True)
        fill(builder, *(_Rows(context, builder, kind, array, index) for kind, array, index in arrays))
        return context.get_dummy_value()

    def typed(context: Any, result: Any, i: Any, left: Any, a: Any, right: Any, b: Any) -> Any:
        arrays = result, left, right
        if any(array.layout != "C" or array.dtype != types.float64 for array in arrays):
            return None
        arrays_and_indices = [kind for array in arrays for kind in (array, types.intp)]
        return types.void(*arrays_and_indices), generate

    typed.__name__, typed.__doc__ = fill.__name__, fill.__doc__
    return intrinsic(typed)


@_in_place
def multiply(builder: ir.IRBuilder, result: _Rows, left: _Rows, right: _Rows) -> None:
    """result = left · right."""
    rows = right.load_all()
    result.store(*[_sum_of_products(builder, left.spread_row(r), rows) for r in range(_LANES)])


@_in_place
def subtract_transposed_product(builder: ir.IRBuilder, result: _Rows, left: _Rows, right: _Rows) -> None:
    """result −= leftᵀ · right."""
    rows = right.load_all()
    result.store(*[_less_products(builder, result.load(r), left.spread_column(r), rows) for r in range(_LANES)])


@_in_place
def subtract_transposed_times(builder: ir.IRBuilder, result: _Rows, block: _Rows, vector: _Rows) -> None:
    """result −= blockᵀ · vector."""
    result.store(_less_products(builder, result.load(), vector.spread_row(), block.load_all()))


@_in_place
def times_symmetric(builder: ir.IRBuilder, result: _Rows, block: _Rows, vector: _Rows) -> None:
    """result = block · vector, for a symmetric block."""
    result.store(_sum_of_products(builder, vector.spread_row(), block.load_all()))


@_in_place
def subtract_times(builder: ir.IRBuilder, result: _Rows, block: _Rows, vector: _Rows) -> None:
    """result −= block · vector."""
    lanes = vector.load()
    products = [builder.fmul(row, lanes) for row in block.load_all()]
    result.store(builder.fsub(result.load(), _row_sums(builder, products)))
