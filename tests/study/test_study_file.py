"""Study files: what is wrong is told in one line before anything runs, and the shipped ones are those of the paper."""

from __future__ import annotations

import pytest
from study_tools import write_study

from conftest import data_folder
from gridveil.core.errors import InputError
from gridveil.core.methods import Method, Solver
from gridveil.privacy.mechanisms.simulation import NoiseSites
from gridveil.study.paper_numbers import published_networks
from gridveil.study.study_file import Setting, find_study, read_study, shipped_studies
from gridveil.study.toml_table import read_toml


def test_a_study_says_what_it_means(tmp_path):
    more = '[[grid]]\nalpha = ["0.1pu", "2pu"]\nbeta = ["10%", "0.1%", "1 %"]\n[limits]\ntask_seconds = 5\nworkers = 3'
    study = read_study(write_study(tmp_path / "s.toml", more=more, seeds=[4, 2, 4]))
    assert study.cells == tuple(
        Setting(alpha=alpha, beta=beta)
        for alpha, beta in [(0.1, 0.01), (0.1, 0.1), (0.1, 0.001), (2.0, 0.1), (2.0, 0.001), (2.0, 0.01)]
    )
    assert study.seeds == (4, 2) and study.methods == (Method.BISECTION, Method.AUTO)
    assert (study.solver, study.sites, study.mechanism) == (Solver.STRUCTURED, NoiseSites.POSITIVE, "laplace")
    assert (study.limits.task_seconds, study.limits.workers) == (5.0, 3)
    assert [network.label for network in study.networks] == ["veil2", "veil9"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"alpha": ["-0.1pu"]}, "s.toml: grid 1: alpha must be a positive number with its unit"),
        ({"alpha": [True]}, "alpha must be a positive number with its unit"),
        ({"alpha": [0.1]}, "alpha 0.1 must be per unit of each network's base, in quotes: write '0.1pu'"),
        ({"alpha": 0.1}, "alpha must be a list that is not empty"),
        ({"alpha": []}, "alpha must be a list that is not empty"),
        ({"beta": []}, "beta must be a list that is not empty"),
        ({"beta": ["1"]}, "beta must be shares of the cost with their sign, such as '1%', not '1'"),
        ({"beta": [0.01]}, "beta must be shares"),
        ({"beta": ["nan%"]}, "beta must be shares"),
        ({"beta": ["much%"]}, "beta must be shares"),
        ({"methods": []}, "methods must be a list"),
        ({"methods": ["magic"]}, "methods: there is no method 'magic'; known are auto, bisection"),
        ({"methods": [1]}, "methods must be a name, not 1"),
        ({"name": 's"\nsolver = "abacus'}, "solver: there is no solver 'abacus'; known are structured, ipopt"),
        ({"seeds": 0}, "seeds must be a whole number from 1"),
        ({"seeds": 1.5}, "seeds must be a whole number"),
        ({"seeds": [-1]}, "seeds must be whole numbers from 0 on, not -1"),
        ({"seeds": [True]}, "seeds must be whole numbers"),
        ({"name": "../up"}, "name must consist of letters"),
        ({"networks": ()}, "network is missing"),
        ({"networks": ("nonesuch",)}, "network 1: nonesuch: no such file"),
        (
            {"networks": ("veil9", "grids/mine.m")},
            "network 2: there is no file grids/mine.m beside the study; name its",
        ),
        ({"networks": ("veil9", "veil9")}, "two networks have the label 'veil9'"),
        ({"more": 'preset = "12-pipe"'}, "unknown preset 12-pipe"),
        ({"more": "colour = 1"}, "network 2: unknown key 'colour'; known are case, label, preset"),
        ({"more": "[limits]\ntask_seconds = 0"}, "limits: task_seconds must be a positive number"),
        ({"more": "[limit]\ntask_seconds = 1"}, "unknown key 'limit'"),
        ({"more": "[[grid]]\nalpha = [inf]\nbeta = [0.1]"}, "grid 2: alpha must be a positive number with its unit"),
        ({"more": "[[grid]]\nbeta = [0.1]"}, "grid 2: alpha is missing"),
        ({"more": "nonsense"}, "is not a TOML file"),
        ({"more": "deep = " + "[" * 3000}, "nests too deep"),
    ],
)
def test_bad_files_get_one_clear_line(tmp_path, monkeypatch, changes, line):
    monkeypatch.delenv("GRIDVEIL_DATA", raising=False)
    path = write_study(tmp_path / "s.toml", **changes)
    with pytest.raises(InputError) as caught:
        read_study(path)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_networks_are_found_beside_the_study_and_in_the_data_folder(tmp_path, monkeypatch):
    text = (find_study("small").parents[2] / "sectors" / "data" / "veil2.m").read_text()
    data, own = tmp_path / "data", tmp_path / "own"
    for folder in (data, own):
        (folder / "nets").mkdir(parents=True)
    (data / "nets" / "far.m").write_text(text)
    (own / "nets" / "near.m").write_text(text)
    path = write_study(own / "s.toml", networks=("nets/near.m", "nets/far.m"))
    monkeypatch.delenv("GRIDVEIL_DATA", raising=False)
    with pytest.raises(InputError, match="GRIDVEIL_DATA"):
        read_study(path)
    study = read_study(path, data)
    monkeypatch.setenv("GRIDVEIL_DATA", str(data))
    assert study == read_study(path)
    assert [network.path for network in study.networks] == [own / "nets" / "near.m", data / "nets" / "far.m"]
    assert study.networks[0].checksum == study.networks[1].checksum != ""
    with pytest.raises(InputError, match="no such data folder"):
        read_study(path, tmp_path / "nowhere")
    (data / "nets" / "far.m").unlink()
    (data / "nets" / "far.m").symlink_to(data / "nets" / "loop.m")
    with pytest.raises(InputError, match=r"no file nets/far\.m"):
        read_study(path, data)


def test_study_that_is_not_there():
    with pytest.raises(InputError, match=r"no such study file, nor a study that comes with gridveil \(paper-gas"):
        find_study("paper-water")


def test_the_shipped_studies_are_those_of_the_paper():
    assert list(shipped_studies()) == ["paper-gas", "paper-power", "secrets", "small"]
    labels = {
        name: [network.get("label", network["case"]) for network in read_toml(path)["network"]]
        for name, path in shipped_studies().items()
    }
    assert len(labels["paper-power"]) == 19 and labels["paper-power"] == published_networks("I")
    assert labels["paper-gas"] == published_networks("II") == ["24-pipe", "gaslib-40", "gaslib-135"]
    assert read_study(find_study("small")).networks[2].case == "veilgas"


def test_the_papers_grid_has_no_cell_twice():
    if not (data_folder() / "nesta").is_dir():
        pytest.skip("needs the networks in the folder named by GRIDVEIL_DATA")
    power, gas = (read_study(find_study(name), data_folder()) for name in ("paper-power", "paper-gas"))
    at_one_percent = {cell.alpha for cell in power.cells if cell.beta == 0.01}
    assert at_one_percent == {0.1, 1.0, 10.0} and len(power.cells) == 5
    assert {(cell.alpha, cell.beta) for cell in power.cells if cell.beta != 0.01} == {(0.1, 0.1), (0.1, 0.001)}
    assert {cell.alpha for cell in gas.cells if cell.beta == 0.01} == {0.1, 0.4, 1.0, 2.0} and len(gas.cells) == 6
    assert power.sites is gas.sites is NoiseSites.POSITIVE
    assert len(power.seeds) == len(gas.seeds) == 50 and len(power.networks) * 5 * 50 == 4750
