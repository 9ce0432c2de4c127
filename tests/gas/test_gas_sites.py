"""Attacks on the list of sites of gas networks: a flow of zero must not show in which sites a file has."""

from __future__ import annotations

import pytest
from gas_builders import MATGAS, NET, SCN, write_gaslib

from gridveil.core.errors import InputError
from gridveil.sectors.gas.gaslib import read_gaslib
from gridveil.sectors.gas.matgas import read_matgas
from gridveil.sectors.gas.read import read_gas_file
from gridveil.sectors.sites import SiteKind, SiteRule, listed_sites

ALL = SiteRule(kind=SiteKind.ALL)
SINK = '<sink id="farm"><pressureMin unit="bar" value="1"/><pressureMax unit="bar" value="70"/></sink>'


def test_a_transfer_without_flow_is_a_site_where_the_sites_are_declared(tmp_path):
    """A transfer with a flow was a site and one without was none, so a flow of zero removed its site."""
    idle = "1 3 -5 8.765 0.0"
    assert idle in MATGAS
    texts = {"a": MATGAS, "b": MATGAS.replace(idle, "1 3 -5 8.765 0.5")}
    counts = []
    for name, text in texts.items():
        path = tmp_path / f"{name}.m"
        path.write_text(text)
        assert not read_matgas(path).sites_declared
        counts.append(len(read_matgas(path).delivery.junction))
        for rule in (ALL, listed_sites(["3", "4"])):
            tables = read_gas_file(path, rule)
            assert tables.sites_declared
            assert tables.delivery.junction.tolist() == [2, 3, 3, 2]
        with pytest.raises(InputError, match="junction 4 has a demand but is not in the list"):
            read_gas_file(path, listed_sites(["3"]))
        assert read_gas_file(path, listed_sites(["3", "4", "1"])).delivery.junction.tolist() == [2, 3, 3, 2, 0]
    assert counts == [3, 4]


def test_a_delivery_without_withdrawal_stays_a_site(tmp_path):
    path = tmp_path / "gas.m"
    path.write_text(MATGAS.replace("31.625", "0.0"))
    assert read_matgas(path).delivery.junction.tolist() == read_matgas(path, ALL).delivery.junction.tolist()[:3]
    assert read_matgas(path).delivery.withdrawal.reveal()[0] == 0


def test_a_sink_without_flow_stays_a_site_and_cannot_be_left_out(tmp_path):
    """A scenario that left out a sink without demand made a network with one site fewer."""
    full = read_gaslib(write_gaslib(tmp_path))
    zero = read_gaslib(write_gaslib(tmp_path, scn=SCN.replace("142.3125", "0")))
    assert full.sites_declared and zero.sites_declared
    assert "142.3125" in SCN and zero.delivery.junction.tolist() == full.delivery.junction.tolist()
    more = NET.replace("</framework:nodes>", SINK + "</framework:nodes>")
    assert more != NET
    with pytest.raises(InputError, match=r"\(sink farm\): the scenario states no flow of this sink"):
        read_gaslib(write_gaslib(tmp_path, net=more))
    with pytest.raises(InputError, match="leave out the list"):
        read_gas_file(write_gaslib(tmp_path), listed_sites(["town"]))


@pytest.mark.parametrize("flow", ["1e10", "1e308"])
def test_withdrawals_that_no_solver_could_take_are_refused_by_position(tmp_path, flow):
    """1e308 kg/s was read as it stood and handed to the solver, whose failure would have told of it."""
    path = tmp_path / "gas.m"
    path.write_text(MATGAS.replace("23.125", flow))
    with pytest.raises(InputError, match="delivery 2 withdraws more") as refusal:
        read_matgas(path)
    assert flow not in str(refusal.value)


def test_receipts_that_take_gas_out_are_named(tmp_path):
    """A receipt with a negative injection is a customer whose demand is published exactly; nothing said so."""
    path = tmp_path / "gas.m"
    path.write_text(MATGAS)
    assert read_matgas(path).unprotected == ()
    path.write_text(MATGAS.replace("20.5 10.25", "20.5 -10.25"))
    assert read_matgas(path).unprotected == ("1 receipts that take gas out (junctions 3): published exactly",)
