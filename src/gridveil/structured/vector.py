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

    def load(self, r: int) -> Any:
        return self._builder.load(self._row_at(r), align=8)

    def store(self, r: int, value: Any) -> None:
        self._builder.store(value, self._row_at(r), align=8)

    def spread(self, r: int, c: int) -> Any:
        """Entry (r, c) in every lane."""
        builder, nothing = self._builder, ir.Constant(_ROW, ir.Undefined)
        one = builder.insert_element(nothing, builder.load(self._at(_LANES * r + c)), cgutils.int32_t(0))
        return _shuffle(builder, one, nothing, (0, 0, 0, 0))


def _shuffle(builder: ir.IRBuilder, first: Any, second: Any, lanes: tuple[int, int, int, int]) -> Any:
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(cgutils.int32_t, _LANES), list(lanes)))


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
    rows = [right.load(k) for k in range(_LANES)]
    sums = []
    for r in range(_LANES):
        total = builder.fmul(left.spread(r, 0), rows[0], flags=_FUSED)
        for k in range(1, _LANES):
            total = builder.fadd(total, builder.fmul(left.spread(r, k), rows[k], flags=_FUSED), flags=_FUSED)
        sums.append(total)
    for r in range(_LANES):
        result.store(r, sums[r])


@_in_place
def subtract_transposed_product(builder: ir.IRBuilder, result: _Rows, left: _Rows, right: _Rows) -> None:
    """result −= leftᵀ · right."""
    rows = [right.load(k) for k in range(_LANES)]
    differences = []
    for r in range(_LANES):
        total = result.load(r)
        for k in range(_LANES):
            total = builder.fsub(total, builder.fmul(left.spread(k, r), rows[k], flags=_FUSED), flags=_FUSED)
        differences.append(total)
    for r in range(_LANES):
        result.store(r, differences[r])


@_in_place
def subtract_transposed_times(builder: ir.IRBuilder, result: _Rows, block: _Rows, vector: _Rows) -> None:
    """result −= blockᵀ · vector."""
    total = result.load(0)
    for k in range(_LANES):
        total = builder.fsub(total, builder.fmul(vector.spread(0, k), block.load(k), flags=_FUSED), flags=_FUSED)
    result.store(0, total)


@_in_place
def times_symmetric(builder: ir.IRBuilder, result: _Rows, block: _Rows, vector: _Rows) -> None:
    """result = block · vector, for a symmetric block."""
    total = builder.fmul(vector.spread(0, 0), block.load(0), flags=_FUSED)
    for k in range(1, _LANES):
        total = builder.fadd(total, builder.fmul(vector.spread(0, k), block.load(k), flags=_FUSED), flags=_FUSED)
    result.store(0, total)


@_in_place
def subtract_times(builder: ir.IRBuilder, result: _Rows, block: _Rows, vector: _Rows) -> None:
    """result −= block · vector."""
    lanes = vector.load(0)
    products = [builder.fmul(block.load(r), lanes) for r in range(_LANES)]
    result.store(0, builder.fsub(result.load(0), _row_sums(builder, products)))
