"""Schemas of a row's JSON columns, and forged values that they refuse."""

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

SIMULATED_WORKLOAD = {
    "id": "w1",
    "slo_ms": 15.0,
    "requests": 3,
    "violation_rate": 0.0,
    "p99_ms": 4.0,
    "max_ms": 4.0,
    "histogram": {"lower_ms": [2.0, 4.0], "requests": [1, 2]},
}
VALID_COLUMNS: dict[str, Any] = {
    "parameters": {"igniter": {"spend_spare": True}},
    "bound_scope": {"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None},
    "simulation": {
        "arrivals": "poisson",
        "seconds": 30.0,
        "workloads": [SIMULATED_WORKLOAD],
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


@pytest.mark.parametrize("column", VALID_COLUMNS)
def test_valid_columns_have_no_error(column: str) -> None:
    assert first_error(column, "plan", VALID_COLUMNS[column]) is None


@pytest.mark.parametrize(
    ("column", "path", "value", "message"),
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
def test_the_error_names_the_wrong_field(column: str, path: list[Any], value: object, message: str) -> None:
    wrong = deepcopy(VALID_COLUMNS[column])
    inner = wrong
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    assert (first_error(column, "plan", wrong) or "").startswith(message)


def test_workloads_of_a_replay_need_no_histograms() -> None:
    measured = {"arrivals": "poisson", "seconds": 30.0, "workloads": [{"id": "w1", "p99_ms": None}]}
    assert first_error("simulation", "replay", measured) is None
    assert first_error("simulation", "plan", measured) is not None


def test_the_parameters_of_a_replay_include_its_backend() -> None:
    assert first_error("parameters", "replay", {"replay": {"backend": "cpu", "plan": None}}) is None
    assert first_error("parameters", "replay", {}) == "replay: Field required"
    assert first_error("parameters", "replay", {"replay": {"backend": "cpu", "seconds": float("inf")}}) is not None


def test_only_a_replays_trajectory_may_have_no_times() -> None:
    untimed = [VALID_COLUMNS["trajectory"][0] | {"t_s": None}]
    assert first_error("trajectory", "replay", untimed) is None
    assert first_error("trajectory", "plan", untimed) is not None


def test_deep_nesting_and_surrogates_in_provenance_are_refused() -> None:
    deep: object = 0
    for _ in range(60):
        deep = [deep]
    assert "nested too deeply" in (first_error("statistics", "plan", {"a": deep}) or "")
    assert first_error("statistics", "plan", {"a": "\ud800"}) is None  # statistics are a scheduler's own texts
    assert first_error("provenance", "plan", {"cpu": "\ud800"}) is not None


def forged(stored: dict[str, Any], **changed: object) -> dict[str, Any]:
    """Return a stored row with changed values and the digest that matches them."""
    values = stored | changed
    return values | {DIGEST: digest(values)}


@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_infinite_columns_are_refused(tmp_path: Path, make_row: Callable[..., Row], value: float) -> None:
    with pytest.raises(InputError, match="decision_s: is damaged: a number is not finite"):
        row_from_sql(forged(row_to_sql(make_row(key="00ff")), decision_s=value), "l.sqlite")


def test_a_row_that_does_not_match_the_schema_is_not_written(make_row: Callable[..., Row]) -> None:
    with pytest.raises(InputError, match="run 00ff: bound_scope: does not match the ledger's schema: max_batch: "):
        row_to_sql(make_row(key="00ff", bound_scope=Scope(max_batch=-1)))


def test_a_stored_reach_must_be_that_of_the_plan(make_row: Callable[..., Row]) -> None:
    stored = row_to_sql(make_row(key="00ff", plan=VALID_COLUMNS["plan"]))
    other = json.dumps(json.loads(stored[REACH]) | {"shares": []})
    with pytest.raises(InputError, match="plan_reach: is damaged: not that of the plan"):
        row_from_sql(forged(stored, **{REACH: other}), "l.sqlite")


def test_the_error_on_a_forged_row_is_one_line_even_with_a_valid_digest(
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
        message = capsys.readouterr().err.strip()
        assert "parameters: is damaged: honest: " in message
        assert "\n" not in message
    assert {path.name for path in tmp_path.iterdir()} <= {"l.sqlite", "l.sqlite-wal", "l.sqlite-shm"}


def forge(file: Path, row: Row, column: str, value: object) -> None:
    """Write ``value`` into a stored row, with the matching digest."""
    database = sqlite3.connect(file)
    database.row_factory = sqlite3.Row
    stored = dict(database.execute("SELECT * FROM runs WHERE key = ?", [row.key]).fetchone())
    stored[column] = json.dumps(value)
    new_values = [stored[column], digest(stored), row.key]
    database.execute(f'UPDATE runs SET "{column}" = ?, {DIGEST} = ? WHERE key = ?', new_values)
    database.commit()
    database.close()
