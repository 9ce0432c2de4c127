"""The ledger never under-counts: exact totals, every crash point, concurrent writers, tampering, and saboteurs."""

from __future__ import annotations

import fcntl
import itertools
import math
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridveil.core.errors import InputError
from gridveil.privacy import ledger_disk
from gridveil.privacy.ledger import Charge, ChargeRequest, Ledger, exact_text
from gridveil.privacy.ledger_file import salvage

ROOT = Path(__file__).parents[2]
REFERENCE = Fraction(1, 10)
positive = st.fractions(min_value=Fraction(1, 1000), max_value=50, max_denominator=1000)
written = st.sampled_from([lambda x: x, str, exact_text])


def pay(book: Ledger, epsilon: Any = "0.3", **changes: Any) -> Charge:
    return book.charge(**request(epsilon, **changes))


def request(epsilon: Any = "0.3", **changes: Any) -> dict[str, Any]:
    words = {"mechanism": "laplace", "purpose": "test"}
    return {"epsilon": epsilon, "alpha": "0.1", "unit": "MVA", **words} | changes


def make(path: Path | str, **changes: Any) -> Ledger:
    usual = {"dataset": "ab" * 32, "name": "town", "unit": "MVA", "alpha": "0.1", "cap": "10"}
    return Ledger.create(path, **usual | changes)


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return make(tmp_path / "ledger.jsonl")


# --- exact arithmetic -------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    charges=st.lists(st.tuples(positive, positive, st.none() | positive | st.just(Fraction(0)), written), max_size=6),
    reference=positive,
)
def test_total_is_exact(charges: list[Any], reference: Fraction) -> None:
    with tempfile.TemporaryDirectory() as folder, patch.object(ledger_disk, "sync"):
        book = make(Path(folder) / "l", alpha=reference, cap=10**9)
        for epsilon, alpha, rounding, text in charges:
            given_rounding = None if rounding is None else text(rounding)
            pay(book, text(epsilon), alpha=text(alpha), rounding=given_rounding)
        expected = Fraction(0)
        for epsilon, alpha, rounding, _ in charges:
            if rounding is None:
                steps = next(n for n in itertools.count(1) if n * alpha >= reference)
                expected += steps * epsilon
            else:
                slope = epsilon / (alpha + rounding)
                expected += slope * reference + slope * rounding
        again = Ledger.open(book.path)
        assert again.spent == expected
        assert [(c.epsilon, c.alpha, c.rounding) for c in again.charges] == [c[:3] for c in charges]
        assert (again.cap, again.remaining, again.alpha) == (10**9, 10**9 - expected, reference)


def test_99_tenths_are_exactly_the_cap(tmp_path: Path) -> None:
    with patch.object(ledger_disk, "sync"):
        book = make(tmp_path / "l", alpha=1, cap=Decimal("9.9"))
        for _ in range(99):
            pay(book, "0.1", alpha=1)
        assert (book.spent, book.remaining) == (Fraction("9.9"), 0)
        with pytest.raises(InputError, match="over budget"):
            pay(book, "1e-99", alpha=1)


lattice_cases = st.tuples(positive, positive, positive, positive)


def rounded_laplace_loss(*, epsilon: Fraction, alpha: Fraction, step: Fraction, distance: Fraction) -> Fraction:
    """Worst loss of scalar Laplace noise on a lattice: two inputs this far apart are rounded at most ⌈distance/step⌉ apart."""
    return epsilon / (alpha + step) * step * math.ceil(distance / step)


def charge_of(epsilon: Fraction, alpha: Fraction, rounding: Fraction | None) -> Charge:
    words: dict[str, Any] = {"id": "", "time": None, "mechanism": "", "purpose": ""}
    return Charge(epsilon=epsilon, alpha=alpha, rounding=rounding, **words)


@given(lattice_cases)
def test_conversion_bounds_the_true_loss(case: tuple[Fraction, ...]) -> None:
    epsilon, alpha, step, distance = case
    loss = rounded_laplace_loss(epsilon=epsilon, alpha=alpha, step=step, distance=distance)
    assert loss <= charge_of(epsilon, alpha, step).at(distance) <= charge_of(epsilon, alpha, None).at(distance)
    assert charge_of(epsilon, alpha, step).at(alpha) == charge_of(epsilon, alpha, None).at(alpha) == epsilon


def test_conversion_without_rounding_would_under_count_on_a_lattice() -> None:
    case = {"epsilon": Fraction(1), "alpha": Fraction(1), "distance": Fraction(1, 100)}
    loss = rounded_laplace_loss(**case, step=Fraction(1, 10))
    assert charge_of(Fraction(1), Fraction(1), Fraction(0)).at(case["distance"]) < loss


@pytest.mark.parametrize(
    "bad", [0.1, "0", "-1", "nan", "inf", "1/0", "1/000", "", "1e999999999", "٣", True, Decimal("NaN"), Fraction(-1, 3)]
)
def test_inexact_or_senseless_numbers_are_refused(book: Ledger, bad: Any) -> None:
    for field in ("epsilon", "alpha"):
        with pytest.raises(InputError, match=field):
            pay(book, **{field: bad})
    assert book.charges == ()


@given(st.fractions(min_value=0, max_denominator=10**40) | st.decimals(0, 10**9, places=20).map(Fraction))
def test_text_of_a_number_is_exact(value: Fraction) -> None:
    assert Fraction(exact_text(value)) == value


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.tuples(positive, positive, st.none() | positive), min_size=1, max_size=3),
            st.sampled_from(["incremental", "another object", "batch", "look", "cut off"]),
        ),
        max_size=8,
    ),
    reference=positive,
)
def test_what_was_added_up_step_by_step_equals_a_fresh_reading(steps: list[Any], reference: Fraction) -> None:
    """However charges come, by this object or others, singly, in batches, or cut off by a crash."""
    with tempfile.TemporaryDirectory() as folder, patch.object(ledger_disk, "sync"):
        book = make(Path(folder) / "l", alpha=reference, cap=10**9)
        for charges, how in steps:
            requests = [request(e, alpha=a, rounding=r, purpose=f"{how} é") for e, a, r in charges]
            if how in ("batch", "cut off"):
                before = book.path.read_bytes()
                book.charge_many([ChargeRequest(**fields) for fields in requests])
                if how == "cut off":
                    whole = book.path.read_bytes()
                    book.path.write_bytes(before)
                    book = Ledger.open(book.path)
                    book.path.write_bytes(whole[: (len(before) + len(whole)) // 2])
            else:
                for fields in requests:
                    (Ledger(book.path) if how == "another object" else book).charge(**fields)
            if how != "incremental":
                assert book.history() == Ledger.open(book.path).history()
        seen = book.history()
        assert seen == Ledger.open(book.path).history()
        assert seen.spent == sum((charge.at(reference) for charge in seen.charges), Fraction(0))


def test_a_batch_is_charged_as_a_whole_or_not_at_all(book: Ledger) -> None:
    batch = [ChargeRequest(**request(3, purpose=f"hour {hour}", draw=f"{hour:08x}")) for hour in range(3)]
    assert book.charge_many([]) == ()
    charges = book.charge_many(batch)
    assert len(book.path.read_bytes().splitlines()) == 2
    assert [charge.draw for charge in charges] == ["00000000", "00000001", "00000002"]
    assert book.charges == Ledger.open(book.path).charges == charges and book.spent == 9
    content = book.path.read_bytes()
    with pytest.raises(InputError, match=r"asked ε = 1.5 for 2 draws together, all at α = 0.1 MVA; reuse"):
        book.charge_many([ChargeRequest(**request(1)), ChargeRequest(**request("0.5"))])
    with pytest.raises(InputError, match="purpose"):
        book.charge_many([ChargeRequest(**request("0.1")), ChargeRequest(**request("0.1", purpose=""))])
    with pytest.raises(InputError, match="not in 'kg/s'"):
        book.charge_many([ChargeRequest(**request("0.1")), ChargeRequest(**request("0.1", unit="kg/s"))])
    assert book.path.read_bytes() == content


def test_of_a_batch_that_was_cut_off_all_that_can_be_read_counts(book: Ledger) -> None:
    start = len(book.path.read_bytes())
    batch = book.charge_many([ChargeRequest(**request(f"{n}/7")) for n in (1, 2, 3)])
    written = book.path.read_bytes()[start:]
    for length in range(len(written)):
        found = salvage(written[:length])
        assert [c.epsilon for c in found] == [c.epsilon for c in batch[: len(found)]]
        assert len(found) == sum(f'"epsilon": "{n}/7"'.encode() in written[:length] for n in (1, 2, 3))
        assert salvage(written[:length] + bytes(500)) == found
    assert len(found) == 3


# --- budget, ids, messages --------------------------------------------------------------------------------------------


def test_refusal_separates_spent_asked_and_remaining_and_its_advice_works(book: Ledger) -> None:
    pay(book, 7)
    with pytest.raises(InputError) as refusal:
        pay(book, 2, alpha="0.05")
    message = str(refusal.value)
    assert (
        "spent ε = 7, remaining ε = 3, asked ε = 4, all at α = 0.1 MVA; ask for ε ≤ 1.5 at α = 0.05 MVA or reuse"
        in message
    )
    assert "\n" not in message
    assert book.spent == 7
    pay(book, "1.5", alpha="0.05")
    assert book.remaining == 0
    with pytest.raises(InputError, match=r"remaining ε = 0, asked ε = 0.3, all at α = 0.1 MVA; reuse"):
        pay(book)


def test_a_draw_is_found_by_its_id(book: Ledger) -> None:
    first, second = pay(book, purpose="Grüße, \"quoted\", 'x'"), pay(book, rounding="0.01")
    assert first.id != second.id
    assert Ledger.open(book.path).find(first.id) == first
    assert book.find(second.id) == second
    assert first.time.utcoffset() is not None
    with pytest.raises(InputError, match="no charge has the id"):
        book.find("unknown")


def test_a_ledger_stays_the_same_file_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    book = make("ledger.jsonl")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    pay(book)
    assert len(Ledger.open(tmp_path / "ledger.jsonl").charges) == 1


def test_wrong_places_are_explained(book: Ledger, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("my notes")
    with pytest.raises(InputError, match="already exists"):
        make(book.path)
    with pytest.raises(InputError, match="already exists"):
        make(other)
    assert other.read_text() == "my notes"
    with pytest.raises(InputError, match="not a gridveil ledger"):
        Ledger.open(other)
    with pytest.raises(InputError, match="there is no ledger here"):
        Ledger.open(tmp_path / "missing")
    with pytest.raises(InputError, match="folder does not exist"):
        make(tmp_path / "no" / "ledger")
    with pytest.raises(InputError, match="cannot be used"):
        Ledger.open(tmp_path)
    with pytest.raises(InputError, match="purpose must be one line"):
        pay(book, purpose="two\nlines")


def test_a_unit_is_never_mixed_with_another(book: Ledger) -> None:
    """Before, α was per unit: --flow-base 0.001 made it a thousandth of what earlier charges meant, at the same ε."""
    for unit in ("kVA", "per unit", "MW", "mva", ""):
        with pytest.raises(InputError, match=r"states α in MVA, not in .*; state α in MVA"):
            pay(book, unit=unit)
    assert book.charges == () and book.unit == "MVA"


def test_a_ledger_without_a_cap_or_with_senseless_words_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cap"):
        Ledger.create(tmp_path / "l", dataset="ab" * 32, name="town", unit="MVA", alpha=1)  # type: ignore[call-arg]
    for field, bad in {"cap": "0", "alpha": 0.1, "unit": "", "name": "a\nb", "dataset": "town"}.items():
        with pytest.raises(InputError, match=field):
            make(tmp_path / "l", **{field: bad})
    assert not (tmp_path / "l").exists()


def test_the_id_of_a_draw_is_kept_with_its_charge(book: Ledger) -> None:
    charge = pay(book, draw="0123456789abcdef")
    assert Ledger.open(book.path).find(charge.id).draw == "0123456789abcdef"
    for bad in ("", "xyz", "0123", "ABCDEF01", "a" * 65):
        with pytest.raises(InputError, match="draw must be"):
            pay(book, draw=bad)


def test_a_ledger_of_version_1_is_refused_with_a_way_out(tmp_path: Path) -> None:
    old = tmp_path / "old.ledger"
    old.write_text(
        '{"gridveil-ledger": 1, "ledger": "fb4bf17d5a0e1d6c", "created": "2026-01-01T00:00:00+00:00", "alpha": "0.1", '
        '"cap": null, "check": "' + "0" * 64 + '"}\n'
    )
    with pytest.raises(InputError, match=r"version 1, whose α has no unit; .* create a new one with a cap") as refusal:
        Ledger.open(old)
    assert "\n" not in str(refusal.value)


def test_full_disk_refuses_and_the_ledger_stays_usable(book: Ledger) -> None:
    pay(book)
    real = os.write
    calls = itertools.count()

    def nearly_full(descriptor: int, data: bytes) -> int:
        if next(calls):
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:50])

    with patch.object(ledger_disk.os, "write", nearly_full), pytest.raises(InputError, match="No space left"):
        pay(book)
    pay(book)
    assert (book.spent, book.history().voids) == (Fraction("0.6"), 1)


# --- which draw a charge was used for ---------------------------------------------------------------------------------

DRAW, DIGEST, OTHER = "a" * 32, "b" * 64, "c" * 64


def test_the_first_draw_that_is_kept_counts_for_every_object_and_process(book: Ledger) -> None:
    pay(book)
    book.keep(DRAW, DIGEST)
    size = book.path.stat().st_size
    for ledger in (book, Ledger.open(book.path)):
        ledger.keep(DRAW, DIGEST)
        with pytest.raises(InputError, match="kept in another folder"):
            ledger.keep(DRAW, OTHER)
    assert book.path.stat().st_size == size and dict(book.history().kept) == {DRAW: DIGEST}
    book.keep(f"{DRAW}/sums", OTHER)
    pay(book)
    assert len(Ledger.open(book.path).charges) == 2 and Ledger.open(book.path).history().voids == 0


def test_a_note_of_a_kept_draw_that_a_crash_cut_off_is_made_again(book: Ledger) -> None:
    pay(book)
    before, spent = book.path.stat().st_size, book.spent
    book.keep(DRAW, DIGEST)
    whole = book.path.read_bytes()
    for end in range(before + 1, len(whole)):
        book.path.write_bytes(whole[:end])
        found = Ledger.open(book.path)
        assert found.spent == spent and not found.history().kept
        found.keep(DRAW, DIGEST)
        assert (found.spent, dict(found.history().kept)) == (spent, {DRAW: DIGEST})
    book.path.write_bytes(whole.replace(DIGEST.encode(), OTHER.encode()))
    with pytest.raises(InputError, match="does not follow"):
        Ledger.open(book.path)


@pytest.mark.parametrize(("draw", "digest"), [("short", DIGEST), (DRAW, "12"), (f"{DRAW}/../x", DIGEST)])
def test_a_kept_draw_needs_an_id_and_a_digest(book: Ledger, draw: str, digest: str) -> None:
    with pytest.raises(InputError, match="needs its id and a digest"):
        book.keep(draw, digest)


# --- tampering --------------------------------------------------------------------------------------------------------


def three_charges(book: Ledger) -> bytes:
    with patch.object(ledger_disk, "sync"):
        for epsilon in ("0.3", "1/3", "2"):
            pay(book, epsilon, rounding="0.1")
    return book.path.read_bytes()


def test_every_changed_byte_is_detected(book: Ledger) -> None:
    content = three_charges(book)
    spent = book.spent
    for position, new in zip(range(len(content)), itertools.cycle(b"0x\n1"), strict=False):
        if content[position] == new:
            continue
        for edited in (
            content[:position] + bytes([new]) + content[position + 1 :],
            content[:position] + bytes([new]) + content[position:],
            content[:position] + content[position + 1 :],
        ):
            book.path.write_bytes(edited)
            try:
                # Without the end of its last line the file looks cut off; that line must still count.
                assert Ledger.open(book.path).spent >= spent, edited
                assert position >= len(content) - 1
            except InputError:
                pass


def test_removed_moved_repeated_and_foreign_lines_are_detected(book: Ledger, tmp_path: Path) -> None:
    header, *charges = three_charges(book).splitlines(keepends=True)
    foreign = three_charges(make(tmp_path / "foreign")).splitlines(keepends=True)
    orders = [p for n in range(1, 4) for p in itertools.permutations(charges, n) if list(p) != charges[:n]]
    for lines in [[header, *order] for order in orders] + [
        [header, charges[0], *charges],
        [header, foreign[1]],
        [foreign[0], *charges],
        charges,
    ]:
        book.path.write_bytes(b"".join(lines))
        # The clock of some file systems is too coarse to tell two writes of one test apart.
        os.utime(book.path, (0, len(lines)))
        with pytest.raises(InputError, match=r"does not follow|not a gridveil ledger"):
            Ledger.open(book.path)
        with pytest.raises(InputError):
            pay(book)
    book.path.write_bytes(header + charges[0].replace(b'"epsilon": "0.3"', b'"epsilon": "0.1"').rstrip(b"\n"))
    with pytest.raises(InputError, match="line 2 does not follow"):
        Ledger.open(book.path)


def test_a_process_notices_that_lines_it_saw_are_gone(book: Ledger) -> None:
    lines = three_charges(book).splitlines(keepends=True)
    book.path.write_bytes(b"".join(lines[:3]))
    with pytest.raises(InputError, match="are gone"):
        pay(book)
    # Whole lines cut from the end cannot be seen from the file alone, as the docstring says.
    assert len(Ledger.open(book.path).charges) == 2


def test_an_open_ledger_notices_a_changed_prefix(book: Ledger) -> None:
    """It verifies only what was appended, but not on a file that is another, is shorter, or changed without growing."""
    content = three_charges(book)
    edited = content.replace(b'"epsilon": "1/3"', b'"epsilon": "1/9"')
    book.path.write_bytes(edited)
    os.utime(book.path, (0, 0))
    with pytest.raises(InputError, match="line 3 does not follow"):
        pay(book)
    last_changed = content[:-3] + b"0}\n" + b"more\n"
    book.path.write_bytes(last_changed)
    with pytest.raises(InputError, match="line 4 does not follow"):
        pay(book)
    copy = book.path.with_suffix(".copy")
    copy.write_bytes(edited + b"{}\n")
    copy.replace(book.path)
    with pytest.raises(InputError, match="line 3 does not follow"):
        pay(book)
    book.path.write_bytes(content)
    os.utime(book.path, (0, 1))
    assert pay(book) == Ledger.open(book.path).charges[-1]


def test_only_what_was_appended_is_read(book: Ledger) -> None:
    """Before, each charge read and verified the whole file: a year of hours took hours."""
    content = three_charges(book)
    reader = Ledger.open(book.path)
    real, starts = ledger_disk.read, []

    def note(descriptor: int, start: int = 0) -> bytes:
        starts.append(start)
        return real(descriptor, start)

    with patch.object(ledger_disk, "read", note):
        charge = pay(book)
        assert reader.history().charges[-1] == charge
    assert starts == [len(content)] * 3


# --- crashes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """The disk between two system calls: what the running system sees, what has been synced, and the draws so far."""

    cached: bytes
    synced: bytes
    named: bool
    drawn: tuple[tuple[str, Fraction], ...]

    def after_crash(self) -> set[bytes | None]:
        """The files that a kill or a loss of power may leave: what was not synced is there, gone, cut, or zeros."""
        equal = (a == b for a, b in zip(self.cached, self.synced, strict=False))
        kept = sum(1 for _ in itertools.takewhile(bool, equal))
        half = (kept + len(self.cached)) // 2
        files = {self.cached, self.synced}
        files |= {self.cached[:n] + bytes(len(self.cached) - n) for n in (kept, half)}
        if kept:
            # Not for the header: it fits one sector, which is never filled from the back only.
            files.add(self.cached[:kept] + bytes(half - kept) + self.cached[half:])
        return files if self.named else {None, *files}


class Recorder:
    """Stands in for ``os`` inside the ledger: writes byte by byte, and records the disk after each call."""

    def __init__(self, path: Path) -> None:
        self.file = path
        self.named = path.exists()
        self.synced = path.read_bytes() if self.named else b""
        self.drawn: tuple[tuple[str, Fraction], ...] = ()
        self.moments: list[Moment] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def note(self) -> None:
        if self.file.exists():
            self.moments.append(Moment(self.file.read_bytes(), self.synced, self.named, self.drawn))

    def draw(self, draw_id: str, epsilon: Fraction) -> None:
        self.drawn = (*self.drawn, (draw_id, epsilon))
        self.note()

    def write(self, descriptor: int, data: bytes) -> int:
        count = os.write(descriptor, data[:1])
        self.note()
        return count

    def ftruncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)
        self.note()

    def fsync(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.named = True
        else:
            self.synced = self.file.read_bytes()
        self.note()


def record(path: Path, steps: Callable[[Recorder], None]) -> list[Moment]:
    disk = Recorder(path)
    with patch.object(ledger_disk, "os", disk):
        steps(disk)
    return disk.moments


def honest(disk: Recorder) -> None:
    """Create the ledger if there is none, then twice charge and draw, and last charge and draw a batch."""
    book = Ledger(disk.file) if disk.file.exists() else make(disk.file)
    for rounding in (None, "0.02"):
        charge = pay(book, "1/3", rounding=rounding, purpose="é")
        disk.draw(charge.id, charge.epsilon)
    for charge in book.charge_many([ChargeRequest(**request("1/7", purpose="b"))] * 2):
        disk.draw(charge.id, charge.epsilon)


def draws_first(disk: Recorder) -> None:
    book = make(disk.file)
    disk.draw("early", Fraction("0.3"))
    pay(book)


def check_after_any_crash(moments: list[Moment], path: Path) -> None:
    """Whatever a crash leaves at any moment: every draw is on file, and the ledger goes on from the same total."""
    seen = set()
    for moment in moments:
        for content in moment.after_crash():
            if (content, moment.drawn) in seen:
                continue
            seen.add((content, moment.drawn))
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            check_not_under_counted(path, moment.drawn)


def check_not_under_counted(path: Path, drawn: tuple[tuple[str, Fraction], ...]) -> None:
    try:
        book = Ledger.open(path)
    except InputError as error:
        assert not drawn, f"drawn, but no ledger: {error}"
        assert "cut off" in str(error) or "there is no ledger" in str(error)
        make(path)
        return
    before = book.history()
    on_file = {charge.id: charge.epsilon for charge in before.charges}
    assert sum(epsilon for _, epsilon in drawn) <= before.spent, "under-counted"
    assert set(drawn) <= set(on_file.items()), "a draw is not on file"
    charge = pay(book, "0.25")
    after = Ledger.open(path).history()
    assert after.charges == (*before.charges, charge)
    assert (after.spent, after.voids) == (before.spent + Fraction("0.25"), before.voids)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "after-crash"


def test_no_crash_at_any_byte_under_counts(tmp_path: Path, scratch: Path) -> None:
    moments = record(tmp_path / "ledger", honest)
    assert len(moments) > 500 and len(moments[-1].drawn) == 4
    with patch.object(ledger_disk, "sync"):
        check_after_any_crash(moments, scratch)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8, 1.0], ids=["void", "numbers cut", "words cut", "only the end cut"])
def test_no_crash_during_the_repair_of_a_crash_under_counts(book: Ledger, scratch: Path, share: float) -> None:
    *whole, last = three_charges(book).splitlines(keepends=True)
    book.path.write_bytes(b"".join(whole) + last[: int(share * (len(last) - 1))])
    before = Ledger.open(book.path).history()
    assert before.charges[-1].recovered == (share > 0.5)
    moments = record(book.path, honest)
    with patch.object(ledger_disk, "sync"):
        check_after_any_crash(moments[::7], scratch)
    assert Ledger.open(book.path).history().charges[: len(before.charges)] == before.charges


def test_saboteurs_fail_the_crash_check(tmp_path: Path, scratch: Path) -> None:
    def sabotaged(name: str, steps: Callable[[Recorder], None], **broken: Any) -> list[Moment]:
        with patch.multiple(ledger_disk, **broken) if broken else patch.dict({}):
            return record(tmp_path / name, steps)

    def only_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            ledger_disk.os.fsync(descriptor)

    saboteurs = {
        "draws first": sabotaged("draws-first", draws_first),
        "never syncs the file": sabotaged("no-sync", honest, sync=only_folders),
        "never syncs the folder": sabotaged("no-folder", honest, sync_folder=lambda folder: None),
    }
    for name, moments in saboteurs.items():
        with patch.object(ledger_disk, "sync"), pytest.raises(AssertionError, match=r"drawn, but|under-counted"):
            check_after_any_crash(moments[::10], scratch)
            pytest.fail(f"not caught: {name}")


def test_macos_syncs_through_the_cache_of_the_drive(book: Ledger) -> None:
    class MacLocks:
        F_FULLFSYNC = 51
        calls = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(fcntl, name)

        def fcntl(self, descriptor: int, operation: int) -> None:
            assert operation == self.F_FULLFSYNC
            self.calls += 1

    locks = MacLocks()
    with (
        patch.object(ledger_disk, "fcntl", locks),
        patch.object(ledger_disk.os, "fsync", side_effect=AssertionError),
    ):
        pay(book)
    assert locks.calls == 2


@pytest.fixture
def windows() -> Iterator[None]:
    """No flock, as on Windows, and no folder that can be opened; portalocker locks."""
    pytest.importorskip("portalocker")
    with patch.multiple(ledger_disk, fcntl=None, WINDOWS=True):
        yield


@pytest.mark.usefixtures("windows")
def test_windows_charges_and_locks_by_its_library(tmp_path: Path) -> None:
    import portalocker

    book = make(tmp_path / "ledger")
    real, states = os.write, []

    def probe(descriptor: int, data: bytes) -> int:
        with book.path.open("rb") as other, suppress(portalocker.AlreadyLocked):
            portalocker.lock(other, portalocker.LOCK_EX | portalocker.LOCK_NB)
            states.append("free")
        return real(descriptor, data)

    with patch.object(ledger_disk.os, "write", probe):
        charge = pay(book)
    assert states == [], "the ledger was written without its lock"
    assert Ledger.open(book.path).charges == (charge,)
    with book.path.open("rb") as other:
        portalocker.lock(other, portalocker.LOCK_EX | portalocker.LOCK_NB)


# --- several writers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_object", [True, False])
def test_threads_share_a_cap_exactly(book: Ledger, one_object: bool) -> None:
    paid: list[Charge] = []

    def spend() -> None:
        try:
            while True:
                paid.append(pay(book if one_object else Ledger.open(book.path), "1/3"))
        except InputError as error:
            assert "over budget" in str(error)

    with patch.object(ledger_disk, "sync"):
        threads = [threading.Thread(target=spend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert book.spent == 10 and len(paid) == 30
    assert {charge.id for charge in paid} == {charge.id for charge in book.charges}


def replace_by_copy(path: Path) -> None:
    copy = path.with_suffix(".copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize("meddle", [replace_by_copy, lambda path: os.truncate(path, path.read_bytes().rfind(b"{"))])
def test_a_file_that_loses_the_charge_meanwhile_refuses_the_draw(book: Ledger, meddle: Callable[[Path], None]) -> None:
    pay(book)
    real = os.write

    def write_then_meddle(descriptor: int, data: bytes) -> int:
        count = real(descriptor, data)
        meddle(book.path)
        return count

    with patch.object(ledger_disk.os, "write", write_then_meddle), pytest.raises(InputError, match="another program"):
        pay(book)


def test_a_file_replaced_during_the_wait_for_its_lock_is_opened_again(book: Ledger) -> None:
    real = fcntl.flock
    waits = itertools.count()

    def replace_first(descriptor: int, operation: int) -> None:
        if next(waits) == 0:
            replace_by_copy(book.path)
        real(descriptor, operation)

    with patch.object(fcntl, "flock", replace_first):
        charge = pay(book)
    assert Ledger.open(book.path).charges == (charge,)


def test_a_reader_waits_for_the_end_of_a_write(book: Ledger) -> None:
    real = os.write
    seen: list[tuple[Charge, ...]] = []
    reader = threading.Thread(target=lambda: seen.append(Ledger.open(book.path).charges))

    def write_slowly(descriptor: int, data: bytes) -> int:
        count = real(descriptor, data[:-1])
        if len(data) > 1:
            reader.start()
            reader.join(timeout=0.2)
            count += real(descriptor, data[-1:])
        return count

    with patch.object(ledger_disk.os, "write", write_slowly):
        charge = pay(book)
    reader.join()
    assert seen == [(charge,)]


def test_a_forked_child_does_not_keep_the_lock(book: Ledger) -> None:
    real = os.write
    inherited: list[int] = []

    def fork_meanwhile(descriptor: int, data: bytes) -> int:
        inherited.append(os.dup(descriptor))
        return real(descriptor, data)

    with patch.object(ledger_disk.os, "write", fork_meanwhile):
        pay(book)
    with book.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(inherited[0])


def test_killed_and_concurrent_writers() -> None:
    """A small share of the campaign of bench/ledger_torture.py, with its saboteurs."""
    command = [sys.executable, ROOT / "bench" / "ledger_torture.py", "--kills", "50", "--writers", "8"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "50 kills, 8 concurrent writers" in result.stdout
    assert "draws missing from a ledger: 0" in result.stdout
    assert result.stdout.count(": caught") == 2
