"""``bench prove``: the certificate of a run's bound, checked before it is written."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.api import Status
from bench.certificate.certificate import NO_PLAN_EXISTS
from bench.certificate.checking import ProofVerdict, check
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.in_time import LOOSENED, within
from bench.certificate.patterns import Progress
from bench.certificate.proving import as_strong, certificate
from bench.cli.completion import complete_instance
from bench.cli.options import DEFAULT_LEDGER, GAVE_UP, CheckLimitOption, LedgerOption, output_option
from bench.cli.terminal import say
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import show
from bench.formatting import short_key
from bench.ledger.gap import reachable
from bench.ledger.row import Row
from bench.ledger.row_schema import to_json
from bench.ledger.store import Ledger
from bench.planning import require_limit
from instances import InputError, Instance, Objective, Partition
from instances.errors import FieldName, unknown_name
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
    check_limit: CheckLimitOption = 300.0,
    ledger_file: LedgerOption = DEFAULT_LEDGER,
) -> None:
    """Write the certificate of a run's bound: the instance, the plan, the claim, and duals that prove it.

    The certificate is checked first, as `bench check` does; the run is then marked as checked in the ledger. Most
    checks take seconds, those of hundreds of workloads or under capacity minutes. If a check takes longer than
    --check-limit, the command proves a weaker bound by the same duals.

    Exit codes: 0 written and proven, 1 not proven, 2 wrong input, 3 given up; nothing is written unless it is proven.
    """
    require_limit(FieldName("check_limit"), check_limit)
    with Ledger(ledger_file) as ledger:
        row = _row_of(name, ledger)
        instance = ledger.instance(row.instance_hash)
        data, verdict = _checked_certificate_of(row, instance, check_limit)
        show(verdict.sentence)
        if not verdict.proven:
            raise typer.Exit(GAVE_UP if verdict.given_up else 1)
        write_json(output, data)
        claimed = data["claim"]["bound"]
        # An infinite bound says that no plan exists.
        if as_strong(inf if claimed == NO_PLAN_EXISTS else Fraction(claimed), row.bound, instance.objective.minimised):
            ledger.mark_checked(row.key)
        elif row.bound is not None:
            bound = reachable(row.bound, instance.objective is Objective.COST, instance)
            say(f"note: the run's own bound, {bound:.10g}, is stronger than what this certificate proves")


def _row_of(name: str, ledger: Ledger) -> Row:
    """Return the run that ``name`` means: the run with the best bound on an instance, or the run with this key.

    Raises
    ------
    InputError
        If there is no such run.
    """
    instance = name.removeprefix(LIBRARY_MARK)
    rows = ledger.rows(instance=instance, truth=None, source="plan", headroom=1.0, margin=None)
    if (best := _best_bound(rows)) is not None:
        return best
    if rows:
        schedulers = ", ".join(sorted({row.scheduler for row in rows}))
        raise InputError(
            str(ledger.path),
            f'no run on "{name}" has a bound with duals (runs of {schedulers}); run an exact scheduler such as colgen',
        )
    if re.fullmatch("[0-9a-fA-F]+", name):
        return ledger.row(name)
    names = sorted(set(ledger.instance_names().values()))
    raise unknown_name(str(ledger.path), "run or instance", name, names, "`bench run --instances NAME` adds runs")


def _best_bound(rows: Sequence[Row]) -> Row | None:
    """Return the run with the best bound among the runs on one instance, or ``None``; runs with duals come first."""
    with_bound = [
        row for row in rows if row.bound is not None and (row.duals is not None or row.status == Status.OPTIMAL)
    ]
    sign = -1.0 if rows and rows[0].objective == "cost" else 1.0
    return min(with_bound, key=lambda row: (row.duals is None, sign * (row.bound or 0.0)), default=None)


def _checked_certificate_of(row: Row, instance: Instance, check_limit_s: float) -> tuple[dict[str, Any], ProofVerdict]:
    """Return the certificate of a run and the verdict of its check.

    If the check takes longer than the limit, the same duals are used for weaker bounds, whose checks are shorter.
    """
    can_be_weaker = row.duals is not None and instance.partition is not Partition.MIG
    attempts = LOOSENED if can_be_weaker else LOOSENED[:1]
    for loosened, weaker in zip(attempts, [*attempts[1:], None], strict=True):
        with progress_bar("searching patterns") as update:
            data, verdict = _attempt(row, instance, within(check_limit_s, partial(_advance, update)), loosened)
        if not verdict.given_up or weaker is None:
            break
        say(f"{verdict.sentence}; trying a weaker bound, with {weaker:.0%} more room in every pattern")
    return data, verdict


def _advance(update: Callable[..., None], part: float) -> None:
    update(advance=part)


def _attempt(row: Row, instance: Instance, progress: Progress, loosened: float) -> tuple[dict[str, Any], ProofVerdict]:
    """Return a certificate of a run and the verdict of its check; empty if a limit ended the work on it."""
    plan = row.plan if row.feasible else None
    nodes = () if row.duals is None else to_json(row.duals)["nodes"]
    where = f"run {short_key(row)}"
    try:
        data = certificate(instance, plan, nodes, row.bound, to_json(row.bound_scope), progress, loosened)
    except GivenUpError as limit:  # a subclass of NotProvenError
        return {}, ProofVerdict(False, f"given up: {limit}", given_up=True)
    except NotProvenError as reason:
        raise InputError(where, f"has no certificate: {reason}") from None
    return data, check(data, where, progress)
