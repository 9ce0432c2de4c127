"""Arrays that behave like CuPy's where that differs from NumPy, and an engine that keeps everything in them.

CuPy refuses to mix its arrays with NumPy's, or to convert one into the other without being asked; and a largest entry of an
array without entries is an error, even where nothing would be left to compute. Code that runs on these arrays runs on a GPU.
"""

from __future__ import annotations

import operator
from dataclasses import fields, replace

import numpy as np

from gridveil.solvers.batch.engine import converted
from gridveil.solvers.batch.engine_native import NativeEngine

CONVERSIONS = ("asarray", "ascontiguousarray", "array")


class DeviceArray:
    """An array in the memory of a device that is none."""

    __array_ufunc__ = None  # operators of NumPy's arrays and numbers leave the work to those below

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, *_args, **_options):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index):
        return wrapped(self.values[bare(index)])

    def __setitem__(self, index, value) -> None:
        self.values[bare(index)] = bare(value)

    def __getattr__(self, name):
        if name in ("max", "min", "argmax"):
            if 0 in self.values.shape:
                raise ValueError("zero-size array to reduction operation which has no identity")
        elif name not in (
            "shape",
            "ndim",
            "dtype",
            "size",
            "nbytes",
            "itemsize",
            "strides",
            "T",
            "real",
            "imag",
            "reshape",
            "copy",
            "sum",
            "mean",
            "astype",
        ):
            raise AttributeError(name)
        found = getattr(self.values, name)
        return (lambda *a, **k: wrapped(found(*a, **k))) if callable(found) else wrapped(found)


def bare(value):
    """What is in an array of the device; an array of NumPy is refused."""
    if isinstance(value, DeviceArray):
        return value.values
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, (tuple, list)):
        return type(value)(bare(one) for one in value)
    return value


def wrapped(value):
    return DeviceArray(value) if isinstance(value, np.ndarray) else value


def _one(act):
    return lambda self: wrapped(act(self.values))


def _two(act, swapped: bool):
    def run(self, other):
        other = bare(other)
        return wrapped(act(other, self.values) if swapped else act(self.values, other))

    return run


def _in_place(act):
    def run(self, other):
        self.values = act(self.values, bare(other))
        return self

    return run


for _name in ("add", "sub", "mul", "truediv", "pow", "and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"):
    _plain = _name.removesuffix("_")
    setattr(DeviceArray, f"__{_plain}__", _two(getattr(operator, _name), False))
    setattr(DeviceArray, f"__r{_plain}__", _two(getattr(operator, _name), True))
for _name in ("neg", "invert", "abs"):
    setattr(DeviceArray, f"__{_name}__", _one(getattr(operator, _name)))
for _name in ("iadd", "isub", "imul", "itruediv"):
    setattr(DeviceArray, f"__{_name}__", _in_place(getattr(operator, _name)))


class DeviceModule:
    """Stands for the module cupy."""

    def __getattr__(self, name):
        found = getattr(np, name)
        if not callable(found) or isinstance(found, type):
            return found

        def run(*arguments, **options):
            if name in CONVERSIONS:
                first = arguments[0].values if isinstance(arguments[0], DeviceArray) else arguments[0]
                return DeviceArray(np.array(found(first, *arguments[1:], **options)))
            return wrapped(found(*(bare(one) for one in arguments), **{key: bare(one) for key, one in options.items()}))

        return run

    @staticmethod
    def asnumpy(array):
        return np.array(array.values)


def all_bare(given):
    """What problems are given, without the device; an array of NumPy among them is refused."""
    plain = {one.name: getattr(given, one.name) for one in fields(given)}
    assert not any(isinstance(value, np.ndarray) for value in plain.values())
    return converted(given, DeviceArray, lambda array: np.ascontiguousarray(array.values))


def wrapped_off(value):
    """An array of the device as one of NumPy in the same memory; one of NumPy is refused."""
    assert not isinstance(value, np.ndarray)
    return value.values if isinstance(value, DeviceArray) else value


def all_wrapped(found):
    """What problems came to, on the device."""
    return converted(found, np.ndarray, wrapped)


class DeviceEngine(NativeEngine):
    """The native kernels, with all arrays of callers in the memory of the device."""

    name = "device"
    xp = DeviceModule()

    def send(self, *arrays):
        return [self.xp.ascontiguousarray(array) for array in arrays], None

    def run(self, network, given, options):
        return all_wrapped(super().run(network, all_bare(given), options))

    def check(self, net, batch):
        values = [{name: wrapped_off(value) for name, value in given.items()} for given in (net, batch)]
        super().check(*values)

    def on_rows(self, operation, net, state, asked, told):
        given = [{name: wrapped_off(value) for name, value in one.items()} for one in (net, state)]
        super().on_rows(operation, *given, wrapped_off(asked), wrapped_off(told))

    def open(self, network, rows, options):
        return OnDevice(super().open(network, rows, options))

    def advance(self, streams):
        super().advance([stream.inner for stream in streams])


class OnDevice:
    """A stream whose arrays are on the device, in the memory of those of NumPy."""

    def __init__(self, inner) -> None:
        self.inner, self.arrays = inner, all_wrapped(inner.arrays)
        self.arrays = replace(
            self.arrays,
            given=all_wrapped(inner.arrays.given),
            made={name: wrapped(array) for name, array in inner.arrays.made.items()},
        )

    def __getattr__(self, name):
        return getattr(self.inner, name)
