"""A sector from outside, on public contracts alone: a water main of two nodes, from its file to its optimum and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import casadi as ca
import numpy as np
import pytest
from numpy.typing import NDArray

from gridveil.core.choices import DemandBounds, Formulation
from gridveil.core.errors import InputError
from gridveil.core.methods import Solver
from gridveil.core.secret import Secret, SecretField, SecretValues
from gridveil.programs import ParametricProgram
from gridveil.sectors.case import Case
from gridveil.sectors.geometry import Places
from gridveil.sectors.model import DataLayout, Model
from gridveil.sectors.registry import (
    SECTORS,
    build_model,
    describe_case,
    list_names,
    load_case,
    read_back,
    read_places,
    register,
    sector_of,
    write_network,
)
from gridveil.sectors.sector import PublicFact, Sector, Solve, identity_texts
from gridveil.sectors.sites import AS_STATED, SiteRule
from gridveil.sectors.view import (
    BeforeAndAfter,
    Changes,
    ChangeTable,
    Frames,
    Graph,
    NetworkView,
    Sites,
    SortedValues,
    Tab,
    ValuePart,
    value_columns,
)
from gridveil.solvers.backend import Answer
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

Floats = NDArray[np.float64]
PRICE, CURVE = 3.0, 0.5  # cost of pumping q litres per second: PRICE·q + CURVE·q²


@dataclass(frozen=True, eq=False, kw_only=True)
class WaterNetwork:
    """A pump at ``names[0]`` that feeds all taps at ``names[1]`` through one main of limited flow."""

    kind: ClassVar[str] = "water"
    names: tuple[str, str]
    taps: int
    most_flow: float


class WaterSector:
    kind = WaterNetwork.kind
    formulations = (Formulation.AC,)
    structured = False
    public_facts = (
        PublicFact(words="the two nodes and the number of taps", columns=("names", "taps")),
        PublicFact(words="the largest flow", columns=("most_flow",)),
    )
    flow_words = "optimal pumping"
    node_word = "node"
    value_parts = (ValuePart(name="draught", symbol="q", unit="l/s", column="l_per_s"),)

    def built_in_names(self) -> list[str]:
        return []

    def recognises(self, source: str) -> bool:
        return Path(source).suffixes == [".water", ".json"]

    def file_of(self, source: str) -> Path | None:
        return Path(source)

    def read(self, source: str, options: object, sites: SiteRule) -> Case:
        path = Path(source)
        if not path.exists():
            raise InputError(f"{path.name}: no such file; check the path")
        data = json.loads(path.read_text())
        draughts = np.array(data["draughts"], dtype=float)
        network = WaterNetwork(names=tuple(data["names"]), taps=len(draughts), most_flow=data["most_flow"])
        field = SecretField(
            name="draught", meaning="draught of each tap", participant="tap", dimension=1, unit="l/s", base=1.0,
            places=(network.names[1],) * network.taps,
        )  # fmt: skip
        secret = Secret(field=field, values=SecretValues(draughts))
        return Case(name=path.name.partition(".")[0], network=network, secret=secret, file_format="water-json")

    def read_places(self, source: str) -> Places:
        return Places()

    def writes(self, file_format: str) -> bool:
        return file_format == "water-json"

    def write(self, network: WaterNetwork, values: Floats, folder: Path, file_format: str, *, title: str) -> Path:
        path = folder / "network.water.json"
        data = {"names": network.names, "most_flow": network.most_flow, "draughts": values.tolist(), "title": title}
        path.write_text(json.dumps(data))
        return path

    def read_back(self, network: WaterNetwork, path: Path) -> Case:
        return self.read(str(path), None, AS_STATED)

    def model(self, network: WaterNetwork, formulation: Formulation) -> Model:
        x, d = ca.MX.sym("q"), ca.MX.sym("d", network.taps)
        program = ParametricProgram(
            name="pumping",
            x=x,
            d=d,
            cost=PRICE * x + CURVE * x**2,
            g=x - ca.sum1(d),
            g_lower=np.zeros(1),
            g_upper=np.zeros(1),
            x_lower=np.zeros(1),
            x_upper=np.array([network.most_flow]),
            x_start=np.array([network.most_flow / 2]),
        )
        layout = DataLayout(np.ones(network.taps, dtype=bool), with_reactive=False)
        return Model(kind=self.kind, formulation=formulation, program=program, layout=layout)

    def describe(self, network: WaterNetwork) -> dict[str, object]:
        return {"nodes": 2, "taps": network.taps}

    def identity(self, network: WaterNetwork) -> tuple[str, ...]:
        return identity_texts(network.names, [0], [1])

    def size(self, network: WaterNetwork) -> int:
        return 2

    def graph(self, network: WaterNetwork) -> Graph:
        return Graph(
            n=2,
            start=np.array([0]),
            end=np.array([1]),
            supplied=np.array([0]),
            place=np.ones(network.taps, dtype=np.int64),
        )

    def revealing_numbers(self, network: WaterNetwork) -> Mapping[str, Floats]:
        return {"largest flow": np.array([network.most_flow])}

    def usual_sizes(self, network: WaterNetwork) -> Floats | None:
        return np.full(network.taps, network.most_flow / network.taps)

    def simulate(
        self,
        network: WaterNetwork,
        field: SecretField,
        nearest: Solve,
        generator: np.random.Generator,
        loading: float | None,
    ) -> tuple[Floats, str]:
        shares = generator.dirichlet(np.ones(network.taps))
        return (loading or 0.5) * network.most_flow * shares, "random shares of the largest flow"

    def public_frames(self, network: WaterNetwork) -> Frames:
        import pandas as pd

        return {"nodes": pd.DataFrame({"node": network.names})}

    def solution_frames(self, network: WaterNetwork, formulation: Formulation, x: Floats) -> Frames:
        import pandas as pd

        return {"pump": pd.DataFrame({"l_per_s": x})}

    def compare(
        self, network: WaterNetwork, sites: Sites, before: Floats, after: Floats, title: Callable[[str], str]
    ) -> BeforeAndAfter:
        change = after - before
        table = ChangeTable(id="pump", columns={"before": before, "after": after}, change=change)
        figure = SortedValues(title="Flow", before=before, after=after, axis="flow (l/s)")
        view = NetworkView(
            ids=network.names,
            weight=np.array([0.0, np.abs(sites.true).sum()]),
            supplied=np.array([True, False]),
            start=np.array([0]),
            end=np.array([1]),
            marked=np.zeros(1, dtype=bool),
            marked_words="",
            edge_titles=["main"],
            details=[[], []],
            changes=[
                Changes(
                    name="Change of draught", unit="l/s", of_edges=False, values=np.array([np.nan, sites.change.sum()])
                ),
                Changes(name="Change of flow", unit="l/s", of_edges=True, values=change),
            ],
        )
        tab = Tab(name="Pump", figure=figure, caption="Flow of the main.", table=table)
        return BeforeAndAfter(facts=[("Flow", f"{before[0]:g} → {after[0]:g}")], tabs=[tab], view=view)


@pytest.fixture
def water() -> Iterator[Sector]:
    sector: Sector = WaterSector()
    known = list(SECTORS)
    register(sector)
    yield sector
    SECTORS[:] = known


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "village.water.json"
    path.write_text(json.dumps({"names": ["well", "village"], "most_flow": 20.0, "draughts": [2.5, 1.25, 4.25]}))
    return str(path)


def solve(case: Case, solver: Solver = Solver.STRUCTURED) -> Answer:
    model = build_model(case.network)
    return Solves(backend_for(model, solver)).afresh(model.layout.to_program(case.values.reveal()))


@pytest.mark.parametrize("solver", list(Solver))
def test_it_is_read_and_solved(water, source, solver):
    case = load_case(source)
    assert sector_of(case.network) is water and isinstance(case.network, WaterNetwork)
    solution = solve(case, solver)
    assert solution.converged and solution.cost == pytest.approx(PRICE * 8 + CURVE * 64, rel=1e-7)
    np.testing.assert_allclose(solution.prices, PRICE + 2 * CURVE * 8, rtol=1e-5)


def test_the_formulation_does_not_matter_and_bounds_do(water, source):
    network = load_case(source).network
    assert build_model(network, Formulation.DC).formulation is Formulation.AC
    assert np.all(build_model(network, bounds=DemandBounds.NONNEGATIVE).program.d_lower == 0)


def test_it_is_written_and_read_back(water, source, tmp_path):
    case, released = load_case(source), np.array([1.0, 2.0, 3.0])
    path = write_network(case.network, released, tmp_path, case.file_format, title="released")
    back = read_back(case.network, path)
    assert back.field == case.field and solve(back).cost == pytest.approx(PRICE * 6 + CURVE * 36, rel=1e-7)
    written = set(json.loads(path.read_text()))
    covered = {column for fact in water.public_facts for column in fact.columns}
    assert written <= covered | {"draughts", "title"}
    assert sector_of(back.network).identity(back.network) == water.identity(case.network)


def test_it_describes_itself(water, source):
    case = load_case(source)
    shown = describe_case(case)
    assert (shown["kind"], shown["taps"], shown["secret"]) == ("water", 3, ["draught of each tap"])
    assert shown["public"] == ["the two nodes and the number of taps", "the largest flow"]
    graph = water.graph(case.network)
    assert (graph.n, graph.start.tolist(), graph.end.tolist(), graph.place.tolist()) == (2, [0], [1], [1, 1, 1])
    assert read_places(source) == Places()
    assert list(value_columns(water.value_parts, np.ones(3), case.field.base)) == ["l_per_s"]
    assert water.identity(case.network) == ("edge village--well", "node village", "node well")


def test_a_notebook_and_the_command_line_need_nothing_more(water, source, cli):
    import gridveil

    case = gridveil.load(source)
    result = case.solve()
    assert result.dispatch["l_per_s"].tolist() == pytest.approx([8.0]) and "optimal pumping" in repr(result)
    assert list(case.to_pandas()) == ["nodes"]
    report = json.loads(cli("solve", source, "--json").out)
    assert (report["formulation"], report["status"]) == ("pumping", "converged")
    assert json.loads(cli("inspect", source, "--json").out)["kind"] == "water"


def test_a_release_reaches_its_curator_s_report(water, source, tmp_path):
    import gridveil

    result = gridveil.load(source).release(epsilon=1, alpha="0.5pu", beta="5%", seed=1)
    assert result.status == "verified" and result.certificate.relaxation == "none: local only"
    assert result.card["promise"]["privacy_unit"] == "one tap" and result.card["promise"]["unit"] == "l/s"
    assert "the largest flow" in result.card["unprotected"]
    files = result.save(tmp_path / "out")
    assert "curator/report.html" in files and "simulation/network.water.json" in files
    assert "Change of flow" in (tmp_path / "out" / "curator" / "report.html").read_text()


def test_settings_are_explored_on_its_simulated_data(water, source):
    import gridveil

    found = gridveil.load(source).explore(alpha="0.1pu", beta="5%", seeds=1)
    assert found.exploration.demands == "random shares of the largest flow"


def test_a_network_without_its_sector_is_refused():
    with pytest.raises(ValueError, match="no sector water"):
        build_model(WaterNetwork(names=("well", "village"), taps=1, most_flow=1.0))


def test_two_sectors_of_one_kind_are_refused(water):
    with pytest.raises(ValueError, match="water already"):
        register(WaterSector())


def test_the_others_are_still_found(water):
    assert [sector.kind for sector in SECTORS] == ["water", "program", "gas", "power"]
    assert load_case("veil9").network.kind == "power" and load_case("veilgas").network.kind == "gas"
    assert {"veil9", "veilgas"} <= set(list_names())
