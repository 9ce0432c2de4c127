"""``plugins``: what other packages add to gridveil."""

from __future__ import annotations

from gridveil.cli.options import JsonOption
from gridveil.cli.output import print_result, show, show_rows


def list_plugins(as_json: JsonOption = False) -> None:
    """List the plug-ins of installed packages, and whether each can be loaded.

    Example: gridveil plugins
    """
    from gridveil.core.errors import InputError
    from gridveil.core.plugins import GROUPS, found_in

    rows = []
    for group in GROUPS:
        for plug_in in found_in(group).values():
            try:
                plug_in.load()
                state = "ready"
            except InputError as error:
                state = str(error)
            rows.append({"kind": group, "name": plug_in.name, "package": plug_in.package, "state": state})
    if as_json:
        show({"plugins": rows}, as_json, "plug-ins")
    elif rows:
        show_rows([*rows[0]], [[*row.values()] for row in rows], "plug-ins")
    else:
        print_result("no plug-ins are installed")
