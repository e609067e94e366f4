"""Entries of the library beside the runs of a ledger: gaps, refutations, better plans, and best known values."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Call

from bench.api import Scope, Status
from bench.ledger.better_plans import ledger_better_plans
from bench.ledger.entry_rows import entry_row, entry_rows
from bench.ledger.gap import ledger_gaps
from bench.ledger.refutation import ledger_refutations
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import Objective
from instances.library import LIBRARY
from reports.page.instance_results import read_results
from reports.statistics.ledger_summary import ledger_summary

ENTRY = LIBRARY.entry("cost-turing-4")
VALUE = 2.0
"""Value and bound of the entry."""

MakeRow = Callable[..., Row]


@pytest.fixture
def ran(make_row: MakeRow) -> MakeRow:
    """Make a row of a run on the entry's instance, with the entry's plan and a value of its own."""

    def make(key: str, **values: Any) -> Row:
        of_entry = {
            "instance": ENTRY.instance.name,
            "instance_hash": ENTRY.instance.fingerprint,
            "plan": ENTRY.plan,
            "plan_class": "spatial",
            "feasible": True,
            "headroom": 1.0,
            "slo_rule": str(ENTRY.instance.slo_rule),
            "performance_model": ENTRY.instance.performance_model,
        }
        return make_row(key=key * 64, **{**of_entry, **values})

    return make


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Ledger]:
    """Make a ledger with rows of the entry's instance."""

    def make(*rows: Row) -> Ledger:
        ledger = Ledger(tmp_path / "ledger.sqlite", create=True)
        for row in rows:
            ledger.add(row, ENTRY.instance)
        return ledger

    return make


def test_an_entry_is_found_by_its_name_and_fingerprint() -> None:
    (row,) = entry_rows({ENTRY.instance.fingerprint: ENTRY.instance.name})
    assert (row.key, row.value, row.bound, row.feasible) == ("library/cost-turing-4", VALUE, VALUE, True)
    assert row.bound_scope == Scope()
    other_rule = replace(ENTRY.instance, performance_model="igniter")
    assert entry_rows({other_rule.fingerprint: other_rule.name}) == []
    assert entry_rows({ENTRY.instance.fingerprint: "another"}) == []


def test_an_entry_without_any_plan_claims_so() -> None:
    unserved = replace(ENTRY, plan=None, value=None, claim={"bound": "none", "plan_class": "split", "parts": 20})
    row = entry_row(unserved)
    assert (row.status, row.bound, row.feasible) == (Status.INFEASIBLE, None, None)
    assert row.bound_scope == Scope(plan_class="split", part_steps=20, parts_apart=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", Objective)
def test_the_objective_of_an_entry_is_that_of_a_run(objective: Objective) -> None:
    row = entry_row(replace(ENTRY, instance=replace(ENTRY.instance, objective=objective)))
    by_throughput = objective in (Objective.CAPACITY, Objective.GOODPUT)
    assert (row.objective, row.throughput_of) == (("throughput", objective) if by_throughput else (objective, None))


def test_the_gap_of_a_run_is_taken_to_the_bound_of_the_entry(ran: MakeRow, stored: Callable[..., Ledger]) -> None:
    run, split = ran("a", value=2.5), ran("b", value=2.5, plan_class="split")
    with stored(run, split) as ledger:
        gap_of = ledger_gaps([run, split], ledger)
    assert gap_of[run.key].gap == pytest.approx(0.2)
    assert gap_of[run.key].best is not None
    assert gap_of[run.key].best.key == "library/cost-turing-4"
    assert gap_of[split.key].gap is None  # the entry's bound is one on spatial plans


def test_the_plan_of_the_entry_refutes_a_claim(ran: MakeRow, stored: Callable[..., Ledger]) -> None:
    liar = ran("a", value=2.5, status=Status.OPTIMAL, bound=2.4, bound_certified=True, bound_scope=Scope())
    with stored(liar) as ledger:
        gap = ledger_gaps([liar], ledger)[liar.key]
        assert ledger_refutations(ledger, "another") == {}
    assert (gap.gap, gap.own_gap) == (pytest.approx(0.2), None)
    assert "has a feasible plan of value 2 (library/cost-turing-4)" in str(gap.refuted)


def test_a_plan_that_the_entry_excludes_refutes_the_entry(ran: MakeRow, stored: Callable[..., Ledger]) -> None:
    run = ran("a", value=1.5)
    with stored(run) as ledger:
        (refutation,) = ledger_refutations(ledger).values()
        gap = ledger_gaps([run], ledger)[run.key]
    assert "the certified bound ≥ 2 of" in str(refutation)
    assert "(library/cost-turing-4) is refuted" in str(refutation)
    assert (gap.gap, gap.refuted) == (None, None)


def test_the_plan_of_the_entry_lies_outside_the_class_of_an_optimum(
    ran: MakeRow, stored: Callable[..., Ledger]
) -> None:
    optimum = ran("a", value=2.5, status=Status.OPTIMAL, bound_scope=Scope(max_batch=1))
    with stored(optimum) as ledger:
        (better,) = ledger_better_plans([optimum], ledger).values()
    assert (better.row.key, better.outside) == ("library/cost-turing-4", "larger batches")


def test_pages_and_statistics_know_the_entry(ran: MakeRow, stored: Callable[..., Ledger]) -> None:
    run = ran("a", value=2.5, decision_s=1.0)
    with stored(run) as ledger:
        (results,) = read_results(ledger)
        summary = ledger_summary(ledger)
    assert (results.best_known, results.gaps[run.key].gap) == (VALUE, pytest.approx(0.2))
    assert results.behind_best(run) == pytest.approx(0.2)
    assert summary.standings[0].gap == pytest.approx(0.2)
    assert [loss.best_run.key for loss in summary.losses] == ["library/cost-turing-4"]


def test_commands_show_the_gap_to_the_entry(
    call: Call, ran: MakeRow, stored: Callable[..., Ledger], tmp_path: Path
) -> None:
    stored(ran("a", value=2.5, decision_s=1.0)).close()
    done = call("show library/cost-turing-4 --ledger ledger.sqlite")
    assert "library/cost-turing-4: best plan 2.00 $/h, bound 2.00 $/h; best of these runs 2.50 $/h, 20.0 % behind" in (
        " ".join(done.out.split())
    )
    assert call("stats ledger.sqlite").code == 0
