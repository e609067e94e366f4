"""A scheduler that certifies a false bound: all output names it, and no gap uses its bound."""

import csv
import io
import json
from pathlib import Path

import pytest

import bench
from tests.bench.conftest import Call

LIAR = '''
from dataclasses import dataclass
from typing import ClassVar

from bench.api import Bound, Outcome, Status
from instances import Objective


@dataclass(frozen=True)
class Liar:
    """Bound of a million dollars."""

    name: ClassVar[str] = "liar"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})

    def schedule(self, instance, run):
        return Outcome(Status.UNKNOWN, bound=Bound(1e6, certified=True))
'''


@pytest.fixture
def ledger(call: Call, tmp_path: Path) -> Path:
    Path("liar.py").write_text(LIAR)
    honest = call("run --instances igniter-3 --schedulers igniter,colgen --time-limit 20 --simulate off")
    assert honest.code == 0, honest.err
    lying = call("run --instances igniter-3 --schedulers ./liar.py:Liar --time-limit 20")
    assert lying.code == 1
    assert "the certified bound ≥ 1000000 of" in lying.out
    assert "is refuted: igniter has a feasible plan of value 3.06" in lying.out
    return tmp_path / "results/ledger.sqlite"


def test_the_run_that_refutes_an_earlier_claim_says_so(call: Call) -> None:
    Path("liar.py").write_text(LIAR)
    call("run --instances igniter-3 --schedulers ./liar.py:Liar --time-limit 20 --simulate off")
    refuting = call("run --instances igniter-3 --schedulers igniter --simulate off")
    assert refuting.code == 0
    assert "is refuted: igniter has a feasible plan of value 3.06" in refuting.out
    assert "is refuted" not in call("run --instances igniter-12 --schedulers igniter --simulate off").out


def test_gaps_ignore_the_refuted_bound_and_output_names_its_scheduler(call: Call, ledger: Path) -> None:
    rows = json.loads(
        call("run --instances igniter-3 --schedulers igniter,colgen --time-limit 20 --simulate off --format json").out
    )
    assert all(row["gap"] is not None and row["gap"] < 0.6 for row in rows)
    assert all(row["gap"] == 0.0 for row in rows if row["status"] == "optimal")
    shown = call("show igniter-3")
    assert "refuted" in shown.out
    compared = call("compare igniter colgen")
    assert "A 100 %" not in compared.out
    assert "B 100 %" not in compared.out
    site = Path("site")
    assert call(f"report {ledger} -o {site}").code == 0
    for page in (site / "index.html", *(site / "instances").glob("*.html")):
        assert "Refuted claims" in page.read_text()


def test_exports_and_tables_name_the_refuted_claim(call: Call, ledger: Path) -> None:
    exported = {line["scheduler"]: line for line in csv.DictReader(io.StringIO(call(f"export {ledger}").out))}
    assert "is refuted: igniter has a feasible plan of value 3.06" in exported["Liar"]["refuted"]
    assert exported["igniter"]["refuted"] == exported["colgen"]["refuted"] == ""
    table = bench.run("igniter-3", "./liar.py:Liar", time_limit_s=20, ledger=ledger)
    assert table.refuted[0] == exported["Liar"]["refuted"]
