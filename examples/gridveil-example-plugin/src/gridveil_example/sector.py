"""A sector: depots that share one supply with a rising price, in a file of its own format.

::

    {"supply": 60.0, "demands": {"north": 12.0, "south": 9.5}}

``supply`` is the most that can be bought, in t/h, and public; the demand of each depot is secret.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import casadi as ca
import numpy as np

from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.core.secret import Secret, SecretField, SecretValues
from gridveil.programs import ParametricProgram
from gridveil.sectors.case import Case
from gridveil.sectors.geometry import Places
from gridveil.sectors.model import DataLayout, Model
from gridveil.sectors.sector import PublicFact, identity_texts
from gridveil.sectors.sites import AS_STATED
from gridveil.sectors.view import (
    BeforeAndAfter,
    Changes,
    ChangeTable,
    Graph,
    NetworkView,
    SortedValues,
    Tab,
    ValuePart,
)

SUFFIX = ".depots"
BASE = 10.0  # t/h per unit
PRICE, CURVE = 20.0, 0.5  # $/t, and $/t more for each t/h: cost of q t/h is PRICE·q + CURVE·q²


@dataclass(frozen=True, eq=False, kw_only=True)
class DepotNetwork:
    """The public part: names of the depots and the largest supply (per unit)."""

    kind: ClassVar[str] = "depots"
    names: tuple[str, ...]
    supply: float


class DepotSector:
    """Everything that gridveil asks about depots."""

    kind = DepotNetwork.kind
    formulations = (Formulation.AC,)
    structured = False
    public_facts = (PublicFact(words="names of the depots, and the largest supply", columns=("names", "supply")),)
    flow_words = "optimal supply"
    node_word = "depot"
    value_parts = (ValuePart(name="demand", symbol="d", unit="t/h", column="t_per_h"),)

    def built_in_names(self):
        """None."""
        return []

    def recognises(self, source):
        """By the ending of the file."""
        return Path(source).suffix == SUFFIX

    def file_of(self, source):
        """The file itself."""
        return Path(source)

    def read(self, source, options, sites):
        """Read and check a file. The list of depots is part of the file whatever their demands, so it is declared."""
        try:
            data = json.loads(Path(source).read_text(encoding="utf-8"))
            supply = float(data["supply"]) / BASE
            names = tuple(data["demands"])
            demands = np.array([float(demand) for demand in data["demands"].values()]) / BASE
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{source}: is no file of depots ({type(error).__name__}); see its documentation"
            ) from None
        field = SecretField(
            name="demand", meaning="demand of each depot", participant="depot", dimension=1, unit="t/h", base=BASE,
            places=names,
        )  # fmt: skip
        return Case(
            name=Path(source).stem,
            network=DepotNetwork(names=names, supply=supply),
            secret=Secret(field=field, values=SecretValues(demands)),
            file_format="depots",
            sites_declared=True,
        )

    def read_places(self, source):
        """No coordinates."""
        return Places()

    def writes(self, file_format):
        """Its own format only."""
        return file_format == "depots"

    def write(self, network, values, folder, file_format, *, title):
        """Write names, supply and released demands, in t/h."""
        path = folder / f"network{SUFFIX}"
        demands = dict(zip(network.names, (BASE * values).tolist(), strict=True))
        path.write_text(json.dumps({"title": title, "supply": BASE * network.supply, "demands": demands}, indent=1))
        return path

    def read_back(self, network, path):
        """As a reader would."""
        return self.read(str(path), None, AS_STATED)

    def usual_sizes(self, network):
        """Nothing public tells how large values are."""

    def model(self, network, formulation):
        """Buy q = Σd at a rising price."""
        n = len(network.names)
        q, d = ca.MX.sym("q"), ca.MX.sym("d", n)
        program = ParametricProgram(
            name="supply",
            x=q,
            d=d,
            cost=PRICE * BASE * q + CURVE * (BASE * q) ** 2,
            g=q - ca.sum1(d),
            g_lower=np.zeros(1),
            g_upper=np.zeros(1),
            x_lower=np.zeros(1),
            x_upper=np.array([network.supply]),
            x_start=np.array([network.supply / 2]),
            cost_unit="$/h",
        )
        layout = DataLayout(np.ones(n, dtype=bool), with_reactive=False)
        return Model(kind=self.kind, formulation=formulation, program=program, layout=layout)

    def describe(self, network):
        """Counts."""
        return {"depots": len(network.names)}

    def identity(self, network):
        """What the data set is known by: its depots, each with an edge to the supply."""
        names = ("supply", *network.names)
        return identity_texts(names, [0] * len(network.names), list(range(1, len(names))))

    def size(self, network):
        """Depots and supply."""
        return len(network.names) + 1

    def graph(self, network):
        """A star."""
        n = len(network.names)
        return Graph(
            n=n + 1,
            start=np.zeros(n, dtype=np.int64),
            end=np.arange(1, n + 1),
            supplied=np.array([0]),
            place=np.arange(1, n + 1),
        )

    def revealing_numbers(self, network):
        """The supply could be a multiple of the demand."""
        return {"largest supply": np.array([network.supply])}

    def simulate(self, network, field, nearest, generator, loading):
        """Random shares of the supply."""
        shares = generator.dirichlet(np.ones(len(network.names)))
        return (loading or 0.5) * network.supply * shares, "random shares of the supply"

    def public_frames(self, network):
        """The depots."""
        import pandas as pd

        return {"depots": pd.DataFrame({"depot": network.names})}

    def solution_frames(self, network, formulation, x):
        """What is bought."""
        import pandas as pd

        return {"supply": pd.DataFrame({"t_per_h": BASE * x})}

    def compare(self, network, sites, before, after, title):
        """Two numbers: the supply before and after."""
        change, n = after - before, len(network.names)
        view = NetworkView(
            ids=("supply", *network.names),
            weight=np.array([0.0, *np.abs(sites.true)]),
            supplied=np.array([True] + [False] * n),
            start=np.zeros(n, dtype=np.int64),
            end=np.arange(1, n + 1),
            marked=np.zeros(n, dtype=bool),
            marked_words="",
            edge_titles=[f"road to {name}" for name in network.names],
            details=[[] for _ in range(n + 1)],
            changes=[
                Changes(name="Change", unit="t/h", of_edges=False, values=np.array([np.nan, *BASE * sites.change]))
            ],
        )
        tab = Tab(
            name="Supply",
            figure=SortedValues(title="Supply", before=BASE * before, after=BASE * after, axis="supply (t/h)"),
            caption="What is bought.",
            table=ChangeTable(id="supply", columns={"before": before, "after": after}, change=change),
        )
        return BeforeAndAfter(facts=[("Supply", f"{before[0]:g} → {after[0]:g}")], tabs=[tab], view=view)


DEPOTS = DepotSector()
