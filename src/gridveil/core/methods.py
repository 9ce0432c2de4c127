"""Names of methods and solvers, in a module of their own so that the command line loads no solver for them.

Both lists are open: plug-ins add names (see ``core.plugins``). A name is checked where it is looked up, by
``bilevel.methods`` and ``solvers.registry``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar


class _OpenList(type):
    """A class whose instances are names: iterating gives gridveil's own, equal names are one object."""

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls.__dict__["own"])

    def __len__(cls) -> int:
        return len(cls.__dict__["own"])

    def __contains__(cls, name: object) -> bool:
        return name in cls.__dict__["own"]

    def __call__(cls, name: str) -> Any:
        """The object of a name."""
        known: dict[str, Any] = cls.__dict__["made"]
        return known.setdefault(str(name), super().__call__(str(name)))


class _Named(str, metaclass=_OpenList):
    __slots__ = ()
    made: ClassVar[dict[str, Any]]
    own: ClassVar[tuple[Any, ...]]

    @property
    def value(self) -> str:
        """The name as plain text."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)


class Method(_Named):
    """AUTO: price cuts and root search. BISECTION: Algorithm 1 exactly as in the paper. Others come from plug-ins."""

    __slots__ = ()
    made: ClassVar[dict[str, Any]] = {}
    AUTO: ClassVar[Method]
    BISECTION: ClassVar[Method]


class Solver(_Named):
    """STRUCTURED: our own for AC power flow, with Ipopt behind it. IPOPT: the general solver. Others come from plug-ins."""

    __slots__ = ()
    made: ClassVar[dict[str, Any]] = {}
    STRUCTURED: ClassVar[Solver]
    IPOPT: ClassVar[Solver]


Method.AUTO, Method.BISECTION = Method("auto"), Method("bisection")
Method.own = (Method.AUTO, Method.BISECTION)
Solver.STRUCTURED, Solver.IPOPT = Solver("structured"), Solver("ipopt")
Solver.own = (Solver.STRUCTURED, Solver.IPOPT)
