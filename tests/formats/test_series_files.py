"""Loads over time that a network file brings along: PyPSA snapshots and pandapower profiles, released as a series."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import powerio
import pytest
import yaml

import gridveil
from conftest import Matpower
from gridveil.core.errors import InputError
from gridveil.privacy.curator import Curator
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.sectors.registry import describe_case, load_case
from gridveil.sectors.series_table import series_of_case

HOURS = 4
STAMPS = [f"2026-01-05 0{hour}:00:00" for hour in range(HOURS)]
ACTIVE = np.array([[41.0625, 30.0, 12.5], [43.8125, 30.0, 0.0], [39.4375, 30.0, 13.75], [44.1875, 30.0, 15.125]])
REACTIVE = np.array([[9.0, 7.5, 2.0], [9.0, 7.25, 2.0], [9.0, 7.0, 2.0], [9.0, 6.75, 2.0]])
NAMES = ("Clinic St Anne", "Mill", "Mine")
PROMISE = ("--protects", "hour", "--alpha", "1MVA", "--beta", "5%")


def network() -> Matpower:
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=1.0, qd=1.0)
    net.add_bus(3, pd=1.0, qd=1.0)
    net.add_gen(1, p=(0.0, 200.0), q=(-100.0, 100.0), cost=(0.02, 12.0, 5.0))
    net.add_gen(2, p=(0.0, 100.0), q=(-60.0, 60.0), cost=(0.05, 20.0, 0.0))
    net.add_branch(1, 2, r=0.01, x=0.08, rate=120.0)
    net.add_branch(2, 3, r=0.015, x=0.1, rate=80.0)
    net.add_branch(1, 3, r=0.02, x=0.12, rate=80.0)
    return net


def emitted(tmp_path: Path, file_format: str, name: str) -> Path:
    source = tmp_path / "source.m"
    source.write_text(network().text())
    powerio.emit(powerio.parse(str(source)), file_format, str(tmp_path / name))
    return tmp_path / name


def write(path: Path, head: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def over_time(path: Path, labels: list[object], columns: dict[str, list[float]]) -> None:
    values = zip(*columns.values(), strict=True)
    write(path, ["snapshot", *columns], [[label, *row] for label, row in zip(labels, values, strict=True)])


def pypsa_folder(
    tmp_path: Path, name: str = "case", *, active=ACTIVE, reactive=REACTIVE, numbered: bool = False
) -> Path:
    """Two loads at bus 3; constant columns are static, as PyPSA writes them."""
    folder = emitted(tmp_path, "pypsa-csv", name)
    loads = [
        [load, bus, active[0, k], reactive[0, k]] for k, (load, bus) in enumerate(zip(NAMES, (2, 3, 3), strict=True))
    ]
    write(folder / "loads.csv", ["name", "bus", "p_set", "q_set"], loads)
    write(folder / "snapshots.csv", ["", "snapshot", "objective"], [[k, stamp, 1.0] for k, stamp in enumerate(STAMPS)])
    labels: list[object] = list(range(HOURS)) if numbered else list(STAMPS)
    over_time(folder / "loads-p_set.csv", labels, {NAMES[k]: active[:, k].tolist() for k in (2, 0)})
    over_time(folder / "loads-q_set.csv", labels, {NAMES[1]: reactive[:, 1].tolist()})
    return folder


def hours_of(case) -> np.ndarray:
    return np.stack([hour.reveal() for hour in case.over_time.values]) * case.field.base


@pytest.mark.parametrize("numbered", [False, True])
def test_every_snapshot_of_every_load(tmp_path, numbered):
    """Columns in any order, and a load without one is constant; by labels, or by numbers as PyPSA 1 writes them."""
    case = load_case(str(pypsa_folder(tmp_path, numbered=numbered)))
    assert hours_of(case) == pytest.approx(ACTIVE + 1j * REACTIVE, rel=1e-14)
    assert describe_case(case)["snapshots"] == HOURS and not any("weighting" in note for note in case.notes)
    series = series_of_case(case)
    assert list(series.layout.timestamps) == list(pd.to_datetime(STAMPS)) and series.layout.sites == ("2", "3#1", "3#2")


def test_limits_that_change_are_public_at_their_mean_and_set_points_are_not_read(tmp_path):
    folder = pypsa_folder(tmp_path)
    units = [row["name"] for row in csv.DictReader((folder / "generators.csv").open(newline=""))]
    over_time(folder / "generators-p_max_pu.csv", list(STAMPS), {units[1]: [0.25, 0.5, 0.75, 0.5]})
    over_time(folder / "generators-p_set.csv", list(STAMPS), {units[0]: [87.125] * HOURS})
    over_time(folder / "lines-s_max_pu.csv", list(STAMPS), {first_line(folder): [0.5, 0.7, 0.5, 0.7]})
    write(folder / "snapshots.csv", ["snapshot", "objective"], [[stamp, 3.0] for stamp in STAMPS])
    case = load_case(str(folder))
    base = case.network.base_mva
    assert base * case.network.generator.p_max == pytest.approx([200.0, 50.0])
    assert base * case.network.branch.rate == pytest.approx([72.0, 80.0, 80.0])
    told = " ".join(case.notes)
    assert "generators: p_max_pu changes over time" in told and "not read: generators-p_set" in told
    assert "snapshot weightings are not used" in told and "87.125" not in told


def first_line(folder: Path) -> str:
    return next(csv.DictReader((folder / "lines.csv").open(newline="")))["name"]


def test_a_case_of_many_snapshots_is_no_single_case(cli, tmp_path):
    """Nothing is charged or written."""
    folder = pypsa_folder(tmp_path)
    for command in (["solve", folder], ["release", folder, "--out", tmp_path / "out", "--budget", 3]):
        run = cli(*command)
        assert run.code == 2 and "4 snapshots" in run.err and "--series snapshots" in run.err
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="4 snapshots"):
        Curator(load_case(str(folder)))
    assert cli("inspect", folder).code == 0


def test_snapshots_are_released_as_a_series(cli, tmp_path):
    """As if they were in a table: same seed, same draws, same files."""
    folder = pypsa_folder(tmp_path)
    command = ["release", folder, *PROMISE, "--seed", 4, "--workers", 1]
    run = cli(*command, "--series", "snapshots", "--out", tmp_path / "a", "--json")
    assert run.code == 0, run.err
    assert json.loads(run.out)["hours_verified"] == HOURS
    sites = ["2", "3#1", "3#2"]
    frame = pd.DataFrame(
        {
            "timestamp": pd.to_datetime(np.repeat(STAMPS, 3)),
            "site": np.tile(sites, HOURS),
            "p_mw": ACTIVE.ravel(),
            "q_mvar": REACTIVE.ravel(),
        }
    )
    frame.to_parquet(tmp_path / "loads.parquet", index=False)
    assert cli(*command, "--series", tmp_path / "loads.parquet", "--out", tmp_path / "b").code == 0
    found = [public_files(tmp_path / name / "simulation") for name in "ab"]
    assert found[0].keys() == found[1].keys() and {"series.parquet", "hours.csv"} <= found[0].keys()
    assert all(found[0][name] == found[1][name] for name in found[0])
    run = cli(*command, "--series", "snapshots", "--power-factor", 0.9, "--out", tmp_path / "c")
    assert run.code == 2 and "power factor" in run.err
    run = cli("release", "veil9", "--series", "snapshots", *PROMISE, "--seed", 4, "--out", tmp_path / "d")
    assert run.code == 2 and "no loads over time" in run.err


def public_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_one_charge_and_no_name_or_value_in_public(cli, tmp_path):
    folder = pypsa_folder(tmp_path)
    out = tmp_path / "out"
    run = cli("release", folder, "--series", "snapshots", *PROMISE, "--budget", 2, "--workers", 1, "--out", out)
    assert run.code == 0, run.err
    card = yaml.safe_load((out / "public" / "card.yaml").read_text())
    assert card["data_set"]["draws"] == 1 and card["data_set"]["epsilon"] == 1
    text = b"".join(public_files(out / "public").values()) + run.out.encode() + run.err.encode()
    for word in (*NAMES, *(f"{value:.4f}" for value in ACTIVE[:, 0])):
        assert word.encode() not in text, word


def test_other_loads_with_the_same_draws_give_the_same_public_folder(cli, tmp_path, monkeypatch):
    """A neighbour, loads that nobody could serve, none at all: with the noisy values held, every public byte is the same."""
    noisy = (ACTIVE + 1j * REACTIVE + np.linspace(-2, 2, ACTIVE.size).reshape(ACTIVE.shape)) / 100
    monkeypatch.setattr(SeriesCurator, "draw", lambda self, mechanism: 100 * noisy / self.field.base)
    moved = ACTIVE.copy()
    moved[1, 0] += 1.0
    found = []
    for k, active in enumerate((ACTIVE, moved, 60 * ACTIVE, 0 * ACTIVE)):
        home = tmp_path / str(k)
        home.mkdir()
        folder = pypsa_folder(home, active=active, reactive=REACTIVE if k < 3 else 0 * REACTIVE)
        run = cli(
            "release", folder, "--series", "snapshots", *PROMISE, "--seed", 1, "--workers", 1, "--out", home / "out"
        )
        told = describe_case(load_case(str(folder)))
        found.append((run.code, run.out, told, public_files(home / "out" / "simulation")))
    for other in found[1:]:
        assert other == found[0]
    assert found[0][0] == 0


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("loads-p_set.csv", "snapshot,Clinic St Anne\n" + "".join(f"{stamp},x43.21\n" for stamp in STAMPS), "finite"),
        ("loads-p_set.csv", "snapshot,Mill\n2026-01-05,43.21\n", "first column"),
        ("loads-p_set.csv", "snapshot,Castle\n" + "".join(f"{stamp},43.21\n" for stamp in STAMPS), "names a load"),
        ("loads-p_set.csv", "snapshot,Mill\n" + "".join(f"{stamp},1e300\n" for stamp in STAMPS), "implausibly large"),
        ("snapshots.csv", f"snapshot\n{STAMPS[0]}\n{STAMPS[0]}\n", "twice"),
        ("snapshots.csv", f"period,timestep\n2030,{STAMPS[0]}\n", "investment periods"),
        ("buses.csv", "name,v_nom,carrier\n1,230,AC\n2,230,AC\n3,230,DC\n", "another carrier"),
        ("loads.csv", "name,bus,p_set,q_set,sign\nClinic St Anne,2,43.21,1,1\nMill,3,1,1,-1\nMine,3,1,1,-1\n", "sign"),
    ],
)
def test_what_cannot_be_read_is_refused_without_a_value(tmp_path, file, content, reason):
    folder = pypsa_folder(tmp_path)
    (folder / file).write_text(content)
    with pytest.raises(InputError, match=reason) as refused:
        load_case(str(folder))
    assert "43.21" not in str(refused.value)


def pandapower_file(tmp_path: Path) -> Path:
    """Loads of 40 and 20 MW, the second scaled by a half and with a profile, the first constant."""
    path = emitted(tmp_path, "pandapower-json", "case.json")
    document = json.loads(path.read_text())
    tables = document["_object"]
    frame = json.loads(tables["load"]["_object"])
    rows = [dict(zip(frame["columns"], row, strict=True)) for row in frame["data"]]
    more = (
        {"p_mw": 40.0, "q_mvar": 8.0, "profile": None},
        {"p_mw": 60.0, "q_mvar": 20.0, "scaling": 0.5, "profile": "H0"},
    )
    rows = [
        {key: row[key] for key in row if not key.startswith("const_")} | extra
        for row, extra in zip(rows, more, strict=True)
    ]
    tables["load"]["_object"] = json.dumps(
        {"columns": list(rows[0]), "index": frame["index"], "data": [list(row.values()) for row in rows]}
    )
    profile = {"columns": ["time", "H0_qload", "H0_pload"], "index": list(range(HOURS))}
    stamps = ["30.10.2016 02:00", "30.10.2016 02:30", "30.10.2016 02:00", "30.10.2016 02:30"]
    profile["data"] = [[stamp, -0.1 * k, 0.2 * (k + 1)] for k, stamp in enumerate(stamps)]
    table = {"_module": "pandas.core.frame", "_class": "DataFrame", "_object": json.dumps(profile), "orient": "split"}
    tables["profiles"] = {"load": table, "renewables": table}
    path.write_text(json.dumps(document))
    return path


def test_profiles_are_those_of_simbench(tmp_path):
    """p_mw·scaling·profile, as simbench.get_absolute_values and pandapower's scaling have it. The file also has loads of its own.

    German clocks are set back at three: the labels of an hour come twice.
    """
    path = pandapower_file(tmp_path)
    case = gridveil.load(path)
    shape = np.arange(HOURS)
    expected = [np.full(HOURS, 40 + 8j), 30 * 0.2 * (shape + 1) - 1j * 10 * 0.1 * shape]
    assert hours_of(case.case) == pytest.approx(np.stack(expected, axis=1))
    assert case.case.field.base * case.case.values.reveal() == pytest.approx([40 + 8j, 30 + 10j])
    assert case.solve().converged and any("profiles of renewables are not read" in note for note in case.case.notes)
    made = case.release_series(
        "snapshots", protects="profile", epsilon=1, alpha="1MVA", beta="5%", seed=4, basis="level"
    )
    stamps = made.to_pandas().timestamp.drop_duplicates()
    assert len(stamps) == HOURS and (stamps.diff().dropna() == pd.Timedelta("30min")).all()


def test_a_profile_that_is_missing_is_refused(tmp_path):
    path = pandapower_file(tmp_path)
    path.write_text(path.read_text().replace('\\"H0\\"', '\\"H1\\"'))
    with pytest.raises(InputError, match="profile H1_pload"):
        load_case(str(path))
