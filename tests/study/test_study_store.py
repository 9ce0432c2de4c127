"""The store: rows are unique and exact, belong to one study, and only one runner writes them."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import fields, replace

import pandas as pd
import pytest
from study_tools import write_study

from gridveil.core.errors import InputError
from gridveil.study.outcome import TaskOutcome
from gridveil.study.store import TaskKey, export_parquet, open_store, read_outcomes, summarise
from gridveil.study.study_file import read_study

ROW = TaskOutcome(
    network="veil9",
    kind="power",
    buses=9,
    sites=7,
    alpha=0.1,
    beta=0.01,
    epsilon=1.0,
    seed=0,
    method="auto",
    solver="structured",
    verified=True,
    ending="POLISHED",
    reason="",
    true_cost=5870.751543238357,
    cost=5900.1,
    highpoint_cost=None,
    delta=math.pi,
    highpoint_delta=0.25,
    noisy_distance=0.1 + 0.2,
    highpoint_distance=None,
    released_distance=1 / 3,
    optimisations=5,
    seconds=0.01,
    true_seconds=0.001,
    monotone=False,
    rank_correlation=None,
    worst_violation=0.0,
    history='[{"kind": "highpoint", "cost": null}]',
    versions="{}",
    finished="2026-01-01T00:00:00.000+00:00",
    worker="process 1",
)


@pytest.fixture
def study(tmp_path):
    return read_study(write_study(tmp_path / "s.toml"))


def fill(path, study, *rows):
    with open_store(path, study) as store:
        store.begin_session(workers=2, engine="local", cores=4)
        for row in rows:
            store.add([row])


def test_rows_come_back_exactly(tmp_path, study):
    path = tmp_path / "s.sqlite"
    failed = replace(ROW, seed=1, verified=False, ending="FAILED", reason="took too long", true_cost=None, delta=None)
    fill(path, study, failed, ROW)
    frame = read_outcomes(path)
    assert list(frame.columns) == [field.name for field in fields(TaskOutcome)]
    first, second = (row for _, row in frame.iterrows())
    for field in fields(TaskOutcome):
        expected = getattr(ROW, field.name)
        assert first[field.name] == expected or (expected is None and math.isnan(first[field.name])), field.name
    assert math.isnan(second["delta"]) and second["reason"] == "took too long"
    kinds = frame.dtypes.astype(str)
    assert (kinds["verified"], kinds["seed"], kinds["true_cost"], kinds["highpoint_cost"]) == (
        "bool", "int64", "float64", "float64",
    )  # fmt: skip
    assert export_parquet(path, tmp_path / "s.parquet") == 2
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "s.parquet"), frame)
    assert not list(tmp_path.glob("*-wal"))


def test_a_task_has_one_row_and_sessions_add_up(tmp_path, study):
    path = tmp_path / "s.sqlite"
    failed = replace(ROW, verified=False, reason="took too long")
    fill(path, study, failed, replace(failed, seed=1))
    with open_store(path, study) as store:
        assert store.finished(failed_too=False) == set()
        assert store.finished() == {TaskKey("veil9", 0.1, 0.01, 1.0, seed, "auto", "structured") for seed in (0, 1)}
    fill(path, study, ROW)
    summary = summarise(path)
    assert (summary.done, summary.verified, summary.reasons) == (2, 1, {"took too long": 1})
    assert [session.tasks for session in summary.sessions] == [2, 1]
    assert summary.seconds == sum(session.seconds for session in summary.sessions) > 0
    assert summary.tasks == 2 * 1 * 2 * 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"alpha": ["0.1pu", "1pu"]}, r"other settings \(cells\)"),
        ({"methods": ["auto"], "name": "other"}, r"other settings \(name, methods\)"),
        ({"networks": ("veil9",)}, r"networks that the study no longer names \(veil2\)"),
        ({"seeds": 2}, "seeds that the study no longer names"),
    ],
)
def test_another_study_is_refused(tmp_path, study, changes, problem):
    path = tmp_path / "s.sqlite"
    fill(path, study, ROW)
    with pytest.raises(InputError, match=f"{problem}; name another store with --store"):
        fill(path, read_study(write_study(tmp_path / "other.toml", **changes)))
    assert summarise(path).done == 1 and len(summarise(path).sessions) == 1


def test_a_study_may_grow(tmp_path, study):
    path = tmp_path / "s.sqlite"
    fill(path, study, ROW)
    more = "[limits]\ntask_seconds = 9"
    grown = read_study(
        write_study(tmp_path / "grown.toml", seeds=[7, 2, 1, 0], networks=("veilgas", "veil2", "veil9"), more=more)
    )
    fill(path, grown)
    assert summarise(path).tasks == 3 * 2 * 4 and summarise(path).done == 1
    with pytest.raises(InputError, match=r"no longer names \(veilgas\)"):
        fill(path, study)


def test_a_network_file_may_move_but_not_change(tmp_path):
    (tmp_path / "net.m").write_text("mpc.first = 1;")
    path = write_study(tmp_path / "file.toml", networks=("net.m",))
    fill(tmp_path / "s.sqlite", read_study(path))
    (tmp_path / "net.m").rename(tmp_path / "moved.m")
    write_study(path, networks=("moved.m",), more='label = "net.m"')
    fill(tmp_path / "s.sqlite", read_study(path))
    (tmp_path / "moved.m").write_text("mpc.first = 2;")
    with pytest.raises(InputError, match=r"made from other files of net\.m"):
        fill(tmp_path / "s.sqlite", read_study(path))


def test_two_runners_at_once_are_refused_but_readers_are_not(tmp_path, study):
    path = tmp_path / "s.sqlite"
    with open_store(path, study) as store:
        store.begin_session(workers=1, engine="local", cores=1)
        store.add([ROW])
        with pytest.raises(InputError, match=r"another runner is at work on this store; wait for it"):
            fill(path, study)
        assert len(read_outcomes(path)) == 1
    fill(path, study)


def test_what_is_not_a_store_is_told_so(tmp_path, study):
    with pytest.raises(InputError, match="no such store"):
        read_outcomes(tmp_path / "none.sqlite")
    (tmp_path / "text").write_text("not a database at all, but long enough to be taken for one" * 20)
    with pytest.raises(InputError, match="cannot be used as a store"):
        read_outcomes(tmp_path / "text")
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE t (x)")
    for use in (read_outcomes, lambda path: fill(path, study)):
        with pytest.raises(InputError, match="not the store of a gridveil study"):
            use(foreign)
    fill(tmp_path / "s.sqlite", study)
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(InputError, match="another version of gridveil"):
        summarise(tmp_path / "s.sqlite")
    with pytest.raises(InputError, match="check the folder"):
        fill(tmp_path / "nowhere" / "s.sqlite", study)
