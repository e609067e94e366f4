"""``bench library score``: its table, LaTeX and JSON, and its errors."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Call

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances.library import LIBRARY

NAMES = ("cost-turing-4", "cost-t4-4")


@pytest.fixture
def ledger(tmp_path: Path, make_row: Callable[..., Row]) -> Path:
    path = tmp_path / "l.sqlite"
    with Ledger(path, create=True) as opened:
        for name in NAMES:
            entry = LIBRARY.entry(name)
            for scheduler, factor in (("good", 1.0), ("bad_one", 2.0)):
                assert entry.value is not None
                row = make_row(
                    key=f"{scheduler}-{name}",
                    instance=name,
                    instance_hash=entry.instance.fingerprint,
                    scheduler=scheduler,
                    parameters={},
                    feasible=True,
                    value=factor * entry.value,
                    plan=entry.plan,
                    plan_class="spatial",
                    decision_s=1.0,
                )
                opened.add(row, entry.instance)
    return path


def test_every_format_has_a_line_per_scheduler(call: Call, ledger: Path) -> None:
    line = "library score l.sqlite --entries cost-t[4u]*-4"
    table = call(line)
    assert (table.code, table.err) == (0, "")
    cells = [text.split() for text in table.out.splitlines()]
    assert ["good", "1.0000", "2/2", "10.0000", "0/2", "1.00", "s", "10.00", "s"] in cells
    assert any(each[:2] == ["bad_one", "2.0000"] for each in cells)
    answer = json.loads(call(f"{line} --format json").out)
    assert [(score["name"], score["plans"]) for score in answer["scores"]] == [("good", 1.0), ("bad_one", 2.0)]
    assert (answer["entries"], answer["source"].split(" of ")[0]) == (2, 'entries "cost-t[4u]*-4"')
    latex = call(f"{line} --format latex").out
    assert r"bad\_one & 2.0000 & 2/2 & 10.0000 & 0/2" in latex
    assert r"\label{tab:library-score}" in latex


def test_missing_runs_count_on_the_benchmark_set(call: Call, ledger: Path) -> None:
    answer = json.loads(call("library score l.sqlite --format json --schedulers good").out)
    (score,) = answer["scores"]
    present = len(set(NAMES) & set(LIBRARY.names("benchmark")))
    assert answer["entries"] == len(LIBRARY.names("benchmark"))
    assert score["plans"] == pytest.approx(10.0 ** (1.0 - present / answer["entries"]))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--entries zzz", '--entries: "zzz" matches no entry with a plan'),
        ("--entries goodput-*", "l.sqlite: has no run on these entries"),
        ("--schedulers goood", 'unknown scheduler "goood"; did you mean "good"?'),
    ],
)
def test_wrong_input_is_one_line(call: Call, ledger: Path, options: str, problem: str) -> None:
    done = call(f"library score l.sqlite {'' if '--entries' in options else '--entries cost-*'} {options}")
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert done.err.count("\n") == 1
