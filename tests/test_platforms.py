"""What must hold on every platform, checked on this one: no call or module that Windows lacks is used unguarded."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gridveil
from source_trees import tree_of

SOURCE = Path(gridveil.__file__).parent
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_OS = """
chown chroot fchmod fchown fork forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid
initgroups killpg lchown mkfifo mknod nice openpty pathconf posix_fallocate posix_spawn pread preadv pwrite sched_getaffinity
sched_setaffinity sendfile setpgid setsid setuid statvfs sync sysconf ttyname uname wait wait3 wait4 waitid O_CLOEXEC
O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC O_TMPFILE
"""
POSIX_SIGNAL = """
SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH alarm getitimer pause pthread_kill
pthread_sigmask setitimer siginterrupt sigpending sigwait
"""
POSIX_NAMES = {"os": {*POSIX_OS.split()}, "signal": {*POSIX_SIGNAL.split()}}
CORE = (
    "gridveil",
    "gridveil.cli",
    "gridveil.core.parallel",
    "gridveil.privacy.ledger_book",
    "gridveil.service.release",
)
BLOCKED = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
import importlib
for name in {modules!r}:
    importlib.import_module(name)
"""


def parsed() -> list[tuple[str, ast.Module]]:
    return [(str(path.relative_to(SOURCE)), tree_of(path)) for path in SOURCE.rglob("*.py")]


def unguarded(tree: ast.Module) -> list[str]:
    """Uses of what Windows lacks, outside functions that ask for it with hasattr."""
    nodes = list(ast.walk(tree))
    used = [
        (node, f"{node.value.id}.{node.attr} (line {node.lineno})")
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in POSIX_NAMES.get(node.value.id, ())
    ]
    asking = [node for node in nodes if used and isinstance(node, ast.FunctionDef) and _asks(node)]
    safe = {id(node) for function in asking for node in ast.walk(function)}
    return [words for node, words in used if id(node) not in safe]


def _asks(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "hasattr"
        and isinstance(call.args[1], ast.Constant)
        and call.args[1].value in POSIX_NAMES["os"] | POSIX_NAMES["signal"]
        for call in ast.walk(function)
    )


def unguarded_imports(tree: ast.Module) -> list[str]:
    """POSIX modules imported when a module is loaded, outside a try that expects this to fail."""
    found = []
    for node in tree.body:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
        found += [name for name in names if name.partition(".")[0] in POSIX_MODULES]
    return found


def test_nothing_that_windows_lacks_is_used_unguarded():
    assert {where: found for where, tree in parsed() if (found := unguarded(tree) + unguarded_imports(tree))} == {}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os\ndef f():\n    os.fork()", ["os.fork (line 3)"]),
        ("import os\ndef f():\n    if hasattr(os, 'fork'):\n        os.fork()", []),
        ("import signal\nsignal.setitimer(0, 1)", ["signal.setitimer (line 2)"]),
        ("import os\ndef f():\n    return hasattr(os, 'path') and os.pread(0, 1, 1)", ["os.pread (line 3)"]),
    ],
)
def test_the_check_sees_a_call(code, told):
    assert unguarded(ast.parse(code)) == told


def test_the_check_sees_an_import():
    assert unguarded_imports(ast.parse("import fcntl\nfrom pwd import getpwnam\n")) == ["fcntl", "pwd"]
    assert unguarded_imports(ast.parse("try:\n    import fcntl\nexcept ImportError:\n    fcntl = None\n")) == []


def test_the_commands_load_without_modules_of_posix():
    code = BLOCKED.format(blocked=["fcntl", "resource", "grp", "termios"], modules=CORE)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
