"""Claims: a paper's statement, our numbers, and the verdict of their comparison."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Concatenate, ParamSpec, TypeVar

from reports.runs import MissingDataError, Runs

Values = tuple[Any, ...]
"""Numbers and words of a claim; ``None`` marks a value that a run does not have."""

HEAD = ("what", "paper", "here", "verdict", "reason or note")

TAKEN_FROM_PAPER = "taken from the paper, so that agreement is by construction"
"""Reason why a number is not comparable."""

NOTHING_PUBLISHED = "–"
"""Text of the column "paper" where the paper has no number; such a line has no verdict."""

NO_PROTOTYPE = "the prototype, a serving system, is not rebuilt here"
"""Reason why the size of a prototype's code is not comparable."""


def not_modelled(_: Runs) -> Values:
    """Return a dash, for a quantity that the bench does not model."""
    return ("–",)


class ClaimVerdict(StrEnum):
    """Verdicts on our numbers, compared with the paper's numbers."""

    REPRODUCED = "reproduced"
    """Our numbers agree with the paper's within the stated tolerance."""
    BETTER = "better"
    """Our numbers are better by a stated factor."""
    DIFFERENT = "different"
    """Our numbers differ from the paper's, for a stated reason."""
    NOT_COMPARABLE = "not comparable"
    """Agreement would be chance or by construction, for a stated reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A line of a table that compares the paper's numbers with ours.

    Attributes
    ----------
    what
        The quantity or the statement.
    paper
        The paper's numbers; its statement in words if it gives no numbers.
    ours
        The query that computes our numbers.
    form
        Format string of the paper's numbers and of ours, with one field for each number.
    within
        Largest relative difference from the paper's numbers at which the claim is reproduced.
    supports
        Test of whether our numbers support the paper's statement; it replaces ``within``.
    criterion
        ``supports`` in words; the table shows it beside the verdict.
    better
        Function that returns the factor by which our numbers are better than the paper's, at most 1 if they are not;
        see ``below``. ``None`` if no direction is better.
    not_comparable
        The reason why our numbers cannot be compared with the paper's. For example, the paper withholds a necessary
        input, our times are calibrated to the number, or we measure another quantity. Empty if they can be compared.
    reason
        The reason of the difference; the table shows it only with the verdict *different*.
    note
        A remark that the table always shows.
    """

    what: str
    paper: Values | str
    ours: Callable[[Runs], Values]
    form: str = "{}"
    within: float = 0.0
    supports: Callable[..., bool] | None = None
    criterion: str = ""
    better: Callable[..., float] | None = None
    not_comparable: str = ""
    reason: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if (self.supports is None) != (not self.criterion):
            raise ValueError(f"{self.what}: has only one of `supports` and `criterion`; expected both or none")
        if isinstance(self.paper, str) and self.published and self.supports is None and not self.not_comparable:
            raise ValueError(f"{self.what}: the paper's statement is in words; expected `supports` or `not_comparable`")

    @property
    def published(self) -> bool:
        """Whether the paper has a number or statement to compare with."""
        return self.paper != NOTHING_PUBLISHED

    def verdict(self, ours: Values) -> ClaimVerdict | None:
        """Return the verdict on our numbers; ``None`` if the paper has none."""
        if not self.published:
            return None
        if self.not_comparable:
            return ClaimVerdict.NOT_COMPARABLE
        if None in ours:
            return ClaimVerdict.DIFFERENT
        if self._agrees(ours):
            return ClaimVerdict.REPRODUCED
        if self.better is not None and self.better(*ours) > 1.0:
            return ClaimVerdict.BETTER
        return ClaimVerdict.DIFFERENT

    def _agrees(self, ours: Values) -> bool:
        if self.supports is not None:
            return bool(self.supports(*ours))
        return all(_equal(our, paper, self.within) for our, paper in zip(ours, self.paper, strict=True))

    def formatted(self, values: Values) -> str:
        """Return numbers in the format of the table."""
        return "no plan" if None in values else self.form.format(*values)

    def verdict_cells(self, ours: Values) -> tuple[str, str]:
        """Return the last two cells of the line: the verdict with its tolerance or factor, and the reason or note."""
        match self.verdict(ours):
            case None:
                return "", self.note
            case ClaimVerdict.REPRODUCED:
                tolerance = self.criterion or (f"within {100.0 * self.within:g} %" if self.within else "exactly")
                return f"{ClaimVerdict.REPRODUCED}: {tolerance}", self.note
            case ClaimVerdict.BETTER:
                assert self.better is not None
                return f"{ClaimVerdict.BETTER}: {self.better(*ours):.3g} times", self.note
            case ClaimVerdict.DIFFERENT:
                return ClaimVerdict.DIFFERENT, _joined(self.reason, self.note)
            case ClaimVerdict.NOT_COMPARABLE:
                return ClaimVerdict.NOT_COMPARABLE, _joined(self.not_comparable, self.note)


def below(paper: float) -> Callable[..., float]:
    """Return a function for ``Claim.better``: the factor by which our first number is below the paper's number."""
    return lambda first, *_: paper / first


Query = Callable[[Runs], str]
"""Function that computes a cell of a table from the runs."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def query(
    function: Callable[Concatenate[Runs, _Arguments], _Result],
) -> Callable[_Arguments, Callable[[Runs], _Result]]:
    """Decorate a function of runs and of further arguments.

    The decorated function takes the further arguments alone. It returns a query, which takes the runs.
    """

    def make_query(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> Callable[[Runs], _Result]:
        return lambda runs: function(runs, *arguments, **named)

    return make_query


@dataclass(frozen=True, slots=True)
class QueryTable:
    """A table: its head, and its lines, whose cells are texts or queries."""

    head: tuple[str, ...]
    lines: Sequence[tuple[str | Query, ...]]


NO_DATA = "no data"
"""Column of the summary for claims that have no verdict because runs or measurements are missing."""

Tally = Counter[str]
"""Numbers of a section's claims: by verdict, and of the claims without data, under ``NO_DATA``."""

COUNTED = (*ClaimVerdict, NO_DATA)
"""Columns of the summary: keys of a tally."""


def compare(claims: Sequence[Claim], runs: Runs, tally: Tally) -> str:
    """Return claims as a table in Markdown, and count their verdicts into ``tally``."""
    lines = []
    for claim in claims:
        paper = claim.paper if isinstance(claim.paper, str) else claim.formatted(claim.paper)
        try:
            ours = claim.ours(runs)
        except MissingDataError as error:
            tally[NO_DATA] += claim.published
            lines.append((claim.what, paper, str(error), "", claim.note))
            continue
        verdict = claim.verdict(ours)
        if verdict is not None:
            tally[verdict] += 1
        lines.append((claim.what, paper, claim.formatted(ours), *claim.verdict_cells(ours)))
    return markdown(HEAD, lines)


def fill(table: QueryTable, runs: Runs) -> str:
    """Return a table in Markdown; the results of its queries fill their cells."""
    lines = [tuple(cell if isinstance(cell, str) else _cell_text(cell, runs) for cell in line) for line in table.lines]
    return markdown(table.head, lines)


def _cell_text(cell_query: Query, runs: Runs) -> str:
    try:
        return cell_query(runs)
    except MissingDataError as error:
        return str(error)


def duration(seconds: float | None) -> str:
    """Return a time in the format of a table."""
    if seconds is None:
        return "–"
    if seconds < 1.0:
        return f"{1000.0 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 10.0 else f"{seconds:,.0f} s"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    escaped_lines = ([cell.replace("|", "\\|") for cell in line] for line in (head, ["---"] * len(head), *lines))
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped_lines)


def _joined(*sentences: str) -> str:
    return "; ".join(filter(None, sentences))


def _equal(ours: Any, paper: Any, within: float) -> bool:
    if isinstance(paper, str):
        return bool(ours == paper)
    return math.isclose(ours, paper, rel_tol=within, abs_tol=0.0)
