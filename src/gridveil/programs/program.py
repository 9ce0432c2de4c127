"""(OPT) of the paper: O(d) = min_x f(x) subject to g(x, d) ≥ 0, for any f and g written with CasADi symbols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.lazy import lazy_module

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Vector = NDArray[np.float64]

_WRITTEN = ("x", "d", "cost", "g", "g_lower", "g_upper", "proxy")
"""What a deferred program writes when it is asked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ParametricProgram:
    """A follower problem with decision x and sensitive data d.

    The paper writes g(x, d) ≥ 0 and x ≥ 0; here both are two-sided, so equalities need no pairs of rows:
    ``g_lower ≤ g(x, d) ≤ g_upper`` and ``x_lower ≤ x ≤ x_upper`` (±inf where there is no bound).

    ``x_start`` may be built from public data only; ``more_starts`` make further ones from data that is not secret.
    ``starts`` are further public x where O(d) has several local optima: whoever checks a cost solves from each of them too.
    ``proxy`` is the paper's concave m(d): O(d) is expected to grow with it. Demands and prices raise the cost, so their
    sum is the natural proxy (and the default); capacities lower it: minus the sum.
    ``adaptive_barrier`` lets Ipopt choose its barrier at each step: slower on power flow, far more reliable on gas flow.
    ``fine_below``: where g is in the unit of d and Σ|d| lies below this, an error that is small beside one is not small
    beside d, and Ipopt goes on to a smaller one.
    ``smoothed_cost`` is the cost with its kinks rounded more widely, for joint problems that cycle at a kink of ``cost``.
    ``typical`` are public data of usual size, for programs whose O need not grow with the proxy: scaled, they cost enough.
    ``d_lower`` and ``d_upper`` bound the data that may be released; the paper's setting is no bounds.

    A program may be ``deferred``: it knows its sizes, limits and start, and writes its expressions when they are asked for.
    """

    name: str
    x: ca.MX
    d: ca.MX
    cost: ca.MX
    g: ca.MX
    g_lower: Vector
    g_upper: Vector
    x_lower: Vector
    x_upper: Vector
    x_start: Vector
    # A factory, as a default would become a class attribute, which hides a deferred proxy.
    proxy: ca.MX = field(default_factory=lambda: None)  # type: ignore[assignment]
    d_lower: Vector = field(default=None)  # type: ignore[arg-type]
    d_upper: Vector = field(default=None)  # type: ignore[arg-type]
    cost_unit: str = "cost"
    adaptive_barrier: bool = False
    fine_below: float = 0.0
    smoothed_cost: ca.MX | None = None
    typical: Vector | None = None
    more_starts: tuple[Callable[[Vector], Vector], ...] = ()
    starts: tuple[Vector, ...] = ()

    @classmethod
    def deferred(cls, *, n_d: int, write: Callable[[], ParametricProgram], **numbers: Any) -> ParametricProgram:
        """A program whose expressions, and the limits of its rows, come from ``write`` when they are first asked for.

        ``numbers`` are all other fields. A solver that works from arrays never asks.
        """
        program = cls.__new__(cls)
        plain = {one.name: one.default for one in fields(cls) if one.default is not MISSING}
        for name, value in {**plain, **numbers, "_write": write, "_n_d": n_d}.items():
            object.__setattr__(program, name, value)
        program._check_numbers(("x", len(program.x_start)), ("d", n_d))
        return program

    def __getattr__(self, name: str) -> Any:
        if name not in _WRITTEN or "_write" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        written = self._write()
        if (written.n_x, written.n_d) != (self.n_x, self.n_d):
            raise InputError(f"program {self.name}: its expressions have other sizes than were announced")
        for one in _WRITTEN:
            object.__setattr__(self, one, getattr(written, one))
        return getattr(self, name)

    def __post_init__(self) -> None:
        if self.proxy is None:
            object.__setattr__(self, "proxy", ca.sum1(self.d))
        self._check_symbols()
        self._check_numbers(("x", self.n_x), ("g", self.n_g), ("d", self.n_d))

    def _check_numbers(self, *sizes: tuple[str, int]) -> None:
        for kind, size in sizes:
            for end in ("lower", "upper"):
                if kind == "d" and getattr(self, f"d_{end}") is None:
                    object.__setattr__(self, f"d_{end}", np.full(size, -np.inf if end == "lower" else np.inf))
                self._check_vector(f"{kind}_{end}", size)
            if np.any(getattr(self, f"{kind}_lower") > getattr(self, f"{kind}_upper")):
                raise InputError(f"program {self.name}: {kind}_lower exceeds {kind}_upper; swap or widen the bounds")
        self._check_vector("x_start", len(self.x_lower))
        if self.typical is not None:
            self._check_vector("typical", len(self.d_lower))
        if any(np.shape(start) != self.x_start.shape or not np.all(np.isfinite(start)) for start in self.starts):
            raise InputError(f"program {self.name}: each of starts must hold {len(self.x_start)} finite numbers")
        if not np.all(np.isfinite(self.x_start)):
            raise InputError(f"program {self.name}: x_start must be finite; give a number for each variable")

    def _check_symbols(self) -> None:
        for name in ("x", "d"):
            if not getattr(self, name).is_valid_input():
                raise InputError(f"program {self.name}: {name} must be a CasADi symbol, as from ca.MX.sym")
        scalars = ("cost", "proxy") if self.smoothed_cost is None else ("cost", "proxy", "smoothed_cost")
        for name in scalars:
            if getattr(self, name).numel() != 1:
                raise InputError(f"program {self.name}: {name} must be a scalar expression")
        if ca.depends_on(self.proxy, self.x):
            raise InputError(f"program {self.name}: the proxy m(d) must depend on d alone; remove x from it")
        unknown = [
            symbol.name()
            for symbol in ca.symvar(ca.vertcat(self.g, *(getattr(self, name) for name in scalars)))
            if not ca.depends_on(ca.vertcat(self.x, self.d), symbol)
        ]
        if unknown:
            raise InputError(f"program {self.name}: unknown symbols {', '.join(unknown)}; use only x and d")

    def _check_vector(self, name: str, rows: int) -> None:
        vector = np.array(getattr(self, name), dtype=float)
        if vector.shape != (rows,):
            raise InputError(f"program {self.name}: {name} has shape {vector.shape}, expected ({rows},)")
        if np.any(np.isnan(vector)):
            raise InputError(f"program {self.name}: {name} contains NaN; use ±inf for 'no bound'")
        vector.setflags(write=False)
        object.__setattr__(self, name, vector)

    @property
    def n_x(self) -> int:
        """Number of decision variables."""
        return len(self.x_lower) if "x" not in self.__dict__ else int(self.x.numel())

    @property
    def n_d(self) -> int:
        """Number of sensitive data."""
        return int(self.__dict__.get("_n_d") or self.d.numel())

    @property
    def n_g(self) -> int:
        """Number of constraint rows."""
        return int(self.g.numel())
