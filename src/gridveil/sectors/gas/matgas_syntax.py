"""The syntax of MatGas files: scalars ``mgc.name = value`` and tables ``mgc.name = [ ... ]`` under a comment of column names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gridveil.core.errors import InputError

# Files differ in these names: the first is the current one.
ALIASES = {"fr_junction": ("fr_junction", "f_junction"), "to_junction": ("to_junction", "t_junction")}

_STATEMENT = re.compile(r"\s*mg[a-z]\.(\w+)\s*=\s*(.*)")
_TOKEN = re.compile(r"'[^']*'|[^\s,;'\]}]+|;|[\]}]")
_COLUMN_MARK = "column_names%"


@dataclass(frozen=True)
class Row:
    """One row of a table: the words in it and its line in the file."""

    line: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class MatgasTable:
    """A table of one file. No message quotes a value: it may be a demand."""

    source: str
    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def where(self, row: Row) -> str:
        """Locate a row in the file."""
        return f"{self.source}: line {row.line} ({self.name})"

    def has(self, column: str) -> bool:
        """Whether the file names this column, under any of its names."""
        return any(name in self.columns for name in ALIASES.get(column, (column,)))

    def words(self, column: str) -> list[str]:
        """Return a column as written, without quotes. A missing required column is an error."""
        names = ALIASES.get(column, (column,))
        place = next((self.columns.index(name) for name in names if name in self.columns), None)
        if place is None:
            raise InputError(
                f"{self.source}: table {self.name} has no column {' or '.join(names)}; "
                "the comment line above a table must name its columns"
            )
        for row in self.rows:
            if len(row.words) <= place:
                raise InputError(f"{self.where(row)}: the row ends before column {column}; complete it")
        return [row.words[place].strip("'").strip() for row in self.rows]

    def numbers(self, column: str) -> list[float]:
        """Return a column of finite numbers."""
        values = []
        for row, word in zip(self.rows, self.words(column), strict=True):
            try:
                value = float(word)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise InputError(f"{self.where(row)}: {column} is not a finite number; correct it")
            values.append(value)
        return values

    def optional(self, column: str, default: float) -> list[float]:
        """Return a column of numbers, or the default for each row if the file lacks it."""
        return self.numbers(column) if self.has(column) else [default] * len(self.rows)

    def names(self, column: str = "id") -> list[str]:
        """Return a column of identifiers; 7, 7.0 and '7' are the same."""
        return [_identifier(word) for word in self.words(column)]

    def positions(self, column: str, junctions: Mapping[str, int]) -> list[int]:
        """Return a column of junctions as positions in the junction table."""
        found = []
        for row, name in zip(self.rows, self.names(column), strict=True):
            if name not in junctions:
                raise InputError(
                    f"{self.where(row)}: unknown junction {name} in column {column}; add it, or put it in service"
                )
            found.append(junctions[name])
        return found

    def in_service(self) -> MatgasTable:
        """Drop the rows whose status is 0."""
        if not self.has("status"):
            return self
        on = [value != 0 for value in self.numbers("status")]
        rows = tuple(row for row, keep in zip(self.rows, on, strict=True) if keep)
        return MatgasTable(self.source, self.name, self.columns, rows)


@dataclass(frozen=True)
class MatgasFile:
    """All scalars (as written, without quotes) and tables of a file."""

    source: str
    scalars: Mapping[str, str]
    tables: Mapping[str, MatgasTable]

    def table(self, name: str) -> MatgasTable:
        """Return the in-service rows of a table; an empty table if the file lacks it."""
        found = self.tables.get(name)
        return MatgasTable(self.source, name, (), ()) if found is None else found.in_service()

    def scalar(self, name: str) -> float | None:
        """Return a number, or None if the file lacks it."""
        if name not in self.scalars:
            return None
        try:
            value = float(self.scalars[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{self.source}: mgc.{name} is not a finite number; correct it")
        return value


def read_text(path: Path) -> str:
    """Read a text file; raise InputError if it is missing, empty or not text."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror}); check the path") from None
    if not content.strip():
        raise InputError(f"{path.name}: the file is empty")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"{path.name}: this is not a text file; give a MatGas (.m) or GasLib (.net) file")
    return text


def parse_matgas(path: Path) -> MatgasFile:
    """Split a file into scalars and tables, without judging what is in them."""
    scalars: dict[str, str] = {}
    tables: dict[str, MatgasTable] = {}
    lines = enumerate(read_text(path).splitlines(), start=1)
    columns: tuple[str, ...] = ()
    for number, line in lines:
        stripped = line.strip()
        if stripped.startswith("%"):
            columns = tuple(stripped.lstrip("% ").removeprefix(_COLUMN_MARK).split())
            continue
        match = _STATEMENT.match(line)
        if match is None:
            continue
        name, value = match.group(1), match.group(2)
        if name in scalars or name in tables:
            raise InputError(f"{path.name}: line {number}: mgc.{name} appears twice in the file; keep one")
        if value[:1] in ("[", "{"):
            rows = tuple(_rows(path.name, name, number, value[1:], lines))
            tables[name] = MatgasTable(path.name, name, columns, rows)
            columns = ()
        else:
            scalars[name] = _without_comment(value).rstrip(" ;").strip("'")
    if not tables:
        raise InputError(f"{path.name}: no MatGas tables (mgc.junction = [ ... ]) found; is this a gas network?")
    return MatgasFile(path.name, scalars, tables)


def _rows(source: str, name: str, start: int, first: str, lines: Iterator[tuple[int, str]]) -> Iterator[Row]:
    """Parse the rows up to the closing bracket; a row ends at a line break or a semicolon."""
    number, line = start, first
    while True:
        words: list[str] = []
        for token in _TOKEN.findall(_without_comment(line)):
            if token in ("]", "}"):
                if words:
                    yield Row(number, tuple(words))
                return
            if token != ";":
                words.append(token)
            elif words:
                yield Row(number, tuple(words))
                words = []
        if words:
            yield Row(number, tuple(words))
        following = next(lines, None)
        if following is None:
            raise InputError(f"{source}: table {name} of line {start} never ends; the file seems to be cut off")
        number, line = following


def _without_comment(text: str) -> str:
    """Drop everything from the first % that is not inside quotes."""
    quoted = False
    for place, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif character == "%" and not quoted:
            return text[:place].rstrip()
    return text.rstrip()


def _identifier(word: str) -> str:
    try:
        value = float(word)
    except ValueError:
        return word
    return str(int(value)) if value.is_integer() else word
