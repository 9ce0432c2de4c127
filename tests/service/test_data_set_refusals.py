"""Data sets are not mixed: what a folder, a worker or a profile holds now counts, and what cannot be used takes no folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from conftest import Matpower
from gridveil.core.choices import BatchEngine, TableLayout
from gridveil.core.cluster import connected
from gridveil.core.errors import InputError
from gridveil.sectors.registry import load_case, write_network
from gridveil.service import data_set_shards
from gridveil.service.data_set import make_data_set
from gridveil.service.data_set_rules import load_rule
from gridveil.service.data_set_shards import Shards
from gridveil.service.data_set_source import DataSetRequest
from gridveil.service.public_files import file_hashes
from gridveil.solvers.batch.engine_native import missing_compiler

ENGINE = BatchEngine.STRUCTURED if missing_compiler() else BatchEngine.NATIVE


class Here:
    """A cluster whose one worker is this process."""

    client = SimpleNamespace(run=lambda work, *given: {"here": work(*given)})

    def check(self, paths: list[str]) -> None:
        assert all(Path(path).exists() for path in paths)

    def run(self, work: Callable[..., Any], jobs: list[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        yield from ((index, work(*job)) for index, job in enumerate(jobs))


def write_release(folder: Path, share: float) -> Path:
    """A folder as a private release leaves it, with this share of the demands; all of them have the same promise."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "public").mkdir(parents=True)
    case = load_case("veil9")
    write_network(case.network, share * case.values.reveal(), folder / "public", case.file_format, title="released")
    promise = {"field": "demand", "epsilon": 1.0, "alpha": 10.0, "unit": "MVA"}
    card = {"simulation": False, "promise": promise, "files": file_hashes(folder / "public")}
    (folder / "public" / "card.yaml").write_text(yaml.safe_dump(card))
    return folder


def request_of(source: Path | str, **changes: Any) -> DataSetRequest:
    usual = {"source": str(source), "scenarios": 40, "loads": "lognormal:5%", "retries": 0}
    return DataSetRequest(**{**usual, **changes})


def stop() -> None:
    raise KeyboardInterrupt


def demands(folder: Path) -> np.ndarray:
    return np.stack(pd.read_parquet(folder / "solved")["input/pd"].to_numpy())


def test_a_data_set_of_one_release_does_not_go_on_with_another(tmp_path, monkeypatch):
    """Two draws under the promise of one: before, the first shards were of one release and the others of the other."""
    monkeypatch.setattr(data_set_shards, "SHARD_NUMBERS", 0)
    monkeypatch.setattr(data_set_shards, "PARTITION", 16)
    first, second = (write_release(tmp_path / name, share) for name, share in (("first", 0.8), ("second", 0.7)))
    with pytest.raises(KeyboardInterrupt):
        make_data_set(request_of(first), tmp_path / "data", ENGINE, advance=stop)
    with pytest.raises(InputError, match=r"\(the content of the network differ\); choose another --out"):
        make_data_set(request_of(second), tmp_path / "data", ENGINE)
    shutil.move(first, tmp_path / "elsewhere")  # the same release, wherever it lies
    assert make_data_set(request_of(tmp_path / "elsewhere"), tmp_path / "data", ENGINE)["solved"] == 40


def test_a_data_set_of_one_profile_is_not_that_of_another_in_the_same_file(tmp_path):
    source, profile = write_release(tmp_path / "released", 0.8), tmp_path / "profile.csv"
    request = request_of(source, loads=f"profile:{profile}")
    profile.write_text("1.0\n0.9\n")
    make_data_set(request, tmp_path / "data", ENGINE)
    profile.write_text("factor\n1.00\n0.90\n")
    assert make_data_set(request, tmp_path / "data", ENGINE)["engine"] is None, "the same factors"
    profile.write_text("1.0\n0.8\n")
    with pytest.raises(InputError, match="the content of the profile differ"):
        make_data_set(request, tmp_path / "data", ENGINE)


def test_true_demands_are_told_apart_as_well(tmp_path):
    network = write_release(tmp_path / "true", 1.0) / "public" / "network.m"
    request = request_of(network, not_private=True)
    make_data_set(request, tmp_path / "data", ENGINE)
    write_release(tmp_path / "true", 0.9)
    with pytest.raises(InputError, match="the content of the network differ"):
        make_data_set(request, tmp_path / "data", ENGINE)


def test_a_worker_reads_a_release_again_that_has_been_replaced(tmp_path):
    request = request_of(write_release(tmp_path / "released", 0.8))
    make_data_set(request, tmp_path / "data", ENGINE, cluster=Here())
    shutil.rmtree(tmp_path / "data")
    write_release(tmp_path / "released", 0.7)
    make_data_set(request, tmp_path / "data", ENGINE, cluster=Here())
    make_data_set(request, tmp_path / "here", ENGINE)
    assert np.array_equal(demands(tmp_path / "data"), demands(tmp_path / "here"))


def test_a_worker_that_could_not_solve_tries_again_in_the_next_run(tmp_path, monkeypatch):
    request = request_of(write_release(tmp_path / "released", 0.8))

    def broken(self: Shards, engine: BatchEngine) -> None:
        raise InputError("the compiler is broken")

    with monkeypatch.context() as for_now:
        for_now.setattr(Shards, "backend", broken)
        with pytest.raises(InputError, match="the compiler is broken"):
            make_data_set(request, tmp_path / "data", ENGINE, cluster=Here())
    assert make_data_set(request, tmp_path / "data", ENGINE, cluster=Here())["solved"] == 40


def test_a_worker_that_sees_another_network_than_the_command_makes_no_shard(tmp_path):
    request = request_of(write_release(tmp_path / "released", 0.8))

    class Elsewhere(Here):
        def run(self, work: Callable[..., Any], jobs: list[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
            write_release(tmp_path / "released", 0.7)
            return super().run(work, jobs)

    with pytest.raises(InputError, match="reads another network or profile than the command"):
        make_data_set(request, tmp_path / "data", ENGINE, cluster=Elsewhere())


@pytest.mark.parametrize("cluster", [None, Here()], ids=["here", "cluster"])
@pytest.mark.parametrize("wrong", ["engine", "profile"])
def test_what_fails_before_any_work_leaves_the_folder_to_another_request(wrong, cluster, tmp_path, monkeypatch):
    request = request_of(write_release(tmp_path / "released", 0.8))
    (tmp_path / "profile.csv").write_text("1.0,1.0\n")

    def missing(choice: BatchEngine) -> None:
        raise InputError("there is no such engine")

    with monkeypatch.context() as for_now:
        if wrong == "engine":
            for_now.setattr("gridveil.solvers.batch.backends.engine_for", missing)
            for_now.setattr("gridveil.service.data_set_cluster.engine_for", missing)
        bad = request if wrong == "engine" else replace(request, loads=f"profile:{tmp_path / 'profile.csv'}")
        with pytest.raises(InputError, match=r"no such engine|2 columns: give one, or one for each of 7"):
            make_data_set(bad, tmp_path / "data", ENGINE, cluster=cluster)
    assert make_data_set(replace(request, seed=1), tmp_path / "data", ENGINE, cluster=cluster)["solved"] == 40


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"271.5,2\n3\n", "line 2 has another number of columns than line 1"),
        (b"site 1,271.5\n1,2\n", "line 1 holds something that is no number"),
        (b"1\n\n271.5;1\n", "line 3 holds something that is no number"),
        (b"271.5\n2\ninf\n", "line 3 holds a factor that is not finite"),
        (b"factor\n", "holds no factors"),
        (b"", "holds no factors"),
        ("1\n271.5\n".encode("utf-16"), "save the profile as CSV in UTF-8"),
        ("1\n271.5\n".encode("utf-16-le"), "save the profile as CSV in UTF-8"),
        ("Höhe\n271.5\n".encode("latin-1"), "save the profile as CSV in UTF-8"),
    ],
)
def test_a_profile_that_is_not_one_is_refused_without_its_values(content, problem, tmp_path):
    (tmp_path / "profile.csv").write_bytes(content)
    with pytest.raises(InputError, match=problem) as refusal:
        load_rule(f"profile:{tmp_path / 'profile.csv'}")
    assert "271" not in str(refusal.value).replace(str(tmp_path), "") and "\n" not in str(refusal.value)


@pytest.mark.parametrize("header", ["", "north,south\n"])
def test_the_first_row_of_a_profile_counts_after_a_byte_order_mark(header, tmp_path):
    (tmp_path / "profile.csv").write_text(f"{header}1.0,2.0\n\n3.0,4.0\n", encoding="utf-8-sig")
    assert load_rule(f"profile:{tmp_path / 'profile.csv'}").profile.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("address", ["nowhere", "tcp://nowhere.invalid:8786", "nix://nowhere:1"])
def test_an_address_that_means_nothing_makes_no_client(address, monkeypatch):
    """A client that fails at its address stays half open and prints a traceback forty seconds later."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", lambda *given, **named: pytest.fail("a client was made"))
    with pytest.raises(InputError, match=f"no Dask scheduler answers at {address}"), connected(address, pytest.fail):
        pass


@pytest.mark.parametrize("layout", TableLayout)
def test_a_network_that_no_engine_knows_is_refused_as_that(layout, tmp_path):
    """Before, the structured engine said that such a network should be solved one scenario at a time, as it does."""
    network = Matpower()
    network.add_bus(1, kind=3)
    network.add_bus(2, pd=10)
    network.add_gen(1)
    network.add_branch(1, 2)
    network.add_dcline(1, 2)
    (tmp_path / "dc.m").write_text(network.text())
    request = request_of(tmp_path / "dc.m", not_private=True, layout=layout)
    with pytest.raises(
        InputError, match=r"do not know DC lines; solve such a network by itself.*gridveil solve"
    ) as refusal:
        make_data_set(request, tmp_path / "data", BatchEngine.STRUCTURED)
    assert "one scenario at a time" not in str(refusal.value)
