"""``bench compare``: its tables, regressions and exit codes."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Call

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import Instance
from instances.suites import suite

INSTANCES: tuple[Instance, ...] = suite("exact-scaling").build()[:8]


@pytest.fixture
def store(tmp_path: Path, make_row: Callable[..., Row]) -> Callable[..., None]:
    """Write a ledger with a row per cost, each on another instance; ``None`` is a crash."""

    def write(name: str, scheduler: str, costs: list[float | None]) -> None:
        with Ledger(tmp_path / name, create=True) as ledger:
            for instance, cost in zip(INSTANCES, costs, strict=False):
                row = make_row(
                    key=f"{name}-{scheduler}-{instance.name}",
                    instance=instance.name,
                    instance_hash=instance.fingerprint,
                    scheduler=scheduler,
                    parameters={scheduler: {}},
                    decision_s=0.5,
                )
                solved = {"value": cost, "feasible": True, "bound": 6.0, "bound_certified": True}
                failed = {"termination": "crashed", "status": "unknown"}
                ledger.add(replace(row, **(failed if cost is None else solved)), instance)  # type: ignore[arg-type]

    return write


def test_equal_ledgers_are_no_regression(call: Call, store: Callable[..., None]) -> None:
    store("a.sqlite", "igniter", [6.0, 7.0])
    store("b.sqlite", "igniter", [6.0, 7.0])
    done = call("compare", "a.sqlite", "b.sqlite", "--strict", "--fail-on", "feasible,value,gap,decision")
    assert (done.code, done.err) == (0, "")
    assert re.search(r"igniter +6\.00 \$/h +6\.00 \$/h +=", done.out)


def test_percentages_say_which_side_is_better(call: Call, store: Callable[..., None]) -> None:
    store("l.sqlite", "igniter", [10.0, 8.0, 6.0])
    store("l.sqlite", "ffd+", [8.0, 10.0, None])
    lines = call("compare", "igniter", "ffd+", "--ledger", "l.sqlite", "--fail-on", "nothing").out.splitlines()
    for instance, words in zip(INSTANCES, ("B 20 % cheaper", "A 20 % cheaper", "A 100 % cheaper"), strict=False):
        (line,) = (line for line in lines if line.startswith(instance.name))
        assert words in line
    assert not any(re.search(r"[+-]\d", line) for line in lines if not line.startswith("exact"))


def test_seeds_share_a_line_unless_each_seed_is_asked_for(
    call: Call, store: Callable[..., None], tmp_path: Path
) -> None:
    store("l.sqlite", "igniter", [10.0])
    store("l.sqlite", "ffd+", [8.0])
    with Ledger(tmp_path / "l.sqlite") as ledger:
        for row in ledger.rows():
            second_seed = {"key": f"{row.key}-1", "seed": 1, "value": 12.0 if row.scheduler == "igniter" else 8.0}
            ledger.add(replace(row, **second_seed), INSTANCES[0])
    line = ("compare", "igniter", "ffd+", "--ledger", "l.sqlite")
    by_instance = call(*line).out
    assert re.search(r" 2 +10\.00–12\.00 \$/h +8\.00 \$/h +B 2 +", by_instance)
    by_seed = call(*line, "--each-seed").out
    assert "B 20 % cheaper" in by_seed
    assert "B 33 % cheaper" in by_seed


def test_a_significant_regression_fails_and_an_improvement_does_not(call: Call, store: Callable[..., None]) -> None:
    store("a.sqlite", "igniter", [6.0] * 8)
    store("b.sqlite", "igniter", [6.1, 6.2, 6.3, 6.4, 6.5, 6.6, 6.7, 6.8])
    worse = call("compare", "a.sqlite", "b.sqlite")
    assert worse.code == 1
    assert "regression: igniter: value is worse on 8 of 8 instances (p = 0.016)\n" in worse.err
    assert call("compare", "b.sqlite", "a.sqlite").code == 0
    assert call("compare", "a.sqlite", "b.sqlite", "--alpha", "0.001").code == 0
    assert call("compare", "a.sqlite", "b.sqlite", "--fail-on", "feasible").code == 0
    assert call("compare", "a.sqlite", "b.sqlite", "--fail-on", "nothing").code == 0


def test_one_worse_instance_fails_only_with_strict(call: Call, store: Callable[..., None]) -> None:
    store("a.sqlite", "igniter", [6.0, 7.0])
    store("b.sqlite", "igniter", [6.0, 7.5])
    assert call("compare", "a.sqlite", "b.sqlite").code == 0
    strict = call("compare", "a.sqlite", "b.sqlite", "--strict")
    assert strict.code == 1
    assert "value is worse on 1 of 2 instances" in strict.err


def test_one_lost_plan_fails(call: Call, store: Callable[..., None]) -> None:
    store("a.sqlite", "igniter", [6.0, 7.0])
    store("b.sqlite", "igniter", [6.0, None])
    lost = call("compare", "a.sqlite", "b.sqlite")
    assert lost.code == 1
    assert lost.err == f"regression: igniter on {INSTANCES[1].name}, seed 0: B has no feasible plan (crashed)\n"
    assert call("compare", "b.sqlite", "a.sqlite").code == 0
    assert call("compare", "a.sqlite", "b.sqlite", "--fail-on", "value").code == 0


def test_two_schedulers_in_one_ledger_as_json(call: Call, store: Callable[..., None]) -> None:
    store("l.sqlite", "igniter", [6.0, 8.0, 7.0])
    store("l.sqlite", "ffd+", [6.0, 6.0])
    done = call("compare", "igniter", "ffd+", "--ledger", "l.sqlite", "--format", "json")
    report = json.loads(done.out)
    assert done.code == 0
    assert done.err == "igniter: 1 run is left out, repeated or without a counterpart\n"
    assert (report["a"], report["b"], report["regressions"]) == ("igniter", "ffd+", [])
    first, second = report["pairs"]
    assert second == {
        "instance": INSTANCES[1].name,
        "seed": 0,
        "key_a": f"l.sqlite-igniter-{INSTANCES[1].name}",
        "key_b": f"l.sqlite-ffd+-{INSTANCES[1].name}",
        "scheduler_a": "igniter",
        "scheduler_b": "ffd+",
        "feasible_a": True,
        "feasible_b": True,
        "value_a": 8.0,
        "value_b": 6.0,
        "gap_a": None,
        "gap_b": None,
        "decision_s_a": 0.5,
        "decision_s_b": 0.5,
        "verdicts": {"value": "better", "gap": None, "decision": "equal"},
    }
    assert first["verdicts"]["value"] == "equal"
    value = next(test for test in report["tests"] if test["measure"] == "value")
    assert (value["scheduler"], value["better"], value["equal"], value["worse"]) == (None, 1, 1, 0)
    assert value["mean_change"] == pytest.approx(-0.125)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a.sqlite missing.sqlite", "missing.sqlite: no such ledger"),
        (
            "a.sqlite igniter",
            "a.sqlite, igniter: one is a ledger, one a scheduler; expected two ledgers or two schedulers",
        ),
        ("igniter ignitr --ledger a.sqlite", 'a.sqlite: unknown scheduler "ignitr"; did you mean "igniter"?'),
        (
            "a.sqlite c.sqlite",
            "a.sqlite, c.sqlite: nothing to compare; expected runs with the same instance and seed on both sides",
        ),
        ("a.sqlite a.sqlite --fail-on valu", '--fail-on: unknown measure "valu"; did you mean "value"?'),
        ("a.sqlite a.sqlite --alpha 2", "--alpha"),
    ],
)
def test_wrong_input_is_one_line(call: Call, store: Callable[..., None], line: str, problem: str) -> None:
    store("a.sqlite", "igniter", [6.0])
    store("c.sqlite", "ffd+", [6.0])
    done = call("compare", *line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert problem in done.err
    assert done.err.count("\n") == 1


def test_schedulers_with_different_parameters_are_compared_separately(call: Call) -> None:
    run = "run --instances smoke-cost,igniter-3 --schedulers local-search --param local-search.rounds"
    assert call(f"{run}=0,20 --ledger l.sqlite").code == 0
    assert call("run --instances smoke-cost,igniter-3 --schedulers igniter --ledger l.sqlite").code == 0
    done = call("compare igniter local-search --ledger l.sqlite")
    assert (done.code, done.err) == (
        2,
        "error: local-search: ran with several parameters;"
        " name one of 'local-search[rounds=0]', 'local-search[rounds=20]'\n",
    )
    named = call("compare", "igniter", "local-search[rounds=20]", "--ledger", "l.sqlite", "--format", "json")
    pairs = json.loads(named.out)["pairs"]
    assert {pair["instance"] for pair in pairs} == {"smoke-cost", "igniter-3"}
    assert call(f"{run}=0,20 --ledger m.sqlite").code == 0
    both = call("compare l.sqlite m.sqlite --fail-on nothing")
    assert both.out.count("local-search[rounds=20]") > both.out.count("igniter-3 ") / 2 > 0
