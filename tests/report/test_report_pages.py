"""The curator's report and the card page: what they hold, what they must not hold, and that names cannot break out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import powerio
import pytest
import yaml

import gridveil.report.card_page
import gridveil.report.curator_page
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.secret import SecretValues
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw
from gridveil.programs import Status
from gridveil.report.card_page import card_page
from gridveil.report.curator_page import curator_page, write_curator_page
from gridveil.report.page import render
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.geometry import Places
from gridveil.sectors.registry import load_case
from gridveil.service.account import NoAccount
from gridveil.service.card import card
from gridveil.service.publish import publish
from gridveil.service.release import Release, make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

SECRET = "Contains true demands. Do not share."
NASTY = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"
SETTINGS = ReleaseSettings(
    epsilon="1", alpha="0.1pu", beta=Tolerance.parse("2%"),
    target=CostTargetSettings(mode=CostTargetMode.FORECAST, forecast=5900.0),
)  # fmt: skip


@pytest.fixture(scope="module")
def case() -> Case:
    return load_case("veil9")


@pytest.fixture(scope="module")
def release(case) -> Release:
    return make_release(case, replace(SETTINGS, seed=1), NoAccount())


@pytest.fixture(scope="module")
def page(release, case) -> str:
    return curator_page(release, ledger=None, places=Places())


class Elements(HTMLParser):
    """Every element that a browser would make, with the texts of scripts apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data


def test_the_report_warns_in_every_section(page):
    sections = re.findall(r'<section id="(\w+)">(.*?)<h2>', page, flags=re.DOTALL)
    assert [name for name, _ in sections] == [
        "verdict", "promise", "demands", "operation", "fidelity", "network", "search", "budget", "warnings",
    ]  # fmt: skip
    assert all(SECRET in start and "SIMULATION" in start for _, start in sections)
    assert 'class="banner"' in page


def test_the_same_release_gives_the_same_page(release, case, page, tmp_path):
    assert write_curator_page(release, tmp_path).read_text() == page


def test_the_report_shows_true_and_released_demands_and_both_costs(release, case, page):
    shown = {float(value) for value in re.findall(r'data-value="([^"]+)"', page)}
    true, released = 100 * case.values.reveal(), 100 * release.public.values
    for number in (*true.real, *true.imag, *released.real, *released.imag):
        assert min(abs(number - value) for value in shown) < 1e-9
    assert "5\u2009870.75" in page  # O(d°) of veil9


def test_pages_load_nothing_and_allow_only_their_own_scripts(release, page):
    for one in (page, card_page(card(release.public))):
        found = Elements(one).found
        assert not [tag for tag, _ in found if tag in {"link", "img", "iframe", "object", "embed", "base", "form"}]
        links = [value for tag, attributes in found for name, value in attributes.items() if name in {"src", "href"}]
        assert all(link.startswith("#") or link == "proofs/release.md" for link in links)
        assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
        policy = next(a["content"] for _, a in found if a.get("http-equiv") == "Content-Security-Policy")
        assert (
            policy.startswith("default-src 'none'; script-src 'sha256-")
            and "'unsafe-inline'" not in policy.split(";")[1]
        )


@pytest.mark.parametrize("kind", ["power", "gas"])
def test_names_from_files_are_only_ever_text(release, case, kind):
    if kind == "power":
        made = release
        places = Places(names={str(k): f"{NASTY}{k}" for k in range(1, 10)})
    else:
        case = load_case("veilgas")
        network = case.network
        names = tuple(f"{NASTY}{name}" for name in network.junction.id)
        pipe = replace(network.pipe, id=tuple(f"{NASTY}{name}" for name in network.pipe.id))
        network = replace(network, junction=replace(network.junction, id=names), pipe=pipe)
        settings = replace(SETTINGS, seed=1, target=CostTargetSettings())
        case = replace(case, network=network)
        made, places = make_release(case, settings, NoAccount()), Places()
    prepared = replace(made.public.prepared, public=replace(made.public.case, name=NASTY))
    made = replace(made, public=replace(made.public, prepared=prepared))
    page = curator_page(made, ledger=None, places=places)
    elements = Elements(page)
    assert page.count("&lt;img src=x") > 20
    assert not [tag for tag, _ in elements.found if tag == "img"]
    assert len(elements.scripts) == 5  # page.js, charts.js, network_map.js, and the data of sites and map
    data = [script for script in elements.scripts if script.startswith("{")]
    assert len(data) == 2
    assert all("<" not in script for script in data)
    assert any(NASTY in json.loads(script)["names"][0] for script in data)


def test_the_card_page_comes_from_card_yaml_alone_and_names_stay_with_the_curator(cli, tmp_path):
    source = tmp_path / "case.json"
    powerio.emit(powerio.parse(str(resolve_case("veil9"))), "powermodels-json", str(source))
    content = json.loads(source.read_text())
    content["bus"]["4"]["name"] = "Mill Lane <script>"
    source.write_text(json.dumps(content))
    result = cli("release", source, "--seed", 3, "--out", tmp_path / "out", "--json")
    assert result.code == 0 and {"curator/report.html", "simulation/card.html"} <= set(json.loads(result.out)["files"])
    assert "<td>Mill Lane &lt;script&gt; (4)</td>" in (tmp_path / "out" / "curator" / "report.html").read_text()
    folder = tmp_path / "out" / "simulation"
    assert not [path for path in folder.rglob("*") if path.is_file() and b"Mill" in path.read_bytes()]
    page = (folder / "card.html").read_text()
    assert page == card_page(yaml.safe_load((folder / "card.yaml").read_text()))
    assert "SIMULATION, NOT PRIVATE" in page and SECRET not in page
    true = 100 * load_case("veil9").values.reveal()
    cells = re.findall(r"<td>([^<]*)</td>", page)
    assert not {f"{value:g}" for value in (*true.real, *true.imag)} & set(cells)


def test_equal_noisy_demands_give_equal_public_folders_with_their_page(tmp_path):
    case = load_case("veil9")
    noisy = replace(simulate_laplace(case.values, epsilon=1.0, alpha=0.1, seed=3), simulation=False)
    other = case.with_values(SecretValues(1.7 * case.values.reveal() + 0.05j))
    folders, reports = [], []
    for name, one in (("a", case), ("b", other)):
        made = make_release(one, SETTINGS, NoAccount(), reuse=Draw(noisy=noisy))
        publish(made, one, tmp_path / name, simulation_as_public=False, card_page=card_page)
        public = tmp_path / name / "public"
        folders.append({path.name: path.read_bytes() for path in sorted(public.rglob("*")) if path.is_file()})
        reports.append(curator_page(made, ledger=None, places=Places()))
    assert {"network.m", "card.yaml", "card.html", "registry.yaml", "certificate.yaml", "release.md"} <= set(folders[0])
    assert folders[0] == folders[1] and reports[0] != reports[1]


def test_a_release_survives_pages_that_cannot_be_made(cli, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> str:
        raise ValueError("4321.5 MW is the demand of ACME")

    monkeypatch.setattr(gridveil.report.curator_page, "curator_page", fail)
    monkeypatch.setattr(gridveil.report.card_page, "card_page", fail)
    result = cli("release", "veil9", "--seed", 3, "--out", tmp_path / "out", "--json")
    report = json.loads(result.out)
    assert result.code == 0 and report["status"] == "verified"
    assert report["files"] == [
        "curator/demands.csv", "curator/draw.json", "curator/report.json", "simulation/card.yaml",
        "simulation/certificate.yaml", "simulation/network.m", "simulation/proofs/kept-totals.md",
        "simulation/proofs/planar-laplace.md",
        "simulation/proofs/profile.md", "simulation/proofs/release.md", "simulation/proofs/scalar-laplace.md",
        "simulation/proofs/secrets.md",
        "simulation/registry.yaml",
    ]  # fmt: skip
    assert result.err.count("\n") == 2 and "the curator's report could not be created (ValueError)" in result.err
    assert "4321" not in result.err and "ACME" not in result.err


def test_the_ledger_is_shown_with_what_is_left(cli, tmp_path):
    path = tmp_path / "veil9.ledger"
    assert cli("release", "veil9", "--ledger", path, "--budget", "3", "--out", tmp_path / "out", "--json").code == 0
    page = (tmp_path / "out" / "curator" / "report.html").read_text()
    assert "SIMULATION" not in page
    charges = Ledger.open(path).history().charges
    assert [charge.purpose for charge in charges] == ["release of veil9", "cost target"]
    assert sum(charge.epsilon for charge in charges) == 1
    assert all(words in page for words in ("ε = 1", "ε = 3", "ε = 2", "release of veil9", "cost target"))


def test_a_network_whose_true_optimum_is_unknown_still_gets_its_page(release, case, monkeypatch):
    solved = release.curator.optimum
    failed = replace(solved, status=Status.FAILED, x=np.full_like(solved.x, np.nan), cost=np.nan)
    monkeypatch.setattr(Curator, "optimum", lambda *_, **__: failed)
    unsolved = replace(release, curator=replace(release.curator))  # a record that has not found the optimum yet
    assert "could not be solved" in curator_page(unsolved, ledger=None, places=Places())


def test_the_card_page_shows_publisher_hashes_kept_numbers_and_secrets(release):
    facts = card(release.public)
    kept = {
        "what": "zone 3", "target_is": "private", "target": {"active": 51.25, "reactive": 7.5},
        "released": {"active": 51.5, "reactive": 7.25}, "off_by": 0.375, "at_most": 0.5, "unit": "MVA",
    }  # fmt: skip
    secret = {
        "field": "cost", "privacy_unit": "one generator", "participants": 4, "epsilon": 0.25, "alpha": 2.0,
        "unit": "$/MWh", "published_as": "a shifted curve",
    }  # fmt: skip
    more = {
        "publication": {"publisher": "Ops & Co", "contact": None, "licence": "CC-BY-4.0", "network": "veil9", "date": "2026-01-02"},
        "files": [{"file": "network.m", "bytes": 1234, "sha256": "ab" * 32}],
        "kept": {"numbers": [kept]},
        "secrets": [secret],
    }  # fmt: skip
    plain, page = card_page(facts | {"publication": {}, "files": []}), card_page(facts | more)
    for words in ("Ops &amp; Co", "CC-BY-4.0", "ab" * 32, "51.25 MW, 7.5 MVAr", "0.375 of at most 0.5 MVA", "2 $/MWh"):
        assert words in page and words not in plain
    assert "Contact" not in page


def test_the_report_compares_prices_and_zones_with_noise_alone(release, page):
    rows = re.search(r'id="fidelity-table".*?</table>', page, flags=re.DOTALL)[0]  # type: ignore[index]
    assert [row in rows for row in ("<td>released</td>", "<td>noise alone</td>")] == [True, True]
    found = release.fidelity
    assert found is not None
    cost = found.differences[found.names.index("released")].cost_error
    assert f'data-value="{cost}"' in rows


def test_a_template_that_forgets_a_value_is_an_error():
    with pytest.raises(Exception, match="is undefined"):
        render("card.html", title="x")
