"""(OPT) of the paper: O(d) = min_x f(x) subject to g(x, d) ≥ 0, for any f and g written with CasADi symbols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError

Vector = NDArray[np.float64]


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
    ``smoothed_cost`` is the cost with its kinks rounded more widely, for joint problems that cycle at a kink of ``cost``.
    ``typical`` are public data of usual size, for programs whose O need not grow with the proxy: scaled, they cost enough.
    ``d_lower`` and ``d_upper`` bound the data that may be released; the paper's setting is no bounds.
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
    proxy: ca.MX = None  # type: ignore[assignment]
    d_lower: Vector = field(default=None)  # type: ignore[arg-type]
    d_upper: Vector = field(default=None)  # type: ignore[arg-type]
    cost_unit: str = "cost"
    adaptive_barrier: bool = False
    smoothed_cost: ca.MX | None = None
    typical: Vector | None = None
    more_starts: tuple[Callable[[Vector], Vector], ...] = ()
    starts: tuple[Vector, ...] = ()

    def __post_init__(self) -> None:
        if self.proxy is None:
            object.__setattr__(self, "proxy", ca.sum1(self.d))
        if self.d_lower is None:
            object.__setattr__(self, "d_lower", np.full(self.d.numel(), -np.inf))
        if self.d_upper is None:
            object.__setattr__(self, "d_upper", np.full(self.d.numel(), np.inf))
        self._check_symbols()
        for rows, names in (
            (self.n_x, ("x_lower", "x_upper", "x_start")),
            (self.n_g, ("g_lower", "g_upper")),
            (self.n_d, ("d_lower", "d_upper")),
        ):
            for name in names:
                self._check_vector(name, rows)
        for kind in ("x", "g", "d"):
            if np.any(getattr(self, f"{kind}_lower") > getattr(self, f"{kind}_upper")):
                raise InputError(f"program {self.name}: {kind}_lower exceeds {kind}_upper; swap or widen the bounds")
        if self.typical is not None:
            self._check_vector("typical", self.n_d)
        if any(np.shape(start) != (self.n_x,) or not np.all(np.isfinite(start)) for start in self.starts):
            raise InputError(f"program {self.name}: each of starts must hold {self.n_x} finite numbers")
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
        return int(self.x.numel())

    @property
    def n_d(self) -> int:
        """Number of sensitive data."""
        return int(self.d.numel())

    @property
    def n_g(self) -> int:
        """Number of constraint rows."""
        return int(self.g.numel())
