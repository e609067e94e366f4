"""``bench simulate``: tables, JSON, series, and errors."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli.app import main

Simulate = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """iGniter's plan for three workloads on one GPU."""
    folder = tmp_path_factory.mktemp("plans")
    options = ["--ledger", str(folder / "ledger.sqlite"), "--plans", str(folder), "--simulate", "off"]
    assert main(["run", "--instances", "igniter-3", "--schedulers", "igniter", *options]) == 0
    return next(folder.glob("*.json"))


@pytest.fixture
def simulate(plan: Path, capsys: pytest.CaptureFixture[str]) -> Simulate:
    def call(*options: str) -> tuple[int, str, str]:
        code = main(["simulate", str(plan), "--seconds", "5", *options])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def simulated_values(simulate: Simulate, *options: str) -> dict[str, Any]:
    code, out, _ = simulate("--format", "json", *options)
    assert code == 0
    values: dict[str, Any] = json.loads(out)
    return values


def test_json_has_counts_and_percentiles_of_every_workload(simulate: Simulate) -> None:
    values = simulated_values(simulate)

    assert values["requests"] == sum(workload["requests"] for workload in values["workloads"])
    assert values["wall_s"] > 0.0
    for workload in values["workloads"]:
        assert (
            0.0
            < workload["p50_ms"]
            <= workload["p90_ms"]
            <= workload["p95_ms"]
            <= workload["p99_ms"]
            <= workload["max_ms"]
        )
        assert workload["goodput_rps"] <= workload["throughput_rps"]
        assert workload["drop_rate"] <= workload["violation_rate"]


def test_constant_arrivals_are_never_late_under_a_feasible_plan(simulate: Simulate) -> None:
    values = simulated_values(simulate, "--arrivals", "constant")

    assert [workload["id"] for workload in values["workloads"]] == ["W1", "W2", "W3"]
    assert [workload["requests"] for workload in values["workloads"]] == [2500, 2000, 1000]
    assert values["violation_rate"] == 0.0


def test_results_depend_on_the_seed_alone(simulate: Simulate) -> None:
    first, repeated, other = (simulated_values(simulate, "--seed", seed) for seed in ("1", "1", "2"))

    assert first["workloads"] == repeated["workloads"]
    assert first["workloads"] != other["workloads"]


def test_burstier_arrivals_and_noise_make_more_requests_late(simulate: Simulate) -> None:
    poisson = simulated_values(simulate)["violation_rate"]

    assert simulated_values(simulate, "--arrivals", "gamma:4")["violation_rate"] > poisson
    assert simulated_values(simulate, "--noise", "0.5")["violation_rate"] > poisson
    assert simulated_values(simulate, "--truth", "hybrid")["violation_rate"] != poisson


def test_a_trace_is_scaled_to_the_rates(simulate: Simulate, tmp_path: Path) -> None:
    trace = tmp_path / "rates.csv"
    trace.write_text("rps\n10\n30\n")
    values = simulated_values(simulate, "--arrivals", str(trace), "--seconds", "20", "--warmup", "0")

    for workload, rate in zip(values["workloads"], (500.0, 400.0, 200.0), strict=True):
        assert workload["requests"] / 20.0 == pytest.approx(rate, rel=0.05)


def test_the_series_adds_up_to_the_totals(simulate: Simulate, tmp_path: Path) -> None:
    file = tmp_path / "out" / "seconds.csv"
    values = simulated_values(simulate, "--series", str(file))
    rows = list(csv.DictReader(file.read_text().splitlines()))

    assert {int(row["second"]) for row in rows} == set(range(5))
    for workload in values["workloads"]:
        of_workload = [row for row in rows if row["workload"] == workload["id"]]
        assert sum(int(row["arrived"]) for row in of_workload) == workload["requests"]
        assert sum(int(row["late"]) for row in of_workload) == workload["late"]
        assert sum(int(row["dropped"]) for row in of_workload) == workload["dropped"]
        for row in of_workload:
            assert int(row["arrived"]) >= int(row["in_time"]) + int(row["late"]) + int(row["dropped"])


def test_the_table_has_every_workload_and_the_totals(simulate: Simulate) -> None:
    code, out, _ = simulate()

    assert code == 0
    for word in ("W1", "W2", "W3", "15 ms", "500.0", "worst P99", "poisson"):
        assert word in out


def test_one_short_run_is_no_verdict(simulate: Simulate) -> None:
    """Workloads above the permitted fraction are named, but whether the plan holds is unchecked."""
    values = simulated_values(simulate, "--arrivals", "gamma:4")
    _, out, _ = simulate("--arrivals", "gamma:4")

    late = sum(workload["late"] + workload["dropped"] + workload["unfinished"] for workload in values["workloads"])
    assert values["violating"] > 0
    assert f"{values['violating']} of 3 with more than 1 % of the requests not in time" in out
    assert f"holds on servers that drop late requests: unchecked, {late:,} late in 5 s; bench simulate" in out
    assert "✗" not in out
    assert out.count("> 1 %") == values["violating"]
    assert "holds on servers that drop no requests: unchecked" in simulate("--no-drop")[1]


def test_a_load_above_1_is_a_verdict_without_a_check(simulate: Simulate) -> None:
    """On GPUs that are up to 90 % slower, the servers cannot serve all requests, whatever a short run shows."""
    code, out, _ = simulate("--truth", "igniter", "--error", "0.9", "--seed", "3", "--seconds", "1")

    assert code == 0
    assert re.search(r"holds on servers that drop late requests: no, load 1\.\d\d: W\d\n", out)
    overloads = simulated_values(simulate, "--truth", "igniter", "--error", "0.9", "--seed", "3")["overloads"]
    assert overloads[0]["load"] > 1.01
    assert overloads[0]["missed"] == pytest.approx(1.0 - 1.0 / overloads[0]["load"])


def test_without_requests_there_is_no_tick(simulate: Simulate) -> None:
    code, out, _ = simulate("--seconds", "0.0001")

    assert code == 0
    assert "no requests arrived for W1, W2, W3" in out
    assert "✓" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arrivals", "poison"], 'did you mean "poisson"?'),
        (["--arrivals", "gamma:x"], "burstiness"),
        (["--arrivals", "gamma:-1"], "burstiness"),
        (["--arrivals", "none.csv"], "no such file"),
        (["--seconds", "0"], "seconds"),
        (["--seconds", "nan"], "seconds"),
        (["--seconds", "1e300"], "seconds"),
        (["--seconds", "1e6", "--series", "never-written.csv"], "at most 86,400 s with a series"),
        (["--warmup", "1e300"], "--warmup"),
        (["--warmup", "-1"], "--warmup"),
        (["--noise", "-1"], "noise"),
        (["--interference", "dynamite"], 'did you mean "dynamic"?'),
        (["--truth", "igniters"], 'did you mean "igniter"?'),
        (["--error", "2"], "error"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(simulate: Simulate, options: list[str], message: str) -> None:
    code, out, err = simulate(*options)

    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("rps\n1\n-2\n", "line 3: -2 req/s"),
        ("1\nnan\n", "line 2: nan req/s"),
        ("1e308\n1e308\n", "line 1: 1e308 req/s"),
        ("1\ninf\n", "line 2: inf req/s"),
        ("1\ntwo\n", 'line 2: "two" is not a number'),
        ("", "holds no rate above 0"),
        ("0\n0\n", "holds no rate above 0"),
        ("rps\n", "holds no rate above 0"),
    ],
)
def test_bad_traces_are_refused_with_the_line(simulate: Simulate, tmp_path: Path, content: str, message: str) -> None:
    trace = tmp_path / "rates.csv"
    trace.write_text(content)
    code, _, err = simulate("--arrivals", str(trace))

    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_plan_for_another_instance_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(plan), "igniter-12"]) == 2
    assert 'made for "igniter-3"' in capsys.readouterr().err


def test_strict_makes_a_late_workload_exit_code_1(simulate: Simulate) -> None:
    assert simulate("--arrivals", "constant", "--strict")[0] == 0
    assert simulate("--arrivals", "gamma:5", "--no-drop")[0] == 0
    assert simulate("--arrivals", "gamma:5", "--no-drop", "--strict")[0] == 1
