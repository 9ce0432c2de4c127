"""Totals that are declared public: no difference of them may be one customer's demand, and a declaration does not wear off.

Before: a group of one was refused, but the zones and areas of a file could be declared at once, and a zone less an area is
one customer where the two differ by one.
"""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from conftest import Matpower
from gridveil.core.errors import InputError
from gridveil.core.kept import parse_keep
from gridveil.privacy.curator import Curator
from gridveil.service import kept as kept_module
from gridveil.service.kept import groups_of
from gridveil.service.prepare import PublicCase

AREA, ZONE = 6, 10  # columns of a MATPOWER bus
ZONES = (1, 1, 1, 2, 2, 2)


def town(load_text, areas):
    matpower = Matpower()
    for bus in range(1, 7):
        matpower.add_bus(bus, kind=3 if bus == 1 else 1, pd=11.5 + bus, qd=2.25 * bus)
        matpower.bus[-1][AREA], matpower.bus[-1][ZONE] = areas[bus - 1], ZONES[bus - 1]
        if bus > 1:
            matpower.add_branch(bus - 1, bus)
    matpower.add_gen(1)
    return load_text(matpower.text())


def declared(names: str):
    return parse_keep(",".join(f"{name}=5%" for name in names.split()), declared=names.split())[1]


@pytest.mark.parametrize(
    ("areas", "names", "told"),
    [
        ((1, 1, 2, 2, 2, 2), "zones areas", "3"),  # zone 1 less area 1
        ((1, 1, 2, 2, 3, 3), "zones areas", "3"),  # area 2 is cut into two customers by the zones
        ((1, 1, 2, 2, 2, 2), "zones areas total", "3"),
        ((1, 1, 1, 2, 2, 3), "areas total", "6"),  # a group of one
    ],
)
def test_differences_of_declared_sums_that_are_one_demand_are_refused(load_text, areas, names, told):
    with pytest.raises(InputError, match=rf"single load site \({told}\)"):
        groups_of(PublicCase.of(town(load_text, areas)), declared(names))


@pytest.mark.parametrize(
    ("areas", "names"),
    [
        ((1, 1, 2, 2, 2, 2), "zones total"),
        ((1, 1, 2, 1, 2, 2), "zones areas"),  # two zones and two areas share customers: a cycle hides each
        ((1, 1, 1, 2, 2, 2), "zones areas"),  # the same groups twice
    ],
)
def test_what_tells_nobody_by_himself_may_be_declared(load_text, areas, names):
    case = town(load_text, areas)
    groups = groups_of(PublicCase.of(case), declared(names))
    rows = np.concatenate([np.eye(len(group.labels))[group.group].T for group in groups])
    for row in np.eye(len(case.field)):
        found, *_ = np.linalg.lstsq(rows.T, row, rcond=None)
        assert np.linalg.norm(rows.T @ found - row) > 0.1


def test_the_attack_finds_the_demand_where_nothing_refuses(load_text, monkeypatch):
    monkeypatch.setattr(kept_module, "_refuse_telling_one", lambda *_: None)
    case = town(load_text, (1, 1, 2, 2, 2, 2))
    zones, areas = (
        Curator(case).declared_sums(group.query) for group in groups_of(PublicCase.of(case), declared("zones areas"))
    )
    assert (zones[0] - areas[0]) * 100 == pytest.approx(14.5 + 6.75j)


# ---- a declaration does not wear off


def test_a_declared_total_that_is_reused_stays_declared(cli, tmp_path):
    """Before: reused without the declaration, the exact total was the target of a card that promised pure privacy."""
    kept = ("release", "veil9", "--beta", "10%", "--keep", "total=20%", "--out")
    declare = ("--declare-public", "total")
    assert cli(*kept, tmp_path / "public", *declare, "--alpha", "1MVA", "--budget", "5").code == 0
    refused = cli(*kept, tmp_path / "private", "--reuse", tmp_path / "public")
    assert refused.code == 2 and "was declared public, as it is" in refused.err
    assert not (tmp_path / "private" / "public").exists()
    again = cli(*kept, tmp_path / "again", *declare, "--reuse", tmp_path / "public")
    assert again.code == 0, again.err
    card = yaml.safe_load((tmp_path / "again" / "public" / "card.yaml").read_text())
    assert "pure" not in card["variant"] and "the true total, declared public by the curator" in card["unprotected"]


def test_a_noisy_total_that_is_reused_is_not_called_the_true_one(cli, tmp_path):
    kept = ("release", "veil9", "--beta", "10%", "--keep", "total=20%", "--out")
    assert cli(*kept, tmp_path / "private", "--alpha", "1MVA", "--budget", "5").code == 0
    refused = cli(*kept, tmp_path / "public", "--declare-public", "total", "--reuse", tmp_path / "private")
    assert refused.code == 2 and "was drawn with noise" in refused.err
