"""Sections of PSS/E files. The format knows them by position; powerio by the remark at their end, which is optional."""

from __future__ import annotations

import re

from gridveil.core.errors import InputError

_END = re.compile(r"^[ \t]*0[ \t]*(?:/(?P<remark>.*))?\r?$", re.MULTILINE)
_STATED = re.compile(r"END\s+OF\s+(?P<name>.*?)\s*(?:DATA|,|$)", re.IGNORECASE)
_BY_POSITION = 33
"""The version whose order of sections is known here; it is by far the most common."""
_SECTIONS = (
    ("BUS", "BUS"),
    ("LOAD", "LOAD"),
    ("FIXED SHUNT", "SHUNT"),
    ("GENERATOR", "GEN"),
    ("BRANCH", "BRANCH|LINE"),
    ("TRANSFORMER", "TRANSF"),
    ("AREA", "AREA"),
    ("TWO-TERMINAL DC", "TWO|DC"),
    ("VOLTAGE SOURCE CONVERTER", "VSC|VOLTAGE"),
    ("IMPEDANCE CORRECTION", "IMPEDANCE|CORRECTION"),
    ("MULTI-TERMINAL DC", "MULTI.*DC"),
    ("MULTI-SECTION LINE", "SECTION"),
    ("ZONE", "ZONE"),
    ("INTER-AREA TRANSFER", "TRANSFER"),
    ("OWNER", "OWNER"),
    ("FACTS CONTROL DEVICE", "FACTS"),
    ("SWITCHED SHUNT", "SWITCHED"),
    ("GNE DEVICE", "GNE"),
    ("INDUCTION MACHINE", "INDUCTION"),
)
VSC, FACTS, MULTI_TERMINAL = "VSC", "FACTS", "MULTI-TERMINAL DC"
_READ_HERE = {VSC: "VSC|VOLTAGE SOURCE", FACTS: "FACTS", MULTI_TERMINAL: "MULTI.*DC"}
_WITHOUT_EQUIPMENT = (
    "AREA",
    "ZONE",
    "OWNER",
    "TRANSFER",
    "CORRECTION",
    "SECTION LINE",
    "SUBSTATION",
    "SYSTEM",
    "RATING",
)


def named_sections(text: str) -> str:
    """Write the names of sections at their ends, as powerio expects them; elsewhere the text stays as it is."""
    ends = list(_END.finditer(text))
    stated = [_STATED.search(end["remark"] or "") for end in ends]
    if _version(text) == _BY_POSITION:
        return _by_position(text, ends, stated)
    missing = next((end for end, name in zip(ends, stated, strict=True) if name is None), None)
    if missing is not None:
        raise InputError(
            f"line {_line(text, missing)}: the section that ends here has no name, and only PSS/E version {_BY_POSITION} is "
            "read without names; export the file in that version, or with remarks such as 'END OF BUS DATA'"
        )
    return text


def _by_position(text: str, ends: list[re.Match[str]], stated: list[re.Match[str] | None]) -> str:
    """Name the section that ends and the one that begins: powerio reads the latter as well."""
    parts, position = [], 0
    following = [f", BEGIN {name} DATA" for name, _ in _SECTIONS[1:]] + [""]
    for (name, words), begin, end, found in zip(_SECTIONS, following, ends, stated, strict=False):
        if found is not None and not re.search(words, found["name"], re.IGNORECASE):
            raise InputError(
                f"line {_line(text, end)}: the section that ends here should be {name} data, by its place in the file, but is "
                "named otherwise; export the file again"
            )
        parts += [text[position : end.start()], f"0 / END OF {name} DATA{begin}"]
        position = end.end()
    return "".join([*parts, text[position:]])


def section_span(text: str, section: str) -> tuple[int, int] | None:
    """Where the records of a section begin and end; None if the file has no such section. Sections must be named."""
    start = 0
    for end in _END.finditer(text):
        name = _STATED.search(end["remark"] or "")
        if name is not None and re.search(_READ_HERE[section], name["name"], re.IGNORECASE):
            return start, end.start()
        start = end.end() + 1
    return None


def is_read_here(section: str) -> bool:
    """Whether records that powerio passes over are read by gridveil itself."""
    return any(re.search(words, section, re.IGNORECASE) for words in _READ_HERE.values())


def refuse_equipment(section: str) -> None:
    """Refuse records of a section that powerio passes over, unless they describe no equipment."""
    if not any(words in section for words in _WITHOUT_EQUIPMENT):
        raise InputError(
            f"the PSS/E section {section} has records, which are not modelled; "
            "remove them or replace them by loads, shunts or generators"
        )


def _version(text: str) -> int | None:
    header = next((line for line in text.splitlines() if line.strip() and not line.startswith("@!")), "")
    words = header.partition("/")[0].split(",")
    return int(words[2]) if len(words) > 2 and words[2].strip().isdigit() else None


def _line(text: str, place: re.Match[str]) -> int:
    return text.count("\n", 0, place.start()) + 1
