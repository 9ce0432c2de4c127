"""Files of a public folder beside the network and the card: hashes, so that readers can check it, and the proof notes."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

CARD_FILE, CARD_PAGE = "card.yaml", "card.html"
PROOFS = "proofs"
THE_CARD = (CARD_FILE, CARD_PAGE)  # which states the hashes, and so cannot hold its own
CARD_SCHEMA = "gridveil-card/2"


def file_hashes(folder: Path) -> list[dict[str, object]]:
    """Name, size and SHA-256 of every public file but the card and its page, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder).as_posix() for path in files}
    return [
        {"file": name, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path, name in names.items()
        if name not in THE_CARD and not path.name.startswith(".")
    ]


def write_proofs(folder: Path) -> None:
    """Put the proof notes beside the card, which names them: readers need nothing but the folder."""
    (folder / PROOFS).mkdir()
    for note in resources.files("gridveil.service").joinpath(PROOFS).iterdir():
        if note.name.endswith(".md"):
            (folder / PROOFS / note.name).write_bytes(note.read_bytes())


def proof_beside(note: str) -> str:
    """Where a proof note lies in a public folder."""
    return note.removeprefix("docs/")
