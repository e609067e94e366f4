"""``bench run`` and what reads its ledger: exit codes, tables, JSON, plans, leaderboards, figures, interruption."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Call

from bench.cli import tasks
from bench.cli.commands.show import leaders
from bench.cli.files import plan_file_name
from bench.cli.tasks import fitting_jobs
from bench.cli.views.progress import Progress
from bench.judge.judging import judge
from bench.ledger.row import Row
from instances.files import read_plan
from instances.suites import SUITES
from reports.figure import Figure, Need

ROW_FIELDS = (
    *("instance", "scheduler", "seed", "status", "termination", "plan_class", "objective", "value", "bound"),
    *("bound_certified", "gap", "gpus_used", "decision_s", "peak_memory_mb", "feasible", "violations", "plan"),
)

PLUGIN = Path(__file__).with_name("command_line_plugin.py")

ENTRY_POINTS = """
[bench.schedulers]
bounds = command_line_plugin:Bounds
broken = command_line_plugin_that_is_not_there:Broken
fails = command_line_plugin:Fails
waits = command_line_plugin:Waits
"""


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Schedulers of another distribution, registered the way anyone's are."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copy(PLUGIN, folder)
    metadata = folder / "command_line_plugin-2.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: command-line-plugin\nVersion: 2.5\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


def started(line: str, folder: Path, plugin: Path, **options: Any) -> "subprocess.Popen[str]":
    """Start the installed command."""
    command = Path(sys.executable).parent / "bench"
    environment = os.environ | {"PYTHONPATH": str(plugin)}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([command, *line.split()], cwd=folder, env=environment, text=True, **options)


# bench run


def test_rows_are_all_there_is_on_standard_output_and_are_reused(call: Call, tmp_path: Path, plugin: Path) -> None:
    line = "run --instances smoke --schedulers igniter,ffd+ --format json"
    first = started(line, tmp_path, plugin)
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


def test_igniters_published_plans_come_out_of_the_command_line(call: Call) -> None:
    done = call("run --instances igniter-3,igniter-12 --schedulers igniter,ffd+ --format json")
    gpus = {(row["instance"], row["scheduler"]): row["gpus_used"] for row in json.loads(done.out)}
    assert gpus[("igniter-3", "igniter")] == 1
    assert gpus[("igniter-12", "igniter")] == 6
    assert gpus[("igniter-12", "ffd+")] == 5
    shown = call("run --instances igniter-12 --schedulers ffd+,igniter").out
    assert re.search(r"igniter-12 +ffd\+ +feasible +15.30 \$/h +5 .* 9 ✗ ", shown)
    assert re.search(r"igniter-12 +igniter +feasible +18.36 \$/h +6 .* 0 ✓ ", shown)


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


def test_what_a_scheduler_cannot_solve_is_skipped_with_a_reason_and_is_no_failure(call: Call) -> None:
    done = call("run --instances smoke-goodput --schedulers bounds")
    assert done.code == 0
    assert "skipped: bounds does not solve goodput; it solves cost" in done.err


def test_without_schedulers_all_that_can_solve_the_objective_run(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.schedulers import registry

    wanted = {name: entry for name, entry in registry.entries().items() if name in ("igniter", "bounds", "broken")}
    monkeypatch.setattr("bench.cli.tasks.entries", lambda: wanted)
    done = call("run --instances smoke-cost,smoke-goodput --format json")
    assert done.code == 0
    assert [(row["instance"], row["scheduler"]) for row in json.loads(done.out)] == [
        ("smoke-cost", "bounds"),
        ("smoke-cost", "igniter"),
        ("smoke-goodput", "igniter"),
    ]
    assert "broken is left out, it cannot be used: ModuleNotFoundError" in done.err


def test_parameters_seeds_and_starts_reach_the_rows(call: Call) -> None:
    done = call(
        "run --instances igniter-3 --schedulers bounds@igniter --param bounds.bound=3.06 --seeds 4,2 --format json"
    )
    rows = json.loads(done.out)
    assert [(row["scheduler"], row["seed"]) for row in rows] == [("bounds@igniter", 4), ("bounds@igniter", 2)]
    assert rows[0]["parameters"]["bounds"] == {"bound": 3.06}
    assert rows[0]["gap"] == pytest.approx(2 / 3)
    assert "igniter-3, bounds@igniter, seed 4" in done.err


def test_limits_are_those_given(call: Call) -> None:
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
    assert len(files) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_+@][A-Za-z0-9._+@-]*--igniter--s0--[0-9a-f]{12}\.json", f.name) for f in files)
    found = {instance.name for _, instance in map(read_plan, files) if instance is not None}
    assert found == set(names)
    for file in files:
        plan, instance = read_plan(file)
        assert instance is not None
        assert judge(plan, instance).feasible


def test_the_name_of_a_plan_file_stays_short(make_row: Callable[..., Row]) -> None:
    assert len(plan_file_name(make_row(instance="é/" * 100, scheduler="x" * 300, key="0123456789abcdef"))) < 160


# interruption


def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(call: Call, tmp_path: Path, plugin: Path) -> None:
    line = "run --instances igniter-3,igniter-12 --schedulers waits --time-limit 60 --jobs 1 --format json"
    running = started(line, tmp_path, plugin)
    assert running.stderr is not None
    assert running.stderr.readline().startswith("[1/2] igniter-3, waits")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert [row["instance"] for row in json.loads(out)] == ["igniter-3"]
    assert err.endswith("interrupted: 1 of 2 runs are in results/ledger.sqlite; the same command runs the rest\n")

    resumed = call(line.replace(",igniter-12", ""))
    assert "1 run, 1 already in the ledger" in resumed.err


# terminals and pipes


def test_a_terminal_sees_a_live_table_and_the_pipe_beside_it_the_rows_alone(tmp_path: Path, plugin: Path) -> None:
    ours, theirs = pty.openpty()
    line = "run --instances igniter-3,smoke-cost --schedulers igniter,waits --time-limit 1 --format json"
    running = started(line, tmp_path, plugin, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # Linux says that a terminal is gone by an error
        pass
    out, _ = running.communicate()
    os.close(ours)
    screen = seen.decode()
    assert running.returncode == 0
    assert len(json.loads(out)) == 4
    assert "4/4 runs" in screen
    assert re.search(r"smoke-cost, waits, seed 0 +\d s of 1 s +15\.30 \$/h", screen)
    assert "[4/4] " in screen


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_disk_is_an_error_in_one_line(tmp_path: Path, plugin: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        for line in ("schema plan", "list suites"):
            running = started(line, tmp_path, plugin, stdout=full)
            _, err = running.communicate()
            assert running.returncode == 2
            assert err == "error: standard output: cannot be written: No space left on device\n"


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path, plugin: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    for line in ("schema plan", "list suites", "list gpus --format json"):
        running = started(line, tmp_path, plugin, stdout=writer)
        _, err = running.communicate()
        assert (running.returncode, err) == (0, "")
    os.close(writer)


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    running = started("show igniter-12 -o i.json", tmp_path, plugin)
    running.communicate()
    (tmp_path / "i.json").write_text((tmp_path / "i.json").read_text().replace('"igniter-12"', '"igniter-é"'))
    running = started("show i.json", tmp_path, plugin)
    out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    assert out.isascii()
    assert r"igniter-\xe9: cost" in out


# bench show


def test_show_ranks_schedulers_by_instance_and_shows_a_run_in_full(call: Call, tmp_path: Path) -> None:
    call("run --instances igniter-3,igniter-12 --schedulers ffd+,bounds,igniter")
    board = json.loads(call("show --format json").out)
    assert [(row["instance"], row["scheduler"]) for row in board] == [
        ("igniter-12", "igniter"),
        ("igniter-12", "ffd+"),  # breaks budgets
        ("igniter-12", "bounds"),  # and costs more
        ("igniter-3", "igniter"),
        ("igniter-3", "bounds"),
        ("igniter-3", "ffd+"),
    ]
    assert board[3]["gap"] == 0.0  # no whole V100 costs as little as the bound of $1/h
    assert board[4]["gap"] == pytest.approx(2 / 3)

    key = board[4]["key"][:10]
    shown = call(f"show {key}").out
    for expected in ("command-line-plugin", "nodes=3", "≥ 1.00", "66.7 %", " W3 ", "9.18 $/h"):
        assert expected in shown
    assert json.loads(call(f"show {key} --format json").out) == board[4]

    assert call(f"show {key} --plan -o new/plan.json").code == 0
    plan, instance = read_plan(tmp_path / "new/plan.json")
    assert instance == SUITES["igniter-3"].build()[0]
    assert json.loads(call(f"show {key} --plan").out)["gpus"] == board[4]["plan"]["gpus"]
    assert plan.gpus_used == 3

    on_one = call("show igniter-12").out
    assert "W12" in on_one
    assert re.search(r"igniter-12 +igniter +feasible", on_one)


def test_show_refuses_an_ambiguous_or_unknown_key(call: Call) -> None:
    call("run --instances igniter-3 --schedulers igniter")
    done = call("show 0000000000")
    assert (done.code, done.out) == (2, "")
    assert 'no run has a key that starts with "0000000000"' in done.err


def test_leaders_prefer_feasible_then_better_then_faster(make_row: Callable[..., Row]) -> None:
    slow = make_row(key="a", value=4.0, feasible=True, decision_s=2.0)
    fast = replace(slow, key="b", decision_s=1.0)
    cheap_but_broken = replace(slow, key="c", value=1.0, feasible=False)
    nothing = replace(slow, key="d", value=None, feasible=None)
    assert [row.key for row in leaders([nothing, cheap_but_broken, slow, fast])] == ["b"]
    assert [row.key for row in leaders([nothing, cheap_but_broken])] == ["c"]
    more = replace(slow, objective="throughput", throughput_of="goodput", instance_hash="other")
    assert [row.value for row in leaders([more, replace(more, key="e", value=5.0)])] == [5.0]


def test_lists_of_schedulers_tell_of_broken_ones(call: Call) -> None:
    listed = {entry["name"]: entry for entry in json.loads(call("list schedulers --format json").out)}
    assert listed["igniter"]["objectives"] == ["capacity", "cost", "goodput"]
    assert listed["bounds"]["parameters"] == [{"name": "bound", "type": "float", "default": 1.0, "required": False}]
    assert (listed["bounds"]["distribution"], listed["bounds"]["version"]) == ("command-line-plugin", "2.5")
    assert listed["fails"]["description"] == "Fails [bold]at once[/bold]."
    assert listed["broken"]["error"].startswith("ModuleNotFoundError: ")
    shown = call("list schedulers").out
    assert "Fails [bold]at once[/bold]." in shown
    assert "broken cannot be used: ModuleNotFoundError" in shown


# bench figures


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    (folder / "drawn.txt").write_text("\n".join(f"{row.instance} {row.scheduler}" for row in rows))
    return [folder / "drawn.txt"]


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = (Need("igniter-12", ("igniter",), quick="igniter-3"), Need("igniter-3", ("ffd+",)))
    figure = Figure("plain", "title", "paper", "shows", "look", "two seconds", needs, draw)
    monkeypatch.setattr("reports.figures.figure_names", lambda: ["plain"])
    monkeypatch.setattr("reports.figures.figure", lambda name, where: figure)


@pytest.mark.usefixtures("one_figure")
def test_figures_run_what_the_ledger_lacks_and_draw(call: Call, tmp_path: Path) -> None:
    refused = call("figures --no-run")
    assert (refused.code, refused.out) == (2, "")
    assert "results/ledger.sqlite lacks 2 runs: igniter on igniter-12, ffd+ on igniter-3" in refused.err
    assert not (tmp_path / "results").exists()

    call("run --instances igniter-3 --schedulers bounds")
    done = call("figures --out new/figures")
    assert (done.code, done.out) == (0, "new/figures/drawn.txt\n")
    assert "plain: two seconds\n2 runs to make, " in done.err
    drawn = (tmp_path / "new/figures/drawn.txt").read_text().splitlines()
    assert drawn == ["igniter-3 bounds", "igniter-12 igniter", "igniter-3 ffd+"]

    again = call("figures plain --no-run --out new/figures")
    assert again.code == 0
    assert "every run is in the ledger" in again.err


@pytest.mark.usefixtures("one_figure")
def test_quick_figures_use_smaller_instances(call: Call, tmp_path: Path) -> None:
    assert call("figures --quick --out f").code == 0
    assert (tmp_path / "f/drawn.txt").read_text().splitlines() == ["igniter-3 igniter", "igniter-3 ffd+"]


# progress


def test_the_time_left_is_estimated_from_each_schedulers_own_runs(
    make_task: Callable[..., Any], make_row: Callable[..., Row]
) -> None:
    tasks = [make_task(name, seed=seed) for name in ("Base", "Honest") for seed in range(3)]
    progress = Progress(tasks, jobs=2)
    assert progress.eta_s() is None
    progress.skipped(tasks[1], make_row(wall_s=99.0))
    assert progress.eta_s() is None
    progress.finished(tasks[0], make_row(wall_s=2.0))
    progress.finished(tasks[3], make_row(wall_s=10.0))
    assert progress.eta_s() == pytest.approx((2.0 + 2 * 10.0) / 2)
    assert progress.reused == 1


@pytest.mark.parametrize(
    ("jobs", "threads", "expected", "told"),
    [
        (None, 1, 4, ""),
        (None, 3, 1, ""),
        (2, 2, 2, ""),
        (3, 2, 2, "--jobs 3: 2 at a time, since 4 cores take no more runs of --threads 2"),
        (None, 5, 1, "--threads 5: there are 4 cores, so that times will be longer than they should be"),
    ],
)
def test_runs_do_not_share_cores(
    jobs: int | None, threads: int, expected: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "usable_cores", lambda: 4)
    assert fitting_jobs(jobs, threads) == (expected, told)
