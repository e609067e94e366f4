"""Tests of the schemas of a row's JSON columns."""

import json
import sqlite3
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from bench.api import Scope
from bench.cli.app import main
from bench.ledger.row import Row
from bench.ledger.sql import DIGEST, REACH, digest, first_error, row_from_sql, row_to_sql
from bench.ledger.store import Ledger
from bench.runner.runner import run_tasks
from instances import InputError

SERVED = {
    "id": "w1",
    "slo_ms": 15.0,
    "requests": 3,
    "violation_rate": 0.0,
    "p99_ms": 4.0,
    "max_ms": 4.0,
    "histogram": {"lower_ms": [2.0, 4.0], "requests": [1, 2]},
}
GOOD: dict[str, Any] = {
    "parameters": {"igniter": {"spend_spare": True}},
    "bound_scope": {"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None},
    "simulation": {
        "arrivals": "poisson",
        "seconds": 30.0,
        "workloads": [SERVED],
        "applications": [],
        "overloads": [{"workloads": ["w1"], "load": 1.25, "missed": 0.2}],
    },
    "violation_details": [{"kind": "latency", "gpu": 0, "workload": None, "message": "GPU 0: too late", "limit": 3.0}],
    "trajectory": [{"t_s": 0.5, "value": 3.06, "feasible": True, "bound": None, "bound_certified": None}],
    "plan": {
        "version": 1,
        "instance": "mix",
        "gpus": [
            {
                "type": "v100",
                "gpulets": [{"share_units": 4, "slots": [{"workload": "w1", "batch": 4, "rate_rps": 500}]}],
            }
        ],
    },
    "statistics": {"anything": [None]},
}


@pytest.mark.parametrize("column", GOOD)
def test_what_a_bench_writes_is_right(column: str) -> None:
    assert first_error(column, "plan", GOOD[column]) is None


@pytest.mark.parametrize(
    ("column", "path", "value", "told"),
    [
        ("parameters", ["igniter"], 3, "igniter: "),
        ("parameters", ["igniter", "spend_spare"], [1.0, {"deep": float("inf")}], "igniter.spend_spare: "),
        ("statistics", ["anything"], float("inf"), "anything: "),
        ("bound_scope", ["plan_class"], "best", "plan_class: "),
        ("bound_scope", ["slots_per_gpulet"], 1.5, "slots_per_gpulet: "),
        ("simulation", ["workloads", 0, "histogram"], None, "workloads[0].histogram: "),
        ("simulation", ["workloads", 0, "histogram", "lower_ms", 1], 0.0, "workloads[0].histogram.lower_ms[1]: "),
        ("simulation", ["workloads", 0, "histogram", "lower_ms", 1], 1.0, "workloads[0].histogram: lower_ms is not"),
        ("simulation", ["workloads", 0, "histogram", "requests"], [3], "workloads[0].histogram: lower_ms and requests"),
        ("simulation", ["workloads", 0, "slo_ms"], "15", "workloads[0].slo_ms: "),
        ("violation_details", [0], "late", "[0]: "),
        ("violation_details", [0, "message"], 4, "[0].message: "),
        ("trajectory", [0, "t_s"], float("inf"), "[0].t_s: "),
        ("trajectory", [0, "feasible"], "yes", "[0].feasible: "),
        ("plan", ["gpus", 0, "gpulets", 0, "share_units"], 0, "gpus[0].gpulets[0].share_units: "),
        ("plan", ["gpus", 0, "gpulets", 0, "slots", 0, "batch"], True, "gpus[0].gpulets[0].slots[0].batch: "),
    ],
)
def test_what_is_none_of_a_run_is_named(column: str, path: list[Any], value: object, told: str) -> None:
    wrong = deepcopy(GOOD[column])
    inner = wrong
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    assert (first_error(column, "plan", wrong) or "").startswith(told)


def test_what_was_measured_has_no_histograms() -> None:
    measured = {"arrivals": "poisson", "seconds": 30.0, "workloads": [{"id": "w1", "p99_ms": None}]}
    assert first_error("simulation", "replay", measured) is None
    assert first_error("simulation", "plan", measured) is not None


def test_a_replay_says_on_what_it_ran() -> None:
    assert first_error("parameters", "replay", {"replay": {"backend": "cpu", "plan": None}}) is None
    assert first_error("parameters", "replay", {}) == "replay: Field required"
    assert first_error("parameters", "replay", {"replay": {"backend": "cpu", "seconds": float("inf")}}) is not None


def test_a_replay_decides_nothing_that_could_be_timed() -> None:
    untimed = [GOOD["trajectory"][0] | {"t_s": None}]
    assert first_error("trajectory", "replay", untimed) is None
    assert first_error("trajectory", "plan", untimed) is not None


def test_nests_and_half_characters_of_machines_are_refused() -> None:
    deep: object = 0
    for _ in range(60):
        deep = [deep]
    assert "nested too deeply" in (first_error("statistics", "plan", {"a": deep}) or "")
    assert first_error("statistics", "plan", {"a": "\ud800"}) is None  # a scheduler may say so of itself
    assert first_error("provenance", "plan", {"cpu": "\ud800"}) is not None


def forged(stored: dict[str, Any], **changed: object) -> dict[str, Any]:
    """Change values of a stored row, and its digest with them."""
    values = stored | changed
    return values | {DIGEST: digest(values)}


@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_infinite_columns_are_refused(tmp_path: Path, make_row: Callable[..., Row], value: float) -> None:
    with pytest.raises(InputError, match="decision_s: is damaged: a number is not finite"):
        row_from_sql(forged(row_to_sql(make_row(key="00ff")), decision_s=value), "l.sqlite")


def test_what_could_not_be_read_again_is_not_written(make_row: Callable[..., Row]) -> None:
    with pytest.raises(InputError, match="run 00ff: bound_scope: does not match the ledger's schema: max_batch: "):
        row_to_sql(make_row(key="00ff", bound_scope=Scope(max_batch=-1)))


def test_reach_must_be_that_of_the_plan(make_row: Callable[..., Row]) -> None:
    stored = row_to_sql(make_row(key="00ff", plan=GOOD["plan"]))
    other = json.dumps(json.loads(stored[REACH]) | {"shares": []})
    with pytest.raises(InputError, match="plan_reach: is damaged: not that of the plan"):
        row_from_sql(forged(stored, **{REACH: other}), "l.sqlite")


def test_a_forged_row_is_one_line_whatever_its_digest_says(
    tmp_path: Path, make_task: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "l.sqlite"
    with Ledger(file, create=True) as ledger:
        (row,) = run_tasks([make_task("Honest")], ledger)
    forge(file, row, "parameters", [])
    forge(file, row, "parameters", {"honest": []})
    for command in ("show --ledger", "report", "export", "compare"):
        ledgers = [str(file)] * (2 if command == "compare" else 1)
        assert main([*command.split(), *ledgers, *(["-o", str(tmp_path / "out")] if command == "report" else [])]) == 2
        told = capsys.readouterr().err.strip()
        assert "parameters: is damaged: honest: " in told
        assert "\n" not in told
    assert {path.name for path in tmp_path.iterdir()} <= {"l.sqlite", "l.sqlite-wal", "l.sqlite-shm"}


def forge(file: Path, row: Row, column: str, value: object) -> None:
    """Put ``value`` into a row, and the digest that fits."""
    database = sqlite3.connect(file)
    database.row_factory = sqlite3.Row
    stored = dict(database.execute("SELECT * FROM runs WHERE key = ?", [row.key]).fetchone())
    stored[column] = json.dumps(value)
    told = [stored[column], digest(stored), row.key]
    database.execute(f'UPDATE runs SET "{column}" = ?, {DIGEST} = ? WHERE key = ?', told)
    database.commit()
    database.close()
