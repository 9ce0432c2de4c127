"""Every Python block of the documentation runs, and the two worked examples find the optimum that brute force finds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gridveil.privacy.simulation import simulate_laplace
from gridveil.secret import SecretDemand

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if BLOCK.search(page.read_text())]


def run_blocks(page: Path) -> list[dict[str, object]]:
    spaces = []
    for block in BLOCK.findall(page.read_text()):
        space: dict[str, object] = {}
        exec(block, space)
        spaces.append(space)
    return spaces


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run(page, capsys):
    run_blocks(page)


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Relative links only: pages elsewhere cannot be checked without a network."""
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target.split("#")[0]).exists(), target


def cost_of_capacities(capacity: np.ndarray) -> float:
    produced = min(float(capacity.sum()), 100.0)
    return 25 * produced + 60 * (100 - produced)


def cost_of_prices(prices: np.ndarray) -> float:
    return float(NEED @ prices)


NEED = np.array([8.0, 5.0, 6.0, 1.0])


@pytest.mark.parametrize(
    ("number", "truth", "alpha", "seed", "optimum", "direction"),
    [
        (0, [30.0, 25.0, 20.0], 2.0, 4, cost_of_capacities, np.full(3, -35.0)),
        (1, [4.0, 7.0, 3.0, 5.0], 0.5, 11, cost_of_prices, NEED),
    ],
)
def test_worked_examples_find_the_bilevel_optimum(number, truth, alpha, seed, optimum, direction, capsys):
    """O is linear in d near the band, so the true optimum is the projection of d̃ on the half-space O ≥ f̃ − β."""
    result = run_blocks(DOCS / "own-problem.md")[number]["result"]
    target = optimum(np.array(truth))
    assert result.verified and result.optimisations > 1
    assert abs(optimum(result.d) / target - 1) <= 0.01
    assert result.cost == pytest.approx(optimum(result.d), rel=1e-6)
    noisy = simulate_laplace(SecretDemand(np.array(truth)), epsilon=1.0, alpha=alpha, seed=seed).values
    assert result.delta == pytest.approx(float(np.sum((result.d - noisy) ** 2)), rel=1e-6)
    missing = 0.99 * target - optimum(noisy)
    best = missing**2 / float(direction @ direction)
    assert best - 1e-6 <= result.delta <= best * (1 + 2e-3) + 1e-6
