"""Torture the privacy ledger: concurrent writers on one file, killed with SIGKILL at random moments.

Each writer charges, one draw or three at once, and then "draws" (appends the ids of the charges to a second file, only
after ``charge_many`` has returned).
Every ledger is then audited: each draw is on file at its price, the total is at least what was drawn and at most the
cap, and the ledger can still be charged. Writes are cut into small pieces with pauses, so that kills also land inside
lines and syncs.

Two saboteurs run afterwards, one that draws before it charges and one without locks; the audit must catch both. SIGKILL
keeps what the system has cached, so it cannot show a missing fsync: tests/privacy/test_ledger.py simulates power loss.

    python bench/ledger_torture.py [--kills 1000] [--writers 8] [--seed N]
"""

from __future__ import annotations

import argparse
import fcntl
import mmap
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from gridveil.core.errors import InputError
from gridveil.privacy import ledger_disk
from gridveil.privacy.ledger import ChargeRequest, Ledger

REFERENCE_ALPHA = "0.1"
UNIT = "MVA"
# ε, α, rounding, and the price at the reference α worked out by hand.
CHARGES = (
    ("0.3", "0.1", None, "3/10"),
    ("1/7", "0.05", None, "2/7"),
    ("0.1", "0.3", None, "1/10"),
    ("0.5", "0.3", "0.1", "1/4"),
)
CAPS = ("4", "1000")
BATCHES = (1, 1, 1, 3)
KILLS_PER_LEDGER = 25
STEPS = (
    "start",
    "waiting for the lock",
    "reading",
    "writing",
    "syncing",
    "truncating",
    "charged, not yet drawn",
    "drawn",
)


class Paced:
    """Stands in for a module inside the ledger: notes the step for the parent and dawdles, so that kills can hit it."""

    def __init__(self, real: Any, steps: mmap.mmap, slot: int, rng: random.Random, *, locks: bool = True) -> None:
        self.real, self.steps, self.slot, self.rng, self.locks = real, steps, slot, rng, locks
        self.piece = rng.choice((7, 60, 10_000))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def enter(self, step: str) -> None:
        """Note the step, and stay in it for up to a millisecond."""
        self.steps[self.slot] = STEPS.index(step)
        time.sleep(self.rng.random() * 1e-3)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write a piece of the data, as a full disk or a signal may cause."""
        self.enter("writing")
        return os.write(descriptor, data[: self.rng.randint(1, self.piece)])

    def fsync(self, descriptor: int) -> None:
        """Sync for real."""
        self.enter("syncing")
        os.fsync(descriptor)

    def ftruncate(self, descriptor: int, size: int) -> None:
        """Truncate for real."""
        self.enter("truncating")
        os.ftruncate(descriptor, size)

    def flock(self, descriptor: int, operation: int) -> None:
        """Lock for real, unless the saboteur runs."""
        if operation == fcntl.LOCK_EX:
            self.enter("waiting for the lock")
        if self.locks:
            fcntl.flock(descriptor, operation)
        if operation == fcntl.LOCK_EX:
            self.enter("reading")


@dataclass
class Tally:
    """What a campaign saw."""

    kills: Counter[str] = field(default_factory=Counter)
    ledgers: int = 0
    charges: int = 0
    draws: int = 0
    recovered: int = 0
    voids: int = 0
    at_cap: int = 0
    not_drawn: Fraction = Fraction(0)
    """ε on file beyond what was drawn."""


def writer(path: Path, drawn: Path, steps: mmap.mmap, *, slot: int, seed: int, sabotage: str) -> NoReturn:
    """Charge and draw until killed."""
    rng, parent = random.Random(seed), os.getppid()
    calls = Paced(os, steps, slot, rng)
    locks = Paced(fcntl, steps, slot, rng, locks=sabotage != "no-lock")
    log = os.open(drawn, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with patch.object(ledger_disk, "os", calls), patch.object(ledger_disk, "fcntl", locks):
        book = Ledger(path)
        while os.getppid() == parent:
            epsilon, alpha, rounding, price = rng.choice(CHARGES)
            try:
                if sabotage == "draw-first":
                    os.write(log, f"- {price}\n".encode())
                request = ChargeRequest(
                    epsilon=epsilon, alpha=alpha, unit=UNIT, rounding=rounding, mechanism="torture", purpose="bench"
                )
                charges = book.charge_many([request] * rng.choice(BATCHES))
                calls.enter("charged, not yet drawn")
                if sabotage != "draw-first":
                    os.write(log, "".join(f"{charge.id} {price}\n" for charge in charges).encode())
                calls.enter("drawn")
            except InputError:
                time.sleep(1e-3)
    os._exit(0)


def spawn(path: Path, drawn: Path, steps: mmap.mmap, *, slot: int, seed: int, sabotage: str) -> int:
    """Start a writer; give its process id."""
    steps[slot] = STEPS.index("start")
    child = os.fork()
    if child == 0:
        try:
            writer(path, drawn, steps, slot=slot, seed=seed, sabotage=sabotage)
        finally:
            os._exit(1)
    return child


def kill(child: int) -> None:
    """Kill −9 and wait until it is gone."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "a writer stopped by itself"


def torture(folder: Path, *, kills: int, writers: int, rng: random.Random, sabotage: str, tally: Tally) -> None:
    """Run the writers on one new ledger, kill them at random moments, and audit the ledger."""
    path, drawn = folder / f"ledger{tally.ledgers}.jsonl", folder / f"drawn{tally.ledgers}"
    drawn.touch()
    # A saboteur gets no tight cap: it must be caught by its own fault.
    cap = rng.choice(CAPS) if sabotage == "none" else CAPS[-1]
    Ledger.create(path, dataset="0" * 64, name="torture", unit=UNIT, alpha=REFERENCE_ALPHA, cap=cap)
    steps = mmap.mmap(-1, writers)
    waiting = STEPS.index("waiting for the lock")

    def start(slot: int) -> int:
        return spawn(path, drawn, steps, slot=slot, seed=rng.getrandbits(32), sabotage=sabotage)

    children = [start(slot) for slot in range(writers)]
    try:
        for done in range(kills):
            time.sleep(rng.random() * 0.06)
            # Every second kill picks a writer that does not wait for the lock: the holder, most of the time.
            busy = [slot for slot in range(writers) if steps[slot] != waiting] if done % 2 else []
            slot = rng.choice(busy or range(writers))
            kill(children[slot])
            tally.kills[STEPS[steps[slot]]] += 1
            children[slot] = start(slot)
    finally:
        # Not counted as random kills.
        for child in children:
            kill(child)
    audit(path, drawn, tally)


def audit(path: Path, drawn: Path, tally: Tally) -> None:
    """Compare what is on file with what was drawn; AssertionError or InputError if the ledger failed."""
    draws = [line.split() for line in drawn.read_text().splitlines()]
    book = Ledger.open(path)
    history = book.history()
    on_file = {charge.id: charge.at(history.alpha) for charge in history.charges}
    total = sum((Fraction(price) for _, price in draws), Fraction(0))
    assert history.spent >= total, f"under-counted: spent {history.spent}, drawn {total}"
    assert all(on_file.get(draw) == Fraction(price) for draw, price in draws), "a draw is not on file at its price"
    assert len({draw for draw, _ in draws}) == len(draws), "two draws share one charge"
    assert history.spent <= history.cap, f"over the cap: {history.spent} of {history.cap}"
    at_cap = history.remaining < Fraction("0.01")
    if not at_cap:
        book.charge(epsilon="0.01", alpha=REFERENCE_ALPHA, unit=UNIT, mechanism="audit", purpose="still usable")
        assert book.spent == history.spent + Fraction("0.01"), "sealing the file changed the total"
    tally.ledgers += 1
    tally.charges += len(history.charges)
    tally.draws += len(draws)
    tally.recovered += sum(charge.recovered for charge in history.charges)
    tally.voids += history.voids
    tally.at_cap += at_cap
    tally.not_drawn += history.spent - total


def campaign(*, kills: int, writers: int, rng: random.Random, sabotage: str) -> Tally:
    """Spread the kills over ledgers of limited length."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        while (left := kills - tally.kills.total()) > 0:
            share = min(left, KILLS_PER_LEDGER)
            torture(Path(folder), kills=share, writers=writers, rng=rng, sabotage=sabotage, tally=tally)
    return tally


def main() -> int:
    """Run the campaign and the saboteurs; give 0 if the ledger held and the saboteurs were caught."""
    parser = argparse.ArgumentParser(description="Torture the privacy ledger with kills and concurrent writers.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=None, help="of the pauses and choices; the scheduler stays random")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    held = True
    for sabotage in ("none", "draw-first", "no-lock"):
        kills = options.kills if sabotage == "none" else min(options.kills, KILLS_PER_LEDGER)
        start = time.monotonic()
        try:
            tally = campaign(kills=kills, writers=options.writers, rng=rng, sabotage=sabotage)
        except (AssertionError, InputError) as error:
            held &= sabotage != "none"
            print(f"{'FAILED' if sabotage == 'none' else f'saboteur {sabotage}: caught'}: {error}")
            continue
        if sabotage != "none":
            held = False
            print(f"saboteur {sabotage}: NOT CAUGHT")
            continue
        seconds, kills = time.monotonic() - start, tally.kills.total()
        print(f"{kills} kills, {options.writers} concurrent writers, {tally.ledgers} ledgers, {seconds:.0f} s")
        print("killed while: " + ", ".join(f"{step} {count}" for step, count in tally.kills.most_common()))
        print(f"{tally.charges} charges on file, {tally.draws} draws; ledgers at their cap {tally.at_cap}, above it 0")
        print(f"cut-off lines: {tally.recovered} counted, {tally.voids} void")
        print(f"draws missing from a ledger: 0; charged but not drawn: ε = {float(tally.not_drawn):.2f} in all")
    print("held" if held else "DID NOT HOLD")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
