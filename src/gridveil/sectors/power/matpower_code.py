"""Statements of MATPOWER case files, which are programs: arithmetic on tables is evaluated, everything else is refused.

Distribution feeders state kilowatts and ohms and convert them by code below the tables. powerio evaluates some of this
code, and passes over the rest. Here the code is evaluated first and the file is rewritten without it, so that powerio
meets plain tables only. No message quotes a statement, as it may contain a demand: it names the line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.sectors.power.matpower_expressions import Expression, NotArithmetic, Value

_STRING = r"'(?:[^'\n]|'')*+'"
_SILENT = re.compile(
    rf"(?P<kept>{_STRING})|^[ \t]*%\{{[ \t]*$.*?^[ \t]*%\}}[ \t]*$|%[^\n]*|\.\.\.[^\n]*\n", re.MULTILINE | re.DOTALL
)
_GAP = re.compile(r"[\s;,]+")
_LITERAL = re.compile(r"(?P<struct>[A-Za-z]\w*)\.(?P<field>\w+)\s*=\s*\[(?P<body>[^\[\]']*+)\]")
_OTHER_DATA = re.compile(
    rf"[A-Za-z]\w*\.\w+(?:\.\w+)*\s*=\s*(?:\{{(?:[^{{}}']++|{_STRING})*+\}}|{_STRING}|\[(?:[^\[\]']++|{_STRING})*+\])"
)
_HEADER = re.compile(r"function\s+(?P<struct>[A-Za-z]\w*)\s*=\s*\w+(?:\s*\(\s*\))?")
_END = re.compile(r"(?:end|endfunction|return)\b")
_CONSTANTS = re.compile(r"(?:\[(?P<names>[\w\s,~]*)\]\s*=\s*(?P<list>idx_\w+)|define_constants)\b")
_CONDITION = re.compile(r"if\s+(?P<name>[A-Za-z]\w*)\s*(?=[\n;,])")
_BLOCK_WORD = re.compile(r"\b(?P<opens>if|for|while|switch|try|parfor|do)\b|\b(?P<closes>end|endif|endfor|endwhile)\b")
_ASSIGNMENT = re.compile(r"(?P<target>[A-Za-z][\w.]*(?:\s*\((?P<index>[^()=]*)\))?)\s*=(?!=)(?P<formula>.*)", re.DOTALL)
_OPENED = re.compile(r"[A-Za-z]\w*(?:\.\w+)+\s*=\s*[\[{]")
_CELL_FORMULA = re.compile(r"[*/^(]")
_COLUMN_NAMES = re.compile(r"%column_names%([^\n]*)\s*\Z")
LONGEST_REMARK = 2000  # characters
_TO_EDIT = frozenset(("bus", "gen", "branch", "gencost", "dcline"))

_BUS = "PQ=1 PV=2 REF=3 NONE=4 BUS_I=1 BUS_TYPE=2 PD=3 QD=4 GS=5 BS=6 BUS_AREA=7 VM=8 VA=9 BASE_KV=10 ZONE=11 VMAX=12 "
_BRANCH = "F_BUS=1 T_BUS=2 BR_R=3 BR_X=4 BR_B=5 RATE_A=6 RATE_B=7 RATE_C=8 TAP=9 SHIFT=10 BR_STATUS=11 PF=14 QF=15 "
_GENERATOR = "GEN_BUS=1 PG=2 QG=3 QMAX=4 QMIN=5 VG=6 MBASE=7 GEN_STATUS=8 PMAX=9 PMIN=10 MU_PMAX=22 MU_PMIN=23 "
CONSTANTS = {
    "idx_bus": _BUS + "VMIN=13 LAM_P=14 LAM_Q=15 MU_VMAX=16 MU_VMIN=17",
    "idx_brch": _BRANCH + "PT=16 QT=17 MU_SF=18 MU_ST=19 ANGMIN=12 ANGMAX=13 MU_ANGMIN=20 MU_ANGMAX=21",
    "idx_gen": _GENERATOR + "MU_QMAX=24 MU_QMIN=25 PC1=11 PC2=12 QC1MIN=13 QC1MAX=14 QC2MIN=15 QC2MAX=16 RAMP_AGC=17 "
    "RAMP_10=18 RAMP_30=19 RAMP_Q=20 APF=21",
    "idx_cost": "PW_LINEAR=1 POLYNOMIAL=2 MODEL=1 STARTUP=2 SHUTDOWN=3 NCOST=4 COST=5",
}
"""Names and numbers that MATPOWER's functions return, in their order."""

Span = tuple[int, int]
Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class MatpowerText:
    """A file as plain tables: its text without code, the rows of its tables by name, and the lines that were evaluated."""

    text: str
    columns: Mapping[str, tuple[str, ...]]
    """Every field in the order of the file, with the names of its columns where a remark ``%column_names%`` states them."""
    lines: tuple[int, ...]
    _literals: dict[str, str] = field(repr=False)
    _edited: dict[str, Rows] = field(repr=False)

    def table(self, name: str) -> Rows | None:
        """Rows of a table of numbers; None where the file has none of this name, or not one of plain numbers."""
        if name in self._edited:
            return self._edited[name]
        return _rows(self._literals[name]) if name in self._literals else None


def plain_matpower(text: str) -> MatpowerText:
    """Evaluate the code of a case file; a statement that is not plain arithmetic on its tables is an InputError."""
    return _Reader(text).read()


class _Reader:
    """One pass over the statements of a file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._code = _SILENT.sub(_blank, text)
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._struct = "mpc"
        self._columns: dict[str, tuple[str, ...]] = {}
        self._literals: dict[str, str] = {}
        self._spans: dict[str, Span] = {}
        self._names: dict[str, Value] = {}
        self._edited: dict[str, Rows] = {}
        self._removed: list[Span] = []
        self._evaluated: list[int] = []

    def read(self) -> MatpowerText:
        position = 0
        while position < len(self._code):
            gap = _GAP.match(self._code, position)
            position = gap.end() if gap else self._statement(position)
        self._evaluate_cells()
        return MatpowerText(
            text=self._rewritten() if self._evaluated else self._text,
            columns=self._columns,
            lines=tuple(sorted({self._line(start) for start in self._evaluated})),
            _literals=self._literals,
            _edited=self._edited,
        )

    def _statement(self, start: int) -> int:
        if found := _CONDITION.match(self._code, start):
            return self._skip_block(found["name"], start, found.end())
        if found := _LITERAL.match(self._code, start):
            name = found["field"]
            self._refuse_second(name, start)
            self._literals[name] = found["body"]
            self._spans[name] = found.span("body")
        elif found := _OTHER_DATA.match(self._code, start):
            self._refuse_second(found.group().partition("=")[0].partition(".")[2].strip(), start)
        elif found := _HEADER.match(self._code, start):
            self._struct = found["struct"]
        elif found := _CONSTANTS.match(self._code, start):
            self._define(found["names"], found["list"], start)
        else:
            found = _END.match(self._code, start)
        return found.end() if found else self._assign(start)

    def _refuse_second(self, name: str, start: int) -> None:
        if name in self._columns:
            raise InputError(f"line {self._line(start)}: {name} is stated twice; keep one of the two statements")
        stated = _COLUMN_NAMES.search(self._text, max(0, start - LONGEST_REMARK), start)
        self._columns[name] = tuple(stated[1].split()) if stated else ()

    def _define(self, names: str | None, constants: str | None, start: int) -> None:
        if names is None or constants is None:
            self._names |= {name: value for list_ in CONSTANTS for name, value in _constants(list_)}
            return
        if constants not in CONSTANTS:
            raise self._not_evaluated(start)
        values = [value for _, value in _constants(constants)]
        self._names |= dict(zip(re.split(r"[\s,]+", names.strip()), values, strict=False))

    def _skip_block(self, name: str, start: int, inside: int) -> int:
        """Pass over a block that is switched off by a name of value 0, as in case8387pegase; others are refused."""
        if not np.array_equal(self._names.get(name, np.nan), 0.0):
            raise self._not_evaluated(start)
        depth, position = 1, inside
        for word in _BLOCK_WORD.finditer(self._code, inside):
            depth += 1 if word["opens"] else -1
            position = word.end()
            if depth == 0:
                break
        if depth or re.search(r"\belse", self._code[inside:position]):
            raise self._not_evaluated(start)
        self._remove(start, position)
        return position

    def _remove(self, start: int, end: int) -> None:
        self._removed.append((start, end))
        self._evaluated.append(start)

    def _assign(self, start: int) -> int:
        end = _statement_end(self._code, start)
        if _OPENED.match(self._code, start):
            raise InputError(
                f"line {self._line(start)}: the table that starts here is not closed or not a table of numbers; check or "
                "re-export the file"
            )
        found = _ASSIGNMENT.fullmatch(self._code[start:end])
        if found is None:
            raise self._not_evaluated(start)
        try:
            self._apply(found, start, end)
        except NotArithmetic:
            raise self._not_evaluated(start) from None
        return end

    def _apply(self, found: re.Match[str], start: int, end: int) -> None:
        formula = Expression(found["formula"], self._names, self._table_of)
        value, target = formula.value(), found["target"].partition("(")[0].strip()
        struct, _, name = target.partition(".")
        if found["index"] is not None:
            if struct != self._struct or name not in _TO_EDIT:
                raise NotArithmetic
            formula.assign(found["index"], self._table_of(name), value, secret_allowed=name == "bus")
            self._remove(start, end)
        elif not name:
            formula.refuse_secret()
            self._names[target] = value
            self._remove(start, end)
        elif struct == self._struct and value.size == 1:  # baseMVA = 50/3
            formula.refuse_secret()
            self._refuse_second(name, start)
            self._edited[name] = value.reshape(1, 1)
            self._spans[name] = (start + found.start("formula"), end)
            if not re.fullmatch(r"[-+\d.eE\s]+", found["formula"]):
                self._evaluated.append(start)
        else:
            raise NotArithmetic

    def _table_of(self, name: str) -> Rows:
        """Rows of a table, from now on those that code has changed."""
        if name not in self._edited:
            rows = _rows(self._literals[name]) if name in self._literals else None
            if rows is None:
                raise NotArithmetic
            self._edited[name] = rows
        return self._edited[name]

    def _rewritten(self) -> str:
        changes = [(span, "") for span in self._removed]
        changes += [(self._spans[name], _literal(rows)) for name, rows in self._edited.items()]
        return _replaced(self._text, changes)

    def _evaluate_cells(self) -> None:
        """Replace tables with formulas in their cells, such as 135/sqrt(3), by their values."""
        for name in self._literals.keys() - self._edited.keys():
            formula = _CELL_FORMULA.search(self._literals[name])
            rows = _rows(self._literals[name]) if formula else None
            if formula and rows is not None:
                self._edited[name] = rows
                self._evaluated.append(self._spans[name][0] + formula.start())

    def _line(self, position: int) -> int:
        return bisect_right(self._line_ends, position - 1) + 1

    def _not_evaluated(self, start: int) -> InputError:
        return InputError(
            f"line {self._line(start)}: this statement is not evaluated, so the file would be misread; run the file in "
            "MATPOWER and save its result with savecase"
        )


def _blank(found: re.Match[str]) -> str:
    """Blank out a comment without moving what follows; a continued line is joined, other line ends stay."""
    text = found.group()
    if found["kept"] is not None:
        return text
    if text.startswith("...") or "\n" not in text:
        return " " * len(text)
    return re.sub(r"[^\n]", " ", text)


def _statement_end(code: str, start: int) -> int:
    depth = 0
    for match in re.finditer(r"[\[({]|[\])}]|[\n;]", code[start:]):
        mark = match.group()
        depth += (mark in "[({") - (mark in "])}")
        if mark in "\n;" and depth <= 0:
            return start + match.start()
    return len(code)


def _constants(name: str) -> Iterator[tuple[str, Value]]:
    for pair in CONSTANTS[name].split():
        constant, _, number = pair.partition("=")
        yield constant, np.array(float(number))


def _rows(body: str) -> Rows | None:
    """Rows of a literal; None where it holds something else than numbers, or rows of different lengths."""
    lines = [line for line in re.split(r"[;\n]", body.replace(",", " ")) if line.strip()]
    cell = _cell if _CELL_FORMULA.search(body) else float
    try:
        rows = [[cell(word) for word in line.split()] for line in lines]
        return np.array(rows, dtype=float).reshape(len(rows), -1)
    except (ValueError, NotArithmetic):
        return None


def _cell(word: str) -> float:
    return float(Expression(word, {}, _no_table).value()) if _CELL_FORMULA.search(word) else float(word)


def _no_table(name: str) -> Rows:
    raise NotArithmetic


def _literal(rows: Rows) -> str:
    """Write numbers so that reading them gives the same bits."""
    lines = ["\t".join(repr(value) for value in row) for row in rows.tolist()]
    return " " + lines[0] if rows.size == 1 else "\n" + "".join(f"\t{line};\n" for line in lines)


def _replaced(text: str, changes: list[tuple[Span, str]]) -> str:
    parts, position = [], 0
    for (start, end), new in sorted(changes):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])
