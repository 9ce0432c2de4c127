"""Shards of a data set on one machine: the engine is fed, files do not depend on who writes them, and memory is bounded."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from device_arrays import DeviceArray, DeviceEngine
from gridveil.core.choices import BatchEngine, Outages, TableLayout
from gridveil.core.errors import InputError
from gridveil.service import data_set_here, data_set_pglearn, data_set_rules, data_set_shards
from gridveil.service.data_set import make_data_set
from gridveil.service.data_set_here import shards_here, writers
from gridveil.service.data_set_pglearn import solution_vectors
from gridveil.service.data_set_retries import retried
from gridveil.service.data_set_shards import Shards
from gridveil.service.data_set_source import DataSetRequest
from gridveil.solvers.batch.contract import BatchStatus
from gridveil.solvers.batch.engine_native import missing_compiler
from gridveil.solvers.batch.leftovers import Leftovers
from gridveil.solvers.batch.solver import BatchSolver

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason="needs g++")
ENGINE = BatchEngine.STRUCTURED if missing_compiler() else BatchEngine.NATIVE
PATIENCE = 10.0  # seconds until a thread that should be there counts as missing


def request_of(**changes) -> DataSetRequest:
    usual = {"source": "veil9", "scenarios": 90, "loads": "lognormal:5%", "outages": Outages.N_1, "not_private": True}
    return DataSetRequest(**{**usual, "retries": 0, **changes})


@pytest.fixture
def small_shards(monkeypatch) -> None:
    """Shards of 16 scenarios."""
    monkeypatch.setattr(data_set_shards, "SHARD_NUMBERS", 0)
    monkeypatch.setattr(data_set_shards, "PARTITION", 16)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Played:
    """Shards without content, which note what is held, and in which order things happen."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: list[tuple[str, int]] = []
        self.drawn = {index: threading.Event() for index in range(100)}
        self.may_write = threading.Event()
        self.held = self.most_held = 0

    def note(self, kind: str, index: int) -> None:
        with self.lock:
            self.events.append((kind, index))

    def scenarios(self, index: int) -> int:
        self.note("drawn", index)
        self.drawn[index].set()
        return index

    def solved(self, index: int, scenarios: int, _backend: object) -> int:
        assert scenarios == index
        with self.lock:
            self.held += 1
            self.most_held = max(self.most_held, self.held)
        self.note("solved", index)
        return index

    def write(self, index: int, solved: int) -> dict[str, int]:
        assert solved == index and self.may_write.wait(PATIENCE)
        with self.lock:
            self.held -= 1
        return {"solved": index, "failed": 0}


def test_the_next_shard_is_drawn_while_one_is_solved():
    class Waiting(Played):
        def solved(self, index: int, scenarios: int, backend: object) -> int:
            assert index == 4 or self.drawn[index + 1].wait(PATIENCE), "nobody draws the next shard"
            assert index + 2 > 4 or not self.drawn[index + 2].is_set(), "one shard ahead is enough"
            return super().solved(index, scenarios, backend)

    shards = Waiting()
    shards.may_write.set()
    assert [one["solved"] for one in shards_here(shards, range(5), None)] == [0, 1, 2, 3, 4]


def test_no_more_shards_are_held_than_are_written_at_once_and_one_that_is_solved(monkeypatch):
    monkeypatch.setattr(data_set_here, "all_cores", lambda: 5)
    assert writers() == 3
    shards = Played()
    threading.Timer(0.3, shards.may_write.set).start()  # by then everything that may be solved is solved
    made = list(shards_here(shards, range(2, 40, 2), None))
    assert [one["solved"] for one in made] == list(range(2, 40, 2))
    assert shards.most_held == 4 and shards.held == 0
    assert sorted(index for kind, index in shards.events if kind == "drawn") == list(range(2, 40, 2))


@pytest.mark.parametrize(("cores", "threads"), [(1, 2), (2, 2), (4, 2), (8, 6), (16, 8), (128, 8)])
def test_there_are_as_many_writers_as_cores_to_spare(cores, threads, monkeypatch):
    monkeypatch.setattr(data_set_here, "all_cores", lambda: cores)
    assert writers() == threads


@pytest.mark.parametrize("step", ["scenarios", "solved", "write"])
def test_what_goes_wrong_in_another_thread_is_raised(step):
    shards = Played()
    shards.may_write.set()

    def fail(*_given: object) -> None:
        raise InputError(f"no {step}")

    setattr(shards, step, fail)
    with pytest.raises(InputError, match=f"no {step}"):
        list(shards_here(shards, range(30), None))
    assert len(shards.events) < 30


@pytest.mark.parametrize("loads", ["lognormal:5%", "profile"])
def test_scenarios_do_not_depend_on_how_many_are_drawn_at_once(loads, tmp_path, monkeypatch):
    if loads == "profile":
        (tmp_path / "profile.csv").write_text("1.0\n0.9\n1.1\n")
        loads = f"profile:{tmp_path / 'profile.csv'}"
    drawn = Shards.of(request_of(loads=loads), tmp_path).drawn
    whole = drawn.rows(5, 60)
    monkeypatch.setattr(data_set_rules, "DRAWN_AT_ONCE", 4 * len(drawn.demand_p))
    pieces = drawn.rows(5, 60)
    for name in ("demand_p", "demand_q", "branch_out", "gen_out"):
        assert np.array_equal(getattr(pieces, name), getattr(whole, name)), name
    factor = drawn.loads.factors(drawn.seed, 5, 60, len(drawn.demand_p))
    assert np.array_equal(whole.demand_p, factor * drawn.demand_p)
    assert np.array_equal(whole.demand_q, factor * drawn.demand_q)


@pytest.mark.usefixtures("small_shards")
def test_files_do_not_depend_on_how_many_write(tmp_path, monkeypatch):
    for cores in (1, 9):
        monkeypatch.setattr(data_set_here, "all_cores", lambda cores=cores: cores)
        monkeypatch.setattr(data_set_here, "MOST_WRITERS", cores)
        assert writers() == (1 if cores == 1 else 7)
        make_data_set(request_of(), tmp_path / str(cores), ENGINE)
    assert len(list((tmp_path / "1" / "not-private" / "solved").iterdir())) == 6
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "9")


@pytest.mark.usefixtures("small_shards")
def test_a_run_that_breaks_while_it_solves_goes_on_from_the_shards_that_are_whole(tmp_path, monkeypatch):
    make_data_set(request_of(), tmp_path / "whole", ENGINE)
    plain, done = Shards.solved, []

    def breaks(self: Shards, index: int, scenarios: object, backend: object) -> object:
        if index == 3:
            raise KeyboardInterrupt
        return plain(self, index, scenarios, backend)

    monkeypatch.setattr(Shards, "solved", breaks)
    with pytest.raises(KeyboardInterrupt):
        make_data_set(request_of(), tmp_path / "broken", ENGINE)
    home = tmp_path / "broken" / "not-private"
    assert len(list((home / "failures").iterdir())) == 3, "what was solved is written, the next is drawn only"

    def counted(self: Shards, index: int, scenarios: object, backend: object) -> object:
        done.append(index)
        return plain(self, index, scenarios, backend)

    monkeypatch.setattr(Shards, "solved", counted)
    make_data_set(request_of(), tmp_path / "broken", ENGINE)
    assert done == [3, 4, 5]
    assert bytes_of(tmp_path / "broken") == bytes_of(tmp_path / "whole")


@needs_compiler
@pytest.mark.parametrize("layout", TableLayout)
def test_a_device_makes_the_files_of_the_processor(layout, tmp_path, monkeypatch):
    """On arrays that behave like CuPy's; solutions leave them as float32, in PGLearn's layout and no other."""
    brought: list[np.dtype] = []
    asnumpy = DeviceEngine.xp.asnumpy

    def noted(array: DeviceArray) -> np.ndarray:
        if array.ndim == 2 and array.shape[1] > 3:
            brought.append(array.dtype)
        return asnumpy(array)

    request = request_of(layout=layout, scenarios=300)
    make_data_set(request, tmp_path / "native", BatchEngine.NATIVE)
    monkeypatch.setattr("gridveil.solvers.batch.backends.engine_for", lambda _choice: DeviceEngine())
    monkeypatch.setattr(type(DeviceEngine.xp), "asnumpy", staticmethod(noted))
    make_data_set(request, tmp_path / "device", BatchEngine.GPU)
    assert bytes_of(tmp_path / "device") == bytes_of(tmp_path / "native")
    assert set(brought) == {np.dtype(np.float32 if layout is TableLayout.PGLEARN else np.float64)}


def shard_of(size: int, engine) -> tuple[Shards, object]:
    shards = Shards.of(request_of(scenarios=size), Path("unused"))
    backend = BatchSolver(shards.lowered, engine, usual=(shards.drawn.demand_p, shards.drawn.demand_q))
    return shards, backend


@needs_compiler
def test_columns_do_not_depend_on_the_pieces_in_which_they_are_computed(monkeypatch):
    shards, backend = shard_of(100, DeviceEngine())
    scenarios = shards.scenarios(0)
    answer = backend.dispatch(scenarios, at_home=False)
    good = np.flatnonzero(answer.converged)
    whole = solution_vectors(shards.lowered, scenarios, answer.points, good, backend.xp)
    monkeypatch.setattr(data_set_pglearn, "DEVICE_CHUNK", 7 * shards.lowered.grid.n_bus)
    pieces = solution_vectors(shards.lowered, scenarios, answer.points, good, backend.xp)
    assert 50 < len(good) < 100
    for name, array in whole.items():
        assert array.dtype == np.float32 and len(array) == len(good)
        assert array == pytest.approx(pieces[name], rel=1e-6, abs=1e-7), name


@needs_compiler
@pytest.mark.parametrize("layout", TableLayout)
def test_what_the_structured_solver_finds_stands_in_its_place(layout):
    """Four solved scenarios are called unsolved; three may be retried."""
    request = request_of(scenarios=60, outages=Outages.NONE, layout=layout)
    shards = Shards.of(request, Path("unused"))
    solved = shards.solved(0, shards.scenarios(0), shards.backend(BatchEngine.NATIVE))
    assert solved.answer.converged.all()
    hidden, kept = np.array([0, 7, 8, 59]), np.delete(np.arange(60), [0, 7, 8, 59])
    status = solved.answer.status.copy()
    status[hidden] = BatchStatus.STALLED
    answer = replace(solved.answer, status=status)
    vectors = {name: array[kept] for name, array in solved.vectors.items()}
    again = retried(replace(solved, answer=answer, vectors=vectors), 3)
    assert np.flatnonzero(~again.answer.converged).tolist() == [59]
    assert np.flatnonzero(again.answer.by_cpu).tolist() == [0, 7, 8]
    assert np.all(again.answer.iterations[[0, 7, 8]] > answer.iterations[[0, 7, 8]])
    assert again.answer.cost == pytest.approx(answer.cost, rel=1e-6)
    if layout is TableLayout.GRIDFM:
        assert again.points.vm == pytest.approx(solved.points.vm, abs=1e-4)
        assert not np.array_equal(again.points.vm[7], solved.points.vm[7])
        return
    found = again.vectors["ACOPF/primal/vm"]
    assert found == pytest.approx(solved.vectors["ACOPF/primal/vm"][:-1], abs=1e-4)
    assert np.array_equal(np.delete(found, [0, 7, 8], axis=0), vectors["ACOPF/primal/vm"])
    assert retried(again, 0) is again


@needs_compiler
@pytest.mark.parametrize("layout", TableLayout)
def test_failures_are_retried_by_those_who_write(layout, tmp_path, monkeypatch):
    """In the thread that feeds the engine a few of them take longer than thousands of scenarios."""
    (tmp_path / "profile.csv").write_text("1.0\n9.0\n")
    solve, threads = Leftovers.solve, []

    def noted(self: Leftovers, *given: object) -> object:
        threads.append(threading.current_thread())
        return solve(self, *given)

    monkeypatch.setattr(Leftovers, "solve", noted)
    loads = f"profile:{tmp_path / 'profile.csv'}"
    request = request_of(loads=loads, scenarios=6, retries=2, outages=Outages.NONE, layout=layout)
    facts = make_data_set(request, tmp_path / "data", BatchEngine.NATIVE)
    assert facts["failed"] == 3 and len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_the_structured_solver_is_not_asked_twice(tmp_path, monkeypatch):
    (tmp_path / "profile.csv").write_text("9.0\n")
    request = request_of(loads=f"profile:{tmp_path / 'profile.csv'}", scenarios=2, retries=2)
    shards = Shards.of(request, tmp_path)
    solved = shards.solved(0, shards.scenarios(0), shards.backend(BatchEngine.STRUCTURED))
    assert not solved.answer.converged.any() and retried(solved, 2) is solved


def test_vectors_are_split_into_bytes_and_other_columns_have_statistics(tmp_path):
    make_data_set(request_of(scenarios=30), tmp_path / "data", ENGINE)
    (path,) = (tmp_path / "data" / "not-private" / "solved").iterdir()
    facts = pq.ParquetFile(path).metadata.row_group(0)
    columns = {one.path_in_schema: one for one in map(facts.column, range(facts.num_columns))}
    for name in ("input/pd.list.element", "ACOPF/dual/sm_to.list.element"):
        assert "BYTE_STREAM_SPLIT" in columns[name].encodings and columns[name].compression == "ZSTD"
    assert "BYTE_STREAM_SPLIT" not in columns["input/branch_status.list.element"].encodings
    assert columns["input/seed"].statistics.has_min_max


def test_the_loop_needs_numpy_and_pyarrow_alone():
    """So that the benchmark of a GPU runs where no reader of cases is installed."""
    absent = ("yaml", "scipy", "pandas", "numba", "casadi", "typer", "powerio", "distributed", "cupy")
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); import gridveil.service.data_set_here"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
