"""``bench show``: the leaderboard of a ledger, one run in full, or an instance."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.options import DEFAULT_LEDGER, Format, FormatOption, LedgerOption

if TYPE_CHECKING:
    from bench.ledger import Ledger
    from bench.row import Row
    from instances import Instance

EXAMPLES = (
    "bench show                          # the best of each scheduler",
    "bench show 64gpu-cost               # an instance, and the best of each scheduler on it",
    "bench show 3f9c2a1b                 # the run whose key starts so",
    "bench show 3f9c2a1b --plan -o plan.json",
)

_KEY = re.compile("[0-9a-f]{4,64}", re.IGNORECASE)


def show_things(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN|INSTANCE", help="Start of a run's key; instance, suite or file; or nothing."),
    ] = None,
    ledger_file: LedgerOption = DEFAULT_LEDGER,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only the run's plan, as a file with its instance inside.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="With --plan, or an instance: file to write.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show the best results so far, a run in full, or an instance."""
    from bench.ledger import Ledger
    from instances import InputError

    if plan or output is not None:
        if names is None or len(names) != 1:
            raise InputError("--plan" if plan else "--output", "needs exactly one name: whose?")
        _write(names[0], ledger_file, plan, output)
    elif not names:
        with Ledger(ledger_file) as ledger:
            _show_leaderboard(ledger, ledger.rows(), form)
    else:
        _show_each(names, ledger_file, form)


def _write(name: str, ledger_file: Path, plan: bool, output: Path | None) -> None:
    """Write a run's plan or an instance as a file."""
    from bench.cli.terminal import print_json, say
    from bench.ledger import Ledger
    from instances import InputError
    from instances.files import instance_to_json, plan_from_json, plan_to_json, write_json

    if plan:
        with Ledger(ledger_file) as ledger:
            row = ledger.row(name)
            if row.plan is None:
                raise InputError(f"run {name}", f"has no plan: {row.termination} {row.reason}".rstrip())
            data = plan_to_json(plan_from_json(row.plan), ledger.instance(row.instance_hash))
    else:
        found = _instances(name, ledger_file)
        if len(found) != 1:
            raise InputError("--output", f'"{name}" is {len(found) or "no"} instances; with --plan a run is written')
        data = instance_to_json(found[0])
    if output is None:
        print_json(data)
    else:
        write_json(output, data)
        say(f"wrote {output}")


def _show_each(names: Sequence[str], ledger_file: Path, form: Format) -> None:
    """Show runs and instances; in JSON one is an object, several are a list."""
    from bench.cli.instance_view import show_instance
    from bench.cli.run import row_json
    from bench.cli.run_view import show_run
    from bench.cli.terminal import print_json
    from bench.gap import ledger_gaps
    from bench.ledger import Ledger
    from instances.files import instance_to_json

    found: list[dict[str, object]] = []
    for name in names:
        instances = _instances(name, ledger_file)
        if instances:
            for instance in instances:
                if form is Format.JSON:
                    found.append(instance_to_json(instance))
                    continue
                show_instance(instance)
                if os.path.isfile(ledger_file):  # noqa: PTH113 - false, not an error, for impossible names
                    with Ledger(ledger_file) as ledger:
                        rows = ledger.rows(instance_hash=instance.fingerprint)
                        if rows:
                            _show_leaderboard(ledger, rows, form)
            continue
        with Ledger(ledger_file) as ledger:
            row = ledger.row(name)
            gaps = ledger_gaps([row], ledger)
            if form is Format.JSON:
                found.append(row_json(row, gaps))
            else:
                show_run(row, gaps[row.key], ledger)
    if form is Format.JSON:
        print_json(found[0] if len(found) == 1 else found)


def _instances(name: str, ledger_file: Path) -> list["Instance"]:
    """Return the instances that ``name`` stands for; none if it can only be a run.

    Raises
    ------
    InputError
        If it is neither a known name, nor a file, nor something a run's key may start with.
    """
    from bench.cli.selection import known_names, looks_like_file, named_instances
    from bench.ledger import Ledger
    from instances.errors import unknown_name
    from instances.files import read_instance

    named = named_instances(name)
    if named:
        return named
    if os.path.isfile(ledger_file):  # noqa: PTH113 - false, not an error, for impossible names
        with Ledger(ledger_file) as ledger:
            stored = dict.fromkeys(row.instance_hash for row in ledger.rows(instance=name))
            if stored:
                return [ledger.instance(fingerprint) for fingerprint in stored]
    if looks_like_file(name):
        return [read_instance(Path(name))]
    if not _KEY.fullmatch(name):
        raise unknown_name("show", "instance or run", name, known_names())
    return []


def _show_leaderboard(ledger: "Ledger", rows: Sequence["Row"], form: Format) -> None:
    from bench.cli.run import row_json
    from bench.cli.tables import run_table
    from bench.cli.terminal import print_json, show
    from bench.gap import ledger_gaps

    best = leaders(rows)
    gaps = ledger_gaps(best, ledger)
    if form is Format.JSON:
        print_json([row_json(row, gaps) for row in best])
        return
    show(run_table(best, gaps))


def leaders(rows: Sequence["Row"]) -> list["Row"]:
    """Return the best row of each scheduler on each instance: instances by name, the best scheduler first.

    Feasible plans go before infeasible ones, those before none; then the better value, then the shorter decision.
    """

    def rank(row: "Row") -> tuple[bool, bool, float, float]:
        value = row.value if row.value is not None else 0.0
        return (
            not row.feasible,
            row.value is None,
            value if row.objective == "cost" else -value,
            row.decision_s if row.decision_s is not None else float("inf"),
        )

    best: dict[tuple[str, str], Row] = {}
    for row in rows:
        place = row.instance_hash, row.scheduler
        if place not in best or rank(row) < rank(best[place]):
            best[place] = row
    return sorted(best.values(), key=lambda row: (row.instance, row.instance_hash, *rank(row)))
