"""``bench replay``: measurements beside predictions, rows in the ledger, and errors."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.cli.app import main
from bench.cli.commands.replay import remarks
from bench.ledger import ledger_file
from bench.ledger.store import Ledger
from bench.plan_simulation import Settings, simulate
from bench.simulation.layout import sites
from instances.files import read_plan
from tests.bench.replay.serving_plans import gpulet_data, plan_data, write_plan

HERE = Path(__file__).parent
Replay = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a plan of two workloads that take turns; workers serve it with a fake device without PyTorch."""
    (tmp_path / "site").mkdir()
    shutil.copy(HERE / "quick_device.py", tmp_path / "site" / "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    gpulets = [gpulet_data(("w2", 4, 40.0), ("w3", 2, 20.0), duty_cycle_ms=90.0, share_units=20)]
    return write_plan(tmp_path, plan_data(("w2", "w3"), gpulets))


@pytest.fixture
def replay(plan: Path, capsys: pytest.CaptureFixture[str]) -> Replay:
    def call(*options: str) -> tuple[int, str, str]:
        code = main(["replay", str(plan), "--seconds", "1", "--warmup", "0.2", *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_predictions_are_those_of_the_simulator(replay: Replay, plan: Path) -> None:
    code, out, _ = replay("--backend", "cpu", "--format", "json")
    plan_, instance = read_plan(plan)
    assert code == 0
    assert instance is not None
    values: dict[str, Any] = json.loads(out)

    expected = simulate(plan_, instance, Settings(seconds=1.0, warmup_s=0.2))
    assert [one["predicted"]["p99_ms"] for one in values["workloads"]] == [one.p99_ms for one in expected.workloads]
    (site,) = sites(plan_, instance, instance)
    gpu_ms = [float(site.times[row, batch]["gpu_ms"]) for row, batch in enumerate((4, 2))]
    assert [slot["predicted_gpu_ms"] for slot in values["slots"]] == gpu_ms


def test_the_table_has_the_settings_and_the_tiny_models(replay: Replay) -> None:
    code, out, err = replay("--backend", "cpu")

    assert code == 0
    assert (
        "plan for replayed, 1 s on cpu, poisson arrivals, seed 0, servers that drop late requests; times in ms" in out
    )
    assert "tiny models replace those of the plan" in out
    assert err.splitlines()[0] == "starting 1 workers"


def test_every_replay_is_a_new_row(replay: Replay, plan: Path, tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    for options in ((), ("--then", str(plan), "--switch-at", "0.1")):
        assert replay("--backend", "cpu", "--ledger", str(file), *options)[0] == 0

    with Ledger(file) as ledger:
        first, second = ledger.rows(source="replay")
        instance = ledger.instance(first.instance_hash)
    assert first.key != second.key
    assert sorted(len(row.parameters["replay"]["then"]) for row in (first, second)) == [0, 1]
    assert (first.scheduler, first.termination, first.feasible) == ("replay", "finished", True)
    assert first.parameters["replay"]["backend"] == "cpu"
    assert first.plan == read_plan(plan)[0]
    assert instance == read_plan(plan)[1]
    assert first.simulation is not None
    assert first.simulation["source"] == "replay"
    assert first.sim_goodput_rps == first.simulation["goodput_rps"]


def test_with_a_locked_ledger_the_measurement_is_stored_beside_it(
    replay: Replay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_TIMEOUT_S", 0.3)
    file = tmp_path / "ledger.sqlite"
    Ledger(file, create=True).close()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        code, out, err = replay("--backend", "cpu", "--ledger", str(file))
    (beside,) = tmp_path.glob("ledger.sqlite.rescued-*[0-9]")
    assert code == 1
    assert "plan for replayed" in out
    assert err.splitlines()[-1] == (
        f"failed: {file} stayed locked by another process while runs were stored; their rows are in {beside}"
    )
    with Ledger(beside) as ledger:
        assert [row.scheduler for row in ledger.rows()] == ["replay"]


def test_a_wrong_ledger_is_refused_before_the_measurement(replay: Replay, plan: Path) -> None:
    code, out, err = replay("--backend", "cpu", "--ledger", str(plan))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {plan}: is no ledger")
    assert len(err.splitlines()) == 1


def test_backend_sim_has_simulated_results_in_the_schema_of_a_replay(replay: Replay, plan: Path) -> None:
    code, out, _ = replay("--backend", "sim", "--format", "json")
    _, of_cpu, _ = replay("--backend", "cpu", "--format", "json")
    read, instance = read_plan(plan)
    assert instance is not None
    values: dict[str, Any] = json.loads(out)

    assert code == 0
    assert values.keys() == json.loads(of_cpu).keys()
    expected = simulate(read, instance, Settings(seconds=1.0, warmup_s=0.2))
    assert [one["p99_ms"] for one in values["workloads"]] == [one.p99_ms for one in expected.workloads]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--backend", "gpu"), 'error: --backend: unknown backend "gpu"; did you mean "cpu"?'),
        (("--backend", "sim", "--then", "{plan}"), "error: --then: is not available with --backend sim"),
        (("--backend", "cpu", "--then", "{plan}"), "error: --switch-at: expected a time from 0 to 1 s"),
        (("--backend", "cpu", "--switch-at", "0.5"), "error: --switch-at: needs a second plan; give it with --then"),
        (("--backend", "cpu", "--arrivals", "none.csv"), "error: --arrivals none.csv: no such file"),
        (("--backend", "cpu", "--warmup", "-1"), "error: --warmup: -1; expected"),
    ],
)
def test_bad_usage_is_one_line(options: tuple[str, ...], problem: str, replay: Replay, plan: Path) -> None:
    code, out, err = replay(*(option.format(plan=plan) for option in options))

    assert code == 2
    assert out == ""
    assert err.startswith(problem)
    assert err.count("\n") == 1


def test_failures_and_the_switch_are_remarks_below_the_table(replay: Replay) -> None:
    _, out, _ = replay("--backend", "sim", "--format", "json")
    values = json.loads(out) | {
        "backend": "mps",
        "valid": False,
        "invalid_reason": "the load generator was 4.00 ms late at P99",
        "failures": [{"gpu": 0, "gpulet": 1, "plan": 0, "reason": "died", "workloads": ["w2", "w3"]}],
        "switch": {
            "began_s": 2.0,
            "switched_s": 5.5,
            "drained_s": 5.9,
            "workloads": [{"id": "w2", "without_service_ms": 0.25, "p99_ms": None}],
        },
        "slots": [{"workload": "w2", "gpu_ms": 3.0, "predicted_gpu_ms": 2.5}],
        "gpus": [{"gpu": 0, "samples": 9, "power_w": 150.4, "frequency_mhz": 1530.0, "utilisation_pct": 61.0}],
    }

    assert remarks(values)[1:] == [
        "NOT VALID: the load generator was 4.00 ms late at P99",
        "w2: a full batch took 3.00 ms, predicted 2.50",
        "GPU 0: 150 W, 1530 MHz, busy 61 %",
        "the second plan took over 3.5 s after the switch began at 2.0 s; the first plan finished at 5.9 s",
        "w2: 0.25 ms without service, P99 - ms in the switch",
        "FAILED: GPU 0, gpulet 1 (w2, w3): died",
    ]
    assert remarks(values | {"switch": {"drained_s": None}})[4] == "the second plan did not take over"


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--help"]) == 0

    assert "bench replay plan.json --backend mps" in capsys.readouterr().out
