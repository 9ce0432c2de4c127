"""Kill the runner of a study, one of its workers, or the process these are forked from, at random moments.

The store must end up as if nothing had happened.

    python bench/study_kills.py [--kills 20] [--seed 0]

Prints each kill, then compares the store, row by row and bit by bit (but for times and workers), with an undisturbed run.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "study"))

from study_tools import assert_same_rows, run_with_kills, start_runner, write_study

from gridveil.study.store import summarise

ROWS_PER_KILL = 40


def main() -> None:
    """Run both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    victims = [rng.choice(("runner", "worker", "server")) for _ in range(options.kills)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        networks = ("veil2", "veil9", "veilgas")
        per_seed = 2 * len(networks)
        seeds = -(-(options.kills + 1) * ROWS_PER_KILL // per_seed) + 1
        study = write_study(folder / "kills.toml", networks=networks, seeds=seeds, name="kills")
        for line in run_with_kills(study, folder / "killed.sqlite", victims, rng, most_rows=ROWS_PER_KILL):
            print(line, flush=True)
        undisturbed = start_runner("run", study, "--store", folder / "whole.sqlite", "--quiet")
        undisturbed.communicate()
        assert_same_rows(folder / "killed.sqlite", folder / "whole.sqlite")
        killed, whole = summarise(folder / "killed.sqlite"), summarise(folder / "whole.sqlite")
        print(
            f"{len(victims)} kills ({victims.count('runner')} of the runner, {victims.count('worker')} of a worker): "
            f"{killed.done} rows in {len(killed.sessions)} sessions, equal to {whole.done} rows of an undisturbed run; "
            f"{killed.done - killed.verified} failed"
        )


if __name__ == "__main__":
    main()
