"""Claims and tables in Markdown: verdicts by the stated tolerance, and what is said where something is missing."""

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

NONE = cast(Runs, None)
"""Queries of these tests ask no runs."""

LOW: dict[str, Any] = {"paper": "low", "supports": lambda late: late < 1.0, "criterion": "below 1"}
"""A statement in words."""


def claim(**given: Any) -> Claim:
    blank: dict[str, Any] = {"what": "GPUs", "paper": (6,), "ours": lambda _: (6,)}
    return Claim(**blank | given)


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
        (LOW, (0.5,), "reproduced"),
        (LOW, (1.5,), "different"),
        (LOW, (np.float64(0.5),), "reproduced"),
        (LOW, (None,), "different"),
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
def test_a_verdict_follows_from_the_numbers(given: dict[str, Any], ours: tuple[Any], verdict: str | None) -> None:
    assert claim(**given).verdict(ours) == verdict


def test_a_line_states_the_measure_of_its_verdict_and_the_reason() -> None:
    tally, said = Tally(), {"reason": "other times", "note": "calibrated"}
    claims = [
        claim(**said),
        claim(**said, ours=lambda _: (7,)),
        claim(**said, within=0.2, ours=lambda _: (7,)),
        claim(**said, ours=lambda _: (4,), better=below(6)),
        claim(**said, **LOW, ours=lambda _: (0.5,)),
        claim(**said, not_comparable="the rates are not published"),
        claim(**said, paper=NOTHING_PUBLISHED),
        claim(**said, ours=lambda _: (None,)),
    ]
    assert compare(claims, NONE, tally).splitlines()[2:] == [
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


def missing(_: Runs) -> Any:
    raise MissingDataError("no runs")


def test_what_is_missing_is_said_in_its_place() -> None:
    tally = Tally()
    (line,) = compare([claim(ours=missing, reason="never", note="calibrated")], NONE, tally).splitlines()[2:]
    assert line == "| GPUs | 6 | no runs |  | calibrated |"
    assert tally == {"no data": 1}
    table = QueryTable(("a", "b"), [("here", lambda _: "1"), ("there", missing)])
    assert fill(table, NONE).splitlines()[2:] == ["| here | 1 |", "| there | no runs |"]


def test_a_stroke_in_a_cell_does_not_end_it() -> None:
    assert markdown(["a|b"], [["c"]]).splitlines() == ["| a\\|b |", "| --- |", "| c |"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.000447, "0.447 ms"), (3.46, "3.5 s"), (1234.5, "1,234 s"), (None, "–")],
)
def test_times_have_the_unit_that_suits_them(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
