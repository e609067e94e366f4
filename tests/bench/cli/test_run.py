"""``bench run``: exit codes, JSON, plans, limits, and resuming after Ctrl-C."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Call

from bench.cli.files import plan_file_name
from bench.judging.judge import judge
from bench.ledger.row import Row
from instances.files import read_plan
from tests.bench.cli.conftest import Start

ROW_FIELDS = (
    *("instance", "scheduler", "seed", "status", "termination", "plan_class", "objective", "value", "bound"),
    *("bound_certified", "gap", "gpus_used", "decision_s", "peak_memory_mb", "feasible", "violations", "plan"),
)

pytestmark = pytest.mark.usefixtures("plugin")


def test_standard_output_has_only_rows_and_rows_are_reused(call: Call, start: Start) -> None:
    line = "run --instances smoke --schedulers igniter,ffd+ --format json"
    first = start(line)
    out, err = first.communicate()
    rows = json.loads(out)
    assert first.returncode == 0
    assert [(row["instance"], row["scheduler"]) for row in rows] == [
        (instance, scheduler)
        for instance in ("igniter-3", "smoke-cost", "smoke-capacity", "smoke-goodput")
        for scheduler in ("igniter", "ffd+")
    ]
    assert all(field in row for row in rows for field in ROW_FIELDS)
    assert "8 runs, 0 already in the ledger (results/ledger.sqlite)" in err
    assert re.search(r"^\[8/8\] ", err, re.MULTILINE)

    second = call(line)
    assert second.code == 0
    assert json.loads(second.out) == rows
    assert "8 runs, 8 already in the ledger" in second.err


def test_igniters_published_numbers_of_gpus_are_reproduced(call: Call) -> None:
    done = call("run --instances igniter-3,igniter-12 --schedulers igniter,ffd+ --format json")
    gpus = {(row["instance"], row["scheduler"]): row["gpus_used"] for row in json.loads(done.out)}
    assert gpus[("igniter-3", "igniter")] == 1
    assert gpus[("igniter-12", "igniter")] == 6
    assert gpus[("igniter-12", "ffd+")] == 5
    shown = call("run --instances igniter-12 --schedulers ffd+,igniter").out
    assert re.search(r"igniter-12 +ffd\+ +feasible +15.30 \$/h +5 .* 9 ✗ ", shown)
    assert re.search(r"igniter-12 +igniter +feasible +18.36 \$/h +6 .* 0 ✓ .* unchecked, [0-9.]+ % late ", shown)


def test_a_failed_run_is_exit_code_1_after_all_ran(call: Call) -> None:
    done = call("run --instances smoke-cost --schedulers fails,igniter,broken")
    assert done.code == 1
    (line,) = (line for line in done.err.splitlines() if line.startswith("failed: smoke-cost, fails"))
    assert "exception: RuntimeError: bad [red]luck[/red]" in line
    assert "failed: smoke-cost, broken, seed 0: exception: ModuleNotFoundError" in done.err
    assert re.search("smoke-cost +igniter +feasible", done.out)

    hint = re.search(r"\(bench (show [0-9a-f]{8})\)", line)
    assert hint is not None
    shown = call(hint[1]).out
    assert "  [red]about to fail[/red]\n" in shown
    assert "exception: RuntimeError: bad [red]luck[/red]" in shown


def test_an_unsupported_objective_is_skipped_with_a_reason_and_is_no_failure(call: Call) -> None:
    done = call("run --instances smoke-goodput --schedulers bounds")
    assert done.code == 0
    assert "skipped: bounds does not solve goodput; it solves cost" in done.err


def test_without_schedulers_all_that_solve_the_objective_run(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.schedulers import registry

    wanted = {name: entry for name, entry in registry.entries().items() if name in ("igniter", "bounds", "broken")}
    monkeypatch.setattr("bench.planning.entries", lambda: wanted)
    done = call("run --instances smoke-cost,smoke-goodput --format json")
    assert done.code == 0
    assert [(row["instance"], row["scheduler"]) for row in json.loads(done.out)] == [
        ("smoke-cost", "bounds"),
        ("smoke-cost", "igniter"),
        ("smoke-goodput", "igniter"),
    ]
    assert "broken is left out because it cannot be used: ModuleNotFoundError" in done.err


def test_parameters_seeds_and_starts_reach_the_rows(call: Call) -> None:
    done = call(
        "run --instances igniter-3 --schedulers bounds@igniter --param bounds.bound=3.06 --seeds 4,2 --format json"
    )
    rows = json.loads(done.out)
    assert [(row["scheduler"], row["seed"]) for row in rows] == [("bounds@igniter", 4), ("bounds@igniter", 2)]
    assert rows[0]["parameters"]["bounds"] == {"bound": 3.06}
    assert rows[0]["gap"] == pytest.approx(2 / 3)
    assert "igniter-3, bounds@igniter, seed 4" in done.err


def test_limits_are_in_the_row(call: Call) -> None:
    options = "--time-limit 3.5 --memory-limit 4 --threads 2 --jobs 1 --format json"
    (row,) = json.loads(call(f"run --instances igniter-3 --schedulers igniter {options}").out)
    assert (row["time_limit_s"], row["memory_limit_mb"], row["threads"]) == (3.5, 4096.0, 2)


def test_a_folder_of_files_with_odd_names_runs_and_every_plan_gets_a_file(call: Call, tmp_path: Path) -> None:
    names = ["../[red]mix", "..?[red]mix", "..", "a" * 200]
    for number, name in enumerate(names):
        call(f"generate igniter-mix --size 2 --seed {number} -o mixes/{number}.json --name", name)
    done = call("run --instances mixes --schedulers igniter --plans new/plans")
    assert done.code == 0
    assert "../[red]mix  igniter" in re.sub(" +", "  ", done.out)
    files = sorted((tmp_path / "new/plans").iterdir())
    assert all(re.fullmatch(r"[A-Za-z0-9_+@][A-Za-z0-9._+@-]*--igniter--s0--[0-9a-f]{12}\.json", f.name) for f in files)
    names_in_files = [instance.name for _, instance in map(read_plan, files) if instance is not None]
    assert sorted(names_in_files) == sorted(names)
    for file in files:
        plan, instance = read_plan(file)
        assert instance is not None
        assert judge(plan, instance).feasible


def test_the_name_of_a_plan_file_stays_short(make_row: Callable[..., Row]) -> None:
    assert len(plan_file_name(make_row(instance="é/" * 100, scheduler="x" * 300, key="0123456789abcdef"))) < 160


def test_after_ctrl_c_finished_runs_are_in_the_ledger_and_the_same_command_resumes(call: Call, start: Start) -> None:
    line = "run --instances igniter-3,igniter-12 --schedulers waits --time-limit 60 --jobs 1 --format json"
    running = start(line)
    assert running.stderr is not None
    assert running.stderr.readline().startswith("[1/2] igniter-3, waits")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert [row["instance"] for row in json.loads(out)] == ["igniter-3"]
    assert err.endswith("interrupted: 1 of 2 runs are in results/ledger.sqlite; repeat the command for the rest\n")

    resumed = call(line.replace(",igniter-12", ""))
    assert "1 run, 1 already in the ledger" in resumed.err


def test_a_work_limit_is_part_of_the_key_and_makes_runs_repeatable(call: Call) -> None:
    line = "run --instances igniter-3 --schedulers local-search --simulate off --format json"
    limited, repeated, larger, unlimited = (
        json.loads(call(f"{line} {option}").out)[0]
        for option in ("--work-limit 5", "--work-limit 5 --ledger again.sqlite", "--work-limit 6", "")
    )
    assert limited["key"] == repeated["key"]
    assert (limited["plan"], limited["statistics"]) == (repeated["plan"], repeated["statistics"])
    assert [row["work_limit"] for row in (limited, larger, unlimited)] == [5, 6, None]
    assert len({row["key"] for row in (limited, larger, unlimited)}) == 3
