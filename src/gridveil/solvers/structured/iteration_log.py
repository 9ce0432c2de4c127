"""The iteration log: what the runs of a solve did, one line per iteration, in the columns that Ipopt prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gridveil.solvers.structured.layout import History
from gridveil.solvers.structured.problem import SolveStatus

HEADER = "iter    inf_pr    inf_du     compl  lg(mu)  lg(rg)  alpha_du  alpha_pr  fact"
_NO_STEP = f"{'-':>8}{'-':>10}{'-':>10}{'-':>6}"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run:
    """One run of the engine: how it was started, how it ended, and what it did in between."""

    free: bool
    mu: float
    tolerance: float
    status: SolveStatus
    history: History


def format_log(history: History) -> str:
    """Format one run: the errors at each iterate and the step taken from it.

    ``inf_pr`` and ``inf_du`` are the largest violations, ``compl`` the mean product of distance and multiplier, ``rg`` the
    shift δ_w (a dash for none), ``alpha`` the step lengths, ``fact`` the factorisations. The objective is left out.
    """
    written = int(np.sum(np.isfinite(history.mu)))
    return "\n".join([HEADER, *(_line(history, k) for k in range(written))])


def _line(history: History, k: int) -> str:
    errors = f"{history.primal[k]:10.2e}{history.dual[k]:10.2e}{history.product[k]:10.2e}"
    line = f"{k:4d}{errors}{np.log10(history.mu[k]):8.1f}"
    if np.isnan(history.shift[k]):
        return line + _NO_STEP
    shift = f"{np.log10(history.shift[k]):8.1f}" if history.shift[k] > 0.0 else f"{'-':>8}"
    lengths = f"{history.dual_length[k]:10.2e}{history.primal_length[k]:10.2e}"
    return f"{line}{shift}{lengths}{int(history.factorisations[k]):6d}"


def format_runs(runs: Sequence[Run]) -> str:
    """Format all runs of a solve, each under how it was started and above how it ended."""
    return "\n\n".join(
        f"run {k}: {'free' if run.free else 'held'} barrier parameter from {run.mu:g}, tolerance {run.tolerance:g}\n"
        f"{format_log(run.history)}\n{run.status.value}"
        for k, run in enumerate(runs, start=1)
    )
