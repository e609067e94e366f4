"""``bench simulate --check``: verdicts on plans, printed lines, and errors."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.api import Run
from bench.cli.app import main
from bench.plan_simulation import Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from bench.simulation.trace import read_rate_trace
from heuristics.baselines.local_search import LocalSearch
from heuristics.igniter.igniter import IGniter
from instances import Application, Instance, Plan, SloRule, spatial_gpu
from instances.files import plan_to_json, read_plan
from instances.suites import suite

(TWELVE,) = suite("igniter-12").build()
(THREE,) = suite("igniter-3").build()
CASES = Path(__file__).parents[2] / "fixtures" / "holds"

Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    def call(plan: Path, *options: str) -> tuple[int, str, str]:
        code = main(["simulate", str(plan), *options, "--check"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def write_plan(folder: Path, plan: Plan | None, problem: Instance) -> Path:
    """Write a plan file with the instance in it, and return its path."""
    assert plan is not None
    file = folder / "plan.json"
    file.write_text(json.dumps(plan_to_json(plan, problem)))
    return file


def write_local_search_plan(folder: Path, problem: Instance) -> Path:
    return write_plan(folder, LocalSearch(rounds=0).schedule(problem, Run()).plan, problem)


def test_a_plan_under_the_attainment_rule_holds(tmp_path: Path, check: Check) -> None:
    plan = write_local_search_plan(tmp_path, replace(TWELVE, slo_rule=SloRule.ATTAINMENT))
    code, out, _ = check(plan)

    assert code == 0
    assert "10 x 300 s of poisson arrivals, servers that drop late requests" in out
    assert "holds on servers that drop late requests: yes\n  no workload serves less than 99 % of its requests" in out
    assert "% of its requests would be found late by 95 % of such tests" in out
    assert "late workload" not in out


def test_a_plan_under_igniters_rule_does_not_hold(tmp_path: Path, check: Check) -> None:
    plan = write_local_search_plan(tmp_path, TWELVE)
    code, out, _ = check(plan, "--seconds", "30")

    assert code == 1
    assert "holds on servers that drop late requests: no, " in out
    assert "late workload" in out
    code, out, _ = check(plan, "--seconds", "30", "--format", "json")
    values = json.loads(out)
    assert code == 1
    assert values["holds"] is False
    assert values["dropping"] is True
    assert values["late"] == sum(one["late"] for one in values["workloads"]) > 5


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("llm", "no, 1 late\n  1 of 2 workloads serve less than 99 %", id="decoding settles slowly"),
        pytest.param("llm27", "no, 1 late\n  1 of 2 workloads serve less than 99 %", id="requests decode for 20 s"),
        pytest.param("slow", "no, 1 late\n  1 of 1 workloads serve less than 99 %", id="SLO of a minute"),
    ],
)
def test_slow_services_are_measured_in_the_steady_state(name: str, says: str, check: Check) -> None:
    code, out, _ = check(CASES / f"{name}plan.json", str(CASES / f"{name}.json"))

    assert code == 1
    assert says in out
    assert ("load of 1 or more: w 1.18" in out) == (name == "slow")


def test_the_whole_trace_is_simulated(tmp_path: Path, check: Check) -> None:
    """The first half of the trace has a fifth of the rate, the second half nearly twice the rate."""
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["0.2"] * 310 + ["1.8"] * 310))
    problem = replace(THREE, slo_rule=SloRule.ATTAINMENT)
    plan = write_plan(tmp_path, IGniter().schedule(problem, Run()).plan, problem)

    assert check(plan)[0] == 0
    code, out, _ = check(plan, "--arrivals", str(trace))
    assert code == 1
    assert "10 x 620 s of trace.csv arrivals" in out
    assert "3 of 3 workloads serve less than 99 %" in out


@pytest.mark.soak
def test_the_whole_trace_is_simulated_for_twelve_workloads(tmp_path: Path, check: Check) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["0.2"] * 310 + ["1.8"] * 310))
    problem = replace(TWELVE, slo_rule=SloRule.ATTAINMENT)
    plan = write_plan(tmp_path, IGniter().schedule(problem, Run()).plan, problem)
    code, out, _ = check(plan, "--arrivals", str(trace), "--format", "json")
    arrivals = Arrivals(Process.TRACE, trace=read_rate_trace(trace))
    once = simulate(read_plan(plan)[0], problem, Settings(arrivals, seconds=620.0, warmup_s=0.0))

    values = json.loads(out)
    assert code == 1
    assert values["late"] == 12
    assert once.violation_rate > 0.15
    assert values["attainment"] == pytest.approx(1.0 - once.violation_rate, abs=0.005)


def test_seconds_and_dropping_are_options_of_the_check(tmp_path: Path, check: Check) -> None:
    plan = write_local_search_plan(tmp_path, THREE)
    code, out, _ = check(plan, "--seconds", "20", "--no-drop", "--format", "json")
    values = json.loads(out)

    assert code in (0, 1)
    assert values["dropping"] is False
    assert {one["seconds"] for one in values["workloads"]} == {200.0}
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(map(str, np.linspace(0.5, 1.5, 100))))
    values = json.loads(check(plan, "--seconds", "5", "--arrivals", str(trace), "--format", "json")[1])
    assert {one["seconds"] for one in values["workloads"]} == {50.0}
    assert values["workloads"][0]["requests"] == pytest.approx(500 * 50, rel=0.1)


@pytest.mark.parametrize(("dropping", "options"), [(True, ["--no-drop"]), (False, [])], ids=["option", "instance"])
def test_a_plan_can_hold_only_because_its_servers_drop_requests(
    dropping: bool, options: list[str], tmp_path: Path, check: Check
) -> None:
    """VGG-19 at a load of 0.92: servers that drop late requests drop 0.3 %; on others, 3 % are late."""
    workload = replace(TWELVE.workloads[6], slo_ms=60.0, rate_rps=500.0)
    problem = replace(TWELVE, name="one", slo_rule=SloRule.ATTAINMENT, workloads=(workload,), dropping=dropping)
    plan = write_plan(tmp_path, Plan("one", (spatial_gpu("v100", [(workload.id, 40, 8, 500.0)]),)), problem)

    code, out, _ = check(plan, *options)
    assert code == 1
    assert "holds on servers that drop no requests: no, 1 late" in out
    assert check(plan, "--drop")[0] == 0


def test_a_rare_workload_is_simulated_for_longer(tmp_path: Path, check: Check) -> None:
    """At 2 req/s, 10 x 300 s have 6,000 requests: too few to tell whether 1.5 % are late, unlike ten times as many."""
    workload = replace(TWELVE.workloads[6], slo_ms=60.0, rate_rps=2.0)
    problem = replace(TWELVE, name="one", slo_rule=SloRule.ATTAINMENT, workloads=(workload,))
    plan = write_plan(tmp_path, Plan("one", (spatial_gpu("v100", [(workload.id, 10, 1, 2.0)]),)), problem)

    code, out, _ = check(plan, "--format", "json")
    values = json.loads(out)
    assert (code, values["holds"]) == (0, True)
    assert values["requests"] > 50_000
    assert 0.01 < values["detectable"] <= 0.015
    code, out, _ = check(plan)
    assert "10 x 300 to " in out
    code, out, _ = check(plan, "--seconds", "300")
    assert code == 1
    assert "holds on servers that drop late requests: the test cannot tell" in out
    assert f"it would find these late only if they missed more than {workload.id} " in out


def test_a_check_that_reaches_its_limit_is_unclear(
    tmp_path: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.holding.check.MOST_FURTHER_REQUESTS", 10_000)
    workload = replace(TWELVE.workloads[6], slo_ms=60.0, rate_rps=2.0)
    problem = replace(TWELVE, name="one", slo_rule=SloRule.ATTAINMENT, workloads=(workload,))
    plan = write_plan(tmp_path, Plan("one", (spatial_gpu("v100", [(workload.id, 10, 1, 2.0)]),)), problem)
    code, out, _ = check(plan, "--format", "json")

    assert code == 1
    assert json.loads(out)["holds"] is None
    assert json.loads(out)["unclear"] == 1


def test_options_and_applications_that_the_check_does_not_support_are_refused(tmp_path: Path, check: Check) -> None:
    plan = write_local_search_plan(tmp_path, TWELVE)

    for option in (["--warmup", "10"], ["--seed", "1"], ["--noise", "0.1"], ["--interference", "static"]):
        code, _, error = check(plan, *option)
        assert code == 2
        assert "--check: has its own warm-up, seeds and settings" in error
    stages = (TWELVE.workloads[0].id, TWELVE.workloads[1].id)
    plan = write_local_search_plan(
        tmp_path, replace(TWELVE, applications=(Application("app", stages, (stages,), 60.0),))
    )
    code, _, error = check(plan)
    assert code == 2
    assert "has applications" in error
