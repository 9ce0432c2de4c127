"""Options read without the validation library that typer loads for them, a tenth of a second, where their text says it all.

Only a text that needs no interpretation is read here; any other value, and every error, is left to typer.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from typer.core import TyperCommand, TyperGroup

try:
    from typer._coercion import RuntimeParam, build_runtime_param
except ImportError:  # a typer that reads options in another way
    QUICK = False
else:
    QUICK = True

    class _QuickParam(RuntimeParam):
        """Reads what it can at once and hands on the rest."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
            found = _read(_plain_type(self.annotation), value)
            if found is None:
                return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)
            return found


GROUPS = {"Gas: ": "Gas networks", "Series: ": "Time series", "Card: ": "Statements on the card"}
"""What the help of an option begins with, and the heading under which it is listed."""


class QuickCommand(TyperCommand):
    """A command whose options are read at once where their type is a text, a path, a whole number or a choice.

    Its help lists the options of special cases under headings of their own.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, --help among them."""
        return _read_quickly(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the options, those of each group after the others."""
        records = [
            record for record in (one.get_help_record(ctx) for one in self.get_params(ctx)) if record is not None
        ]
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Options", *GROUPS.values())}
        for names, words in records:
            start = next((start for start in GROUPS if words.startswith(start)), "")
            rest = words.removeprefix(start)
            groups[GROUPS.get(start, "Options")].append((names, rest[:1].upper() + rest[1:]))
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class QuickGroup(TyperGroup):
    """The same for a group of commands, which has options of its own."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, --help among them."""
        return _read_quickly(super().get_params(ctx))


def _read_quickly(params: list[Any]) -> list[Any]:
    for param in params if QUICK else ():
        descriptor = getattr(param, "type_descriptor", None)
        if descriptor is not None and _is_plain(descriptor.parameter_info):
            kind, info = descriptor.annotation, descriptor.parameter_info
            param._runtime_param = _QuickParam(annotation=kind, parameter_info=info)
    return params


def _is_plain(info: Any) -> bool:
    """Whether nothing is asked of the value but its type."""
    asked = ("parser", "click_type", "min", "max", "exists", "resolve_path", "formats")
    return not any(getattr(info, name, None) for name in asked)


def _plain_type(annotation: Any) -> Any:
    """The type of ``X | None`` is X."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and NoneType in get_args(annotation) else annotation


def _read(kind: Any, value: Any) -> Any:
    """The value, or None where typer shall look at it."""
    found: Any = None
    if kind == list[str] and isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        found = list(value)
    elif isinstance(kind, type) and issubclass(kind, Enum):
        found = next((one for one in kind if value in (one, one.value)), None)
    elif kind in (bool, str, int, Path) and type(value) is kind:
        found = value
    elif kind is Path and isinstance(value, str) and value:
        found = Path(value)
    elif kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
        found = int(value)
    return found
