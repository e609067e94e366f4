"""``bench stats``: its tables in every format, and its errors."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import which
from subprocess import run

import pytest
from conftest import Call

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import spatial_gpu
from instances.plan import Plan
from instances.suites import suite
from reports.statistics.instance_tables import family_of

INSTANCES = suite("exact-scaling").build()[:8]
COSTS = {"igniter": 9.18, "ffd+": None, "mine_100%": 6.12, "random": 9.18}


@pytest.fixture
def ledger(tmp_path: Path, make_row: Callable[..., Row]) -> Path:
    path = tmp_path / "l.sqlite"
    with Ledger(path, create=True) as opened:
        for instance in INSTANCES:
            for scheduler, cost in COSTS.items():
                for seed in range(3):
                    row = make_row(
                        key=f"{scheduler}-{instance.name}-{seed}",
                        instance=instance.name,
                        instance_hash=instance.fingerprint,
                        scheduler=scheduler,
                        parameters={},
                        seed=seed,
                        decision_s=0.5,
                    )
                    if cost is None:
                        opened.add(replace(row, termination="crashed", reason="signal 11", value=None), instance)
                        continue
                    value = 6.12 if scheduler == "random" and instance is INSTANCES[0] else cost
                    names = [workload.id for workload in instance.workloads]
                    gpus = tuple(spatial_gpu("v100", [(name, 20, 1, 1.0)]) for name in names[: round(value / 3.06)])
                    plan = Plan(instance.name, gpus)
                    opened.add(replace(row, value=value, feasible=True, plan=plan), instance)
    return path


def test_the_json_has_gaps_wins_and_p_values(call: Call, ledger: Path) -> None:
    done = call("stats", "l.sqlite", "--format", "json", "--reference", "igniter")
    statistics = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert [scheduler["name"] for scheduler in statistics["standings"]] == ["mine_100%", "random", "igniter", "ffd+"]
    gaps = {scheduler["name"]: scheduler["gap"] for scheduler in statistics["standings"]}
    assert gaps == pytest.approx({"mine_100%": 0.0, "random": 7 / 24, "igniter": 1 / 3, "ffd+": 1.0})
    duels = {
        scheduler["name"]: (scheduler["wins"], scheduler["ties"], scheduler["losses"])
        for scheduler in statistics["duels"]
    }
    assert duels == {"mine_100%": (0, 0, 8), "random": (0, 7, 1), "ffd+": (8, 0, 0)}
    p = {scheduler["name"]: scheduler["p"] for scheduler in statistics["duels"]}
    assert p == {"mine_100%": 2 / 2**8, "random": 1.0, "ffd+": 2 / 2**8}
    assert {scheduler["p_holm"] for scheduler in statistics["duels"] if scheduler["name"] != "random"} == {3 * 2 / 2**8}
    assert statistics["does_not_discriminate"] == [INSTANCES[0].name]
    assert sorted(loss["instance"] for loss in statistics["losses"]) == sorted(instance.name for instance in INSTANCES)
    assert statistics["losses"][0]["difference"][0] == "GPUs: 3 v100 instead of 2 v100"


def test_the_table_fits_a_terminal_and_says_where_the_reference_loses(call: Call, ledger: Path) -> None:
    done = call("stats", "l.sqlite", "--reference", "igniter", "--losses", "1")
    lines = done.out.splitlines()
    table_lines = [line for line in lines if re.match(r"\S+ .*\d+ %|─", line)]
    assert len(table_lines) > 12
    assert max(map(len, (line for line in table_lines if "instead" not in line and ":" not in line))) <= 80
    assert "where igniter loses (8 of 8 instances):" in lines
    assert done.out.count("- GPUs: 3 v100 instead of 2 v100") == 1


def test_every_latex_table_is_complete_and_escaped(call: Call, ledger: Path) -> None:
    text = call("stats", "l.sqlite", "--format", "latex").out
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 4
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 1
    assert text.startswith("% \\usepackage{booktabs}\n% \\usepackage{longtable}\n")
    assert re.findall(r"\\label\{tab:(\w+)\}", text) == ["gaps", "profile", "duels", "families", "instances"]
    bodies = re.findall(r"\\begin\{(?:tabular|longtable)\}\{(lr*)\}\n(.*?)\\bottomrule\n", text, re.S)
    assert [len(columns) for columns, _ in bodies] == [7, 9, 8, 6, 6]
    for columns, body in bodies:
        lines = [line for line in body.splitlines() if "&" in line]
        assert len(lines) in (1 + len(COSTS), len(COSTS), 1 + 1, 1 + len(INSTANCES))
        for line in lines:
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1
            assert not re.search(r"(?<!\\)[%#_$](?!\\pm)", line.replace(r"$\pm$", ""))
    assert r"mine\_100\%" in text
    assert all(line.startswith(("%", "\\")) or line.endswith(r"\\") or not line for line in text.splitlines())


@pytest.mark.skipif(which("pdflatex") is None, reason="needs TeX")
def test_latex_compiles(call: Call, ledger: Path, tmp_path: Path) -> None:
    text = call("stats", "l.sqlite", "--format", "latex").out
    head = r"\documentclass{article}\usepackage{booktabs}\usepackage{longtable}\begin{document}"
    (tmp_path / "t.tex").write_text(f"{head}\n{text}\n\\end{{document}}\n")
    run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True)


def test_instances_of_a_family_differ_in_their_numbers(call: Call, ledger: Path) -> None:
    assert [family_of(name) for name in ("cost-t4-24-v2", "exact-10-s2", "igniter-12", "64gpu-cost", "12")] == [
        "cost-t4",
        "exact",
        "igniter",
        "64gpu-cost",
        "12",
    ]
    text = call("stats", "l.sqlite", "--format", "latex").out
    assert re.search(r"^exact & 8 & 0\.0 \\% & 29\.2 \\% & 33\.3 \\% & 100\.0 \\% ", text, re.M)
    assert re.search(rf"^{INSTANCES[0].name} & 6\.12 ", text, re.M)


def test_markdown_is_a_table(call: Call, ledger: Path) -> None:
    lines = call("stats", "l.sqlite", "--format", "markdown", "--schedulers", "igniter,random").out.splitlines()
    assert lines[2:4] == [
        "| scheduler | solved | mean gap | 95 % interval | ± seeds | gap to bound | rank |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    assert lines[4].startswith("| random | 24/24 | 29.2 % |")


def test_a_variant_can_be_named_as_in_either_table(call: Call, ledger: Path, make_row: Callable[..., Row]) -> None:
    with Ledger(ledger) as opened:
        for instance in INSTANCES:
            for number, spare in enumerate((True, False)):
                key = f"variant-{instance.name}-{number}"
                parameters = {"igniter": {"spare": spare, "order": number}}
                row = make_row(key=key, instance=instance.name, scheduler="igniter", parameters=parameters)
                opened.add(replace(row, instance_hash=instance.fingerprint), instance)
    of_runs, of_statistics = "igniter[spare=true, order=0]", "igniter (spare=true, order=0)"
    for name in (of_runs, of_statistics):
        done = call("stats", "l.sqlite", "--format", "json", "--schedulers", f"{name},random")
        assert {scheduler["name"] for scheduler in json.loads(done.out)["standings"]} == {of_statistics, "random"}, (
            done.err
        )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--schedulers", "ignitr"], 'l.sqlite: unknown scheduler "ignitr"; did you mean "igniter"?'),
        (["--reference", "ignitr"], '--reference: unknown scheduler "ignitr"; did you mean "igniter"?'),
        (["--instances", "exact-5-s9"], 'l.sqlite: unknown instance "exact-5-s9"; did you mean "exact-5-s'),
        (["--instances", "64gpu"], 'l.sqlite: has no run on "64gpu"'),
    ],
)
def test_misspelt_names_are_one_line(call: Call, ledger: Path, options: list[str], problem: str) -> None:
    done = call("stats", "l.sqlite", *options)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert done.err.count("\n") == 1


def test_figures_draw_any_runs(call: Call, ledger: Path) -> None:
    line = ["figures", "performance-profiles", "--from", "l.sqlite", "--schedulers", "igniter,random", "--out", "f"]
    done = call(*line)
    assert (done.code, done.err) == (0, "")
    assert call("figures", "performance-profiles", "--schedulers", "igniter").code == 2
