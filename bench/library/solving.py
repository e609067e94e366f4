"""Schedulers on open entries: the best plan and the best bound of each run go into the library."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from itertools import chain
from math import isfinite
from typing import Any

from bench.api import Bound, Duals, Outcome, Run, Scheduler, refusal
from bench.certificate.checking import check
from bench.certificate.exhaustive import MOST_WORKLOADS
from bench.certificate.failures import NotProvenError
from bench.certificate.least_shares import duals_of_least_shares
from bench.certificate.patterns import Progress
from bench.certificate.proving import certificate
from bench.library.submission import Submission, credit, with_bound, with_plan
from bench.provenance import host
from instances import Objective, Plan
from instances.library import Credit, Library, LibraryEntry

LOOSENED = (0.05, 0.5, 4.0, 30.0)
"""Values of ``loosened`` (see ``certificate``), tried one after another while no bound of an entry is proven."""


class CheckTooLongError(Exception):
    """The check of a certificate exceeds its time limit, or a limit of the checker."""


def solve(
    library: Library,
    name: str,
    scheduler: Scheduler,
    author: str,
    time_limit_s: float,
    check_limit_s: float,
    report: Callable[[Submission], None],
) -> None:
    """Run a scheduler on an entry, starting from the plan of the entry; write and report each improvement.

    The newest plan that improves the entry ``name`` is written when the run ends, also by Ctrl-C. The bound is written
    after the check of its certificate. The entry credits ``author``, with this machine and the seconds of the run.
    ``check_limit_s`` is the limit in CPU seconds on making and checking the certificate.

    If the scheduler has the parameter ``certify``, it is switched on: a bound without a certificate is of no use here.
    """
    entry = library.entry(name)
    if is_dataclass(scheduler) and any(field.name == "certify" for field in fields(scheduler)):
        scheduler = replace(scheduler, certify=True)
    if refusal(scheduler, entry.instance) is not None:
        return
    plans: list[Plan] = []

    def record(plan: Plan | None, bound: Bound | None) -> None:
        if plan is not None:
            plans.append(plan)

    start_s = time.monotonic()
    try:
        run = Run(time.monotonic() + time_limit_s, start=entry.plan, listener=record)
        outcome = scheduler.schedule(entry.instance, run)
        record(outcome.plan, None)
    finally:  # after Ctrl-C, too
        finder = credit(author, str(host()["cpu"]), f"{time.monotonic() - start_s:.3g} s")
        for plan in reversed(plans):
            submission, entry = with_plan(entry, plan, finder)
            if submission.new_best:
                library.write(entry)
                report(submission)
                break
    proven = _first_proven(entry, outcome, finder, check_limit_s)
    if proven is not None and proven[0].new_bound:
        library.write(proven[1])
        report(proven[0])


def _first_proven(
    entry: LibraryEntry, outcome: Outcome, finder: Credit, limit_s: float
) -> tuple[Submission, LibraryEntry] | None:
    """Return the strongest bound of a run whose certificate is checked in time; ``None`` without one.

    If the entry has no bound yet, a weak bound is better than none. If the check of the run's bound takes too long, the
    function therefore tries weaker bounds by ``LOOSENED``, and at last the bound of the least shares.
    """
    lacks_bound = entry.bound is None
    for loosened in (0.0, *(LOOSENED if lacks_bound and outcome.proof else ())):
        try:
            proven = _proven_bound(entry, outcome, finder, limit_s, loosened)
        except CheckTooLongError:
            continue
        except NotProvenError:
            break
        if proven is not None:
            return proven
        break
    if not lacks_bound:
        return None
    try:
        return _proven_by_least_shares(entry, finder, limit_s)
    except (CheckTooLongError, NotProvenError):
        return None


def _proven_by_least_shares(
    entry: LibraryEntry, finder: Credit, limit_s: float
) -> tuple[Submission, LibraryEntry] | None:
    """Make and check the certificate of the bound that follows from the least shares alone."""
    raise_if_late = _time_check(limit_s)
    nodes, scale = duals_of_least_shares(entry.instance, entry.value or 0.0, raise_if_late)
    data = certificate(entry.instance, entry.plan, nodes, scale, None, raise_if_late)
    return _checked(entry, data, replace(finder, by="least shares", work=None), raise_if_late)


def _time_check(limit_s: float) -> Progress:
    """Return a function that raises ``CheckTooLongError`` once this process has used ``limit_s`` CPU seconds more."""
    deadline = time.process_time() + limit_s

    def raise_if_late(_: float) -> None:
        if time.process_time() > deadline:
            raise CheckTooLongError

    return raise_if_late


def _proven_bound(
    entry: LibraryEntry, outcome: Outcome, finder: Credit, limit_s: float, loosened: float
) -> tuple[Submission, LibraryEntry] | None:
    """Make and check the certificate of a run; return the result of ``with_bound``.

    Return ``None`` if no certificate can be made. This is so if the duals are not finite, if there are no duals and an
    exhaustive search is impossible, or under ``scale`` without a bound. For ``loosened``, see ``certificate``.
    """
    duals = [node for node in outcome.proof if isinstance(node, Duals)]
    if not all(isfinite(dual) for node in duals for dual in chain(node.workloads, node.gpus, *node.slices)):
        return None
    bound = outcome.bound
    nodes = json.loads(json.dumps([asdict(node) for node in outcome.proof]))
    can_be_enumerated = len(entry.instance.workloads) <= MOST_WORKLOADS and entry.bound is None
    # Under ``goodput``, ``certificate`` has duals of its own if the run has none.
    has_duals = bool(nodes) or entry.instance.objective is Objective.GOODPUT
    if not (has_duals or can_be_enumerated) or (bound is None and entry.instance.objective is Objective.SCALE):
        return None
    raise_if_late = _time_check(limit_s)
    value, scope = (None, None) if bound is None else (bound.value, asdict(bound))
    data = certificate(entry.instance, entry.plan, nodes, value, scope, raise_if_late, loosened)
    # The credit for an exhaustive proof goes to the search, without the seconds of the scheduler.
    prover = replace(finder, by="exhaustive search", work=None) if data["proof"]["kind"] == "exhaustive" else finder
    return _checked(entry, data, prover, raise_if_late)


def _checked(
    entry: LibraryEntry, data: Mapping[str, Any], prover: Credit, raise_if_late: Progress
) -> tuple[Submission, LibraryEntry]:
    """Check a certificate; return the result of ``with_bound``."""
    verdict = check(data, entry.instance.name, raise_if_late)
    if verdict.given_up:
        raise CheckTooLongError
    if not verdict.proven:
        raise NotProvenError(verdict.sentence)
    return with_bound(entry, data, verdict, prover)
