"""Claims and tables in Markdown: verdicts by the stated tolerance, and what is said where something is missing."""

from typing import Any, cast

import numpy as np
import pytest

from reports.experiments.claim import Claim, Table, Tally, compare, duration, fill, markdown
from reports.experiments.runs import NotAtHandError, Runs

NONE = cast(Runs, None)
"""Queries of these tests ask no runs."""


def claim(**given: Any) -> Claim:
    blank: dict[str, Any] = {"what": "GPUs", "paper": (6,), "ours": lambda _: (6,)}
    return Claim(**blank | given)


@pytest.mark.parametrize(
    ("given", "ours", "same"),
    [
        ({}, (6,), True),
        ({}, (5,), False),
        ({"paper": (100.0,), "within": 0.1}, (90.0,), True),
        ({"paper": (100.0,), "within": 0.1}, (89.0,), False),
        ({"paper": (100.0, 1.0), "within": 0.1}, (100.0, 2.0), False),
        ({"paper": ("W7, W8",)}, ("W7, W8",), True),
        ({"paper": ("W7, W8",)}, ("W7",), False),
        ({"paper": "low", "holds": lambda late: late < 1.0}, (0.5,), True),
        ({"paper": "low", "holds": lambda late: late < 1.0}, (1.5,), False),
        ({"paper": "low", "holds": lambda late: np.float64(late) < 1.0}, (0.5,), True),
        ({"paper": "low"}, (0.5,), None),
        ({}, (None,), False),
        ({"paper": "low", "holds": lambda late: late < 1.0}, (None,), False),
    ],
)
def test_a_claim_is_the_same_within_its_tolerance_alone(given: dict[str, Any], ours: tuple[Any], same: bool) -> None:
    assert claim(**given).same(ours) is same


def test_why_not_appears_only_where_numbers_differ() -> None:
    tally = Tally()
    said = {"why_not": "another machine", "note": "calibrated"}
    claims = [claim(**said), claim(**said, ours=lambda _: (7,)), claim(paper="few"), claim(ours=lambda _: (None,))]
    assert compare(claims, NONE, tally).splitlines()[2:] == [
        "| GPUs | 6 | 6 | yes | calibrated |",
        "| GPUs | 6 | 7 | no | another machine; calibrated |",
        "| GPUs | few | 6 | – |  |",
        "| GPUs | 6 | no plan | no |  |",
    ]
    assert tally == Tally(same=1, other=2, not_at_hand=0)


def missing(_: Runs) -> Any:
    raise NotAtHandError("no runs")


def test_what_is_missing_is_said_in_its_place() -> None:
    tally = Tally()
    (line,) = compare([claim(ours=missing, why_not="never", note="calibrated")], NONE, tally).splitlines()[2:]
    assert line == "| GPUs | 6 | no runs |  | calibrated |"
    assert tally == Tally(not_at_hand=1)
    table = Table(("a", "b"), [("here", lambda _: "1"), ("there", missing)])
    assert fill(table, NONE).splitlines()[2:] == ["| here | 1 |", "| there | no runs |"]


def test_a_stroke_in_a_cell_does_not_end_it() -> None:
    assert markdown(["a|b"], [["c"]]).splitlines() == ["| a\\|b |", "| --- |", "| c |"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.000447, "0.447 ms"), (3.46, "3.5 s"), (1234.5, "1,234 s"), (None, "–")],
)
def test_times_have_the_unit_that_suits_them(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words
