"""The one place where compiled code is switched on: every numerical kernel is decorated here.

A kernel that Python calls is compiled whole, with all kernels that it calls, and kept on disk as machine code and nothing else.
numba on its own optimises a kernel and turns it into machine code once for itself and once more in each of its callers, theirs
and so on: three times the work. When it loads a kernel, it first sets up all that a compilation might need (a third of a
second) and reads the kernel's intermediate code as well (half as long again), which serves only to inline it into another one.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import NativeLowering

Function = TypeVar("Function", bound=Callable[..., object])

# Infinities and NaNs keep their meaning: the iteration tests for them, so "nnan" and "ninf" stay off.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "arcp", "nsz", "reassoc"},
    "no_cfunc_wrapper": True,
}


def compiled(function: Function) -> Function:
    """Compile ``function`` with numba, without the interpreter lock, as a part of the kernels that call it.

    Called from Python it is a kernel by itself, compiled on first call and kept on disk.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    options = {**_OPTIONS, "nopython": True, "no_cpython_wrapper": True}
    part = _Part(py_func=function, targetoptions=options, pipeline_class=_PartCompiler)
    return cast(Function, part)


def entry(function: Function) -> Function:
    """The same for a kernel that Python alone calls: no other kernel may, as its intermediate code is not kept."""
    dispatcher = numba.njit(**_OPTIONS)(function)
    if not hasattr(dispatcher, "py_func"):  # numba is switched off (NUMBA_DISABLE_JIT)
        return function
    dispatcher._cache = _EntryCache(function)  # type: ignore[no-untyped-call]
    return cast(Function, dispatcher)


class _Part(CPUDispatcher):
    """A kernel as others see it, with a kernel of its own for calls from Python."""

    def __call__(self, *arguments: Any) -> Any:
        return self._own(*arguments)

    def add_overload(self, compiled: Any) -> None:
        """Make a compiled form known to kernels; there is nothing that Python could call."""
        self.overloads[tuple(compiled.signature.args)] = compiled

    @cached_property
    def _own(self) -> Callable[..., Any]:
        function: Callable[..., Any] = self.py_func
        return entry(function)


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _PartLowering(NativeLowering):
    """Lower a kernel and leave it at that: its callers optimise it and make machine code of it."""

    _name = "gridveil_part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library._optimize_final_module = lambda: None
        library._finalize_final_module = lambda: setattr(library, "_finalized", True)
        state.flags.no_compile = True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        # numba finds a compiled function by its address; any object of its own does as well, as nobody will call it
        description, name = state.cr.fndesc, object()
        state.targetctx.insert_user_function(name, description, [library])
        state.cr = state.cr._replace(cfunc=name)
        return True


class _PartCompiler(CompilerBase):
    """numba's usual steps with the one above as the last."""

    def define_pipelines(self) -> list[Any]:
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        pipeline.passes = [
            (_PartLowering, text) if step is NativeLowering else (step, text) for step, text in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


class _Readable:
    """The folder that NUMBA_CACHE_DIR names, also where it holds kernels and cannot be written, as in a container.

    numba by itself passes it over then, and compiles everything again into the user's own cache.
    """

    def ensure_cache_path(self) -> None:
        locator: Any = super()
        try:
            locator.ensure_cache_path()
        except OSError:
            if not any(Path(locator.get_cache_path()).glob("*.nbi")):
                raise


class _KeptEntry(CompileResultCacheImpl):
    """What is kept of a kernel: machine code, and in place of the intermediate code the names that it defines.

    Left out are the environments of functions that refer to no Python object: each names a module of numba's that would be
    imported to rebuild it, for an empty list.
    """

    _stated, *_others = CompileResultCacheImpl._locator_classes
    _readable: Any = type("ReadableCacheLocator", (_Readable, _stated), {})
    _locator_classes = [_readable, *_others]  # noqa: RUF012

    def reduce(self, kernel: Any) -> Any:
        (name, kind, (machine_code, _)), description, *rest, environments = super().reduce(kernel)  # type: ignore[no-untyped-call]
        names = (description.llvm_func_name, description.llvm_cpython_wrapper_name)
        needed = tuple(one for one in environments if one.consts)
        return ((name, kind, (machine_code, _defining(names))), description, *rest, needed)


class _EntryCache(FunctionCache):
    """Loads kernels without the tables that typing and lowering need; a compilation loads these by itself."""

    _impl_class = _KeptEntry

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # memory of arrays, which kernels allocate
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a kernel that cannot be kept is compiled again next time
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def _defining(names: tuple[str, ...]) -> bytes:
    """Bitcode of a module in which these functions exist."""
    text = "\n".join(f'define void @"{name}"() {{ unreachable }}' for name in names)
    bitcode: bytes = binding.parse_assembly(text).as_bitcode()
    return bitcode
