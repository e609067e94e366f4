"""Outdated runs, whose schedulers' code has changed since, and the sentence on them."""

from dataclasses import replace
from typing import Any

import pytest

from bench.ledger.row import Row
from bench.schedulers.registry import FILE, entries
from bench.schedulers.sources import scheduler_hash
from reports.code_age import age_sentence, is_outdated
from reports.need import Need
from reports.runs import Runs

NEED = Need("igniter-3", ("igniter", "ffd+"))
TODAY = scheduler_hash(entries()["igniter"].target)


def with_code(row: Row, **stage: object) -> Row:
    stages = [{"name": row.scheduler, "distribution": "gpushare-bench", "version": "1", **stage}]
    return replace(row, provenance={**(row.provenance or {}), "schedulers": stages})


@pytest.mark.parametrize(
    ("stage", "outdated"),
    [
        ({"sources": TODAY}, False),
        ({"sources": "of yesterday"}, True),
        ({"sources": TODAY, "name": "gone"}, True),
        ({}, None),
        ({"distribution": FILE, "sources": None}, False),
    ],
    ids=["same", "changed", "gone", "not stated", "file"],
)
def test_a_run_is_outdated_if_its_code_has_changed(rows_for: Any, stage: dict[str, Any], outdated: bool | None) -> None:
    assert is_outdated(with_code(rows_for(NEED)[0], **stage)) is outdated


def test_the_sentence_counts_runs_by_scheduler(rows_for: Any) -> None:
    igniter, ffd = rows_for(NEED)
    current, old, without_code = (with_code(igniter, sources=TODAY), with_code(ffd, sources="old"), with_code(ffd))
    assert age_sentence([current]) == ""
    assert age_sentence([current, old, old]) == "Since then the code of `ffd+` (2 runs) has changed."
    assert age_sentence([old, without_code]) == (
        "Since then the code of `ffd+` (1 runs) has changed; 1 runs do not state their schedulers' code."
    )


def test_needs_of_outdated_runs_have_their_schedulers_only(hand_made: Any, rows_for: Any) -> None:
    igniter, ffd = rows_for(NEED)
    runs = Runs(hand_made([with_code(igniter, sources=TODAY), with_code(ffd, sources="old")]).ledger)
    runs.rows(NEED)
    assert list(runs.outdated) == [replace(NEED, schedulers=("ffd+",))]
