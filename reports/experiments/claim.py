"""A statement of a paper beside what comes out here: numbers, and whether they are the same."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.experiments.runs import NotAtHandError

if TYPE_CHECKING:
    from reports.experiments.runs import Runs

Values = tuple[Any, ...]
"""Numbers and words; ``None`` where a run has none."""

HEAD = ("what", "paper", "here", "same?", "why not")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A line of a table of comparisons.

    Attributes
    ----------
    what
        Is compared.
    paper
        Its numbers, or its words where it gives none.
    ours
        The query that computes the same numbers.
    form
        How both are written: a format string with a place for each number.
    within
        Relative difference up to which every number is the same as the paper's.
    holds
        In place of ``within``: whether our numbers say what the paper says.
    why_not
        Why they are not the same; appears only where they are not.
    note
        What to know in any case.
    """

    what: str
    paper: Values | str
    ours: "Callable[[Runs], Values]"
    form: str = "{}"
    within: float = 0.0
    holds: Callable[..., bool] | None = None
    why_not: str = ""
    note: str = ""

    def same(self, ours: Values) -> bool | None:
        """Return whether our numbers are the paper's; ``None`` where it gives nothing to compare."""
        if None in ours:
            return False
        if self.holds is not None:
            return bool(self.holds(*ours))
        if isinstance(self.paper, str):
            return None
        return all(_equal(*pair, self.within) for pair in zip(ours, self.paper, strict=True))

    def written(self, values: Values) -> str:
        """Return numbers as they appear in the table."""
        return "no plan" if None in values else self.form.format(*values)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its head, and its lines of words and queries."""

    head: tuple[str, ...]
    lines: "Sequence[tuple[str | Callable[[Runs], str], ...]]"


@dataclass
class Tally:
    """How many statements of a section turned out the same, how many did not, and how many are not at hand."""

    same: int = 0
    other: int = 0
    not_at_hand: int = 0


def compare(claims: Sequence[Claim], runs: "Runs", tally: Tally) -> str:
    """Return claims as a table in Markdown, and count their verdicts into ``tally``."""
    lines = []
    for claim in claims:
        paper = claim.paper if isinstance(claim.paper, str) else claim.written(claim.paper)
        try:
            ours = claim.ours(runs)
        except NotAtHandError as missing:
            tally.not_at_hand += 1
            lines.append((claim.what, paper, str(missing), "", claim.note))
            continue
        same = claim.same(ours)
        tally.same += same is True
        tally.other += same is False
        verdict = {True: "yes", False: "no", None: "–"}[same]
        said = [claim.why_not] if same is False else []
        lines.append((claim.what, paper, claim.written(ours), verdict, "; ".join(filter(None, [*said, claim.note]))))
    return markdown(HEAD, lines)


def fill(table: Table, runs: "Runs") -> str:
    """Return a table in Markdown with the answers to its queries."""
    lines = [tuple(cell if isinstance(cell, str) else answer(cell, runs) for cell in line) for line in table.lines]
    return markdown(table.head, lines)


def duration(seconds: float | None) -> str:
    """Return a time as it appears in a table."""
    if seconds is None:
        return "–"
    if seconds < 1.0:
        return f"{1000.0 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 10.0 else f"{seconds:,.0f} s"


def answer(query: "Callable[[Runs], str]", runs: "Runs") -> str:
    """Return the answer to a query, or what it lacks."""
    try:
        return query(runs)
    except NotAtHandError as missing:
        return str(missing)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in (head, ["---"] * len(head), *lines))
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def _equal(ours: Any, paper: Any, within: float) -> bool:
    if isinstance(paper, str):
        return bool(ours == paper)
    return math.isclose(ours, paper, rel_tol=within, abs_tol=0.0)
