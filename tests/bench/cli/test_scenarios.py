"""Scenario sets on the command line: a row and a line per scheduler, and single scenarios as instances."""

import json
import re
from collections.abc import Callable

import pytest
from conftest import Call, Called

from bench.cli.app import main
from bench.cli.commands.show import leaders
from bench.cli.views.progress import Progress
from bench.ledger.row import Row
from bench.scenarios import unpack
from bench.task import Stage, Task
from instances import ScenarioSet
from instances.suites import SCENARIO_SUITES

COUNTS = {"count": 8, "decided": 8, "accepted": 5, "served": 3, "decision_median_s": 0.001, "decision_max_s": 0.5}


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Run the command line in a folder that all tests of this file share, so the 1,023 scenarios run once."""
    patch = pytest.MonkeyPatch()
    patch.chdir(tmp_path_factory.mktemp("sets"))

    def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Called:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Called(code, printed.out, printed.err)

    yield run
    patch.undo()


RUN = ("run", "--instances", "gpulet-1023", "--schedulers", "greedy-best-fit")


def test_a_set_is_one_line_with_counts(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, *RUN)
    assert done.code == 0
    parameters = "margins=printed, interference=false"
    counts = r"1,023 +(\d+) +(\d+) ✗ .*s  .*ms  .*ms +\w{8}\n"
    line = f"gpulet-1023 +greedy-best-fit +{parameters} +finished +{counts}"
    (accepted, served), *others = re.findall(line, done.out)
    assert not others
    assert int(served) < int(accepted) < 1023
    assert (
        f"[1/1] gpulet-1023, greedy-best-fit, seed 0: finished, {accepted} of 1,023 schedulable, {served}" in done.err
    )


def test_the_row_says_which_scenarios_are_accepted_and_served(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(call(capsys, *RUN, "--format", "json").out)
    scenarios = row["scenarios"]
    accepted, served = (unpack(scenarios[f"{what}_bits"], scenarios["count"]) for what in ("accepted", "served"))
    assert (accepted.sum(), served.sum()) == (scenarios["accepted"], scenarios["served"])
    assert not (served & ~accepted).any()
    assert (row["objective"], row["value"], row["gap"]) == ("scenarios", served.sum(), None)


def test_options_of_the_simulation_do_not_change_the_key_of_a_set(
    call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, *RUN, "--simulate", "on")
    assert "1 run, 1 already in the ledger" in call(capsys, *RUN, "--simulate", "off").err


def test_another_parameter_makes_another_row(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, *RUN, "--param", "greedy-best-fit.interference=yes")
    shown = call(capsys, "show", "gpulet-1023")
    assert "1,023 scenarios with different rates" in shown.out
    assert re.findall(r"greedy-best-fit +margins=printed, +(\S+) ", shown.out) == [
        "interference=true",
        "interference=false",
    ]
    assert re.findall("[✓✗]", shown.out) == ["✓", "✗"]


def test_a_scenario_is_an_instance(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(
        call(capsys, "run", "--instances", "gpulet-1023#7", "--schedulers", "ideal", "--format", "json").out
    )
    scenario = SCENARIO_SUITES["gpulet-1023"].build().scenario(7)
    assert (row["instance"], row["instance_hash"]) == ("gpulet-1023#7", scenario.fingerprint)
    assert row["plan"]["instance"] == "gpulet-1023#7"
    assert f", {len(scenario.workloads)} workloads" in call(capsys, "show", "gpulet-1023#7").out


def test_show_prints_rows_and_sets_in_full(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = json.loads(call(capsys, *RUN, "--format", "json").out)
    shown = call(capsys, "show", row["key"][:12])
    assert shown.code == 0
    assert f"{row['scenarios']['accepted']} of 1,023 schedulable, " in shown.out
    assert f"{row['scenarios']['served']} of these keep their SLOs" in shown.out
    assert json.loads(call(capsys, "show", "gpulet-1023", "--format", "json").out)["scenarios"] == 1023


def test_sets_are_listed(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {entry["name"]: entry for entry in json.loads(call(capsys, "list", "instances", "--format", "json").out)}
    assert {name: entry["scenarios"] for name, entry in listed.items() if entry["scenarios"]} == {
        "gpulet-1023": 1023,
        "gpulet-19682": 19682,
        "gpulet-93": 93,
        "gpulet-1790": 1790,
    }
    assert listed["gpulet-19682"]["objective"] == "scenarios"
    suites = json.loads(call(capsys, "list", "suites", "--format", "json").out)
    assert {"gpulet-1023", "gpulet-19682"} <= {entry["name"] for entry in suites}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("run --instances gpulet-1022 --schedulers sbp", 'did you mean "gpulet-1023"?'),
        ("run --instances gpulet-1023#1023 --schedulers sbp", 'unknown suite, instance or file "gpulet-1023#1023"'),
        ("show gpulet-1023 -o set.json", '--output: "gpulet-1023" is a scenario set; expected one instance'),
    ],
)
def test_wrong_names_are_one_line(call: Call, capsys: pytest.CaptureFixture[str], line: str, problem: str) -> None:
    done = call(capsys, *line.split())
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert done.err.count("\n") == 1


def test_the_leaderboard_has_each_variant_of_a_scheduler_by_scenarios_served(make_row: Callable[..., Row]) -> None:
    def on_set(key: str, value: float, interference: bool) -> Row:
        values = {"objective": "scenarios", "value": value, "feasible": True, "scenarios": COUNTS}
        return make_row(key=key, parameters={"s": {"interference": interference}}, **values)

    rows = [on_set("a", 3.0, True), on_set("b", 5.0, False), on_set("c", 4.0, True)]
    assert [row.key for row in leaders(rows)] == ["b", "c"]


def test_progress_estimates_the_time_left_for_a_set(
    make_row: Callable[..., Row], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenarios = SCENARIO_SUITES["gpulet-1023"].build()
    first_hundred = ScenarioSet(scenarios.base, scenarios.rates_rps[:100])
    task = Task(first_hundred.base, (Stage("s", "nowhere:S"),), scenarios=first_hundred)
    now = [100.0]
    monkeypatch.setattr("bench.cli.views.progress.time.monotonic", lambda: now[0])
    progress = Progress([task], 2)
    progress.advanced(task, 10)
    assert progress.eta_s() is None
    now[0] += 20.0
    progress.advanced(task, 30)
    assert progress.eta_s() == pytest.approx(70.0)
    assert capsys.readouterr().err == "gpulet-1023, s: 30 of 100 scenarios, about 01:10 left\n"
    progress.advanced(task, 40)
    assert capsys.readouterr().err == ""
    progress.finished(task, make_row(key=task.key, instance="gpulet-1023", objective="scenarios", scenarios=COUNTS))
    assert "gpulet-1023, s, seed 0: finished, 5 of 8 schedulable, 3 of these keep their SLOs" in capsys.readouterr().err
