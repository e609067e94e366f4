"""Selection of the rows that a figure draws, with notes on the missing ones."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeVar

from bench.ledger.bound_scope import claim_in_words
from bench.ledger.row import Row
from instances.grouping import grouped
from instances.instance import Instance
from reports.figure import Figure
from reports.need import Need, NothingToDrawError, has_conditions, rows_matching
from reports.runs import instances_named

_COMMANDS_NAMED = 4
"""Largest number of commands that an error names."""

_Label = TypeVar("_Label")


@cache
def instances_of(needs: tuple[Need, ...]) -> Mapping[str, Instance]:
    """Return the instances of ``needs`` by name, including those of ``Need.quick``, in the order of the suites."""
    return instances_named(",".join(names for need in needs for names in (need.instances, need.quick) if names))


def figure_rows(figure: Figure, rows: Sequence[Row]) -> list[Row]:
    """Return the latest row of each run on a figure's instances, in the order of its needs.

    ``rows`` are oldest first. Rows whose conditions match no need are left out. Rows of schedulers that no need names
    come last, ordered by scheduler name.

    Raises
    ------
    NothingToDrawError
        If no row is left; the error names the commands to run.
    """
    drawn_instances = instances_of(figure.needs)
    trials = list(dict.fromkeys(need.trial for need in figure.needs))
    latest = {
        (row.scheduler, row.instance, row.seed, matching_trials[0]): row
        for row in rows
        # The fingerprint is compared because an instance in a file may have the same name.
        if row.instance in drawn_instances
        and row.instance_hash == drawn_instances[row.instance].fingerprint
        and (matching_trials := [trial for trial in trials if has_conditions(row, trial)])
    }
    if not latest:
        raise nothing_to_draw(figure)
    schedulers, instances = _schedulers(figure), list(drawn_instances)

    def sort_key(row: Row) -> tuple[int, str, int, int]:
        scheduler_position = schedulers.index(row.scheduler) if row.scheduler in schedulers else len(schedulers)
        return scheduler_position, row.scheduler, instances.index(row.instance), row.seed

    return sorted(latest.values(), key=sort_key)


def rows_by_label(rows: Sequence[Row], needs: Mapping[_Label, Need]) -> dict[tuple[_Label, str], Row]:
    """Return the latest row of each need, by the need's label and the instance's name.

    Several needs may name the same scheduler, with other parameters or conditions.
    """
    drawn_instances = instances_of(tuple(needs.values()))
    return {
        (label, row.instance): row
        for label, need in needs.items()
        for row in rows_matching(rows, need)
        if row.instance in drawn_instances and row.instance_hash == drawn_instances[row.instance].fingerprint
    }


def nothing_to_draw(figure: Figure) -> NothingToDrawError:
    """Return the error of a figure without rows; the error names the commands that make these rows."""
    commands = "`, `".join(need.command for need in figure.needs[:_COMMANDS_NAMED])
    unnamed = len(figure.needs) - _COMMANDS_NAMED
    more_text = f" and {unnamed} more like these" if unnamed > 0 else ""
    remedy = f"`bench figures {figure.name}`, or by hand with `{commands}`{more_text}"
    return NothingToDrawError(figure.name, f"no run to draw; make its runs with {remedy}")


def plans_and_notes(figure: Figure, rows: Sequence[Row], others: bool = True) -> tuple[dict[str, Row], list[str]]:
    """Return the row to draw of each scheduler, and the figure's notes.

    The row to draw is the scheduler's first row with a plan. Without ``others``, only schedulers of the figure's needs
    have a row.

    Raises
    ------
    NothingToDrawError
        If there is no row with a plan.
    """
    needed_schedulers = _schedulers(figure)
    drawn_rows = figure_rows(figure, [row for row in rows if others or row.scheduler in needed_schedulers])
    plans: dict[str, Row] = {}
    for row in drawn_rows:
        if row.plan is not None:
            plans.setdefault(row.scheduler, row)
    notes = missing_notes(figure, drawn_rows, [row for row in drawn_rows if row.scheduler not in plans])
    for scheduler, row in plans.items():
        # A row has details of its first violations only.
        unmarked = (row.violations or 0) - len(row.violation_details)
        if unmarked > 0:
            notes.append(f"{scheduler}: {unmarked} more violations are not marked.")
    return plans, notes


def missing_notes(figure: Figure, rows: Sequence[Row], fruitless: Sequence[Row]) -> list[str]:
    """Return a figure's notes on missing results.

    The notes name the schedulers of the figure's needs without any of its ``rows``. They also name the rows in
    ``fruitless``, which have no result to draw, by scheduler, reason and instance.

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
    if instances_by_cause := grouped((f"{row.scheduler} ({_cause(row)})", row.instance) for row in fruitless):
        cause_texts = (
            f"{scheduler_and_cause} on {', '.join(dict.fromkeys(names))}"
            for scheduler_and_cause, names in instances_by_cause.items()
        )
        lines.append(f"Without a result: {'; '.join(cause_texts)}.")
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
