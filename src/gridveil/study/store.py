"""The store of a study: one SQLite file with its settings, one row per finished task, and the sessions that made them.

Rows are committed as they come, those that come at the same time together, with the time spent so far; so whatever is killed at
whatever moment loses the tasks under way and nothing else. The file is written ahead (WAL) and can be read while a runner is at
work.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from gridveil.core.errors import InputError
from gridveil.core.extras import require
from gridveil.study.outcome import TaskOutcome
from gridveil.study.store_settings import Settings, merged_settings, settings_text
from gridveil.study.study_file import Study

if TYPE_CHECKING:
    import pandas as pd

NOTE = "simulation; contains distances to true demands"
APPLICATION = 0x67764C53  # marks the file as ours
SCHEMA_VERSION = 1
READ_PATIENCE = 10.0  # seconds that a reader waits for a writer
NAMES = tuple(field.name for field in fields(TaskOutcome))
_VALUES = attrgetter(*NAMES)
KEY = ("network", "alpha", "beta", "epsilon", "seed", "method", "solver")
_SQL_TYPES = {str: "TEXT", int: "INTEGER", bool: "INTEGER", float: "REAL"}


class TaskKey(NamedTuple):
    """Columns that identify a row."""

    network: str
    alpha: float
    beta: float
    epsilon: float
    seed: int
    method: str
    solver: str


@dataclass(frozen=True, kw_only=True)
class Session:
    """One session of writing to a store: its start (UTC), wall seconds until its last row, and rows written."""

    start: str
    seconds: float
    tasks: int
    workers: int
    engine: str
    cores: int


@dataclass(frozen=True, kw_only=True)
class StoreSummary:
    """Summary of a store: settings, counts, reasons of failure (reason → count), and sessions."""

    settings: Settings
    done: int
    verified: int
    reasons: dict[str, int]
    sessions: tuple[Session, ...]

    @property
    def tasks(self) -> int:
        """How many rows the store has when the study is finished."""
        parts = ("networks", "cells", "methods", "seeds")
        return math.prod(len(self.settings[part]) for part in parts)

    @property
    def seconds(self) -> float:
        """Wall time of all sessions."""
        return sum(session.seconds for session in self.sessions)


class Store:
    """A store that this process may write; made by ``open_store``."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._session: int | None = None
        self._clock = 0.0

    def finished(self, *, failed_too: bool = True) -> set[TaskKey]:
        """Return the tasks that have a row; without ``failed_too``, only the verified ones."""
        condition = "" if failed_too else " WHERE verified"
        return {TaskKey(*row) for row in self._connection.execute(f"SELECT {', '.join(KEY)} FROM outcomes{condition}")}

    def begin_session(self, *, workers: int, engine: str, cores: int) -> None:
        """Record the start of a session; its time and tasks are updated with every row."""
        self._clock = time.perf_counter()
        with self._writing() as connection:
            self._session = connection.execute(
                "INSERT INTO sessions (start, seconds, tasks, workers, engine, cores) VALUES (?, 0, 0, ?, ?, ?)",
                (datetime.now(UTC).isoformat(timespec="seconds"), workers, engine, cores),
            ).lastrowid

    def add(self, outcomes: Sequence[TaskOutcome]) -> None:
        """Write rows, all or none, replacing earlier ones of the same tasks, together with the time spent so far."""
        places = ", ".join("?" * len(NAMES))
        with self._writing() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO outcomes ({', '.join(NAMES)}) VALUES ({places})", map(_VALUES, outcomes)
            )
            connection.execute(
                "UPDATE sessions SET seconds = ?, tasks = tasks + ? WHERE id = ?",
                (time.perf_counter() - self._clock, len(outcomes), self._session),
            )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
        except sqlite3.OperationalError as error:
            raise InputError(
                f"{self.path}: cannot be written ({error}); what is finished is safe, so correct this and run again"
            ) from None


@contextmanager
def open_store(path: Path, study: Study) -> Iterator[Store]:
    """Open or create the store of a study for exclusive writing; its settings must match the study."""
    with _locked(path):
        connection = _connect(path, write=True)
        try:
            _check_or_create(path, connection, study)
            yield Store(path, connection)
        finally:
            # At rest it is one file; if somebody is reading it just now, the log stays beside it, as after a kill.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA journal_mode = DELETE")
            connection.close()


def read_outcomes(path: Path) -> pd.DataFrame:
    """Read all rows, one column per field of TaskOutcome, sorted by task; missing numbers are NaN."""
    require("pandas")
    import pandas as pd

    with _reading(path) as connection:
        order = "network, alpha, beta, method, solver, epsilon, seed"
        stored = _stored_columns(connection)
        wanted = ", ".join(name if name in stored else f"NULL AS {name}" for name in NAMES)
        rows = connection.execute(f"SELECT {wanted} FROM outcomes ORDER BY {order}").fetchall()
    frame = pd.DataFrame(rows, columns=list(NAMES))
    return frame.astype({name: _column_type(hint) for name, hint in get_type_hints(TaskOutcome).items()})


def summarise(path: Path) -> StoreSummary:
    """Summarise a store: its settings, counts and sessions."""
    with _reading(path) as connection:
        reasons = connection.execute(
            "SELECT reason, count(*) FROM outcomes WHERE NOT verified GROUP BY reason ORDER BY count(*) DESC, reason"
        ).fetchall()
        done, verified = connection.execute("SELECT count(*), coalesce(sum(verified), 0) FROM outcomes").fetchone()
        sessions = connection.execute("SELECT start, seconds, tasks, workers, engine, cores FROM sessions ORDER BY id")
        return StoreSummary(
            settings=_read_settings(connection),
            done=done,
            verified=verified,
            reasons=dict(reasons),
            sessions=tuple(
                Session(start=start, seconds=seconds, tasks=tasks, workers=workers, engine=engine, cores=cores)
                for start, seconds, tasks, workers, engine, cores in sessions
            ),
        )


def export_parquet(store: Path, path: Path) -> int:
    """Write all rows to a Parquet file, for pandas or DuckDB, and return their number."""
    frame = read_outcomes(store)
    try:
        frame.to_parquet(path, index=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); check the folder") from None
    return len(frame)


def _read_settings(connection: sqlite3.Connection) -> Settings:
    settings: dict[str, Any] = json.loads(connection.execute("SELECT settings FROM study").fetchone()[0])
    return settings


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store for reading, even while a study is running."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such store; name one that 'gridveil study run' has made")
    connection = _connect(path, write=False)
    try:
        _check_ours(path, connection)
        yield connection
    finally:
        connection.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file next to a store; the system releases it if its holder dies."""
    try:
        lock = sqlite3.connect(f"{path}.lock", timeout=0, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise InputError(
                f"{path}: another runner is at work on this store; wait for it, or name another with --store"
            ) from None
        raise InputError(f"{path}: cannot be made or opened ({error}); check the folder and its permissions") from None
    try:
        yield
    finally:
        lock.close()


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    mode = "rwc" if write else "ro"
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=READ_PATIENCE, isolation_level=None
        )
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be used as a store ({error}); name another with --store") from None
    return connection


def _check_or_create(path: Path, connection: sqlite3.Connection, study: Study) -> None:
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if not empty:
        _check_ours(path, connection)
    before = None if empty else _read_settings(connection)
    settings = merged_settings(path, before, study)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if empty:
            _create_tables(connection)
        else:
            _add_columns(connection)
        text, checksum = settings_text(settings)
        connection.execute("INSERT OR REPLACE INTO study VALUES (1, ?, ?)", (text, checksum))


def _check_ours(path: Path, connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise InputError(f"{path}: is not the store of a gridveil study; name another")
    if version != SCHEMA_VERSION:
        raise InputError(f"{path}: was written by another version of gridveil; use that one, or begin a new store")


def _create_tables(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("CREATE TABLE study (id INTEGER PRIMARY KEY CHECK (id = 1), settings TEXT, checksum TEXT)")
    columns = ", ".join(f"{name} {_sql_type(hint)}" for name, hint in get_type_hints(TaskOutcome).items())
    connection.execute(f"CREATE TABLE outcomes ({columns}, PRIMARY KEY ({', '.join(KEY)}))")
    connection.execute(
        "CREATE TABLE sessions (id INTEGER PRIMARY KEY, start TEXT, seconds REAL, tasks INTEGER, workers INTEGER, "
        "engine TEXT, cores INTEGER)"
    )


def _stored_columns(connection: sqlite3.Connection) -> set[str]:
    return {row[1] for row in connection.execute("PRAGMA table_info(outcomes)")}


def _add_columns(connection: sqlite3.Connection) -> None:
    """Add what a store of an earlier version has no column for; its rows hold nothing there."""
    stored = _stored_columns(connection)
    for name, hint in get_type_hints(TaskOutcome).items():
        if name not in stored:
            connection.execute(f"ALTER TABLE outcomes ADD COLUMN {name} {_sql_type(hint)}")


def _sql_type(hint: type | types.UnionType) -> str:
    if isinstance(hint, types.UnionType):
        return _SQL_TYPES[hint.__args__[0]]
    return f"{_SQL_TYPES[hint]} NOT NULL"


def _column_type(hint: type | types.UnionType) -> str:
    if hint is str:
        return "str"
    plain = hint.__args__[0] if isinstance(hint, types.UnionType) else hint
    return {int: "int64", bool: "bool", float: "float64"}[plain]
