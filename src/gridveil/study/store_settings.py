"""The settings recorded in a store, and when a study may resume in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from gridveil.core.errors import InputError
from gridveil.study.study_file import NetworkEntry, Study

Settings = dict[str, Any]

FIXED = ("name", "epsilon", "cells", "methods", "solver", "mechanism", "sites", "keep", "fidelity")
"""What must not change between sessions. Seeds and networks may be added; limits may change."""


def settings_of(study: Study) -> Settings:
    """Return a study's settings as plain values, without machine-specific folders."""
    return {
        "name": study.name,
        "about": study.about,
        "epsilon": study.epsilon,
        "cells": sorted([cell.alpha, cell.beta] for cell in study.cells),
        "methods": sorted(method.value for method in study.methods),
        "solver": study.solver.value,
        "mechanism": study.mechanism,
        "sites": study.sites.value,
        "seeds": list(study.seeds),
        "networks": {entry.label: _network(entry) for entry in study.networks},
        "limits": {"task_seconds": study.limits.task_seconds},
        # Only where they are asked for: stores of studies that keep the cost alone stay what they were.
        **({"keep": study.keep} if study.keep else {}),
        **({"fidelity": True} if study.fidelity else {}),
    }


def settings_text(settings: Settings) -> tuple[str, str]:
    """Serialise settings to text, and return it with its SHA-256."""
    text = json.dumps(settings, sort_keys=True)
    return text, hashlib.sha256(text.encode()).hexdigest()


def merged_settings(path: Path, stored: Settings | None, study: Study) -> Settings:
    """Merge a study into a store's settings; raise InputError if it does not fit them."""
    wanted = settings_of(study)
    if stored is None:
        return wanted
    changed = [name for name in FIXED if stored.get(name) != wanted.get(name)]
    if changed:
        raise _misfit(path, f"was made with other settings ({', '.join(changed)})")
    gone = [label for label in stored["networks"] if label not in wanted["networks"]]
    if gone:
        raise _misfit(path, f"has rows of networks that the study no longer names ({', '.join(gone)})")
    other = [label for label, facts in stored["networks"].items() if facts != wanted["networks"][label]]
    if other:
        raise _misfit(path, f"was made from other files of {', '.join(other)}")
    if not set(stored["seeds"]) <= set(wanted["seeds"]):
        raise _misfit(path, "has rows of seeds that the study no longer names")
    return wanted


def _network(entry: NetworkEntry) -> dict[str, str | None]:
    """Identify a file by its content, so that it may move, and a name by itself."""
    facts = {"case": None if entry.checksum else entry.case, "checksum": entry.checksum, "preset": entry.preset}
    return facts if entry.secret is None else facts | {"secret": entry.secret}


def _misfit(path: Path, problem: str) -> InputError:
    return InputError(f"{path}: {problem}; name another store with --store, or restore what was changed")
