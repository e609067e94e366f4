"""The ledger's file: rows, chunks and instances are read back as stored, and wrong files are refused."""

import json
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from bench.api import Duals, Proof
from bench.ledger.ledger_file import SCHEMA_VERSION
from bench.ledger.row import Row, Termination, columns
from bench.ledger.sql import DIGEST, REACH
from bench.ledger.store import Ledger
from instances import InputError, Instance, PlanClass

MakeRow = Callable[..., Row]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results" / "deep" / "ledger.sqlite"


@pytest.fixture
def full_row(make_row: MakeRow, instance: Instance) -> Row:
    """Return a row without an empty column."""
    return make_row(
        key="ab" * 32,
        instance_hash=instance.fingerprint,
        throughput_of="capacity",
        proof="checked",
        duals=Proof((Duals((1.5,), (3.06,)),)),
        plan_class=PlanClass.SPLIT,
        value=0.1 + 0.2,
        bound=1e-300,
        bound_certified=False,
        bound_scope={"plan_class": "split", "allowed_shares": [4, 8], "slots_per_gpulet": 1, "max_batch": None},
        gpus_used=3,
        cost_per_hour=9.18,
        throughput_rps=1.0,
        goodput_rps=2.0,
        fragments_pct=3.0,
        utilisation_pct=4.0,
        over_capacity_pct=5.0,
        least_slack=0.0625,
        margin=0.9,
        then="slack",
        then_s=1.5,
        then_limit_s=30.0,
        least_slack_bound=0.125,
        feasible=True,
        violations=1,
        violation_details=[{"kind": "latency", "gpu": None, "workload": "w1", "message": 'ü "quoted" \n'}],
        scenarios={
            **dict.fromkeys(("count", "decided", "accepted", "served"), 3),
            **{"decision_median_s": 0.5, "decision_max_s": None, "accepted_bits": "eJw=", "served_bits": "eJw="},
        },
        decision_s=0.25,
        import_s=0.5,
        warm_s=0.125,
        peak_memory_mb=88.5,
        work_limit=500,
        memory_limit_mb=4096.0,
        trajectory=[{"t_s": 0.5, "value": None, "feasible": None, "bound": 1e-300, "bound_certified": False}],
        headroom=1.1,
        truth="hybrid",
        sim_goodput_rps=90.5,
        sim_violation_rate=0.095,
        sim_drop_rate=0.05,
        sim_violating=2,
        sim_worst_p99=1.5,
        holds=False,
        late_workloads=3,
        simulation={"arrivals": "poisson", "seconds": 30.0, "workloads": [], "applications": [], "requests": 3000},
        log_tail="it's over\n",
        plan={"version": 1, "gpus": []},
    )


def test_chunks_are_deleted_when_their_row_is_stored(path: Path, full_row: Row, instance: Instance) -> None:
    first, second = (
        {"first": 0, "accepted": [True], "served": [True], "decision_s": [0.5]},
        {"first": 1, "accepted": [False], "served": [False], "decision_s": [0.5]},
    )
    with Ledger(path, create=True) as ledger:
        for chunk in (second, first, {"first": 0, "accepted": [False], "served": [False], "decision_s": [0.5]}):
            ledger.add_chunk(full_row.key, chunk)
        ledger.add_chunk("another", first)
    with Ledger(path, create=True) as ledger:
        assert ledger.chunks(full_row.key) == [first, second]
        ledger.add(full_row, instance)
        assert ledger.chunks(full_row.key) == []
        assert ledger.chunks("another") == [first]


def test_a_row_read_back_is_equal(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        assert ledger.add(full_row, instance)
    with Ledger(path) as ledger:
        (read_back,) = ledger.rows()
    assert read_back == full_row
    assert {column.name for column in columns() if getattr(read_back, column.name) is None} == set()
    for column in columns():
        assert type(getattr(read_back, column.name)) is type(getattr(full_row, column.name)), column.name


def test_a_path_may_be_text(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        ledger.add(full_row, instance)
    with Ledger(str(path)) as ledger:
        assert list(ledger.rows()) == [full_row]


def test_negative_zero_is_read_back_as_zero(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        ledger.add(replace(full_row, value=-0.0, bound=-0.0), instance)
        assert [(row.value, row.bound) for row in ledger.rows()] == [(0.0, 0.0)]


def test_empty_columns_are_read_back_as_none(path: Path, make_row: MakeRow, instance: Instance) -> None:
    row = make_row(termination=Termination.CRASHED)
    with Ledger(path, create=True) as ledger:
        ledger.add(row, instance)
        assert ledger.rows() == [row]


def test_the_tables_columns_are_the_fields_of_a_row(path: Path) -> None:
    Ledger(path, create=True).close()
    database = sqlite3.connect(path)
    listed = [name for _, name, *_ in database.execute("PRAGMA table_info(runs)")]
    (mode,) = database.execute("PRAGMA journal_mode").fetchone()
    database.close()
    assert sorted(listed) == sorted([*(field.name for field in fields(Row)), DIGEST, REACH])
    assert listed[-2:] == [
        "plan",
        "simulation",
    ]  # the largest columns are last, since SQLite reads past them for any column behind
    assert mode == "wal"


def test_a_row_is_unchanged_by_json(full_row: Row) -> None:
    text = json.dumps(full_row.to_json(), allow_nan=False)
    assert Row.from_json(json.loads(text)) == full_row
    assert list(full_row.to_json()) == [field.name for field in fields(Row)]


def test_a_second_row_with_the_same_key_is_not_stored(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        assert ledger.add(full_row, instance)
        assert not ledger.add(replace(full_row, value=7.0), instance)
        assert [row.value for row in ledger.rows()] == [full_row.value]
        assert ledger.keys() == {full_row.key}


def test_row_and_instance_are_stored_together_or_not_at_all(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        database = sqlite3.connect(path)
        database.execute("CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'no more'); END")
        with pytest.raises(InputError, match="no more"):
            ledger.add(full_row, instance)
        with pytest.raises(InputError, match="contains no instance"):
            ledger.instance(instance.fingerprint)
        database.execute("DROP TRIGGER full")
        database.close()
        assert ledger.add(full_row, instance)


def test_a_row_with_nan_is_not_stored(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        with pytest.raises(InputError, match="statistics: does not match the ledger's schema: nodes"):
            ledger.add(replace(full_row, statistics={"nodes": float("nan")}), instance)
        assert ledger.keys() == set()


def test_rows_are_filtered_by_column(path: Path, full_row: Row, make_instance: Callable[..., Instance]) -> None:
    mix, other = make_instance(), make_instance("other")
    with Ledger(path, create=True) as ledger:
        ledger.add(full_row, mix)
        ledger.add(replace(full_row, key="cd", instance="other", scheduler="t", seed=1, bound_certified=True), other)
        assert [row.key for row in ledger.rows(scheduler="t")] == ["cd"]
        assert [row.key for row in ledger.rows(instance="mix", seed=0)] == [full_row.key]
        assert [row.key for row in ledger.rows(bound_certified=True)] == ["cd"]
        assert [row.key for row in ledger.rows(instance="mix", seed=1)] == []
        assert [row.key for row in ledger.rows(instance=None)] == [full_row.key, "cd"]
        with pytest.raises(InputError, match='did you mean "scheduler"'):
            ledger.rows(schedular="t")


def test_a_row_is_found_by_the_start_of_its_key(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        for key in ("abc1", "abc2", "f%_0"):
            ledger.add(replace(full_row, key=key), instance)
        assert ledger.row("ABC2").key == "abc2"
        assert ledger.row("f%").key == "f%_0"
        with pytest.raises(InputError, match="2 runs have a key"):
            ledger.row("abc")
        for absent in ("abd", "%", ""):
            with pytest.raises(InputError, match="no run has a key"):
                ledger.row(absent)


def test_an_instance_read_back_is_equal(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        ledger.add(full_row, instance)
        assert ledger.instance(instance.fingerprint) == instance


def test_an_instance_with_another_fingerprint_is_refused(path: Path, full_row: Row, instance: Instance) -> None:
    with Ledger(path, create=True) as ledger:
        ledger.add(full_row, instance)
    database = sqlite3.connect(path)
    database.execute("UPDATE instances SET hash = 'f00'")
    database.commit()
    database.close()
    with Ledger(path) as ledger, pytest.raises(InputError, match="another version of the catalogue"):
        ledger.instance("f00")


def test_reading_a_missing_ledger_is_refused_and_creates_no_folder(path: Path) -> None:
    with pytest.raises(InputError, match="no such ledger"):
        Ledger(path)
    assert not path.parent.exists()


def test_a_ledger_in_a_read_only_folder_is_read(
    path: Path, full_row: Row, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path, create=True) as ledger:
        ledger.add(full_row, instance)
    monkeypatch.setattr(os, "access", lambda folder, mode: (folder, mode) != (path.parent, os.W_OK))
    with Ledger(path) as ledger:
        assert ledger.rows() == [full_row]
        assert list(path.parent.iterdir()) == [path]  # nothing was written beside it
        with pytest.raises(InputError, match="readonly"):
            ledger.add(replace(full_row, key="cd"), instance)


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1])
def test_ledger_of_another_version_is_refused(path: Path, version: int) -> None:
    Ledger(path, create=True).close()
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    for create in (False, True):
        with pytest.raises(InputError, match=f"is a ledger of version {version}; this bench reads {SCHEMA_VERSION}"):
            Ledger(path, create=create)


def _text(path: Path) -> None:
    path.write_text("not a database at all, and long enough to be taken for one" * 20)


def _empty(path: Path) -> None:
    path.touch()


def _other_database(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE recipes (name TEXT)")
    database.close()


@pytest.mark.parametrize("make", [_text, _empty, _other_database])
def test_a_file_that_is_no_ledger_is_refused_in_one_line(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    make(path)
    before = path.read_bytes()
    with pytest.raises(InputError) as refused:
        Ledger(path)
    assert str(refused.value).startswith(f"{path}: is no ledger")
    assert "\n" not in str(refused.value)
    if make is not _empty:  # a new ledger may be created in an empty file
        with pytest.raises(InputError):
            Ledger(path, create=True)
    assert path.read_bytes() == before


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        Ledger(tmp_path, create=True)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be used as a ledger"):
        Ledger(tmp_path / "file" / "ledger", create=True)


def test_eight_writers_share_a_ledger(path: Path, full_row: Row, instance: Instance) -> None:
    """Eight threads create and fill the same file at once: each key is added by exactly one of them."""

    def add_rows(_: int) -> int:
        with Ledger(path, create=True) as ledger:
            return sum(ledger.add(replace(full_row, key=f"{number:064x}"), instance) for number in range(20))

    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(add_rows, range(8)))
    assert sum(added) == 20
    with Ledger(path) as ledger:
        assert len(ledger.rows()) == 20


def test_arrivals_are_read_without_simulations(path: Path, instance: Instance, make_row: MakeRow) -> None:
    begins = {"arrivals": "gamma:3", "seconds": 30.0, "workloads": [], "applications": []}
    rows = [
        make_row(key="begins", simulation=begins),
        make_row(key="ends", simulation=dict(reversed(begins.items()))),
        make_row(key="escaped", simulation=begins | {"arrivals": 'a "trace".csv'}),
        make_row(key="none", simulation=None),
    ]
    with Ledger(path, create=True) as ledger:
        for row in rows:
            ledger.add(row, instance)
        assert ledger.arrivals() == {"begins": "gamma:3", "ends": "gamma:3", "escaped": 'a "trace".csv'}


def test_a_ledger_without_a_newer_column_gets_it_or_is_refused_in_one_line(
    tmp_path: Path, make_row: MakeRow, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, row = tmp_path / "old.sqlite", make_row(least_slack=None)
    with Ledger(old, create=True) as ledger:
        ledger.add(row, instance)
    with closing(sqlite3.connect(old)) as database:
        database.execute("ALTER TABLE runs DROP COLUMN least_slack")
        database.commit()
    content = old.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *_: False)
        with Ledger(old) as ledger:
            assert ledger.row(row.key) == row
    assert old.read_bytes() == content
    with Ledger(old) as ledger:
        assert ledger.row(row.key) == row

    path = tmp_path / "older.sqlite"
    Ledger(path, create=True).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE runs DROP COLUMN holds")
        database.commit()

    with pytest.raises(InputError, match="written by an older bench: it lacks the columns holds; name another file"):
        Ledger(path)
