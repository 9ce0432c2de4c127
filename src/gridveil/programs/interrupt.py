"""Ctrl-C and the time limit during a solve: noticed at once, acted on at the solver's next iteration.

CasADi takes an interrupt that arrives while a derivative is computed for a failed evaluation, and Ipopt then goes on with a
shorter step. So the signal must not become an exception inside the solver; it is only remembered there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import casadi as ca

from gridveil.core.deadline import seconds_left


class InterruptWatch(ca.Callback):
    """An iteration callback that tells the solver to stop once an interrupt has come or the time is over."""

    def __init__(self, *, n_x: int, n_g: int, n_p: int) -> None:
        super().__init__()
        self._sizes = {"x": n_x, "lam_x": n_x, "g": n_g, "lam_g": n_g, "lam_p": n_p, "f": 1}
        self.interrupted = False
        self.construct("interrupt_watch", {})

    def get_n_in(self) -> int:
        """As many inputs as a solver has outputs."""
        return int(ca.nlpsol_n_out())

    def get_n_out(self) -> int:
        """One: whether to stop."""
        return 1

    def get_name_in(self, i: int) -> str:
        """Name of an input."""
        return str(ca.nlpsol_out(i))

    def get_name_out(self, i: int) -> str:
        """Name of the output."""
        return "ret"

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        """Shape of an input."""
        return ca.Sparsity.dense(self._sizes[ca.nlpsol_out(i)])

    def eval(self, arg: Any) -> list[int]:
        """Say whether to stop; the iterate does not matter."""
        return [int(self.interrupted or seconds_left() <= 0)]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While inside, an interrupt is remembered; on the way out it becomes a KeyboardInterrupt after all."""
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
            yield
            return
        self.interrupted = False

        def remember(*_: object) -> None:
            self.interrupted = True

        before = signal.signal(signal.SIGINT, remember)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            if self.interrupted:  # also where the solve failed meanwhile: that must not hide it
                raise KeyboardInterrupt
