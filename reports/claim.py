"""Claims: a paper's statement, our numbers, and a verdict on the two."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Concatenate, ParamSpec, TypeVar

from reports.runs import NotAtHandError, Runs

Values = tuple[Any, ...]
"""Numbers and words; ``None`` marks a value that a run does not have."""

HEAD = ("what", "paper", "here", "verdict", "reason or note")

NOTHING_PUBLISHED = "–"
"""The paper's column of a line without a number in the paper; such a line has no verdict."""


class ClaimVerdict(StrEnum):
    """Verdicts on our numbers beside the paper's."""

    REPRODUCED = "reproduced"
    """They agree within the stated tolerance."""
    BETTER = "better"
    """Ours is better by a stated factor."""
    DIFFERENT = "different"
    """They differ, for a stated reason."""
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
        The paper's numbers, or its words where it gives none.
    ours
        The query that computes our numbers.
    form
        Format string of both, with a place for each number.
    within
        Largest relative difference from the paper's numbers at which the claim is reproduced.
    holds
        Test that replaces ``within``: whether our numbers support the paper's statement.
    criterion
        ``holds`` in words; the table shows it beside the verdict.
    better
        Function that returns the factor by which our numbers are better than the paper's, at most 1 if they are not;
        see ``below``. ``None`` if no direction is better.
    not_comparable
        The reason why the two cannot be compared: the paper withholds an input that decides the number, our times are
        calibrated to the number, or ours is another quantity. Empty if they can be compared.
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
    holds: Callable[..., bool] | None = None
    criterion: str = ""
    better: Callable[..., float] | None = None
    not_comparable: str = ""
    reason: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if (self.holds is None) != (not self.criterion):
            raise ValueError(f"{self.what}: has only one of `holds` and `criterion`; expected both or none")
        if isinstance(self.paper, str) and self.published and self.holds is None and not self.not_comparable:
            raise ValueError(f"{self.what}: the paper's statement is in words; expected `holds` or `not_comparable`")

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
        if self.holds is not None:
            return bool(self.holds(*ours))
        return all(_equal(*pair, self.within) for pair in zip(ours, self.paper, strict=True))

    def written(self, values: Values) -> str:
        """Return numbers as they appear in the table."""
        return "no plan" if None in values else self.form.format(*values)

    def judged(self, ours: Values) -> tuple[str, str]:
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
    """Return a measure for ``Claim.better``: the factor by which our first number is below the paper's."""
    return lambda first, *_: paper / first


Query = Callable[[Runs], str]
"""Function that returns an entry of a table from the runs."""

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


def query(answer: Callable[Concatenate[Runs, _Asked], _Answer]) -> Callable[_Asked, Callable[[Runs], _Answer]]:
    """Decorate a function of runs and of further arguments: called with these arguments alone, it returns a query."""

    def asked(*arguments: _Asked.args, **named: _Asked.kwargs) -> Callable[[Runs], _Answer]:
        return lambda runs: answer(runs, *arguments, **named)

    return asked


@dataclass(frozen=True, slots=True)
class QueryTable:
    """A table: its head, and lines of texts and queries."""

    head: tuple[str, ...]
    lines: Sequence[tuple[str | Query, ...]]


NOT_AT_HAND = "no data"
"""Column of the summary for claims without a verdict, because runs or measurements are missing."""

Tally = Counter[str]
"""Number of claims of a section by verdict, and of those ``NOT_AT_HAND``."""

COUNTED = (*ClaimVerdict, NOT_AT_HAND)


def compare(claims: Sequence[Claim], runs: Runs, tally: Tally) -> str:
    """Return claims as a table in Markdown, and count their verdicts into ``tally``."""
    lines = []
    for claim in claims:
        paper = claim.paper if isinstance(claim.paper, str) else claim.written(claim.paper)
        try:
            ours = claim.ours(runs)
        except NotAtHandError as missing:
            tally[NOT_AT_HAND] += claim.published
            lines.append((claim.what, paper, str(missing), "", claim.note))
            continue
        verdict = claim.verdict(ours)
        if verdict is not None:
            tally[verdict] += 1
        lines.append((claim.what, paper, claim.written(ours), *claim.judged(ours)))
    return markdown(HEAD, lines)


def fill(table: QueryTable, runs: Runs) -> str:
    """Return a table in Markdown with the answers to its queries."""
    lines = [tuple(cell if isinstance(cell, str) else _answer(cell, runs) for cell in line) for line in table.lines]
    return markdown(table.head, lines)


def _answer(cell: Query, runs: Runs) -> str:
    try:
        return cell(runs)
    except NotAtHandError as missing:
        return str(missing)


def duration(seconds: float | None) -> str:
    """Return a time as it appears in a table."""
    if seconds is None:
        return "–"
    if seconds < 1.0:
        return f"{1000.0 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 10.0 else f"{seconds:,.0f} s"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in (head, ["---"] * len(head), *lines))
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def _joined(*sentences: str) -> str:
    return "; ".join(filter(None, sentences))


def _equal(ours: Any, paper: Any, within: float) -> bool:
    if isinstance(paper, str):
        return bool(ours == paper)
    return math.isclose(ours, paper, rel_tol=within, abs_tol=0.0)
