"""A backend: Ipopt, and one more attempt from its own start where a dispatch from a given start fails."""

from __future__ import annotations

from dataclasses import replace

from gridveil.solvers.backend import Capabilities
from gridveil.solvers.ipopt import IpoptBackend
from gridveil.solvers.registry import BackendEntry

NAME = "patient-ipopt"


class PatientIpopt(IpoptBackend):
    """Ipopt, patient with starts that lead nowhere."""

    name = NAME

    def dispatch(self, d, *, start=None, effort=None):
        """O(d); if it fails from a given start, once more from the program's own."""
        answer = super().dispatch(d, start=start, effort=effort)
        if not answer.converged and start is not None:
            answer = super().dispatch(d)
        return replace(answer, solver=NAME)


PATIENT_IPOPT = BackendEntry(
    capabilities=Capabilities(accepts=lambda model: True),
    build=lambda model, verbose: PatientIpopt(model.program, verbose=verbose),
)
