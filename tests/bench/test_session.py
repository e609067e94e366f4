"""The Python interface, ``import bench``."""

import doctest
import json
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas
import pytest

import bench
from bench import session
from bench.judging.judge import judge
from instances import InputError
from instances.files import plan_to_json
from reports import from_ledger


def test_the_examples_of_the_docstrings_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # one example writes a ledger
    for module in (session, from_ledger):
        results = doctest.testmod(module)
        assert results.attempted >= 4
        assert results.failed == 0


def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import bench\nprint(bench.run(instances=['igniter-3'], schedulers=['igniter', 'colgen'], time_limit_s=10))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["igniter", "colgen"]
    assert "optimal (spatial)" in lines[2]
    assert list(tmp_path.iterdir()) == [script]  # without a ledger, no file is written


def test_importing_bench_loads_none_of_its_modules() -> None:
    program = "import bench, sys; print([name for name in sys.modules if name.startswith('bench.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_names_are_listed_and_unknown_ones_refused() -> None:
    assert set(bench.__all__) <= set(dir(bench))
    with pytest.raises(AttributeError, match="has no attribute 'solve'"):
        _ = bench.solve  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[pandas.DataFrame, Path]:
    ledger = tmp_path_factory.mktemp("runs") / "ledger.sqlite"
    return bench.run(["igniter-3", "smoke-cost"], ["igniter", "ffd+"], seeds=[0, 1], ledger=ledger), ledger


def test_there_is_a_row_for_each_instance_scheduler_and_seed(runs: tuple[pandas.DataFrame, Path]) -> None:
    table, _ = runs
    seeds = table.groupby(["instance", "scheduler"]).seed.agg(list).to_dict()
    assert seeds == {key: [0, 1] for key in product(("igniter-3", "smoke-cost"), ("igniter", "ffd+"))}
    for run in table.itertuples():
        verdict = judge(run.plan, bench.load(run.instance))
        assert (verdict.value, verdict.feasible) == (run.value, run.feasible)


def test_a_list_of_values_makes_a_variant_of_each() -> None:
    table = bench.run("igniter-3", "igniter", parameters={"igniter.spend_spare": [True, False], "igniter.memory": True})
    values = [json.loads(text)["igniter"] for text in table.parameters]
    assert [(value["spend_spare"], value["memory"]) for value in values] == [(True, True), (False, True)]
    assert list(table.label) == ["igniter[spend_spare=true]", "igniter[spend_spare=false]"]
    assert "igniter[spend_spare=false]" in repr(table)


def test_a_figure_is_drawn_from_a_ledger_and_written_into_a_folder(
    runs: tuple[pandas.DataFrame, Path], tmp_path: Path
) -> None:
    _, ledger = runs
    page = bench.figure("performance-profiles", ledger, instances=["igniter-3", "smoke-cost"], folder=tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {f"performance-profiles.{x}" for x in ("pdf", "svg", "png")}
    drawn = {text.get_text() for legend in page.legends for text in legend.get_texts()}
    assert {"igniter", "ffd+"} <= drawn | {text.get_text() for axes in page.axes for text in axes.texts}
    narrow = bench.figure("performance-profiles", ledger, schedulers="igniter", width_in=2.5, notes=False)
    assert narrow.get_figwidth() == 2.5


@pytest.mark.parametrize(
    ("name", "chosen", "problem"),
    [
        ("performance-profile", {}, 'name: unknown figure "performance-profile"; did you mean "performance-profiles"?'),
        ("performance-profiles", {"schedulers": "colgen"}, 'unknown scheduler "colgen"'),
        ("performance-profiles", {"instances": ["igniter-12"]}, 'has no run on "igniter-12"'),
    ],
)
def test_wrong_arguments_of_a_figure_are_named(
    runs: tuple[pandas.DataFrame, Path], name: str, chosen: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        bench.figure(name, runs[1], **chosen)


def test_rows_in_the_ledger_are_not_run_again(runs: tuple[pandas.DataFrame, Path]) -> None:
    first, ledger = runs
    with bench.Ledger(ledger) as opened:
        again = bench.run(["igniter-3", "smoke-cost"], ["igniter", "ffd+"], seeds=[0, 1], ledger=opened)
        pandas.testing.assert_frame_equal(first.drop(columns="plan"), again.drop(columns="plan"))
        assert len(bench.table(opened)) == 8
    assert set(first.columns) - {"claim", "plan"} <= set(bench.table(ledger).columns)


def test_one_name_and_one_seed_need_no_list(runs: tuple[pandas.DataFrame, Path]) -> None:
    first, ledger = runs
    single = bench.run("igniter-3", "igniter", seeds=1, ledger=ledger)
    assert single.key.tolist() == first[(first.instance == "igniter-3") & (first.seed == 1)].key.tolist()[:1]


def test_the_table_prints_its_main_columns(runs: tuple[pandas.DataFrame, Path]) -> None:
    table, _ = runs
    assert "..." not in str(table)
    assert "decision_s" in str(table)
    assert "plan" not in str(table)
    assert "violations" in str(table[["scheduler", "violations"]])
    assert "<table" in table._repr_html_()  # type: ignore[operator]


def test_plans_and_instances_may_be_given_by_name_file_or_object(
    runs: tuple[pandas.DataFrame, Path], tmp_path: Path
) -> None:
    plan, instance = runs[0].plan[0], bench.load("igniter-3")
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan_to_json(plan, instance)))
    verdicts = [bench.judge(plan), bench.judge(plan, instance), bench.judge(file), bench.judge(str(file), "igniter-3")]
    assert all(verdict == verdicts[0] for verdict in verdicts)
    from_file = bench.simulate(file, arrivals="constant", seconds=5.0, seed=3)
    assert replace(from_file, wall_s=0.0) == replace(
        bench.simulate(plan, instance, arrivals="constant", seconds=5.0, seed=3), wall_s=0.0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"instances": "igniter-33"}, 'instances: unknown suite, instance or file "igniter-33"; did you mean'),
        ({"instances": []}, "instances: is empty"),
        ({"seeds": []}, "seeds: is empty; expected at least one seed"),
        ({"time_limit_s": 0.0}, "time_limit_s: 0; expected"),
        ({"memory_limit_gb": -1.0}, "memory_limit_gb: -1; expected"),
        ({"schedulers": "ignitr"}, 'schedulers: unknown scheduler "ignitr"; did you mean "igniter"?'),
        ({"parameters": {"igniter.spend": 1}}, 'parameters igniter.spend: unknown parameter "spend"'),
        ({"arrivals": "poison"}, 'arrivals: unknown arrival process "poison"'),
    ],
)
def test_errors_name_the_argument(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        bench.run(**({"instances": "igniter-3", "schedulers": "igniter"} | arguments))  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_two_instances_of_one_name_are_refused() -> None:
    mine = bench.load("igniter-3")
    with pytest.raises(InputError, match='two different instances are called "igniter-3"'):
        bench.run([mine, replace(mine, workloads=mine.workloads[:2])], "igniter")


def test_a_plan_of_another_instance_is_refused(runs: tuple[pandas.DataFrame, Path]) -> None:
    with pytest.raises(InputError, match='made for "igniter-3"'):
        bench.judge(runs[0].plan[0], "smoke-cost")


def test_the_plan_of_a_run_without_one_is_refused() -> None:
    with pytest.raises(InputError, match="plan: is None; expected a plan"):
        bench.judge(None, "igniter-3")  # type: ignore[arg-type]
