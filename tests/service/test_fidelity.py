"""Profiles of optima and their differences, against independent formulas."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from gridveil.core.band import Tolerance
from gridveil.core.secret import SecretValues
from gridveil.privacy.curator import Curator, published_values
from gridveil.sectors.power.profile import (
    OperatingProfile,
    _angles_by_kernel,
    _angles_by_scipy,
    operating_profile,
    outage_severity,
    worst_lines,
)
from gridveil.sectors.registry import build_model, load_case
from gridveil.service import fidelity, publish
from gridveil.service.account import NoAccount
from gridveil.service.fidelity import Difference, difference, jaccard, rank_correlation
from gridveil.service.release import make_release
from gridveil.service.settings import ReleaseSettings
from gridveil.solvers.structured.backend import StructuredBackend

SETTINGS = ReleaseSettings(epsilon="1", alpha="1MVA", beta=Tolerance.parse("1%"), seed=2)


@pytest.fixture(scope="module")
def solved():
    case = load_case("case30_ieee")
    model = build_model(case.network)
    d = model.layout.to_program(published_values(case))
    return case, model, d, StructuredBackend(model).dispatch(d)


def test_a_profile_is_what_the_optimum_says(solved):
    case, model, d, answer = solved
    profile = operating_profile(case.network, answer.x, d, answer.prices, answer.cost, ())
    base, n = case.network.base_mva, len(d) // 2
    assert profile.losses == pytest.approx(base * model.losses(answer.x, d))
    assert sum(profile.zone_demand) == pytest.approx(base * d[:n].sum())
    assert sum(profile.zone_generation) == pytest.approx(sum(profile.zone_demand) + profile.losses)
    more = d.copy()
    more[0] += 1e-3
    dearer = StructuredBackend(model).dispatch(more).cost - answer.cost
    assert profile.prices[0] * base * 1e-3 == pytest.approx(dearer, rel=1e-2)


def test_severity_is_that_of_a_network_without_the_line(solved):
    case, _, _, answer = solved
    grid = case.network.grid
    lines = worst_lines(
        operating_profile(case.network, answer.x, np.zeros(2 * len(grid.load_bus)), np.zeros(99), 0, ())
    )
    found = outage_severity(grid, answer.x, lines)
    n = grid.n_bus
    voltage = answer.x[n : 2 * n] * np.exp(1j * answer.x[:n])
    ends = voltage[grid.from_bus], voltage[grid.to_bus]
    flow = ends[0] * np.conj(grid.y_ff * ends[0] + grid.y_ft * ends[1])
    for line, severity in zip(lines, found, strict=True):
        # A DC power flow of the network without the line, for the injections that its active flows stand for.
        kept = np.arange(len(flow)) != line
        incidence = np.zeros((len(flow), n))
        incidence[np.arange(len(flow)), grid.from_bus] = 1
        incidence[np.arange(len(flow)), grid.to_bus] = -1
        inside = incidence[kept].T @ (grid.reactance_susceptance[kept][:, None] * incidence[kept])
        moved = np.zeros(n)
        moved[grid.from_bus[line]] += flow.real[line]
        moved[grid.to_bus[line]] -= flow.real[line]
        if np.linalg.matrix_rank(inside) < n - 1:
            assert np.isnan(severity)
            continue
        angle = np.linalg.pinv(inside) @ moved
        active = flow.real + grid.reactance_susceptance * (incidence @ angle)
        assert severity == pytest.approx(np.max((np.hypot(active, flow.imag) / grid.rate)[kept]), rel=1e-6)


def test_both_solvers_of_the_dc_law_agree_where_reactances_have_both_signs(solved):
    case, *_ = solved
    grid = case.network.grid
    signs = np.where(np.arange(len(grid.from_bus)) % 7 == 3, -1.0, 1.0)
    mixed = replace(grid, reactance_susceptance=signs * grid.reactance_susceptance)
    injection = np.random.default_rng(1).normal(size=(grid.n_bus, 3))
    grounded = np.isin(np.arange(grid.n_bus), grid.reference)
    for one in (grid, mixed):
        kernel, pivoted = (angles(one, injection, grounded) for angles in (_angles_by_kernel, _angles_by_scipy))
        assert kernel == pytest.approx(pivoted, rel=1e-8, abs=1e-9)


def test_jaccard_and_ranks():
    assert jaccard((), ()) == 1
    assert jaccard((1, 2, 3), (2, 3, 4)) == 0.5
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 6, 40).astype(float), rng.integers(0, 6, 40).astype(float)
    assert rank_correlation(tuple(first), tuple(second)) == pytest.approx(spearmanr(first, second).statistic)
    assert rank_correlation((1.0, 1.0), (1.0, 2.0)) is None


def test_a_profile_does_not_differ_from_itself_and_an_unsolved_one_says_so(solved):
    case, _, d, answer = solved
    profile = operating_profile(case.network, answer.x, d, answer.prices, answer.cost, (0, 1))
    same = difference(profile, profile)
    assert same.feasible
    assert (same.cost_error, same.losses_error, same.price_error, same.congestion) == (0, 0, 0, 1)
    assert same.price_rank_correlation == pytest.approx(1)
    unsolved = difference(OperatingProfile(solved=False, zone_demand=profile.zone_demand), profile)
    assert not unsolved.feasible
    known = {field.name for field in fields(Difference) if getattr(unsolved, field.name) is not None}
    assert known == {"feasible", "zone_demand_error"}


def test_the_curators_comparison_follows_the_truth_and_the_readers_does_not(solved):
    case, *_ = solved
    made = make_release(case, SETTINGS, NoAccount())
    twin = case.with_values(SecretValues(0.7 * published_values(case)))
    other = make_release(twin, replace(SETTINGS), NoAccount(), reuse=made.public.draw)
    assert fidelity.reader_fidelity(made) == fidelity.reader_fidelity(other)
    ours, theirs = fidelity.curator_fidelity(made), fidelity.curator_fidelity(other)
    assert ours.names == ("released", "noisy", "highpoint")
    assert ours.differences[0].cost_error == pytest.approx(0, abs=0.05)
    assert abs(theirs.differences[0].cost_error) > 0.2
    assert ours.profiles == theirs.profiles


def test_it_is_found_after_the_public_folder_is_complete_and_stays_on_the_curators_side(solved, tmp_path, monkeypatch):
    case, *_ = solved
    complete = []
    found = fidelity.curator_fidelity
    monkeypatch.setattr(
        fidelity, "curator_fidelity", lambda release: complete.append((tmp_path / "public").exists()) or found(release)
    )
    made = make_release(case, SETTINGS, NoAccount())
    publish.publish(made, case, tmp_path, simulation_as_public=True)
    assert complete == [True]
    report = json.loads((tmp_path / "curator" / "report.json").read_text())
    assert set(report["curator"]["fidelity"]) >= {"released", "noisy", "highpoint", "outages", "notes"}
    assert all("fidelity" not in path.read_text() for path in (tmp_path / "public").iterdir() if path.is_file())


def test_a_comparison_that_fails_at_the_truth_does_not_show_outside(cli, tmp_path, monkeypatch):
    """It solves at the true values: neither the exit code nor a message may depend on how that ends."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("4321.5 MW is the demand of ACME")

    monkeypatch.setattr(Curator, "profile", fail)
    found = cli("release", "veil9", "--seed", 3, "--alpha", "10MVA", "--out", tmp_path / "out", "--json")
    assert found.code == 0 and json.loads(found.out)["curator"]["fidelity"] is None
    assert "4321" not in found.err + found.out and (tmp_path / "out" / "curator" / "report.html").is_file()


def test_the_truth_is_solved_once_and_alone(monkeypatch):
    """After all that is public, and never beside it: Ipopt bears one caller, and time could tell."""
    order = []
    for owner, name in ((Curator, "optimum"), (fidelity, "public_profiles")):
        work = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, work=work, name=name, **k: (work(*a, **k), order.append(name))[0])
    release = make_release(load_case("veil9"), SETTINGS, NoAccount())
    assert release.fidelity is not None and release.curator.optimum.converged
    assert release.fidelity.reference.cost == release.curator.optimum.cost
    assert order == ["public_profiles", "optimum"]
