"""A user's own program as a network, so that it goes through the same pipeline as any other case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField
from gridveil.programs import ParametricProgram
from gridveil.sectors.model import DataLayout, Model
from gridveil.sectors.sector import PublicFact


@dataclass(frozen=True, eq=False)
class ProgramNetwork:
    """A parametric program whose data d are the secret: one entry, one participant."""

    kind: ClassVar[str] = "program"

    program: ParametricProgram

    def field(self, unit: str) -> SecretField:
        """The data of the program as a secret field, in a unit of the user's own."""
        return SecretField(
            name="datum",
            meaning="one entry of the program's data",
            participant="participant",
            dimension=1,
            unit=unit,
            base=1.0,
            places=tuple(str(k) for k in range(self.program.n_d)),
        )


class ProgramSector:
    """Programs of users: they have no files, no maps and no frames, only a model."""

    kind = ProgramNetwork.kind
    formulations = (Formulation.AC,)
    public_facts = (PublicFact(words="the program: its cost, constraints, bounds and start", columns=()),)
    flow_words = "optimal solution"
    node_word = "entry"
    value_parts = ()

    def built_in_names(self) -> list[str]:
        """There are none."""
        return []

    def recognises(self, source: str) -> bool:
        """No file holds a program."""
        return False

    def identity(self, network: ProgramNetwork) -> tuple[str, ...]:
        """The program's name and the number of its data."""
        return (f"program {network.program.name} of {network.program.n_d} data",)

    def model(self, network: ProgramNetwork, formulation: Formulation) -> Model:
        """The program as it is."""
        layout = DataLayout(np.ones(network.program.n_d, dtype=bool), with_reactive=False)
        return Model(kind=self.kind, formulation=formulation, program=network.program, layout=layout)

    def size(self, network: ProgramNetwork) -> int:
        """Count data."""
        return network.program.n_d

    def revealing_numbers(self, network: ProgramNetwork) -> dict[str, NDArray[np.float64]]:
        """Bounds of the program."""
        program = network.program
        return {"bound of a variable": np.concatenate([program.x_lower, program.x_upper])}

    def usual_sizes(self, network: ProgramNetwork) -> None:
        """Nothing public tells how large the data are."""

    def __getattr__(self, name: str) -> Any:
        raise InputError(f"a program of your own has no files, maps or frames ({name}); use the values of the result")
