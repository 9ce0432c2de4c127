"""A secret other than demands, on public contracts alone: the capacities of plants, which lower the cost as they grow."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import casadi as ca
import numpy as np
import pytest

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, Formulation
from gridveil.core.secret import Secret, SecretField, SecretValues
from gridveil.programs import ParametricProgram
from gridveil.sectors.case import Case
from gridveil.sectors.model import DataLayout, Model
from gridveil.sectors.registry import SECTORS, register
from gridveil.sectors.sector import PublicFact
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.budget import ledger_of
from gridveil.service.card import card
from gridveil.service.publish import list_files, publish
from gridveil.service.registry_card import registry_entry
from gridveil.service.release import make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.service.summary import summary

ALLOWED = ("core.band", "core.choices", "core.secret", "programs", "sectors.", "service.")
CHEAP, DEAR, LOAD, BASE = 20.0, 50.0, 30.0, 10.0  # $/MWh of the plants and of the market; per unit of 10 MW; MW
TRUE = np.array([4.0, 7.0, 5.5, 3.0, 6.0])  # per unit: 25.5 in all, so that the market serves the other 4.5


@dataclass(frozen=True, eq=False, kw_only=True)
class Fleet:
    """Plants that serve a public load as far as their capacities reach; the rest is bought at a dear price."""

    kind: ClassVar[str] = "fleet"
    plants: tuple[str, ...]


class FleetSector:
    kind = Fleet.kind
    formulations = (Formulation.AC,)
    structured = False
    public_facts = (
        PublicFact(words="names of the plants", columns=("plants",)),
        PublicFact(words="the load and both prices", columns=()),
    )
    flow_words = "optimal commitment"
    node_word = "plant"
    value_words = "capacity"
    value_parts = ()

    def model(self, network: Fleet, formulation: Formulation) -> Model:
        n = len(network.plants)
        x, d = ca.MX.sym("x", n + 1), ca.MX.sym("d", n)
        program = ParametricProgram(
            name="fleet",
            x=x,
            d=d,
            cost=BASE * (CHEAP * ca.sum1(x[:n]) + DEAR * x[n]),
            g=ca.vertcat(ca.sum1(x), d - x[:n]),
            g_lower=np.array([LOAD, *np.zeros(n)]),
            g_upper=np.array([LOAD, *np.full(n, np.inf)]),
            x_lower=np.zeros(n + 1),
            x_upper=np.full(n + 1, np.inf),
            x_start=np.ones(n + 1),
            proxy=-ca.sum1(d),
            cost_unit="$/h",
        )
        layout = DataLayout(np.ones(n, dtype=bool), with_reactive=False)
        return Model(kind=self.kind, formulation=formulation, program=program, layout=layout)

    def size(self, network: Fleet) -> int:
        return len(network.plants)

    def identity(self, network: Fleet) -> tuple[str, ...]:
        return tuple(f"node {plant}" for plant in sorted(network.plants))

    def revealing_numbers(self, network: Fleet) -> dict[str, Any]:
        return {}

    def usual_sizes(self, network: Fleet) -> None:
        return None

    def write(self, network: Fleet, values: Any, folder: Path, file_format: str, *, title: str) -> Path:
        path = folder / "fleet.json"
        path.write_text(json.dumps({plant: BASE * mw for plant, mw in zip(network.plants, values, strict=True)}))
        return path

    def read_back(self, network: Fleet, path: Path) -> Case:
        return fleet_case(json.loads(path.read_text()))


def fleet_case(megawatts: dict[str, float]) -> Case:
    field = SecretField(
        name="capacity", meaning="available capacity of each plant", participant="plant", dimension=1, unit="MW", base=BASE,
        places=tuple(megawatts),
    )  # fmt: skip
    values = SecretValues(np.array(list(megawatts.values())) / BASE)
    network = Fleet(plants=tuple(megawatts))
    return Case(name="fleet", network=network, secret=Secret(field=field, values=values), file_format="fleet-json")


def cost(capacities: np.ndarray) -> float:
    """O by formula; what is beyond the load is not needed."""
    used = min(float(capacities.sum()), LOAD)
    return BASE * (CHEAP * used + DEAR * (LOAD - used))


def settings(mode: CostTargetMode, seed: int | None = 5) -> ReleaseSettings:
    return ReleaseSettings(
        epsilon="1", alpha="5MW", beta=Tolerance.parse("2%"), target=CostTargetSettings(mode=mode), seed=seed
    )


@pytest.fixture
def case() -> Iterator[Case]:
    known = list(SECTORS)
    register(FleetSector())  # type: ignore[arg-type]
    yield fleet_case({f"plant {k}": BASE * value for k, value in enumerate(TRUE)})
    SECTORS[:] = known


@pytest.mark.parametrize("mode", [CostTargetMode.PRIVATE, CostTargetMode.DERIVED, CostTargetMode.PUBLIC])
def test_capacities_are_released_and_verified_in_their_band(case, mode):
    made = make_release(case, settings(mode), NoAccount())
    public = made.public
    assert public.simulation and public.released.result.verified
    assert public.target.contains(cost(public.values)) and public.values.shape == TRUE.shape
    assert not np.isclose(public.values, TRUE).any()
    assert public.released.result.cost == pytest.approx(cost(public.values), rel=1e-6)
    if mode is CostTargetMode.PUBLIC:
        assert public.target.value == pytest.approx(cost(TRUE), rel=1e-6)
    assert made.curator.optimum.cost == pytest.approx(cost(TRUE), rel=1e-6)


def test_more_capacity_costs_less_and_the_proxy_knows(case):
    """A target below the cost of d̃ is reached by raising capacities: the sum as a proxy would look the wrong way."""
    dear = make_release(case, settings(CostTargetMode.DERIVED), NoAccount()).public
    aim = CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=0.97 * dear.target.value)
    cheap = make_release(
        case,
        ReleaseSettings(epsilon="1", alpha="5MW", beta=Tolerance.parse("1%"), target=aim, seed=5),
        NoAccount(),
        reuse=dear.draw,
    ).public
    assert cheap.target.contains(cost(cheap.values))
    assert cheap.values.sum() > dear.draw.noisy.values.sum()


def test_card_registry_entry_and_summary_name_the_field_and_its_unit(case):
    made = make_release(case, settings(CostTargetMode.PRIVATE), NoAccount())
    shown, entry, told = card(made.public), registry_entry(made.public), summary(made)
    promise: Any = shown["promise"]
    assert (promise["field"], promise["unit"], promise["privacy_unit"]) == ("capacity", "MW", "one plant")
    assert (promise["alpha"], promise["participants"]) == (5.0, 5)
    assert "available capacity of each plant" in promise["privacy_unit_details"]
    assert shown["unprotected"] == ["names of the plants", "the load and both prices"]
    assert (told["field"], told["alpha"], told["alpha_unit"]) == ("capacity", 5.0, "MW")
    deployment: Any = entry["deployment"]
    assert deployment["dp_variant"]["data_domain"].endswith("for each of 5 plants, in MW")
    assert "capacities are protected" in deployment["basic"]["intended_use"]
    assert "demand" not in str(shown | {"post_processing": None}) and "demand" not in str(entry)
    assert "capacitys" not in str(shown) + str(entry)


def test_its_ledger_is_kept_in_the_unit_of_the_field(case, tmp_path):
    ledger = ledger_of(case, alpha="5MW", cap="2", path=tmp_path / "fleet.ledger")
    made = make_release(case, settings(CostTargetMode.DERIVED, seed=None), LedgerAccount(ledger))
    (charge,) = ledger.history().charges
    assert (ledger.unit, charge.alpha, charge.epsilon) == ("MW", 5, 1)
    assert ledger.history().spent == Fraction(1)
    spending = made.public.spending
    assert spending is not None and (spending.unit, spending.alpha, spending.cap) == ("MW", 5.0, 2.0)
    words = " ".join(card(made.public)["in_plain_words"])  # type: ignore[arg-type]
    assert "the capacities of all other plants" in words and "5 MW" in words


def test_it_is_published_and_read_back(case, tmp_path):
    made = make_release(case, settings(CostTargetMode.PRIVATE), NoAccount())
    publish(made, case, tmp_path / "out", simulation_as_public=False)
    files = list_files(tmp_path / "out")
    assert {"simulation/fleet.json", "simulation/card.yaml", "simulation/registry.yaml"} <= set(files)
    written = json.loads((tmp_path / "out" / "simulation" / "fleet.json").read_text())
    np.testing.assert_allclose(list(written.values()), BASE * made.public.values, rtol=1e-12)


def test_nothing_but_public_contracts_was_needed():
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [module.removeprefix("gridveil.") for module in modules if module.startswith("gridveil")]
    assert own and all(module.startswith(ALLOWED) for module in own)
