"""One data set, one ledger: no accident with files, folders, names or bases opens a fresh budget."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridveil.core.errors import InputError
from gridveil.core.quantity import parse_distance
from gridveil.core.secret import SecretField
from gridveil.privacy import ledger_disk
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger_book import LEDGERS, REGISTER, LedgerBook, dataset_digest
from gridveil.privacy.mechanisms import mechanism_for
from gridveil.privacy.weighted_sum import WeightedSum
from gridveil.sectors.registry import load_case
from gridveil.service.account import LedgerAccount, Price
from gridveil.service.budget import describe_ledger, ledger_of

TOWN = dataset_digest(["bus 1", "bus 2", "branch 1-2"])
OTHER = dataset_digest(["bus 1", "bus 3"])
USUAL: dict[str, Any] = {"name": "town", "unit": "MVA", "alpha": "10", "cap": "2"}


def pay(ledger: Ledger, epsilon: str = "1") -> None:
    ledger.charge(epsilon=epsilon, alpha="10", unit="MVA", mechanism="laplace", purpose="test")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def book(home: Path) -> LedgerBook:
    return LedgerBook(home)


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        action()
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- what a data set is -----------------------------------------------------------------------------------------------


@given(texts=st.lists(st.text(), min_size=1), other=st.lists(st.text(), min_size=1))
def test_a_data_set_is_known_by_its_texts_in_any_order(texts: list[str], other: list[str]) -> None:
    assert dataset_digest(texts) == dataset_digest(texts[::-1])
    assert (dataset_digest(texts) == dataset_digest(other)) == (sorted(texts) == sorted(other))
    assert dataset_digest(texts, "town") == dataset_digest(other, "town") == dataset_digest([], "town")


def test_a_name_never_equals_an_identity() -> None:
    texts = ["town", "name", "network", '["name", "town"]']
    digests = [dataset_digest(list(some)) for n in (1, 2, 3) for some in itertools.combinations(texts, n)]
    named = [dataset_digest([], text) for text in texts]
    assert len({*digests, *named}) == len(digests) + len(named)
    assert "--dataset NAME" in refusal(lambda: dataset_digest([]))
    assert "name" in refusal(lambda: dataset_digest(["bus 1"], "two\nlines"))


# --- where ledgers live -----------------------------------------------------------------------------------------------


def test_the_folder_is_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "mine"))
    assert LedgerBook().folder == tmp_path / "mine"
    monkeypatch.delenv("GRIDVEIL_HOME")
    assert LedgerBook().folder == Path(platformdirs.user_data_dir("gridveil")).resolve()
    assert not (tmp_path / "mine").exists()


def test_a_ledger_is_made_once_and_found_again(book: LedgerBook, home: Path) -> None:
    missing = refusal(lambda: book.find(TOWN))
    assert "create one with a cap: gridveil ledger create CASE --budget E --alpha A, or pass --budget" in missing
    made = book.create(TOWN, **USUAL)
    assert made.path == home / LEDGERS / f"{TOWN}.ledger"
    pay(made)
    found = LedgerBook(home).find(TOWN)
    assert (found.spent, found.cap, found.alpha, found.unit, found.dataset) == (1, 2, 10, "MVA", TOWN)
    assert book.find(TOWN, made.path).spent == 1
    assert str(made.path) in refusal(lambda: book.create(TOWN, **USUAL | {"cap": "50"}))
    assert book.find(TOWN).cap == 2
    assert "no ledger yet" in refusal(lambda: book.find(OTHER))
    (entry,) = book.entries()
    assert (entry.dataset, entry.name, entry.ledger, entry.path) == (TOWN, "town", made.id, made.path)


def test_senseless_values_leave_nothing_behind(book: LedgerBook, home: Path) -> None:
    refusal(lambda: book.create(TOWN, **USUAL | {"cap": "0"}))
    assert not home.exists()


# --- attacks: what gave a fresh budget before -------------------------------------------------------------------------


def spent_up(book: LedgerBook, **changes: Any) -> Ledger:
    ledger = book.create(TOWN, **USUAL, **changes)
    pay(ledger, "2")
    return ledger


def test_a_copied_or_renamed_case_file_has_no_fresh_budget(book: LedgerBook) -> None:
    """Before, the ledger was named after the file: ``cp town.m town2.m`` gave a budget without a cap, without a word."""
    spent_up(book)
    same_network_read_from_a_copy = dataset_digest(["branch 1-2", "bus 2", "bus 1"])
    assert "over budget" in refusal(lambda: pay(book.find(same_network_read_from_a_copy)))


def test_another_folder_has_no_fresh_budget(book: LedgerBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the ledger of a built-in network lay in the current folder: ``cd elsewhere`` gave a fresh one."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(book.folder))
    spent_up(book)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "over budget" in refusal(lambda: pay(LedgerBook().find(TOWN)))


def test_another_base_or_unit_has_no_fresh_budget(book: LedgerBook) -> None:
    """Before, α was per unit: with baseMVA 1 in the file, α = 0.1 meant 0.1 MVA in place of 10 MVA, at the same price."""
    ledger = book.create(TOWN, **USUAL)
    account = LedgerAccount(ledger)

    def draw(base: float, alpha: str, unit: str = "MVA") -> None:
        about = field(unit=unit, base=base)
        mechanism = mechanism_for(about, epsilon="1/2", alpha=parse_distance(alpha, about))
        price = Price(epsilon=mechanism.epsilon, alpha=mechanism.alpha, rounding=mechanism.rounding)
        account.pay(about, price, mechanism=repr(mechanism), purpose="test")

    draw(100.0, "0.1pu")
    draw(1.0, "10MVA")
    # The same physical promise costs the same in either base ...
    assert [charge.at(ledger.alpha) for charge in ledger.charges] == [Fraction(1, 2)] * 2
    # ... and the α that only looks the same costs a hundred times as much at the ledger's α, over what remains.
    assert "over budget" in refusal(lambda: draw(1.0, "0.1pu"))
    assert "states α in MVA" in refusal(lambda: draw(1.0, "10pu", "kg/s"))
    refusal(lambda: book.create(TOWN, **USUAL | {"unit": "kVA"}))
    assert ledger.spent == 1


def field(*, unit: str = "MVA", base: float = 100.0) -> SecretField:
    return SecretField(
        name="demand", meaning="power", participant="load", dimension=1, unit=unit, base=base, places=("1", "2")
    )


def test_a_private_cost_is_charged_in_the_physical_unit(book: LedgerBook) -> None:
    """The sum's noise is in the unit of the cost, but what is charged is what it hides: α of one value."""
    ledger = book.create(TOWN, **USUAL)
    query = WeightedSum(weights=np.array([20.0, 3.0]))
    alpha = Fraction(1, 10)
    mechanism = query.mechanism(epsilon=Fraction(1, 4), alpha=alpha)
    price = Price(epsilon=mechanism.epsilon, alpha=alpha, rounding=query.rounding(mechanism))
    LedgerAccount(ledger).pay(field(), price, mechanism=repr(mechanism), purpose="cost target")
    (charge,) = ledger.charges
    assert (charge.alpha, charge.at(ledger.alpha)) == (10, Fraction(1, 4))
    # At another α the loss follows the sum's own law, rounding included.
    assert charge.at(Fraction(20)) == mechanism.epsilon * (20 + charge.rounding) / (10 + charge.rounding)
    assert charge.rounding == mechanism.rounding / query.steepness * 100


def test_a_check_refuses_what_the_prices_of_a_release_exceed_together(book: LedgerBook) -> None:
    ledger = book.create(TOWN, **USUAL)
    price = Price(epsilon=Fraction(3, 2), alpha=Fraction(1, 10), rounding=None)
    rest = Price(epsilon=Fraction(1, 2), alpha=Fraction(1, 10), rounding=None)
    account = LedgerAccount(ledger)
    account.check(field(), price, rest)
    assert "nothing was drawn" in refusal(lambda: account.check(field(), price, rest, rest))
    assert ledger.charges == ()


def test_naming_another_ledger_gives_no_fresh_budget(book: LedgerBook, tmp_path: Path) -> None:
    """Before, ``--ledger other`` opened or made any file that was named."""
    ledger = spent_up(book)
    other = tmp_path / "other.ledger"
    assert str(ledger.path) in refusal(lambda: book.find(TOWN, other))
    assert str(ledger.path) in refusal(lambda: book.create(TOWN, **USUAL, path=other))
    assert not other.exists()
    shutil.copy(ledger.path, other)
    assert str(ledger.path) in refusal(lambda: book.find(TOWN, other))
    other.unlink()
    Ledger.create(other, dataset=TOWN, **USUAL)
    assert str(ledger.path) in refusal(lambda: book.find(TOWN, other))
    foreign = book.create(OTHER, **USUAL | {"name": "harbour"}, path=tmp_path / "harbour.ledger")
    assert "another data set, harbour" in refusal(lambda: book.find(TOWN, foreign.path))
    third = dataset_digest([], "third")
    assert "another data set, harbour" in refusal(lambda: book.find(third, foreign.path))


@pytest.mark.parametrize("elsewhere", [False, True], ids=["usual place", "own path"])
def test_a_deleted_ledger_gives_no_fresh_budget(book: LedgerBook, tmp_path: Path, elsewhere: bool) -> None:
    """Before, the next release after ``rm town.m.ledger`` made a new one without a word."""
    ledger = spent_up(book, path=tmp_path / "town.ledger" if elsewhere else None)
    content = ledger.path.read_bytes()
    for loss in (ledger.path.unlink, lambda: ledger.path.write_bytes(b""), lambda: ledger.path.write_text("notes")):
        loss()
        assert "restore it from a backup" in refusal(lambda: book.find(TOWN))
        refusal(lambda: book.create(TOWN, **USUAL))
        refusal(lambda: book.create(TOWN, **USUAL, path=tmp_path / "new.ledger"))
    ledger.path.unlink()
    Ledger.create(ledger.path, dataset=TOWN, **USUAL)
    assert "another ledger lies in the place" in refusal(lambda: book.find(TOWN))
    ledger.path.write_bytes(content)
    assert book.find(TOWN).remaining == 0


def test_a_ledger_that_cannot_be_read_is_not_taken_for_none(book: LedgerBook) -> None:
    ledger = spent_up(book)
    denied = PermissionError(13, "Permission denied")
    with patch.object(Path, "read_bytes", side_effect=denied):
        assert "Permission denied" in refusal(lambda: book.find(TOWN))
    (book.folder / REGISTER).unlink()
    with patch.object(Path, "read_bytes", side_effect=denied):
        assert "Permission denied" in refusal(lambda: book.create(TOWN, **USUAL))
    assert book.find(TOWN).id == ledger.id


def test_a_lost_register_still_leads_to_the_ledgers_in_their_place(book: LedgerBook, tmp_path: Path) -> None:
    usual = spent_up(book)
    own = book.create(OTHER, **USUAL, path=tmp_path / "own.ledger")
    (book.folder / REGISTER).unlink()
    assert "another data set" in refusal(lambda: book.find(TOWN, own.path))
    assert book.find(TOWN).remaining == 0
    (book.folder / REGISTER).unlink()
    assert str(usual.path) in refusal(lambda: book.create(TOWN, **USUAL, path=tmp_path / "new.ledger"))
    assert book.find(OTHER, own.path).id == own.id
    assert {entry.path for entry in book.entries()} == {usual.path, own.path}
    usual.path.unlink()
    assert "restore it from a backup" in refusal(lambda: book.find(TOWN))


def test_an_edited_register_is_detected(book: LedgerBook, tmp_path: Path) -> None:
    spent_up(book)
    book.create(OTHER, **USUAL)
    register = book.folder / REGISTER
    lines = register.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["kind"] for line in lines] == ["announced", "made"] * 2
    for kept in (lines[1:], lines[:1] + lines[2:], lines[2:], [lines[0].replace(b"town", b"down"), *lines[1:]]):
        register.write_bytes(b"".join(kept))
        assert "does not follow" in refusal(lambda: book.find(TOWN))
        assert "does not follow" in refusal(lambda: book.create(dataset_digest([], "third"), **USUAL))


# --- crashes and several processes ------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for kill −9: nothing after it runs in the ledger."""


@pytest.mark.parametrize("elsewhere", [False, True], ids=["usual place", "own path"])
def test_no_crash_while_a_ledger_is_made_loses_it_or_makes_two(tmp_path: Path, elsewhere: bool) -> None:
    """At every byte: the ledger is picked up if it was made, and can be made if it was not; there is never a second."""
    own = tmp_path / "own.ledger"
    real = os.write
    picked_up = made_again = 0
    for moment in itertools.count():
        folder = tmp_path / f"home{moment}"
        own.unlink(missing_ok=True)
        book, left = LedgerBook(folder), itertools.count(moment, -1)

        def byte_by_byte(descriptor: int, data: bytes, left: itertools.count[int] = left) -> int:
            if next(left) <= 0:
                raise Killed
            return real(descriptor, data[:8])

        path = own if elsewhere else None
        try:
            with patch.object(ledger_disk, "sync"), patch.object(ledger_disk.os, "write", byte_by_byte):
                book.create(TOWN, **USUAL, path=path)
            break
        except Killed:
            pass
        with patch.object(ledger_disk, "sync"):
            files = [p for p in (own, folder / LEDGERS / f"{TOWN}.ledger") if p.exists() and b"\n" in p.read_bytes()]
            if files:
                assert book.find(TOWN).path == files[0]
                assert str(files[0]) in refusal(lambda book=book: book.create(TOWN, **USUAL))  # type: ignore[misc]
                picked_up += 1
            else:
                assert "no ledger yet" in refusal(lambda book=book: book.find(TOWN))  # type: ignore[misc]
                made = book.create(TOWN, **USUAL, path=path)
                assert book.find(TOWN).id == made.id
                made_again += 1
            assert len(book.entries()) == 1
    assert picked_up > 20 and made_again > 40


def _compete(folder: Path, number: int, results: Any) -> None:
    book = LedgerBook(folder)
    try:
        ledger = book.create(TOWN, **USUAL | {"cap": "3"}, path=folder.parent / f"{number}.ledger")
        results.put(("made", ledger.id))
    except InputError as error:
        assert "already has this ledger" in str(error)
    paid = 0
    try:
        while True:
            pay(book.find(TOWN), "0.25")
            paid += 1
    except InputError as error:
        assert "over budget" in str(error)
    results.put(("paid", paid))


def test_processes_that_compete_make_one_ledger_and_share_its_cap(home: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_compete, args=(home, number, results)) for number in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    told = [results.get(timeout=10) for _ in range(6)]
    assert [what for what, _ in told].count("made") == 1
    assert sum(number for what, number in told if what == "paid") == 12
    assert LedgerBook(home).find(TOWN).spent == 3


def _make_slowly(folder: Path, number: int) -> None:
    real = os.write

    def slowly(descriptor: int, data: bytes) -> int:
        os.sched_yield()
        return real(descriptor, data[:5])

    with patch.object(ledger_disk.os, "write", slowly):
        book = LedgerBook(folder)
        for step in itertools.count():
            book.create(dataset_digest([], f"{number}-{step}"), **USUAL)


def test_kill_9_while_ledgers_are_made_leaves_a_register_that_works(home: Path) -> None:
    context, book = multiprocessing.get_context("fork"), LedgerBook(home)
    for number in range(8):
        worker = context.Process(target=_make_slowly, args=(home, number))
        before, deadline = len(book.entries()), time.monotonic() + 60
        worker.start()
        while len(book.entries()) == before and time.monotonic() < deadline:  # it is at work, however slow the machine
            worker.join(0.005)
        worker.join(0.003 * number)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        book = LedgerBook(home)
        assert book.find(book.create(dataset_digest([], f"after {number}"), **USUAL).dataset).spent == 0
    for file in (home / LEDGERS).glob("*.ledger"):
        if b"\n" in file.read_bytes():
            assert book.find(file.stem).path == file
    assert len(book.entries()) >= 16


# --- for the command line ---------------------------------------------------------------------------------------------


def test_a_release_finds_its_ledger_or_makes_it_with_a_budget(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRIDVEIL_HOME", str(home))
    case = load_case("veil2")
    assert "or pass --budget" in refusal(lambda: ledger_of(case))
    made = ledger_of(case, alpha="10MVA", cap="3")
    assert (made.unit, made.alpha, made.name) == ("MVA", 10, "veil2")
    pay(made, "1/2")
    assert ledger_of(case).spent == Fraction(1, 2)
    assert "leave out --budget" in refusal(lambda: ledger_of(case, alpha="10MVA", cap="3"))
    # A name of the curator's own stands for another data set on the same network.
    assert ledger_of(case, name="winter", alpha="0.1pu", cap="1").alpha == 10


def test_a_ledger_is_described_in_plain_values(book: LedgerBook) -> None:
    ledger = book.create(TOWN, **USUAL)
    pay(ledger, "1/3")
    ledger.charge(epsilon="1/2", alpha="5", unit="MVA", mechanism="m", purpose="p", rounding="0", draw="ab" * 8)
    told = describe_ledger(ledger)
    charges: Any = told.pop("charges")
    assert told == {
        "ledger": str(ledger.path),
        "dataset": TOWN,
        "name": "town",
        "unit": "MVA",
        "alpha": "10",
        "spent": "4/3",
        "cap": "2",
        "remaining": "2/3",
        "delta": "0",
        "protects": "profile",
        "draws": 2,
    }
    assert json.loads(json.dumps(charges)) == charges
    assert [(c["epsilon"], c["alpha"], c["total"]) for c in charges] == [("1/3", "10", "1/3"), ("0.5", "5", "4/3")]


@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero"])
def test_a_device_is_no_ledger(device, tmp_path):
    """Reading it to its end, which it has not, took all memory."""
    if not Path(device).exists():
        pytest.skip(f"needs {device}")
    with pytest.raises(InputError, match="is not a file"):
        LedgerBook(tmp_path).create(TOWN, path=Path(device), **USUAL)
    with pytest.raises(InputError, match="is not a file"):
        Ledger.open(Path(device)).history()


def test_a_pipe_is_no_ledger(tmp_path):
    """Opening it waited for ever."""
    os.mkfifo(tmp_path / "pipe.ledger")
    with pytest.raises(InputError, match="is not a file"):
        Ledger.open(tmp_path / "pipe.ledger").history()
