"""Schedulers on open entries: the best plan and the best bound of each run go into the library."""

import time
from collections.abc import Callable
from contextlib import suppress
from math import isfinite

from bench.api import Bound, Duals, Outcome, Run, Scheduler, refusal
from bench.certificate.checking import check
from bench.certificate.exhaustive import MOST_WORKLOADS
from bench.certificate.failures import NotProvenError
from bench.certificate.proving import certificate
from bench.library.submission import Submission, with_bound, with_plan
from instances import Objective, Plan
from instances.library import Library, LibraryEntry


class CheckTooLongError(Exception):
    """The check of a certificate exceeds its time limit."""


def solve(
    library: Library,
    name: str,
    scheduler: Scheduler,
    by: str,
    time_limit_s: float,
    check_limit_s: float,
    tell: Callable[[Submission], None],
) -> None:
    """Run a scheduler on an entry, starting from its plan; write and tell each improvement.

    The newest plan that improves the entry ``name`` is written when the run ends, also by Ctrl-C. The bound is written
    after the check of its certificate. The entry credits ``by``. ``check_limit_s`` limits the making and the check of
    the certificate, in seconds of computing.
    """
    entry = library.entry(name)
    if refusal(scheduler, entry.instance) is not None:
        return
    plans: list[Plan] = []

    def keep(plan: Plan | None, bound: Bound | None) -> None:
        if plan is not None:
            plans.append(plan)

    try:
        run = Run(time.monotonic() + time_limit_s, start=entry.plan, listener=keep)
        outcome = scheduler.schedule(entry.instance, run)
        keep(outcome.plan, None)
    finally:  # after Ctrl-C, too
        for plan in reversed(plans):
            found, entry = with_plan(entry, plan, by)
            if found.new_best:
                library.write(entry)
                tell(found)
                break
    with suppress(NotProvenError, CheckTooLongError):
        proven = _proved(entry, outcome, by, check_limit_s)
        if proven is not None and proven[0].new_bound:
            library.write(proven[1])
            tell(proven[0])


def _proved(entry: LibraryEntry, outcome: Outcome, by: str, limit_s: float) -> tuple[Submission, LibraryEntry] | None:
    """Check the certificate of a run; return the result and the entry as ``with_bound`` does, ``None`` without one."""
    duals = [node for node in outcome.proof if isinstance(node, Duals)]
    if not all(isfinite(x) for node in duals for x in (*node.workloads, *node.gpus)):
        return None
    bound = outcome.bound
    small = len(entry.instance.workloads) <= MOST_WORKLOADS and entry.bound is None
    known = bool(outcome.proof) or entry.instance.objective is Objective.GOODPUT
    if (not known and not small) or (bound is None and entry.instance.objective is Objective.SCALE):
        return None
    deadline = time.process_time() + limit_s

    def in_time(_: float) -> None:
        if time.process_time() > deadline:
            raise CheckTooLongError

    value = None if bound is None else bound.value
    data = certificate(entry.instance, entry.plan, outcome.proof, value, bound, in_time)
    verdict = check(data, entry.instance.name, in_time)
    if not verdict.proven:
        raise NotProvenError(verdict.sentence)
    prover = "exhaustive search" if data["proof"]["kind"] == "exhaustive" else by
    return with_bound(entry, data, verdict, prover)
