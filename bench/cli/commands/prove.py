"""``bench prove``: the certificate of a run's bound, checked before it is written."""

from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.api import Status
from bench.certificate.certificate import NO_PLAN_EXISTS
from bench.certificate.checking import check
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.proving import as_strong, certificate
from bench.cli.completion import complete_instance
from bench.cli.options import DEFAULT_LEDGER, GAVE_UP, LedgerOption, output_option
from bench.cli.terminal import say
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import show
from bench.ledger.row import Row
from bench.ledger.row_schema import to_json
from bench.ledger.store import Ledger
from instances import InputError, Instance
from instances.files import write_json
from instances.library.collection import MARK as LIBRARY_MARK

EXAMPLES = (
    "bench prove igniter-12 -o proof.json   # the best bound on an instance",
    "bench prove library/cost-t4-10 -o proof.json   # the same on an entry of the library",
    "bench prove 3f9c2a1b -o proof.json     # the run whose key starts with 3f9c2a1b",
    "bench prove 3f9c2a1b -o proof.json.gz  # compressed",
)


def prove(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN|INSTANCE",
            autocompletion=complete_instance,
            help="Start of a run's key, or an instance: the run with the best bound on it.",
        ),
    ],
    output: Annotated[Path, output_option("File for the certificate.")],
    ledger_file: LedgerOption = DEFAULT_LEDGER,
) -> None:
    """Write the certificate of a run's bound: the instance, the plan, the claim, and duals that prove it.

    The certificate is checked first, as `bench check` does; the run is then marked as checked in the ledger.

    Exit codes: 0 written and proven, 1 not proven, 2 wrong input, 3 given up; nothing is written unless it is proven.
    """
    with Ledger(ledger_file) as ledger:
        row = _best_bound(name.removeprefix(LIBRARY_MARK), ledger) or ledger.row(name)
        instance = ledger.instance(row.instance_hash)
        try:
            data = _certificate_of(row, instance)
        except GivenUpError as limit:
            show(f"given up: {limit}")
            raise typer.Exit(GAVE_UP) from None
        with progress_bar("searching patterns") as update:
            verdict = check(data, f"run {row.key[:8]}", lambda part: update(advance=part))
        show(verdict.sentence)
        if not verdict.proven:
            raise typer.Exit(GAVE_UP if verdict.given_up else 1)
        write_json(output, data)
        claimed = data["claim"]["bound"]
        # An infinite bound says that no plan exists.
        if as_strong(inf if claimed == NO_PLAN_EXISTS else Fraction(claimed), row.bound, instance.objective.minimised):
            ledger.mark_checked(row.key)
        elif row.bound is not None:
            say(f"note: the run's own bound, {row.bound:.10g}, is stronger than what its duals prove")


def _best_bound(instance: str, ledger: Ledger) -> Row | None:
    """Return the run with the best bound on an instance of this name, or ``None``; runs with duals come first."""
    rows = [
        row
        for row in ledger.rows(instance=instance, truth=None, source="plan", headroom=1.0, margin=None)
        if row.bound is not None and (row.duals is not None or row.status == Status.OPTIMAL)
    ]
    sign = -1.0 if rows and rows[0].objective == "cost" else 1.0
    return min(rows, key=lambda row: (row.duals is None, sign * (row.bound or 0.0)), default=None)


def _certificate_of(row: Row, instance: Instance) -> dict[str, Any]:
    plan = row.plan if row.feasible else None
    nodes = () if row.duals is None else to_json(row.duals)["nodes"]
    try:
        return certificate(instance, plan, nodes, row.bound, to_json(row.bound_scope))
    except GivenUpError:  # a subclass of NotProvenError that the command reports differently
        raise
    except NotProvenError as reason:
        raise InputError(f"run {row.key[:8]}", f"has no certificate: {reason}") from None
