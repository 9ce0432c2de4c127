"""The card and the registry's entry of each kind of release: plain words first, nothing promised that does not hold."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.report.card_page import card_page
from gridveil.report.promise import promise_of
from gridveil.sectors.case import Case
from gridveil.sectors.registry import load_case, sector_of
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.budget import ledger_of
from gridveil.service.card import GIVEN_COST, NO_PROMISE, PURE, SIMULATION_NOTICE, card
from gridveil.service.guards import confirm_all
from gridveil.service.publish import publish
from gridveil.service.release import Release, make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

PRIVATE, DERIVED, FORECAST, PUBLIC = (
    CostTargetMode.PRIVATE, CostTargetMode.DERIVED, CostTargetMode.FORECAST, CostTargetMode.PUBLIC,
)  # fmt: skip
OPEN_LOAD = "1 dispatchable load, published as the file states it"
ANY = None
LEAVES: dict[str, Any] = {
    "url_slug": ANY,
    "status": ANY,
    "tier": ANY,
    "deployment": {
        "basic": {
            "name": ANY,
            "data_curators": [{"data_curator_name": ANY, "data_curator_type": ANY}],
            "intended_use": ANY,
            "data_product_type": ANY,
            "data_product_region": ANY,
            "description": ANY,
            "publication_date": ANY,
            "data_product_sector": ANY,
        },
        "dp_variant": {"variant_name": ANY, "data_domain": ANY, "unprotected_quantities": ANY},
        "privacy_loss": {
            "privacy_unit": ANY,
            "privacy_unit_details": ANY,
            "privacy_parameters": {"epsilon": ANY, "delta": ANY, "rho": ANY},
            "privacy_parameters_details": ANY,
        },
        "deployment_model": {
            "model_name": ANY,
            "model_name_details": ANY,
            "actors": ANY,
            "release_type": ANY,
            "release_type_details": ANY,
            "data_source_type": ANY,
            "access_type": ANY,
            "access_type_details": ANY,
        },
        "accounting": {"composition": ANY, "post_processing": ANY},
        "implementation": {"mechanisms": ANY, "preprocessing_and_hyperparameter_tuning": ANY, "justification": ANY},
        "administrative": {"sources": ANY, "registry_authors": ANY},
    },
}


def strangers(document: Any, allowed: Any, path: str = "") -> Iterator[str]:
    """Paths of a document that the tree does not have: unknown fields, and values where groups belong or vice versa."""
    if isinstance(allowed, Mapping):
        if not isinstance(document, Mapping):
            yield path
            return
        for key, value in document.items():
            yield from strangers(value, allowed[key], f"{path}/{key}") if key in allowed else [f"{path}/{key}"]
    elif isinstance(allowed, list):
        for item in document if isinstance(document, list) else [None]:
            yield from strangers(item, allowed[0], f"{path}[]")
    elif isinstance(document, Mapping | list):
        yield path


@pytest.fixture
def case() -> Case:
    return replace(load_case("veil2"), unprotected=(OPEN_LOAD,))


@pytest.fixture
def release(case) -> Callable[..., Release]:
    """Release veil2 with noise that is small beside its demand; each is charged to the one ledger, unless it has a seed."""
    ledger = ledger_of(case, alpha="0.1MVA", cap="100")

    def make(mode: CostTargetMode, seed: int | None = None) -> Release:
        target = CostTargetSettings(mode=mode, forecast=case_cost(case) if mode is FORECAST else None)
        settings = ReleaseSettings(epsilon="1", alpha="0.1MVA", beta=Tolerance.parse("1%"), target=target, seed=seed)
        account = NoAccount() if seed is not None else LedgerAccount(ledger)
        return make_release(case, settings, account, confirm=confirm_all)

    return make


def case_cost(case: Case) -> float:
    from gridveil.privacy.curator import Curator

    return Curator(case).optimum().cost


def main_part(page: str) -> str:
    """What people read of a page: no scripts, no styles."""
    return page[page.index("<main>") : page.index("</main>")]


def entry_of(made: Release, case: Case, folder: Path) -> dict[str, Any]:
    """The registry's entry as it lies in the public folder."""
    publish(made, case, folder, simulation_as_public=True, card_page=card_page)
    entry: dict[str, Any] = yaml.safe_load((folder / "public" / "registry.yaml").read_text())
    return entry


@pytest.mark.parametrize(
    ("mode", "variant"), [(PRIVATE, PURE), (DERIVED, PURE), (FORECAST, PURE), (PUBLIC, GIVEN_COST)]
)
def test_plain_words_come_first_and_say_what_kind_of_promise_it_is(release, mode, variant):
    made = release(mode)
    shown = card(made.public)
    assert list(shown)[:2] == ["name", "in_plain_words"]
    promised = "Network with differentially private demands"
    assert shown["name"] == ("Network with noisy demands and its true optimal cost" if mode is PUBLIC else promised)
    assert shown["simulation"] is False
    assert shown["variant"] == variant
    words: Any = shown["in_plain_words"]
    if mode is PUBLIC:
        assert words[0].startswith("The optimal cost of the true demands is published exactly")
        assert "work the last one back" in words[0] and not re.search(r"odds|\bto 1\b", " ".join(words))
    else:
        assert "cannot tell two values of one demand up to 0.1 MVA apart by odds of more than 2.72 to 1" in words[0]
    assert "spent epsilon = 1 at alpha = 0.1 MVA, of at most 100" in words[1]
    target: Any = shown["cost_target"]
    assert target["mode"] == mode.value and any(target["meaning"] in sentence for sentence in words)
    assert any("95 %" in sentence for sentence in words) == (mode is PRIVATE)
    assert (target["error_at_95_percent"] is None) == (mode in {DERIVED, FORECAST})


def test_the_variants_are_told_apart_by_what_they_claim():
    assert PURE.startswith("pure differential privacy") and GIVEN_COST.startswith("not differential privacy")
    assert NO_PROMISE.startswith("none")


@pytest.mark.parametrize("mode", CostTargetMode)
def test_a_simulation_promises_nothing_whatever_its_target(release, mode):
    shown = card(release(mode, seed=2).public)
    assert shown["name"] == SIMULATION_NOTICE and shown["in_plain_words"] == [f"{SIMULATION_NOTICE}."]
    assert (shown["simulation"], shown["variant"], shown["data_set"]) == (True, NO_PROMISE, None)
    assert "SIMULATION, NOT PRIVATE" in card_page(shown)


def test_the_page_of_a_declared_cost_states_no_odds(release):
    page, private = (main_part(card_page(card(release(mode).public))) for mode in (PUBLIC, PRIVATE))
    assert "no odds are stated here" in page and "work the last one back" in page
    assert not re.search(r"\d : 1|odds, at most|to 1 \(|Two values that differ by", page)
    assert "2.72 : 1" in private and "odds, at most" in private and "work the last one back" not in private


@pytest.mark.parametrize("mode", CostTargetMode)
def test_what_is_not_protected_is_listed(release, case, mode):
    listed: Any = card(release(mode).public)["unprotected"]
    facts = [fact.words for fact in sector_of(case.network).public_facts]
    assert facts and set(facts) <= set(listed) and OPEN_LOAD in listed
    more = {
        PUBLIC: ["the optimal cost of the true demands"],
        FORECAST: ["the forecast of the cost, as given by the curator"],
    }
    assert sorted(listed) == sorted([*facts, OPEN_LOAD, *more.get(mode, [])])
    if mode is PUBLIC:
        assert listed[0] == "the optimal cost of the true demands"


def test_the_parts_of_epsilon_add_up_and_the_losses_at_alpha_too(release):
    for mode, parts in ((PRIVATE, 2), (DERIVED, 1)):
        shown: Any = card(release(mode).public)
        assert len(shown["mechanisms"]) == parts
        assert sum(one["epsilon"] for one in shown["mechanisms"]) == pytest.approx(1.0, rel=1e-12)
        assert all(one["alpha"] == pytest.approx(0.1, rel=1e-12) for one in shown["mechanisms"])
        assert promise_of(shown).at_alpha.loss == pytest.approx(1.0, rel=1e-9)
        assert math.exp(promise_of(shown).at_alpha.loss) <= 2.72


@pytest.mark.parametrize(("mode", "seed"), [*((mode, None) for mode in CostTargetMode), (PRIVATE, 2)])
def test_the_registry_s_entry_has_fields_of_its_schema_and_no_others(release, case, tmp_path, mode, seed):
    made = release(mode, seed)
    entry = entry_of(made, case, tmp_path / "out")
    assert list(strangers(entry, LEAVES)) == []
    assert set(entry) == set(LEAVES) and set(entry["deployment"]) == set(LEAVES["deployment"])
    deployment = entry["deployment"]
    assert deployment["basic"]["data_product_type"] == "Synthetic data"
    assert deployment["basic"]["data_product_sector"] == "Energy"
    assert deployment["dp_variant"]["variant_name"] == "Custom"
    assert deployment["deployment_model"]["model_name"] == "Central"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": pytest.approx(1.0), "delta": 0.0}
    assert "alpha = 0.1 MVA" in deployment["privacy_loss"]["privacy_parameters_details"]
    assert deployment["basic"]["description"] == " ".join(card(made.public)["in_plain_words"])  # type: ignore[arg-type]
    unprotected = deployment["dp_variant"]["unprotected_quantities"]
    assert OPEN_LOAD in unprotected and ("work the last one back" in unprotected) == (mode is PUBLIC)


def test_a_stranger_in_the_entry_would_be_found(release, case, tmp_path):
    entry = entry_of(release(DERIVED), case, tmp_path / "out")
    entry["deployment"]["basic"]["true_cost"] = 1.0
    entry["deployment"]["accounting"]["composition"] = {"total": 1.0}
    entry["deployment"]["basic"]["data_curators"][0]["email"] = "x"
    assert sorted(strangers(entry, LEAVES)) == [
        "/deployment/accounting/composition",
        "/deployment/basic/data_curators[]/email",
        "/deployment/basic/true_cost",
    ]


def test_a_second_release_of_the_data_set_is_called_so(release, case, tmp_path):
    kinds = [
        entry_of(release(PRIVATE), case, tmp_path / name)["deployment"]["deployment_model"]["release_type"]
        for name in ("first", "second")
    ]
    assert kinds == ["One release", "Multiple releases"]


def test_card_yaml_is_the_card(release, case, tmp_path):
    made = release(PRIVATE)
    entry_of(made, case, tmp_path / "out")
    written = (tmp_path / "out" / "public" / "card.yaml").read_text()
    stated = yaml.safe_load(written)
    assert [one["file"] for one in stated.pop("files")][:2] == ["certificate.yaml", "network.m"]
    assert stated == card(made.public)
    assert written.index("in_plain_words") < written.index("epsilon:")


def test_the_card_says_who_found_which_cost_and_warns_of_others(release):
    made = release(PRIVATE).public
    checked = made.released.checked
    assert {(check.solver, check.start) for check in checked.checks} >= {("structured", "cold"), ("ipopt", "flat")}
    agreed: Any = card(made)
    assert agreed["post_processing"]["spread"] == 0.0
    assert [check["cost"] for check in agreed["post_processing"]["checked_by"]] == [
        check.cost for check in checked.checks
    ]

    def words(**changed: Any) -> str:
        """Plain words of the card if Ipopt had found something else."""
        checks = tuple(
            replace(check, **changed) if check.solver == "ipopt" and check.start == "flat" else check
            for check in checked.checks
        )
        altered = replace(made, released=replace(made.released, checked=replace(checked, checks=checks)))
        return " ".join(card(altered)["in_plain_words"])  # type: ignore[arg-type]

    target = made.target
    assert "local optima" not in words() and "did not converge" not in words()
    inside = made.released.result.cost + (0.5 if made.released.result.cost < target.value else -0.5) * target.beta
    assert ", all of them within" in words(cost=inside)
    assert "not all of them within" in words(cost=target.upper + target.beta)
    assert "ipopt did not converge" in words(cost=None)
