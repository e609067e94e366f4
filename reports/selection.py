"""Selection of the rows that a figure draws, with notes on the missing ones."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

from bench.ledger.bound_scope import claim_in_words
from bench.ledger.row import Row
from instances.grouping import grouped
from instances.instance import Instance
from reports.figure import Figure
from reports.need import Need, NothingToDrawError, made_for, tried_like
from reports.runs import instances_named

_COMMANDS_NAMED = 4
_Label = TypeVar("_Label")


@cache
def instances_of(needs: tuple[Need, ...]) -> Mapping[str, Instance]:
    """Return the instances of ``needs`` by name, those of ``Need.quick`` included, in the order of the suites."""
    return instances_named(",".join(names for need in needs for names in (need.instances, need.quick) if names))


def own_rows(figure: Figure, rows: Sequence[Row]) -> list[Row]:
    """Return the latest row of each run on a figure's instances, in the order of its needs.

    ``rows`` are oldest first. Those under other conditions than the needs' are left out. Those of schedulers that no
    need names come last, by scheduler name.

    Raises
    ------
    NothingToDrawError
        If no row is left; the error names the commands to run.
    """
    known = instances_of(figure.needs)
    trials = list(dict.fromkeys(need.trial for need in figure.needs))
    latest = {
        (row.scheduler, row.instance, row.seed, like[0]): row
        for row in rows
        # An instance in a file may have the same name.
        if row.instance in known
        and row.instance_hash == known[row.instance].fingerprint
        and (like := [trial for trial in trials if tried_like(row, trial)])
    }
    if not latest:
        raise nothing_to_draw(figure)
    schedulers, instances = _schedulers(figure), list(known)

    def place(row: Row) -> tuple[int, str, int, int]:
        named = schedulers.index(row.scheduler) if row.scheduler in schedulers else len(schedulers)
        return named, row.scheduler, instances.index(row.instance), row.seed

    return sorted(latest.values(), key=place)


def rows_by_label(rows: Sequence[Row], needs: Mapping[_Label, Need]) -> dict[tuple[_Label, str], Row]:
    """Return by label and instance the latest row of each need; several needs may name the same scheduler."""
    known = instances_of(tuple(needs.values()))
    return {
        (label, row.instance): row
        for label, need in needs.items()
        for row in made_for(rows, need)
        if row.instance in known and row.instance_hash == known[row.instance].fingerprint
    }


def nothing_to_draw(figure: Figure) -> NothingToDrawError:
    """Return the error of a figure without rows, with the commands that make them."""
    commands = "`, `".join(need.command for need in figure.needs[:_COMMANDS_NAMED])
    more = len(figure.needs) - _COMMANDS_NAMED
    others = f" and {more} more like these" if more > 0 else ""
    made_with = f"`bench figures {figure.name}`, or by hand with `{commands}`{others}"
    return NothingToDrawError(figure.name, f"no run to draw; make its runs with {made_with}")


def plans_and_notes(figure: Figure, rows: Sequence[Row], others: bool = True) -> tuple[dict[str, Row], list[str]]:
    """Return the row to draw for each scheduler, which is its first row with a plan, and the figure's notes.

    Without ``others``, rows of schedulers outside the figure's needs are left out.

    Raises
    ------
    NothingToDrawError
        If there is no row with a plan.
    """
    known = _schedulers(figure)
    own = own_rows(figure, [row for row in rows if others or row.scheduler in known])
    plans: dict[str, Row] = {}
    for row in own:
        if row.plan is not None:
            plans.setdefault(row.scheduler, row)
    notes = missing_notes(figure, own, [row for row in own if row.scheduler not in plans])
    for scheduler, row in plans.items():
        unmarked = (row.violations or 0) - len(row.violation_details)  # details of the first ones only
        if unmarked > 0:
            notes.append(f"{scheduler}: {unmarked} more violations are not marked.")
    return plans, notes


def missing_notes(figure: Figure, rows: Sequence[Row], fruitless: Sequence[Row]) -> list[str]:
    """Return a figure's notes on missing results: the schedulers of its needs that have none of its ``rows``.

    The notes also name the rows without a result to draw, ``fruitless``, by scheduler, reason and instance.

    Raises
    ------
    NothingToDrawError
        If there are no rows or all are fruitless: a figure without a result is not drawn.
    """
    if not rows:
        raise nothing_to_draw(figure)
    lines = []
    missing = [scheduler for scheduler in _schedulers(figure) if all(row.scheduler != scheduler for row in rows)]
    if missing:
        lines.append(f"Not run: {', '.join(missing)}.")
    if where := grouped((f"{row.scheduler} ({_cause(row)})", row.instance) for row in fruitless):
        named = (f"{who} on {', '.join(dict.fromkeys(names))}" for who, names in where.items())
        lines.append(f"Without a result: {'; '.join(named)}.")
    if len(fruitless) == len(rows):
        raise NothingToDrawError(figure.name, f"no run has a result to draw. {' '.join(lines)}")
    return lines


def _schedulers(figure: Figure) -> list[str]:
    return list(dict.fromkeys(scheduler for need in figure.needs for scheduler in need.schedulers))


def _cause(row: Row) -> str:
    """Return the reason of a missing result in a few words: the termination, violations, or the scheduler's status."""
    if row.violations:
        return "violations"
    return (claim_in_words(row) if row.termination == "finished" else str(row.termination)).replace("_", " ")
