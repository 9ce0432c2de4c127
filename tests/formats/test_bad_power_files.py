"""Bad input: exit code 2, one line that says what is wrong and what to do, no traceback, nothing on standard output."""

from __future__ import annotations

import json
import re

import pytest

from conftest import two_bus_net
from gridveil.sectors.redaction import redact


def changed(table: str, row: int, column: int, value: float) -> str:
    net = two_bus_net()
    getattr(net, table)[row][column] = value
    return net.text().replace("nan", "NaN").replace("inf", "Inf")


def without(*tables: str) -> str:
    text = two_bus_net().text()
    for table in tables:
        text = re.sub(rf"mpc\.{table} = \[.*?\];", f"mpc.{table} = [\n];", text, flags=re.DOTALL)
    return text


TEXTS = {
    "truncated": (two_bus_net().text()[:260], "re-export"),
    "empty file": ("", "re-export"),
    "no closing bracket": (two_bus_net().text().rsplit("]", 1)[0], ""),
    "empty network": (without("bus"), ""),
    "branch at unknown bus": (changed("branch", 0, 1, 77), "77"),
    "generator at unknown bus": (changed("gen", 0, 0, 77), "77"),
    "duplicate bus": (changed("bus", 1, 0, 1), "1"),
    "NaN in a bus limit": (changed("bus", 1, 11, float("nan")), "v_max"),
    "infinite impedance": (changed("branch", 0, 3, float("inf")), "branch 1"),
    "NaN demand": (changed("bus", 1, 2, float("nan")), "load 1"),
    "NaN cost": (changed("gencost", 0, 5, float("nan")), "generator 1"),
    "zero impedance": (changed("branch", 0, 2, 0.0).replace("\t0.1\t", "\t0.0\t"), "branch 1"),
    "line from a bus to itself": (changed("branch", 0, 1, 1), "branch 1"),
    "negative rating": (changed("branch", 0, 5, -5.0), "branch 1"),
    "no generator": (without("gen", "gencost"), "generator"),
    "generator off": (changed("gen", 0, 7, 0), "generator"),
    "no reference bus": (changed("bus", 0, 1, 1), "reference"),
    "no load": (changed("bus", 1, 2, 0).replace("13.25", "0"), "load"),
    "voltage limits crossed": (changed("bus", 0, 12, 1.2), "bus with id 1"),
    "active limits crossed": (changed("gen", 0, 9, 2000.0), "generator 1"),
    "reactive limits crossed": (changed("gen", 0, 4, 2000.0), "generator 1"),
    "angle limits crossed": (changed("branch", 0, 11, 61.0), "branch 1"),
    "cost beyond all numbers": (changed("gencost", 0, 4, 1e305), "generator 1"),
    "base beyond all numbers": (two_bus_net().text().replace("100.0;", "1e308;", 1), "base"),
    "base of zero": (two_bus_net().text().replace("100.0;", "0;", 1), "base"),
    "a word for a number": (two_bus_net().text().replace("41.75", "4l.75"), "hidden"),
    "piecewise cost not convex": (
        two_bus_net().text().replace("2\t0\t0\t3\t0.0\t10.0\t0.0", "1\t0\t0\t3\t0\t0\t50\t900\t100\t1000"),
        "convex",
    ),
    "piecewise cost going back": (
        two_bus_net().text().replace("2\t0\t0\t3\t0.0\t10.0\t0.0", "1\t0\t0\t2\t50\t0\t0\t900"),
        "growing",
    ),
}


def assert_refused(result, hint: str) -> None:
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("gridveil: ") and result.err.count("\n") == 1 and "Traceback" not in result.err
    assert hint in result.err
    for secret in ("41.75", "13.25", "4l.75"):
        assert secret not in result.err


@pytest.mark.parametrize("label", TEXTS)
@pytest.mark.parametrize("command", ["inspect", "solve"])
def test_bad_matpower(cli, tmp_path, label, command):
    text, hint = TEXTS[label]
    path = tmp_path / "bad.m"
    path.write_text(text)
    assert_refused(cli(command, path), hint)
    assert list(tmp_path.iterdir()) == [path]


def test_the_unchanged_file_is_good(cli, tmp_path):
    path = tmp_path / "good.m"
    path.write_text(two_bus_net().text())
    result = cli("solve", path, "--json")
    assert result.code == 0
    assert json.loads(result.out)["status"] == "converged"


def test_other_bad_sources(cli, tmp_path):
    (tmp_path / "binary.m").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "what.xyz").write_text("hello")
    (tmp_path / "bad.json").write_text('{"a": ')
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "bad.raw").write_text("0, 100.0\n")
    assert_refused(cli("inspect", tmp_path / "binary.m"), "UTF-8")
    assert_refused(cli("inspect", tmp_path / "what.xyz"), "unknown format")
    assert_refused(cli("inspect", tmp_path / "bad.json"), "unknown format")
    assert_refused(cli("inspect", tmp_path / "other.json"), "unknown format")
    assert_refused(cli("inspect", tmp_path / "bad.raw"), "no buses")
    assert_refused(cli("inspect", tmp_path), "folder")
    assert_refused(cli("inspect", tmp_path / "missing.m"), "no such file")
    assert_refused(cli("inspect", "case_that_is_not"), "--list")
    assert_refused(cli("inspect"), "--list")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("could not parse `bus` row 3 value `3x0.0` as f64", "could not parse `bus` row 3 value <hidden> as f64"),
        ("invalid type: floating point 41.75, expected a string at line 7 column 9", None),
        ('unexpected "41.75" at byte 120', None),
        ("load of -41.75e0 MW at bus 12", None),
        ("value 417 is odd", None),
        ("unexpected record 41.75 after bus 12", None),
        ("x-41.75 or --41.75 or =41", None),
    ],
)
def test_redaction_hides_quantities_and_keeps_places(message, shown):
    text = redact(message)
    assert "41" not in text
    assert shown is None or text == shown
    for place in re.findall(r"(?:line|column|bus|byte) \d+", message):
        assert place in text
