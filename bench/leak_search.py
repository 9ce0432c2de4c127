"""Search released folders for the source's demands, names and comments, over PGLib cases with their api and sad variants.

    python bench/leak_search.py [LARGEST]

Releases every PGLib case up to LARGEST buses (default 300; a simulation with a fixed seed), and lists demands of the source
that stand in the released folder and that no public field explains. A release that fails is named, not left out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from gridveil.core.band import Tolerance
from gridveil.core.errors import GridveilError
from gridveil.privacy.attacks import comments_of, values_in_text
from gridveil.sectors.builtin import pglib_names, resolve_case
from gridveil.sectors.power.export import public_tables
from gridveil.sectors.power.write import write_power_network
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.publish import publish
from gridveil.service.release import make_release
from gridveil.service.settings import ReleaseSettings


def search(name: str) -> str:
    """Release one case and say what was found."""
    case, source = load_case(name), resolve_case(name)
    settings = ReleaseSettings(epsilon="1", alpha="0.1pu", beta=Tolerance.parse("1%"), seed=1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "out"
        try:
            publish(make_release(case, settings, NoAccount()), case, folder, simulation_as_public=True)
        except GridveilError as error:
            return f"NO RELEASE: {error}"
        nothing = np.zeros(len(case.values), dtype=complex)
        public = write_power_network(public_tables(case.network, nothing), Path(scratch), "matpower", title="public")
        text = "\n".join(path.read_text() for path in sorted((folder / "public").iterdir()))
        found = values_in_text(case, text, explained=public.read_text())
        comments = comments_of(folder / "public" / "network.m")
        title_passed = source.stem in text
    in_comments = len(values_in_text(case, comments_of(source)))
    verdict = "clean" if not (found or comments or title_passed) else "LEAK"
    return f"{verdict}: {len(found)} of {len(case.values)} demands found (source comments hold {in_comments})"


def main() -> int:
    """Search every case and count."""
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    counts = {"clean": 0, "LEAK": 0, "NO RELEASE": 0}
    for name in pglib_names():
        if int("".join(filter(str.isdigit, name.split("_")[0]))) > largest:
            continue
        line = search(name)
        counts[line.split(":")[0]] += 1
        print(f"{name:32} {line}", flush=True)
    print(counts)
    return 1 if counts["LEAK"] else 0


if __name__ == "__main__":
    sys.exit(main())
