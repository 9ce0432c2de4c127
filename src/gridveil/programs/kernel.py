"""The one place where compiled code is switched on: every numerical kernel is decorated here.

A kernel that was compiled before is loaded from disk as machine code and nothing else. numba on its own first sets up all that a
compilation might need (a third of a second) and reads the kernel's intermediate code as well (half as long again), which
serves only to inline the kernel into another one.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime.nrt import rtsys

Function = TypeVar("Function", bound=Callable[..., object])

# Infinities and NaNs keep their meaning: the iteration tests for them, so "nnan" and "ninf" stay off.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "arcp", "nsz", "reassoc"},
    "no_cfunc_wrapper": True,
}


def compiled(function: Function) -> Function:
    """Compile ``function`` with numba on first call, without the interpreter lock, and keep the result on disk."""
    return _kept_on_disk(function, _KernelCache)


def entry(function: Function) -> Function:
    """The same for a large kernel that Python alone calls: no other kernel may, as its intermediate code is not loaded."""
    return _kept_on_disk(function, _EntryCache)


def _kept_on_disk(function: Function, cache: type[FunctionCache]) -> Function:
    dispatcher = numba.njit(**_OPTIONS)(function)
    if not hasattr(dispatcher, "py_func"):  # numba is switched off (NUMBA_DISABLE_JIT)
        return function
    dispatcher._cache = cache(function)
    return cast(Function, dispatcher)


class _Kept(CompileResultCacheImpl):
    """What is kept of a kernel, without the environments of functions that refer to no Python object.

    Each names a module of numba's that would be imported to rebuild it, for an empty list.
    """

    def reduce(self, kernel: Any) -> Any:
        *parts, environments = super().reduce(kernel)  # type: ignore[no-untyped-call]
        return (*parts, tuple(one for one in environments if one.consts))


class _KeptEntry(_Kept):
    """The same with machine code alone; in place of the intermediate code stand the names that it defines."""

    def reduce(self, kernel: Any) -> Any:
        (name, kind, (machine_code, _)), description, *rest = super().reduce(kernel)
        names = (description.llvm_func_name, description.llvm_cpython_wrapper_name)
        return ((name, kind, (machine_code, _defining(names))), description, *rest)


class _KernelCache(FunctionCache):
    """Loads kernels without the tables that typing and lowering need; a compilation loads these by itself."""

    _impl_class = _Kept

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # memory of arrays, which kernels allocate
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


class _EntryCache(_KernelCache):
    _impl_class = _KeptEntry


def _defining(names: tuple[str, ...]) -> bytes:
    """Bitcode of a module in which these functions exist."""
    text = "\n".join(f'define void @"{name}"() {{ unreachable }}' for name in names)
    bitcode: bytes = binding.parse_assembly(text).as_bitcode()
    return bitcode
