"""Claims and tables in Markdown: verdicts by stated tolerances, and texts in place of missing data."""

from typing import Any, cast

import numpy as np
import pytest

from reports.claim import (
    NOTHING_PUBLISHED,
    Claim,
    QueryTable,
    Tally,
    below,
    compare,
    duration,
    fill,
    markdown,
)
from reports.runs import MissingDataError, Runs

NO_RUNS = cast(Runs, None)
"""Runs for queries that do not use them."""

BELOW_1: dict[str, Any] = {"paper": "low", "supports": lambda late: late < 1.0, "criterion": "below 1"}
"""Fields of a claim whose paper states "low", which is checked as below 1."""


def claim(**fields: Any) -> Claim:
    blank: dict[str, Any] = {"what": "GPUs", "paper": (6,), "ours": lambda _: (6,)}
    return Claim(**blank | fields)


@pytest.mark.parametrize(
    ("given", "ours", "verdict"),
    [
        ({}, (6,), "reproduced"),
        ({}, (5,), "different"),
        ({"paper": (100.0,), "within": 0.1}, (90.0,), "reproduced"),
        ({"paper": (100.0,), "within": 0.1}, (89.0,), "different"),
        ({"paper": (100.0, 1.0), "within": 0.1}, (100.0, 2.0), "different"),
        ({"paper": ("W7, W8",)}, ("W7, W8",), "reproduced"),
        ({"paper": ("W7, W8",)}, ("W7",), "different"),
        (BELOW_1, (0.5,), "reproduced"),
        (BELOW_1, (1.5,), "different"),
        (BELOW_1, (np.float64(0.5),), "reproduced"),
        (BELOW_1, (None,), "different"),
        ({"better": below(6)}, (5,), "better"),
        ({"better": below(6)}, (7,), "different"),
        ({"better": below(6)}, (6,), "reproduced"),
        ({"better": below(6)}, (None,), "different"),
        ({"not_comparable": "the rates are not published"}, (6,), "not comparable"),
        ({"not_comparable": "the rates are not published", "better": below(6)}, (1,), "not comparable"),
        ({"paper": NOTHING_PUBLISHED}, (0.5,), None),
        ({}, (None,), "different"),
    ],
)
def test_the_verdict_follows_from_the_numbers_and_the_tolerance(
    given: dict[str, Any], ours: tuple[Any], verdict: str | None
) -> None:
    assert claim(**given).verdict(ours) == verdict


def test_a_line_has_the_tolerance_of_its_verdict_and_the_reason() -> None:
    tally, remarks = Tally(), {"reason": "other times", "note": "calibrated"}
    claims = [
        claim(**remarks),
        claim(**remarks, ours=lambda _: (7,)),
        claim(**remarks, within=0.2, ours=lambda _: (7,)),
        claim(**remarks, ours=lambda _: (4,), better=below(6)),
        claim(**remarks, **BELOW_1, ours=lambda _: (0.5,)),
        claim(**remarks, not_comparable="the rates are not published"),
        claim(**remarks, paper=NOTHING_PUBLISHED),
        claim(**remarks, ours=lambda _: (None,)),
    ]
    assert compare(claims, NO_RUNS, tally).splitlines()[2:] == [
        "| GPUs | 6 | 6 | reproduced: exactly | calibrated |",
        "| GPUs | 6 | 7 | different | other times; calibrated |",
        "| GPUs | 6 | 7 | reproduced: within 20 % | calibrated |",
        "| GPUs | 6 | 4 | better: 1.5 times | calibrated |",
        "| GPUs | low | 0.5 | reproduced: below 1 | calibrated |",
        "| GPUs | 6 | 6 | not comparable | the rates are not published; calibrated |",
        "| GPUs | – | 6 |  | calibrated |",
        "| GPUs | 6 | no plan | different | other times; calibrated |",
    ]
    assert tally == {"reproduced": 3, "better": 1, "different": 2, "not comparable": 1}


@pytest.mark.parametrize("given", [{"supports": lambda _: True}, {"criterion": "low"}, {"paper": "low"}])
def test_a_claim_without_a_stated_tolerance_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="GPUs: "):
        claim(**given)


def missing_data(_: Runs) -> Any:
    raise MissingDataError("no runs")


def test_missing_data_is_named_in_its_cell() -> None:
    tally = Tally()
    (line,) = compare([claim(ours=missing_data, reason="never", note="calibrated")], NO_RUNS, tally).splitlines()[2:]
    assert line == "| GPUs | 6 | no runs |  | calibrated |"
    assert tally == {"no data": 1}
    table = QueryTable(("a", "b"), [("here", lambda _: "1"), ("there", missing_data)])
    assert fill(table, NO_RUNS).splitlines()[2:] == ["| here | 1 |", "| there | no runs |"]


def test_a_vertical_bar_in_a_cell_is_escaped() -> None:
    assert markdown(["a|b"], [["c"]]).splitlines() == ["| a\\|b |", "| --- |", "| c |"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.000447, "0.447 ms"), (3.46, "3.5 s"), (1234.5, "1,234 s"), (None, "–")],
)
def test_durations_are_in_ms_below_a_second_and_in_s_above(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
