"""``bench show``: leaderboards, runs and instances in full; and the list of schedulers."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Call

from bench.cli.commands.show import leaders
from bench.cli.views.run import plan_picture
from bench.ledger.row import Row
from bench.schedulers.sources import scheduler_hash
from instances import Plan, spatial_gpu
from instances.files import read_instance, read_plan
from instances.suites import SUITES, suite

pytestmark = pytest.mark.usefixtures("plugin")


def test_show_ranks_schedulers_by_instance_and_shows_a_run_in_full(call: Call, tmp_path: Path) -> None:
    call("run --instances igniter-3,igniter-12 --schedulers ffd+,bounds,igniter")
    board = json.loads(call("show --format json").out)
    assert [(row["instance"], row["scheduler"]) for row in board] == [
        ("igniter-12", "igniter"),
        ("igniter-12", "ffd+"),  # a cheaper plan, but infeasible
        ("igniter-12", "bounds"),  # infeasible and more expensive
        ("igniter-3", "igniter"),
        ("igniter-3", "bounds"),
        ("igniter-3", "ffd+"),
    ]
    assert board[3]["gap"] == 0.0  # the bound of $1/h is rounded up to the price of a V100
    assert board[4]["gap"] == pytest.approx(2 / 3)

    key = board[4]["key"][:10]
    shown = call(f"show {key}").out
    for expected in ("command-line-plugin", "nodes=3", "≥ 3.06", "66.7 %", " W3 ", "9.18 $/h"):
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


def test_show_best_ends_with_three_sentences_on_each_instance(call: Call) -> None:
    """The best scheduler, the distance from the bound, and whether the plan holds."""
    call("run --instances igniter-12 --schedulers igniter,bounds")
    call("run --instances igniter-3 --schedulers bounds,igniter --param bounds.bound=0.5")
    call("run --instances igniter-12-hold --schedulers igniter --check-holds")
    lines = [line for line in call("show --best").out.splitlines() if "has the best plan" in line]
    late = "It was not tested whether it holds; [0-9.]+ % of the requests are late."
    for line, expected in zip(
        lines,
        [
            f"igniter-12: igniter has the best plan, 18.36 ./h. It is 83.3 % from the best bound. {late}",
            "igniter-12-hold: igniter has the best plan, 24.48 ./h. No bound is known. It holds under random arrivals.",
            f"igniter-3: igniter has the best plan, 3.06 ./h. It is proven optimal in its class. {late}",
        ],
        strict=True,
    ):
        assert re.fullmatch(expected, line), line


def test_of_a_large_plan_the_first_gpus_are_shown_and_the_others_counted() -> None:
    (instance,) = suite("igniter-3").build()
    gpu = spatial_gpu("v100", [("W1", 30, 1, 1.0), ("W2", 2**30, 1, 1.0)])
    picture = plan_picture(Plan(instance.name, (gpu,) * 20_000), instance)

    assert picture.row_count == 200
    assert picture.caption == "and 19,900 more GPUs"
    assert max(len(str(bar)) for bar in picture.columns[1].cells) < 200


def test_show_names_runs_of_older_code(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best run may be one of an earlier version of a scheduler; later runs of it may be worse."""
    call("run --instances igniter-3 --schedulers igniter,ffd+ --simulate off")
    for command in ("show", "show igniter-3", "show --best"):
        assert "older code" not in call(command).out

    def hash_of(target: str) -> str | None:
        return "changed" if target.endswith(":FfdPlus") else scheduler_hash(target)

    monkeypatch.setattr("reports.code_age.sources_hash", lambda packages: "some of the code has changed")
    monkeypatch.setattr("reports.code_age.scheduler_hash", hash_of)
    shown = call("show igniter-3").out
    assert re.search(r"older code: ffd\+ \([0-9a-f]{8}\); it has changed since these runs, or is not installed", shown)


def test_show_refuses_an_ambiguous_or_unknown_key(call: Call) -> None:
    call("run --instances igniter-3 --schedulers igniter")
    done = call("show 0000000000")
    assert (done.code, done.out) == (2, "")
    assert 'no run has a key that starts with "0000000000"' in done.err


def test_leaders_prefer_feasible_then_better_then_faster(make_row: Callable[..., Row]) -> None:
    slow = make_row(key="a", value=4.0, feasible=True, decision_s=2.0)
    fast = replace(slow, key="b", decision_s=1.0)
    cheap_but_broken = replace(slow, key="c", value=1.0, feasible=False)
    without_plan = replace(slow, key="d", value=None, feasible=None)
    assert [row.key for row in leaders([without_plan, cheap_but_broken, slow, fast])] == ["b"]
    assert [row.key for row in leaders([without_plan, cheap_but_broken])] == ["c"]
    tested = replace(slow, key="t", holds=False)
    assert [row.key for row in leaders([fast, tested])] == ["t"]  # the verdict of a test is not hidden
    goodput = replace(slow, objective="throughput", throughput_of="goodput", instance_hash="other")
    assert [row.value for row in leaders([goodput, replace(goodput, key="e", value=5.0)])] == [5.0]


def test_the_list_of_schedulers_says_which_cannot_be_used_and_why(call: Call) -> None:
    listed = {entry["name"]: entry for entry in json.loads(call("list schedulers --format json").out)}
    assert listed["igniter"]["objectives"] == ["capacity", "cost", "goodput"]
    assert listed["bounds"]["parameters"] == [{"name": "bound", "type": "float", "default": 1.0, "required": False}]
    assert (listed["bounds"]["distribution"], listed["bounds"]["version"]) == ("command-line-plugin", "2.5")
    assert listed["fails"]["description"] == "Fails [bold]at once[/bold]."
    assert listed["broken"]["error"].startswith("ModuleNotFoundError: ")
    shown = call("list schedulers").out
    assert "Fails [bold]at once[/bold]." in shown
    assert "broken cannot be used: ModuleNotFoundError" in shown


def test_show_writes_an_instance_as_a_file(call: Call, tmp_path: Path) -> None:
    assert call("show", "64gpu-pool", "-o", "pool.json").code == 0
    instance = read_instance(tmp_path / "pool.json")
    assert instance.fingerprint == SUITES["64gpu"].build()[1].fingerprint
    assert json.loads(call("show", "pool.json", "--format", "json").out)["name"] == "64gpu-pool"


def test_show_prints_markup_in_names_literally(call: Call, tmp_path: Path) -> None:
    call("generate", "igniter-mix", "--size", "1", "--name", "[red]mix[/red] :smile: é", "-o", "mix.json")
    shown = call("show", "mix.json").out
    assert shown.startswith("[red]mix[/red] :smile: é: cost on any v100\n")


def test_hashes_are_short_and_whole_in_json(call: Call) -> None:
    call("run --instances igniter-3 --schedulers igniter")
    (run,) = json.loads(call("show --format json").out)
    code_hash = run["provenance"]["code"]
    assert len(code_hash) == 64
    shown = call(f"show {run['key']}").out
    assert code_hash[:12] in shown
    assert code_hash not in shown
