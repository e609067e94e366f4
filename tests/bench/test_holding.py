"""The test whether a plan holds: worked by hand on series, and through ``bench simulate --check``."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.api import Run
from bench.cli.app import main
from bench.holding import BLOCK_S, SEEDS, holding_of
from bench.simulation.result import Series
from heuristics.baselines.local_search import LocalSearch
from instances import Application, Instance, SloRule
from instances.files import plan_to_json
from instances.suites import suite

SECONDS = 300


def series(*missed: float, noise: float = 0.0, burst: float = 0.0) -> list[Series]:
    """Ten simulations: 1,000 requests a second for each workload, and the fraction of them that is missed."""
    random, found = np.random.default_rng(0), []
    for _ in range(SEEDS):
        arrived = np.full((SECONDS, len(missed)), 1000)
        part = np.array(missed) * (1.0 + noise * random.standard_normal(arrived.shape))
        if burst:  # all of a simulation's misses in one block
            part = np.zeros(arrived.shape)
            part[:BLOCK_S] = np.array(missed) * SECONDS / BLOCK_S * random.uniform(1 - burst, 1 + burst)
        lost = np.rint(arrived * part).astype(np.int64)
        found.append(Series(tuple("abc"[: len(missed)]), arrived, arrived - lost, 0 * lost, lost))
    return found


def test_a_plan_holds_at_the_target_and_not_clearly_below() -> None:
    at_target, below = (holding_of(series(part, 0.002, noise=0.5), 0.99) for part in (0.01, 0.011))

    assert at_target.holds
    assert at_target.requests == 2 * SEEDS * SECONDS * 1000
    assert not below.holds
    assert [one.workload for one in below.late] == ["a"]
    assert below.late[0].attainment == pytest.approx(0.989, abs=1e-4)
    assert below.attainment == pytest.approx(1.0 - (0.011 + 0.002) / 2, abs=1e-4)


def test_misses_in_clusters_are_weaker_evidence() -> None:
    steady, clustered = (holding_of(series(0.011, **more), 0.99) for more in ({"noise": 0.5}, {"burst": 0.9}))

    assert not steady.holds
    assert clustered.holds
    assert clustered.workloads[0].standard_error > 20 * steady.workloads[0].standard_error


def test_the_pooled_attainment_counts_too() -> None:
    found = holding_of(series(0.012, 0.012, burst=0.9), 0.99)

    assert not found.late
    assert not found.holds


def test_workloads_without_requests_are_not_tested() -> None:
    one, *_ = series(0.0, 0.0)
    silent = replace(one, arrived=one.arrived * [1, 0], in_time=one.in_time * [1, 0])

    assert [each.workload for each in holding_of([silent] * SEEDS, 0.99).workloads] == ["a"]


def written(folder: Path, problem: Instance) -> Path:
    """A plan file of local search for a problem, with the instance in it."""
    plan = LocalSearch(rounds=0).schedule(problem, Run()).plan
    assert plan is not None
    file = folder / "plan.json"
    file.write_text(json.dumps(plan_to_json(plan, problem)))
    return file


(TWELVE,) = suite("igniter-12").build()


def test_a_plan_under_the_rule_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = written(tmp_path, replace(TWELVE, slo_rule=SloRule.ATTAINMENT))

    assert main(["simulate", str(plan), "--check"]) == 0
    out = capsys.readouterr().out
    assert "holds: yes\n  no workload serves less than 99 % of its requests in time" in out
    assert "late workload" not in out


def test_a_plan_of_the_paper_does_not_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = written(tmp_path, TWELVE)

    assert main(["simulate", str(plan), "--check"]) == 1
    out = capsys.readouterr().out
    assert "holds: no, " in out
    assert "late workload" in out
    assert main(["simulate", str(plan), "--check", "--format", "json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert not values["holds"]
    assert values["late"] == sum(one["late"] for one in values["workloads"]) > 5


def test_what_the_check_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = written(tmp_path, TWELVE)

    assert main(["simulate", str(plan), "--check", "--seconds", "10"]) == 2
    assert "--check: has its own durations" in capsys.readouterr().err
    stages = (TWELVE.workloads[0].id, TWELVE.workloads[1].id)
    plan = written(tmp_path, replace(TWELVE, applications=(Application("app", stages, (stages,), 60.0),)))
    assert main(["simulate", str(plan), "--check"]) == 2
    assert "has applications" in capsys.readouterr().err
