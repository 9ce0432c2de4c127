"""Shell completion of CASE and other values; must stay fast, as it runs on every press of Tab."""

from __future__ import annotations

from pathlib import Path

CASE_ENDINGS = (".m", ".raw", ".json", ".aux", ".epc", ".xiidm", ".uct", ".net")


def complete_case(incomplete: str) -> list[str]:
    """Complete built-in names (including PGLib's, if installed), and files and folders that may hold a case."""
    from gridveil.sectors.builtin import SHIPPED, pglib_names
    from gridveil.sectors.gas.generator import BUILT_IN

    names = [*SHIPPED, *BUILT_IN, *pglib_names()]
    return [name for name in names if name.startswith(incomplete)] + _files(incomplete)


def complete_preset(incomplete: str) -> list[str]:
    """Complete the names of the gas presets."""
    from gridveil.sectors.gas.boundary import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def complete_method(incomplete: str) -> list[str]:
    """Complete the names of methods, plug-ins' included."""
    from gridveil.bilevel.methods import method_names

    return [name for name in method_names() if name.startswith(incomplete)]


def complete_solver(incomplete: str) -> list[str]:
    """Complete the names of solvers, plug-ins' included."""
    from gridveil.solvers.registry import backend_names

    return [name for name in backend_names() if name.startswith(incomplete)]


def complete_mechanism(incomplete: str) -> list[str]:
    """Complete the names of mechanisms, plug-ins' included."""
    from gridveil.privacy.mechanisms import mechanism_names

    return [name for name in mechanism_names() if name.startswith(incomplete)]


def _files(incomplete: str) -> list[str]:
    typed, slash, start = incomplete.rpartition("/")
    folder = Path(typed + slash) if slash else Path()
    if not folder.is_dir():
        return []
    entries = [entry for entry in sorted(folder.iterdir()) if entry.name.startswith(start)]
    shown = [entry for entry in entries if start.startswith(".") or not entry.name.startswith(".")]
    files = [typed + slash + entry.name for entry in shown if entry.suffix in CASE_ENDINGS and entry.is_file()]
    return files + [f"{typed}{slash}{entry.name}/" for entry in shown if entry.is_dir()]
