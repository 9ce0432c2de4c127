"""The documentation: every block runs as written, the site builds, links lead somewhere, and the worked examples are right."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import typer

import command_line_page
import gridveil
from browser import browser_tab
from docs_blocks import DOCS, REASONS, ROOT, RUN, SHOWN, blocks, pages, run_page
from gridveil.cli.main import app
from gridveil.privacy.mechanisms import mechanism_for
from gridveil.privacy.mechanisms.exact_sampling import SeededEntropy
from gridveil.privacy.noisy import MechanismFacts, NoisySum
from gridveil.sectors.program import ProgramNetwork
from gridveil.study.outcome import TaskOutcome
from test_walls import LEFT_TO_RIGHT

ARCHITECTURE = DOCS / "architecture.md"
OWN_PROBLEM = DOCS / "own-problem.md"
RUNNABLE = [
    page
    for page in pages()
    if page.is_relative_to(DOCS) and page != OWN_PROBLEM and any(block.runs for block in blocks(page))
]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OF_OTHERS = {"--strict", "--nworkers", "--nthreads", "--port", "--lifetime", "--lifetime-stagger", "--ntasks", "--time",
             "--cpus-per-task", "--array", "--resources", "--fallback", "--most-buses", "--networks", "--beside",
             "--read-only", "--rm", "--tmpfs", "--volume", "--tag", "--publish", "--user", "--userns"}  # fmt: skip
EXTRAS = re.compile(r"gridveil\[([a-z,]+)\]")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE_NAME = re.compile(r"`([\w.…]+)`")


def identify(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", RUNNABLE, ids=identify)
def test_page_runs_as_written(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", pages(), ids=identify)
def test_every_block_is_run_or_says_why_not(page):
    for block in blocks(page):
        assert block.language in RUN | SHOWN, f"{block.place}: a block in {block.language!r}, which no test runs"
        if block.kind == "not run":
            assert block.language in RUN and block.words in REASONS, (
                f"{block.place}: {block.words!r} is no known reason"
            )
        if block.language == "text":
            assert block.kind in {"output", "file", "not compared"}, f"{block.place}: output that no test compares"
        elif block.language in SHOWN:
            assert block.kind == "file", f"{block.place}: a file that no test uses"


def test_every_reason_is_in_use():
    used = {block.words for page in pages() for block in blocks(page) if block.kind == "not run"}
    assert used == REASONS


def test_command_line_page_is_up_to_date():
    assert command_line_page.PAGE.read_text() == command_line_page.page(), "run python tests/command_line_page.py"


@pytest.mark.parametrize("page", pages(), ids=identify)
def test_options_in_the_text_exist(page):
    known = {
        name
        for _, command in command_line_page.leaves(typer.main.get_command(app))
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help", "--version", "--install-completion"}
    assert set(OPTION.findall(page.read_text())) - known - OF_OTHERS == set()


def test_make_targets_in_the_text_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in pages():
        assert set(re.findall(r"`make ([a-z]+)`", page.read_text())) <= targets, page


def test_extras_in_the_text_exist():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra for page in pages() for found in EXTRAS.findall(page.read_text()) for extra in found.split(",")}
    assert {"cases", "pypsa"} <= named <= set(known)


@pytest.mark.parametrize("page", [page for page in pages() if not page.is_relative_to(DOCS)], ids=identify)
def test_links_outside_the_site_lead_somewhere(page):
    """Relative links only: pages elsewhere cannot be checked without a network. The site's own are checked as built."""
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target.split("#")[0]).exists(), target


def test_names_of_the_mathematics_exist():
    """The table that maps the paper's notation to the code names modules, and in them classes and functions."""
    lines = (DOCS / "explanation" / "mathematics.md").read_text().splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.count("|") == 5 and "`" in line]
    assert len(rows) > 20
    for _, _, modules, names in rows:
        homes = [importlib.import_module(f"gridveil.{name}") for name in CODE_NAME.findall(modules)]
        first = CODE_NAME.findall(names)[0].split(".")[0]
        assert homes and any(hasattr(home, first) for home in homes), (modules, names)


def test_paths_of_the_architecture_exist():
    """Every file and folder that the page names, from the root or from the package; ``<kind>`` stands for any."""
    rooms = "|".join(LEFT_TO_RIGHT)
    named = set(re.findall(rf"`((?:src|tests|docs|{rooms})/[\w./<>-]*|mkdocs\.yml)`", ARCHITECTURE.read_text()))
    assert len(named) > 25
    for name in named:
        pattern = re.sub(r"<\w+>", "*", name)
        assert any(list(home.glob(pattern)) for home in (ROOT, ROOT / "src" / "gridveil")), name


def test_architecture_states_the_order_of_the_rooms():
    rooms = [room for room in LEFT_TO_RIGHT if room not in ("testing", "__init__")]
    for page in (ARCHITECTURE, ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        assert " → ".join(rooms) in " ".join(page.read_text().split()), page


def test_every_column_and_field_is_explained():
    columns = set(CODE_NAME.findall((DOCS / "reference" / "study-files.md").read_text()))
    assert {field.name for field in fields(TaskOutcome)} <= columns
    text = (DOCS / "reference" / "file-formats.md").read_text()
    known = {part for name in CODE_NAME.findall(text) for part in name.split(".")}
    # A real release: the card of a simulation has no data set.
    card = gridveil.load("veil9").release(epsilon=1, alpha="10MVA", beta="5%", budget=1).card
    assert {"draws", "lattice_step", "error_at_95_percent"} <= keys(card) <= known
    draw = fields(MechanismFacts) + fields(NoisySum)
    assert {field.name for field in draw} - {"charge_id"} <= known


def keys(value: object) -> set[str]:
    """All keys of a card: those of its parts and of the rows of its lists too."""
    if isinstance(value, list):
        return {name for row in value for name in keys(row)}
    if isinstance(value, dict):
        return set(value) | keys(list(value.values()))
    return set()


class _Page(HTMLParser):
    """Ids, links and assets of a built page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.assets: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        source = found.get("src") or (found.get("href") if tag == "link" else None)
        if source:
            self.assets.add(source)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built strictly: a warning is an error. It is built from a copy, as its folder is fixed."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    (folder / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "site"


def test_site_is_whole_and_needs_nothing_from_elsewhere(site):
    built = {path: _Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert {path.relative_to(site).with_suffix("") for path in built} >= {
        page.relative_to(DOCS).with_suffix("") for page in DOCS.rglob("*.md")
    }
    broken = []
    for path, page in built.items():
        for link in page.links | page.assets:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.assets and parts.scheme != "data":
                    broken.append((path.name, f"fetches {link}"))
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                broken.append((path.name, f"no file {link}"))
            elif parts.fragment and target in built and unquote(parts.fragment) not in built[target].ids:
                broken.append((path.name, f"no anchor {link}"))
    assert broken == []


def test_reference_is_made_from_docstrings(site):
    text = (site / "reference" / "python.html").read_text()
    for name in ("gridveil.api.case.GridCase.release", "gridveil.service.own_problem.protect"):
        assert f'id="{name}"' in text
    assert "charged to the" in text


def test_search_works_from_the_disk(site):
    with browser_tab(site / "guides" / "gas.html") as tab:
        tab.page.keyboard.press("/")
        tab.page.get_by_placeholder("Search").fill("triangle inequality")
        found = tab.page.get_by_role("option")
        found.first.wait_for(timeout=60_000)
        assert {option.get_attribute("href").split("/")[-1] for option in found.all()} == {
            "scalar-laplace.html#2-why-it-holds", "planar-laplace.html#2-privacy-of-the-law",
        }  # fmt: skip


def cost_of_capacities(capacity: np.ndarray) -> float:
    produced = min(float(capacity.sum()), 100.0)
    return 25 * produced + 60 * (100 - produced)


def cost_of_prices(prices: np.ndarray) -> float:
    return float(NEED @ prices)


NEED = np.array([8.0, 5.0, 6.0, 1.0])


def test_worked_examples_find_the_bilevel_optimum(tmp_path):
    """O is linear in d near the band, so the true optimum is the projection of d̃ on the half-space O ≥ f̃ − β."""
    examples = [
        ([30.0, 25.0, 20.0], "2", 7, cost_of_capacities, np.full(3, -35.0)),
        ([4.0, 7.0, 3.0, 5.0], "0.5", 10, cost_of_prices, NEED),
    ]
    *simulated, real = run_page(OWN_PROBLEM, tmp_path)
    assert real["result"].verified
    for left, (truth, alpha, seed, optimum, direction) in zip(simulated, examples, strict=True):
        result, target = left["result"], optimum(np.array(truth))
        assert result.verified and result.optimisations > 1
        assert abs(optimum(result.d) / target - 1) <= 0.01
        assert result.cost == pytest.approx(optimum(result.d), rel=1e-6)
        field = ProgramNetwork(left["program"]).field("unit")
        noisy = mechanism_for(field, epsilon="1", alpha=alpha, entropy=SeededEntropy(seed, 0)).draw(np.array(truth))
        assert result.delta == pytest.approx(float(np.sum((result.d - noisy) ** 2)), rel=1e-6)
        missing = 0.99 * target - optimum(noisy)
        assert missing > 0  # the noisy data lie below the band, so that there is something to find
        best = missing**2 / float(direction @ direction)
        assert best - 1e-6 <= result.delta <= best * (1 + 2e-3) + 1e-6
