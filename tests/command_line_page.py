"""The page docs/reference/command-line.md, made from the commands themselves.

Run ``python tests/command_line_page.py`` after a change of the command line; a test tells when that was forgotten.
"""

from __future__ import annotations

import textwrap
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from gridveil.cli.main import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"
WIDTH = 120
EVERYWHERE = ("as_json", "quiet", "verbose")
GAS = ("preset", "slack", "sound_speed", "flow_base", "demand_unit")
INTRODUCTION = """\
# Command line

<!-- Made by tests/command_line_page.py from the commands themselves: do not edit. -->

`gridveil COMMAND --help` prints the same text. `gridveil --version` prints the version.
`gridveil --install-completion` installs shell completion for commands, options and case names.

A CASE is the path of a [case file](file-formats.md#case-files), or a built-in name (`gridveil inspect --list`).

Every command has

| option | meaning |
|---|---|
| `--json` | Print one JSON object on standard output and nothing else. |
| `--quiet`, `-q` | Print nothing but errors (and what --json asks for). |
| `--verbose`, `-v` | Report each step on standard error. |

Exit codes: 0 done, 1 an audit or a verification failed or an unexpected error occurred, 2 bad input (one line states
the problem and the remedy), 3 no solution or no release, 130 interrupted by Ctrl-C. With `--json` an error is an object
too: see [JSON output](json.md). Progress and notes go to standard error. Colours appear on a terminal only.
"""
GAS_PART = """
## Boundary conditions of gas networks

`inspect`, `solve`, `release`, `audit`, `explore` and `ledger create` accept these options for
[gas networks](../guides/gas.md). `ledger show` accepts the first three.

| option | meaning | default |
|---|---|---|
"""


def leaves(group: Any, path: tuple[str, ...] = ("gridveil",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


def page() -> str:
    """The whole page."""
    found = list(leaves(typer.main.get_command(app)))
    shared = {parameter.name: row(command, parameter) for _, command in found for parameter in command.params}
    return INTRODUCTION + "".join(part(*one) for one in found) + GAS_PART + "\n".join(map(shared.get, GAS)) + "\n"


def part(path: tuple[str, ...], command: Any) -> str:
    """What the page says of one command."""
    *words, example = command.help.split("\n\n")
    arguments = [one for one in command.params if not one.opts[0].startswith("-")]
    options = [one for one in command.params if one not in arguments and one.name not in (*EVERYWHERE, *GAS)]
    usage = " ".join([*path, *(one.metavar if one.required else f"[{one.metavar}]" for one in arguments)])
    text = f"\n## {' '.join(path)}\n\n" + "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), WIDTH) for paragraph in words
    )
    text += f"\n\nExample: `{example.removeprefix('Example: ')}`\n\n`{usage} [OPTIONS]`\n\n"
    if arguments or options:
        text += "| option | meaning | default |\n|---|---|---|\n"
        text += "\n".join(row(command, one) for one in (*arguments, *options)) + "\n"
    if any(one.name in GAS for one in command.params):
        text += "\nand [those for gas networks](#boundary-conditions-of-gas-networks).\n"
    return text


def row(command: Any, parameter: Any) -> str:
    """The row of one argument or option."""
    names = [parameter.metavar] if not parameter.opts[0].startswith("-") else parameter.opts + parameter.secondary_opts
    meaning, _, stated = (parameter.help or "").partition(" [default: ")
    choices = [member.value for member in enumeration(command, parameter.name)]
    if choices:
        meaning += f" One of {', '.join(f'`{one}`' for one in choices)}."
    return (
        f"| {', '.join(f'`{name}`' for name in names)} | {meaning} | {default(parameter, stated.removesuffix(']'))} |"
    )


def default(parameter: Any, stated: str) -> str:
    """The default as the help states it, or as it is."""
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if stated or parameter.required:
        return stated or "required"
    return "" if value in (None, False, "") else "on" if value is True else f"`{value}`"


def enumeration(command: Any, name: str) -> list[Enum]:
    """The members of the enumeration that a parameter takes; none for other types."""
    hint = get_type_hints(command.callback).get(name)
    kinds = get_args(hint) if isinstance(hint, types.UnionType) else [hint]
    return [member for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum) for member in kind]


if __name__ == "__main__":
    PAGE.write_text(page())
