"""What every command has in common: examples, manners, colours, completion, and errors that give nothing away."""

from __future__ import annotations

import itertools
import json
import os
import pty
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import typer

import gridveil.cli.progress as progress_module
from conftest import two_bus_net
from gridveil.cli.main import app
from gridveil.cli.output import OutputMode, note, set_output_mode
from gridveil.cli.progress import progress, time_left
from gridveil.privacy.curator import Curator

SECRETS = ("41.75", "13.25", "0.4175", "0.1325", "43.8")  # demands of the two-bus file: MW, MVAr, per unit, MVA
HEAVY = ("casadi", "numba", "matplotlib", "pandas", "scipy", "numpy", "powerio", "jinja2")


def commands(group=None, path=()):
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.fixture
def two_bus(tmp_path):
    path = tmp_path / "two.m"
    path.write_text(two_bus_net().text())
    return path


@pytest.fixture
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_command_has_an_example_and_all_manners(cli, path):
    result = cli(*path, "--help")
    assert result.code == 0
    assert f"Example: gridveil {' '.join(path)}" in result.out
    for option in ("--json", "--quiet", "--verbose"):
        assert option in result.out


GOOD = [
    ("inspect", "veil9"),
    ("inspect", "--list"),
    ("solve", "veil2"),
    ("explore", "veil2", "--seeds", "1", "--alpha", "0.1pu", "--beta", "1%", "--out", "found"),
    ("release", "veil2", "--seed", "1", "--out", "released"),
    ("ledger", "create", "veil9", "--alpha", "10MVA", "--budget", "3"),
    ("audit", "veil2", "--draws", "10000", "--runs", "10"),
    ("study", "list"),
]


@pytest.mark.parametrize("arguments", GOOD, ids=lambda arguments: " ".join(arguments[:2]))
def test_json_is_one_object_and_nothing_else(cli, somewhere, arguments):
    result = cli(*arguments, "--json", "--verbose")
    assert (result.code, result.err) == (0, "")
    assert isinstance(json.loads(result.out), dict)
    assert result.out.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [a for a in GOOD if a[0] != "audit"], ids=lambda arguments: " ".join(arguments[:2])
)
def test_quiet_says_nothing(cli, somewhere, arguments):
    result = cli(*arguments, "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")


@pytest.mark.parametrize(
    "arguments", [a for a in GOOD if a[0] in {"inspect", "solve", "ledger", "study"}], ids=" ".join
)
def test_no_colours_where_there_is_no_terminal(cli, somewhere, arguments):
    result = cli(*arguments)
    assert result.code == 0 and result.out
    assert "\x1b" not in result.out + result.err


def test_quiet_still_reports_errors(cli):
    result = cli("solve", "no-such-case", "--quiet")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("gridveil: no-such-case") and result.err.count("\n") == 1


def on_a_terminal(arguments: list[str], **environment: str) -> str:
    main, other = pty.openpty()
    code = f"import sys; sys.argv = {['gridveil', *arguments]!r}; from gridveil.cli import main; main()"
    settings = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=other, stderr=other, env=settings | {"TERM": "xterm"} | environment
    )
    os.close(other)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # how Linux says that the other end is gone
            break
        if not part:
            break
        seen += part
    os.close(main)
    assert process.wait() == 0
    return seen.decode()


def test_colours_on_a_terminal_only_and_not_against_the_user_s_will():
    coloured, plain = on_a_terminal(["inspect", "veil9"]), on_a_terminal(["inspect", "veil9"], NO_COLOR="1")
    assert "\x1b[" in coloured
    assert "\x1b" not in plain and "load sites" in plain


@pytest.mark.parametrize("verbose", [False, True])
def test_a_bug_prints_no_demand(cli, monkeypatch, two_bus, verbose):
    """Neither messages nor variables of the frames on the way may appear: only types and places in our own code."""

    def broken(self, **_):
        demand = self._Curator__case.values.reveal() * 100
        try:
            raise ValueError(f"cannot use {demand}")
        except ValueError as error:
            raise ZeroDivisionError(f"{demand} at {error}") from error

    monkeypatch.setattr(Curator, "optimum", broken)
    result = cli("solve", two_bus, *["--verbose"] * verbose)
    assert (result.code, result.out) == (1, "")
    assert "internal error (ZeroDivisionError at gridveil/cli/case_commands.py:" in result.err
    assert "Traceback" not in result.err
    assert ("passed through gridveil/cli/main.py:" in result.err) == verbose
    for secret in SECRETS:
        assert secret not in result.err


def test_verbose_says_steps_without_secrets(cli, two_bus):
    result = cli("solve", two_bus, "--verbose")
    assert result.err.count("gridveil: ") == 2 and "building the program" in result.err
    for secret in SECRETS:
        assert secret not in result.err


def test_a_file_that_cannot_be_written_is_one_line(cli, somewhere):
    (somewhere / "taken").write_text("")
    result = cli("explore", "veil2", "--seeds", "1", "--out", somewhere / "taken" / "inside", "--alpha", "0.1pu")
    assert result.code == 2
    assert (
        result.err
        == f"gridveil: {somewhere / 'taken' / 'inside'}: Not a directory; check the path and its permissions\n"
    )


def completions(words: str, folder) -> list[str]:
    code = "import sys; sys.argv = ['gridveil']; from gridveil.cli import main; main()"
    environment = os.environ | {
        "_GRIDVEIL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_the_shell_completes_cases(tmp_path):
    (tmp_path / "veiled.m").write_text("")
    (tmp_path / "veil.txt").write_text("")
    (tmp_path / "cases").mkdir()
    assert completions("gridveil solve veil", tmp_path) == ["veil2", "veil9", "veilgas", "veilgas-national", "veiled.m"]
    assert {"case14_ieee", "cases/"} <= set(completions("gridveil explore case", tmp_path))
    assert completions("gridveil solve veil9 --preset gaslib-4", tmp_path) == ["gaslib-40"]
    (tmp_path / "cases" / "own.raw").write_text("")
    assert completions("gridveil inspect cases/o", tmp_path) == ["cases/own.raw"]


def test_help_loads_nothing_heavy():
    code = f"import sys, gridveil.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("quiet", "lines"), [(False, 2), (True, 0)])
def test_progress_tells_the_time_left(monkeypatch, capsys, quiet, lines):
    seconds = itertools.count(step=5.0)  # one part of the work after each look at the clock
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    set_output_mode(OutputMode(quiet=quiet))
    with progress("counting", 5) as advance:
        for _ in range(5):
            advance()
    told = ["gridveil: counting: 1 of 5, about 20 s left", "gridveil: counting: 3 of 5, about 10 s left"]
    assert capsys.readouterr().err.splitlines() == told[:lines]


def test_progress_without_a_total_says_one_word_after_a_while(monkeypatch, capsys):
    set_output_mode(OutputMode())
    spoken = threading.Event()
    monkeypatch.setattr(progress_module, "note", lambda words: (note(words), spoken.set()))
    monkeypatch.setattr(progress_module, "PATIENCE", 600.0)
    with progress("a moment"):
        pass
    monkeypatch.setattr(progress_module, "PATIENCE", 0.01)
    with progress("thinking"):
        assert spoken.wait(timeout=60)
    assert capsys.readouterr().err == "gridveil: thinking …\n"


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "words"),
    [(10.0, 1, 3, "20 s"), (60.0, 2, 10, "4 min"), (3600.0, 10, 40, "3 h 0 min")],
)
def test_time_left(elapsed, done, total, words):
    assert time_left(elapsed, done, total - done) == words
