"""A series is one draw under one charge, and every hour is repaired as it would be alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import yaml
from markupsafe import escape

from gridveil.core.band import Tolerance
from gridveil.core.choices import BatchEngine, CostTargetMode, Protects
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.methods import Solver
from gridveil.core.secret import SecretValues
from gridveil.privacy.ledger import LARGEST_DELTA, Ledger
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.report.series_page import series_page
from gridveil.sectors.case import Case
from gridveil.sectors.registry import load_case, sector_of
from gridveil.sectors.series_table import SeriesCase, SeriesLayout, site_names
from gridveil.service import series as series_module
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.guards import confirm_all, confirm_nothing
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.publication import UNSTATED
from gridveil.service.registry_document import RegistryFacts, registry_document
from gridveil.service.release import repaired
from gridveil.service.series import release_series
from gridveil.service.series_card import series_card
from gridveil.service.series_publish import publish_series
from gridveil.service.series_settings import SeriesSettings
from gridveil.service.series_store import SeriesStore
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.batch.engine_native import missing_compiler

DERIVED = CostTargetSettings(mode=CostTargetMode.DERIVED)
RELEASE = ReleaseSettings(epsilon="1", alpha="0.02pu", beta=Tolerance.parse("1%"), seed=3, target=DERIVED)
HOUR = SeriesSettings(release=RELEASE, protects=Protects.HOUR)
PROFILE = SeriesSettings(release=RELEASE, protects=Protects.PROFILE, basis="hours")
SCALES = (0.7, 1.0, 60.0, 0.85)
TOO_MUCH = 2  # the hour whose demands no generator can meet


def private(settings: SeriesSettings, **changes) -> SeriesSettings:
    return replace(settings, release=replace(settings.release, seed=None), **changes)


def table_of(case: Case, hours: list[SecretValues], start: str = "2026-01-05") -> SeriesCase:
    layout = SeriesLayout(
        timestamps=pd.date_range(start, periods=len(hours), freq="h"),
        time_name="timestamp",
        site_name="site",
        sites=site_names(case.field),
        columns=("p_mw", "q_mvar"),
        base=case.field.base,
    )
    return SeriesCase(case=case, layout=layout, hours=tuple(hours))


def scaled(scales=SCALES, name: str = "veil9") -> SeriesCase:
    case = load_case(name)
    return table_of(case, [case.values.scaled(scale) for scale in scales])


def new_ledger(path, *, alpha="2", cap="4", protects=Protects.PROFILE):
    """A ledger whose α is in MVA: the base of veil9 is 100 MVA."""
    return Ledger.create(path, dataset="0" * 64, name="veil9", unit="MVA", alpha=alpha, cap=cap, protects=protects)


@pytest.mark.parametrize(
    ("settings", "workers"),
    [
        (HOUR, 2),
        (PROFILE, 1),
        (replace(HOUR, release=replace(RELEASE, target=CostTargetSettings())), 1),
        (
            replace(
                HOUR, release=replace(RELEASE, target=CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=5000.0))
            ),
            1,
        ),
    ],
    ids=["hour", "profile", "private target", "forecast"],
)
def test_hours_are_repaired_as_if_alone(settings, workers):
    series = scaled()
    made = release_series(series, settings, NoAccount(), workers=workers)
    assert [row.hour for row in made.rows] == list(range(len(SCALES)))
    prepared = prepare(PublicCase.of(series.case), solver="structured")
    for row in made.rows:
        try:
            aim, released = repaired(prepared, made.draw.hour(row.hour), settings.release, for_readers=True)
        except NoReleaseError as error:
            assert not row.verified and row.status == str(error) and np.isnan(made.values[row.hour]).all()
            continue
        assert row.verified and row.status == "verified" and row.target == aim.target
        np.testing.assert_array_equal(made.values[row.hour], released.values)
        assert row.target.contains(row.released.result.cost)
    assert sum(row.verified for row in made.rows) >= 3
    assert (made.draw.totals is None) == (settings.release.target.mode is not CostTargetMode.PRIVATE)


def test_a_sample_of_hours_from_the_smallest_to_the_largest_is_checked_as_readers_would(monkeypatch):
    """The default solver from several starts, and Ipopt from the flat one; the others are solved by the default solver."""
    sizes = np.random.default_rng(2).permutation(1000.0 + np.arange(500))
    sample = series_module.readers_sample(sizes)
    assert len(sample) == series_module.READER_HOURS and {int(sizes.argmin()), int(sizes.argmax())} <= sample
    assert np.diff(np.sort(sizes[list(sample)])).max() < 500 / 20
    assert series_module.readers_sample(np.ones(3)) == {0, 1, 2}
    monkeypatch.setattr(series_module, "READER_HOURS", 3)
    made = release_series(scaled((0.7, 0.9, 1.0, 0.8, 0.75)), HOUR, NoAccount(), workers=1)
    checked = {row.hour: row.released.checked for row in made.rows if row.released.checked is not None}
    order = np.argsort(made.draw.values.real.sum(axis=1))
    assert set(checked) == {int(order[0]), int(order[2]), int(order[4])}
    for found in checked.values():
        assert ("ipopt", "flat") in {(check.solver, check.start) for check in found.checks}
    card = series_card(made)
    assert card["hours_checked_as_readers"] == 3 and card["largest_spread"] == 0


@pytest.mark.parametrize("settings", [HOUR, PROFILE, replace(PROFILE, mechanism="gaussian", delta="1e-6")])
def test_noise_is_fresh_in_every_hour_and_at_every_site(settings):
    series = scaled((1.0, 1.0, 1.0))
    made = release_series(series, settings, NoAccount(), workers=1)
    noise = made.draw.values - series.case.values.reveal()
    flat = np.concatenate([noise.real.ravel(), noise.imag.ravel()])
    assert len(np.unique(flat)) > 0.9 * len(flat)  # noise that is used twice would show


@pytest.mark.parametrize(
    ("counted", "settings", "cost"),
    [
        (Protects.HOUR, HOUR, 1),
        (Protects.PROFILE, HOUR, 4),
        (Protects.PROFILE, PROFILE, 1),
        (Protects.HOUR, PROFILE, 1),
        (Protects.HOUR, replace(HOUR, release=replace(RELEASE, target=CostTargetSettings())), 1),
    ],
)
def test_a_series_is_one_charge_whatever_its_hours(tmp_path, counted, settings, cost):
    """Infeasible hours are drawn and charged like any other; independent hours add up where a profile is counted."""
    ledger = new_ledger(tmp_path / "veil9.ledger", protects=counted)
    made = release_series(scaled(), private(settings), LedgerAccount(ledger), workers=1)
    (charge,) = ledger.charges
    assert ledger.spent == charge.epsilon == cost and charge.delta == 0 and charge.rho is None
    assert (
        charge.mechanism.startswith("4 hours: ")
        and charge.purpose == f"series of veil9, protects one {settings.protects.value}"
    )
    assert made.draw.charge_id == charge.id and not made.draw.simulation
    assert made.spending is not None and made.spending.epsilon == cost and made.spending.protects == counted.value
    assert not made.rows[TOO_MUCH].verified or made.draw.values.shape == (4, 7)


def test_gaussian_noise_is_charged_with_its_delta_and_its_rho(tmp_path):
    ledger = new_ledger(tmp_path / "veil9.ledger", alpha="3", cap="9")
    settings = private(PROFILE, mechanism="gaussian", delta="6e-6")
    made = release_series(scaled((1.0, 0.9)), settings, LedgerAccount(ledger), workers=1)
    (charge,) = ledger.charges
    assert charge.delta == Fraction(6, 10**6) and float(charge.rho) == pytest.approx(made.draw.mechanism.rho)
    assert ledger.spent == 4  # at 3 MVA, two steps of 2 MVA: four times ρ, at most four times ε
    assert made.spending.delta == pytest.approx(6e-6)
    again = Ledger.open(ledger.path).history()
    assert again.delta == charge.delta and again.charges == (charge,)
    with pytest.raises(InputError, match="over the limit of δ"):
        ledger.charge(epsilon="1/9", alpha="3", unit="MVA", mechanism="m", purpose="p", delta=LARGEST_DELTA, rho="1/99")
    assert len(ledger.charges) == 1


def test_a_budget_that_does_not_cover_the_series_is_left_untouched(tmp_path):
    ledger = new_ledger(tmp_path / "veil9.ledger", cap="2.99")
    announced = []
    with pytest.raises(InputError, match=r"over budget, nothing was drawn: .* needs ε = 3, remaining ε = 2\.99"):
        release_series(
            scaled(SCALES[:3]), private(HOUR), LedgerAccount(ledger), workers=1, announce=lambda: announced.append(1)
        )
    assert ledger.charges == () and not announced


def test_hours_of_one_block_are_repaired_once(monkeypatch):
    repairs = []
    kept = series_module._finish

    def counted(prepared, job):
        repairs.append(job)
        return kept(prepared, job)

    monkeypatch.setattr(series_module, "_finish", counted)
    made = release_series(scaled((1.0,) * 48), replace(PROFILE, basis="parts"), NoAccount(), workers=1)
    assert len(repairs) == made.basis.blocks == series_module.repairs_needed(made.basis) == 6
    np.testing.assert_array_equal(made.values[:24], made.values[24:])
    assert len({row.released.result.cost for row in made.rows}) == 6


def test_bad_series_are_refused(tmp_path):
    case, other = load_case("veil9"), load_case("veil2")
    with pytest.raises(InputError, match="hour 1: its values do not match"):
        release_series(table_of(case, [case.values, other.values]), HOUR, NoAccount(), workers=1)
    with pytest.raises(InputError, match="declared public"):
        replace(HOUR, release=replace(RELEASE, target=CostTargetSettings(mode=CostTargetMode.PUBLIC)))
    with pytest.raises(InputError, match="choices for whole profiles"):
        replace(HOUR, basis="level")
    with pytest.raises(InputError, match="does not protect a profile"):
        replace(PROFILE, release=replace(RELEASE, target=CostTargetSettings()))
    with pytest.raises(InputError, match="must be charged to a ledger"):
        release_series(scaled(), private(HOUR), NoAccount(), workers=1)
    ledger = new_ledger(tmp_path / "veil9.ledger")
    undeclared = replace(case, sites_declared=False)
    with pytest.raises(InputError, match="--sites all"):
        release_series(table_of(undeclared, [case.values]), private(HOUR), LedgerAccount(ledger), workers=1)
    assert ledger.charges == ()


# ---- a run that is stopped


class Stop(BaseException):
    """Stands for a kill."""


def begun(tmp_path, settings, ledger, **options):
    series = scaled((1.0, 0.9))
    curator = SeriesCurator(series.case, series.hours)
    store = SeriesStore(tmp_path / "curator", curator, settings)
    account = LedgerAccount(ledger)
    reuse = store.load(account) if store.exists else None
    confirm = confirm_all if store.exists else confirm_nothing
    hooks = {"keep": store.keep, "announce": store.announce, "confirm": confirm}
    made = release_series(series, settings, account, workers=1, reuse=reuse, **hooks, **options)
    return made, store


PRIVATE_TARGET = replace(HOUR, release=replace(RELEASE, target=CostTargetSettings()))


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (HOUR, "gridveil.privacy.series_curator.SeriesCurator.draw"),
        (PROFILE, "gridveil.privacy.series_curator.SeriesCurator.draw"),
        (PROFILE, "gridveil.service.series_store.SeriesStore.keep"),
        (PROFILE, "gridveil.service.series._repaired_hours"),
        (PRIVATE_TARGET, "gridveil.service.series.draw_sums"),
        (PRIVATE_TARGET, "gridveil.service.series._repaired_hours"),
    ],
)
def test_a_stopped_series_goes_on_without_a_second_charge(tmp_path, monkeypatch, settings, place):
    ledger, settings = new_ledger(tmp_path / "veil9.ledger", protects=Protects.HOUR), private(settings)

    def stop(*_, **__):
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        with pytest.raises(Stop):
            begun(tmp_path, settings, ledger)
    assert len(ledger.charges) == 1
    stored = SeriesStore(tmp_path / "curator", SeriesCurator(scaled().case, scaled((1.0, 0.9)).hours), settings).load(
        LedgerAccount(ledger)
    )
    made, store = begun(tmp_path, settings, ledger)
    assert len(ledger.charges) == 1 and made.draw.charge_id == ledger.charges[0].id
    if stored is not None:
        np.testing.assert_array_equal(made.draw.values, stored.values)
    again = store.load(LedgerAccount(ledger))
    np.testing.assert_array_equal(again.values, made.draw.values)
    assert again.mechanism == made.draw.mechanism
    assert [t.value for t in again.totals or ()] == [t.value for t in made.draw.totals or ()]


def test_stored_draws_serve_their_own_data_promise_and_ledger_alone(tmp_path):
    ledger, settings = new_ledger(tmp_path / "veil9.ledger"), private(PROFILE)
    _, store = begun(tmp_path, settings, ledger)
    account = LedgerAccount(ledger)
    other = scaled((1.0, 0.8))
    with pytest.raises(InputError, match="made from other data"):
        replace(store, curator=SeriesCurator(other.case, other.hours)).load(account)
    with pytest.raises(InputError, match="another epsilon"):
        replace(store, settings=replace(settings, release=replace(settings.release, epsilon="2"))).load(account)
    with pytest.raises(InputError, match="another basis"):
        replace(store, settings=replace(settings, basis="level")).load(account)
    wider = replace(settings, release=replace(settings.release, beta=Tolerance.parse("5%")))
    assert replace(store, settings=wider).load(account) is not None  # β is no part of the promise
    with pytest.raises(InputError, match="not in the ledger"):
        store.load(LedgerAccount(new_ledger(tmp_path / "other.ledger")))
    values = tmp_path / "curator" / "series.npy"
    content = values.read_bytes()
    values.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="changed after it was written"):
        store.load(account)
    values.unlink()
    with pytest.raises(InputError, match="is gone"):
        store.load(account)
    state = tmp_path / "curator" / "series.json"
    state.write_text(state.read_text().replace('"drawn"', '"announced"'))  # would draw once more under the same charge
    with pytest.raises(InputError, match="changed after it was written"):
        store.load(account)


# ---- nothing but the mechanism depends on the truth


@pytest.mark.parametrize("settings", [HOUR, PROFILE, replace(PROFILE, basis="level")], ids=["hour", "profile", "level"])
def test_public_folders_of_two_truths_with_the_same_draws_are_byte_identical(tmp_path, settings):
    case = load_case("veil9")
    truth = np.array(case.values.reveal())
    draw = release_series(scaled((1.0, 0.9, 0.8)), settings, NoAccount(), workers=1).draw
    draw = replace(draw, simulation=False)
    contents = []
    for number, values in enumerate((truth, 1.7 * truth + 0.05, 60 * truth, 0 * truth)):
        series = table_of(case, [SecretValues(values * share) for share in (1.0, 0.9, 0.8)])
        made = release_series(series, private(settings), NoAccount(simulation=False), workers=1, reuse=draw)
        folder = tmp_path / str(number)
        curator = SeriesCurator(case, series.hours)
        publish_series(made, curator, folder, simulation_as_public=False, card_page=series_page)
        public = [path for path in sorted((folder / "public").rglob("*")) if path.is_file()]
        contents.append({path.name: path.read_bytes() for path in public})
    notes = {path.name for path in (folder / "public" / "proofs").iterdir()}
    cards = {"card.html", "card.yaml", "registry.yaml"}
    assert notes and cards | {"hours.csv", "network.m", "series.parquet"} == set(contents[0]) - notes
    assert all(files == contents[0] for files in contents)


def test_a_written_network_that_loses_a_part_is_not_published(tmp_path, monkeypatch):
    """The series has the check of a single release: here the writer doubles every cost."""
    series = scaled((1.0, 0.9))
    made = release_series(series, HOUR, NoAccount(), workers=1)
    writer = type(sector_of(series.case.network))
    write = writer.write

    def lossy(self, network, values, folder, file_format, *, title):
        cost = replace(network.generator.cost, polynomial=2 * network.generator.cost.polynomial)
        return write(
            self,
            replace(network, generator=replace(network.generator, cost=cost)),
            values,
            folder,
            file_format,
            title=title,
        )

    monkeypatch.setattr(writer, "write", lossy)
    with pytest.raises(NoReleaseError, match="does not keep the optimum in the band"):
        publish_series(made, SeriesCurator(series.case, series.hours), tmp_path / "out", simulation_as_public=True)
    assert not (tmp_path / "out" / "public").exists()


@pytest.mark.parametrize("protects", [Protects.HOUR, Protects.PROFILE])
def test_the_cards_of_a_series_say_the_same_in_three_files(tmp_path, protects):
    settings = private(HOUR) if protects is Protects.HOUR else private(PROFILE, mechanism="gaussian", delta="1e-6")
    series = scaled((1.0, 0.9, 0.95))
    made = release_series(
        series, settings, LedgerAccount(new_ledger(tmp_path / "a.ledger", protects=protects)), workers=1
    )
    curator = SeriesCurator(series.case, series.hours)
    publish_series(made, curator, tmp_path / "out", simulation_as_public=False, card_page=series_page)
    folder = tmp_path / "out" / "public"
    card, entry = (yaml.safe_load((folder / name).read_text()) for name in ("card.yaml", "registry.yaml"))
    page = (folder / "card.html").read_text()
    assert all(str(escape(sentence)) in page for sentence in card["in_plain_words"])
    loss = entry["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == f"one {protects.value} of one load site"
    assert loss["privacy_parameters"] == {"epsilon": 1.0, "delta": 0.0 if protects is Protects.HOUR else 1e-6}
    assert entry["deployment"]["deployment_model"]["release_type"] == "One release"
    single = registry_document(series.case.field, facts_like(made))
    assert keys(entry) == keys(single)
    network = card["network_file"]
    assert abs(network["optimal_cost"] - network["cost_target"]) <= network["beta"]
    assert {(check["solver"], check["start"]) for check in network["checked_by"]} >= {("ipopt", "flat")}


def facts_like(made) -> RegistryFacts:
    texts = dict.fromkeys(("slug", "name", "data_domain", "unit", "unit_details", "composition", "software"), "x")
    lists = {"description": ["x"], "unprotected": ["x"], "mechanisms": [made.draw.mechanism]}
    return RegistryFacts(
        **texts, **lists, parameters={"epsilon": 1.0, "delta": 0.0}, is_first=True, alpha=1.0, publication=UNSTATED
    )


def keys(document: object, above: str = "") -> set[str]:
    if not isinstance(document, dict):
        return {above}
    return {name for key, value in document.items() for name in keys(value, f"{above}/{key}")}


def test_a_missing_engine_is_missed_before_anything_is_drawn(monkeypatch):
    monkeypatch.setattr("gridveil.solvers.batch.engine_native.COMPILER", "no-such-compiler")
    drawn = []
    with pytest.raises(InputError, match="needs the compiler"):
        release_series(scaled(), HOUR, NoAccount(), workers=1, keep=drawn.append, batch=BatchEngine.NATIVE)
    by_ipopt = replace(HOUR, release=replace(RELEASE, solver=Solver.IPOPT))
    with pytest.raises(InputError, match="not by ipopt"):
        release_series(scaled(), by_ipopt, NoAccount(), workers=1, keep=drawn.append, batch=BatchEngine.AUTO)
    assert not drawn


@pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
def test_hours_in_batches_are_those_of_worker_processes():
    series = scaled()
    alone = release_series(series, HOUR, NoAccount(), workers=1)
    found = release_series(series, HOUR, NoAccount(), workers=1, reuse=alone.draw, batch=BatchEngine.NATIVE)
    assert [row.status for row in found.rows] == [row.status for row in alone.rows]
    assert sum(row.verified for row in found.rows) >= 3
    np.testing.assert_allclose(found.values, alone.values, atol=1e-4)
