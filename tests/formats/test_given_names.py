"""Names of buses and loads: kept by choice, replaced by numbers otherwise, and never lost without a word."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from test_reader_leaks import pandapower

from conftest import two_bus_net
from gridveil.core.choices import Names
from gridveil.core.errors import InputError
from gridveil.sectors.registry import load_case, write_network

BUSES = ("North station", "Mill 7", "Harbour")


def named_pandapower(path: Path) -> Path:
    load = {"p_mw": 41.75, "q_mvar": 13.25, "scaling": 1.0, "in_service": True}
    return pandapower(
        path,
        bus=[{"name": name, "vn_kv": 110.0, "in_service": True} for name in BUSES],
        load=[
            {"name": "Hospital", "bus": 1} | load,
            {"name": None, "bus": 2} | load,
            {"name": "Docks", "bus": 1} | load,
        ],
        gen=[{"bus": 2, "p_mw": 1.0, "vm_pu": 1.0, "max_p_mw": 50.0, "min_p_mw": 0.0, "in_service": True}],
        poly_cost=[
            {"element": 0, "et": kind, "cp0_eur": 0.0, "cp1_eur_per_mw": price, "cp2_eur_per_mw2": 0.0}
            for kind, price in (("ext_grid", 5.0), ("gen", 7.0))
        ],
    )


def pypsa(folder: Path) -> Path:
    folder.mkdir()
    (folder / "network.csv").write_text("name,srid\nx,4326\n")
    (folder / "buses.csv").write_text("name,v_nom\n" + "".join(f"{name},110\n" for name in BUSES))
    (folder / "lines.csv").write_text(
        "name,bus0,bus1,r,x,s_nom\nl1,North station,Mill 7,1,10,100\nl2,Mill 7,Harbour,1,10,100\n"
    )
    (folder / "loads.csv").write_text("name,bus,p_set,q_set\nHospital,Mill 7,41.75,13.25\nDocks,Harbour,7.5,1.5\n")
    (folder / "generators.csv").write_text("name,bus,p_nom,marginal_cost\ng1,Harbour,20,9\ng2,North station,90,5\n")
    return folder


def written(case, folder: Path) -> Path:
    folder.mkdir()
    return write_network(
        case.network, np.arange(1, len(case.field) + 1) * (0.5 + 0.25j), folder, case.file_format, title="x"
    )


@pytest.mark.parametrize("make", [named_pandapower, pypsa])
def test_names_through_a_round_trip(tmp_path, make):
    source = str(make(tmp_path / "case.json"))
    kept = load_case(source, Names.KEEP)
    again = load_case(str(written(kept, tmp_path / "kept")), Names.KEEP)
    assert again.network.given.bus == kept.network.given.bus == BUSES
    assert again.network.given.load == kept.network.given.load and "Hospital" in kept.network.given.load
    assert any("published as the file states them" in words for words in kept.unprotected)


@pytest.mark.parametrize("make", [named_pandapower, pypsa])
def test_without_a_choice_numbers_stand_for_names(tmp_path, make):
    case = load_case(str(make(tmp_path / "case.json")))
    assert any("replaced by numbers" in note for note in case.notes) and case.unprotected == ()
    target = written(case, tmp_path / "out")
    files = [target] if target.is_file() else list(target.iterdir())
    text = "\n".join(file.read_text() for file in files)
    assert not any(name in text for name in (*BUSES, "Hospital", "Docks"))


def test_names_of_matpower_buses(tmp_path):
    path = tmp_path / "case.m"
    path.write_text(two_bus_net().text() + "mpc.bus_name = {\n'North; station';\n'Mill % 7';\n};\n")
    case = load_case(str(path), Names.KEEP)
    assert case.network.given.bus == ("North; station", "Mill % 7")
    assert load_case(str(written(case, tmp_path / "out")), Names.KEEP).network.given.bus == case.network.given.bus


def test_a_grid_connection_stays_one(tmp_path):
    """It became a generator, so pandapower's power flow on a release had no slack table."""
    case = load_case(str(named_pandapower(tmp_path / "case.json")))
    tables = json.loads(written(case, tmp_path / "out").read_text())["_object"]
    frames = {name: json.loads(tables[name]["_object"]) for name in ("ext_grid", "gen", "poly_cost")}
    rows = {
        name: [dict(zip(frame["columns"], row, strict=True)) for row in frame["data"]] for name, frame in frames.items()
    }
    assert [row["bus"] for row in rows["ext_grid"]] == [0] and [row["bus"] for row in rows["gen"]] == [2]
    prices = {row["et"]: row["cp1_eur_per_mw"] for row in rows["poly_cost"]}
    assert prices == {"ext_grid": 5.0, "gen": 7.0}
    again = load_case(str(tmp_path / "out" / "network.json")).network
    assert sorted(again.generator.cost.polynomial[1]) == sorted(case.network.generator.cost.polynomial[1])


def test_the_card_says_whether_names_are_published(cli, tmp_path):
    source = named_pandapower(tmp_path / "case.json")
    for names, said in ((("--names", "keep"), True), ((), False)):
        out = tmp_path / f"out{said}"
        asked = ("release", source, "--seed", "1", "--alpha", "0.01MVA", "--out", out, *names)
        assert cli(*asked).code == 0
        facts = yaml.safe_load((out / "simulation" / "card.yaml").read_text())["unprotected"]
        assert any("names of 3 buses and 2 loads" in fact for fact in facts) is said
        assert ("Harbour" in (out / "simulation" / "network.json").read_text()) is said


def test_options_of_the_other_sector_are_refused(cli, tmp_path):
    """They were ignored without a word."""
    result = cli("inspect", "veil9", "--slack", "1=5MPa")
    assert result.code == 2 and "has no boundary conditions" in result.err
    with pytest.raises(InputError, match="keep their names"):
        load_case("veilgas", Names.KEEP)
    result = cli("release", "veilgas", "--seed", "1", "--names", "keep", "--flow-base", "1", "--out", tmp_path / "out")
    assert result.code == 2 and "give one of the two" in result.err


def test_what_pypsa_fills_in_is_filled_in(tmp_path):
    """A bus has 1 kV where nothing is stated, and some generator is the slack; both were refused."""
    folder = pypsa(tmp_path / "case")
    (folder / "buses.csv").write_text("name\n" + "".join(f"{name}\n" for name in BUSES))
    case = load_case(str(folder))
    assert case.network.bus.base_kv.tolist() == [1.0] * 3 and case.network.base_mva == 1.0
    assert case.network.branch.impedance[0] == pytest.approx(1 + 10j)  # Ω at 1 kV on 1 MVA
    assert case.network.bus.reference.tolist() == [True, False, False]  # of the largest generator
    assert any("buses without v_nom (rows 1–3)" in note for note in case.notes)
    assert any("the largest is taken" in note for note in case.notes)
    assert (folder / "buses.csv").read_text().startswith("name\nNorth station")  # the source is left alone
