"""Schedulers on open entries: the best plan and the best bound of each run go into the library."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace
from itertools import chain
from math import isfinite
from typing import Any

from bench.api import Bound, Duals, Outcome, Run, Scheduler, refusal
from bench.certificate.checking import ProofVerdict, check
from bench.certificate.exhaustive import MOST_WORKLOADS
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.in_time import LOOSENED, within
from bench.certificate.least_shares import duals_of_least_shares
from bench.certificate.proving import certificate
from bench.library.submission import Submission, credit, no_new_bound, tighter, with_bound, with_plan
from bench.provenance import host
from instances import Objective, Plan
from instances.library import Credit, Library, LibraryEntry


def solve(
    library: Library,
    name: str,
    scheduler: Scheduler,
    author: str,
    time_limit_s: float,
    check_limit_s: float,
    report: Callable[[Submission], None],
) -> None:
    """Run a scheduler on an entry, starting from the entry's plan; write each improvement, and report every result.

    The newest plan that improves the entry ``name`` is written when the run ends, also by Ctrl-C. The bound is written
    after the check of its certificate. The entry credits ``author``, with this machine and the seconds of the run.
    ``check_limit_s`` is the limit in CPU seconds on making and checking the certificate.

    If the scheduler has the parameter ``certify``, it is switched on: a bound without a certificate is of no use here.
    """
    entry = library.entry(name)
    if is_dataclass(scheduler) and any(field.name == "certify" for field in fields(scheduler)):
        scheduler = replace(scheduler, certify=True)
    if (reason := refusal(scheduler, entry.instance)) is not None:
        report(_nothing_new(name, f"{scheduler.name} {reason}"))
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
        plan_result, entry = _with_newest(entry, plans, finder)
        if plan_result.new_best:
            library.write(entry)
        report(plan_result)
    bound_result, entry = _with_bound_of(entry, outcome, finder, check_limit_s)
    if bound_result.new_bound:
        library.write(entry)
    report(bound_result)


def _nothing_new(name: str, reason: str) -> Submission:
    return Submission(name, False, False, f"{name}: {reason}")


def _with_newest(entry: LibraryEntry, plans: Sequence[Plan], finder: Credit) -> tuple[Submission, LibraryEntry]:
    """Return the result of the newest plan that improves an entry, or else of the newest plan, and the entry."""
    results = []
    for plan in reversed(plans):
        submission, improved = with_plan(entry, plan, finder)
        if submission.new_best:
            return submission, improved
        results.append(submission)
    return (results or [_nothing_new(entry.instance.name, "the scheduler found no plan")])[0], entry


def _with_bound_of(
    entry: LibraryEntry, outcome: Outcome, finder: Credit, limit_s: float
) -> tuple[Submission, LibraryEntry]:
    """Return the result of the strongest bound of a run whose certificate is checked in time, and the entry.

    If the check of the run's bound takes too long, the function tries weaker bounds by ``LOOSENED`` as long as they
    improve the entry. If the entry has no bound yet, the last one is that of the least shares.
    """
    result = _nothing_new(entry.instance.name, "no new bound: the run has no duals that prove one")
    try:
        for loosened in LOOSENED if outcome.proof else LOOSENED[:1]:
            try:
                proven = _proven_bound(entry, outcome, finder, limit_s, loosened)
            except GivenUpError as limit:
                result = _nothing_new(entry.instance.name, f"no new bound: {limit}")
                continue
            if proven is not None and proven[0].new_bound:
                return proven
            if proven is not None and loosened == 0.0:
                result = proven[0]
            break
    except NotProvenError as failure:
        result = _nothing_new(entry.instance.name, f"no new bound: {failure}")
    if entry.bound is None:
        with suppress(NotProvenError):
            return _proven_by_least_shares(entry, finder, limit_s)
    return result, entry


def _proven_by_least_shares(entry: LibraryEntry, finder: Credit, limit_s: float) -> tuple[Submission, LibraryEntry]:
    """Make and check the certificate of the bound that follows from the least shares alone."""
    progress = within(limit_s)
    nodes, scale = duals_of_least_shares(entry.instance, entry.value or 0.0, progress)
    data = certificate(entry.instance, entry.plan, nodes, scale, None, progress)
    verdict = check(data, entry.instance.name, progress)
    return _accepted(entry, data, verdict, replace(finder, by="least shares", work=None))


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
    value, scope = (None, None) if bound is None else (bound.value, asdict(bound))
    progress = within(limit_s)
    data = certificate(entry.instance, entry.plan, nodes, value, scope, progress, loosened)
    if not tighter(str(data["claim"]["bound"]), entry.bound, entry.instance.objective):
        return _nothing_new(entry.instance.name, no_new_bound(data["claim"]["bound"], entry)), entry
    verdict = check(data, entry.instance.name, progress)
    if verdict.given_up:
        raise GivenUpError(verdict.sentence)
    # The credit for an exhaustive proof goes to the search, without the seconds of the scheduler.
    is_exhaustive = data["proof"]["kind"] == "exhaustive"
    prover = replace(finder, by="exhaustive search", work=None) if is_exhaustive else finder
    return _accepted(entry, data, verdict, prover)


def _accepted(
    entry: LibraryEntry, data: Mapping[str, Any], verdict: ProofVerdict, prover: Credit
) -> tuple[Submission, LibraryEntry]:
    """Return the result of ``with_bound`` if the certificate is proven."""
    if not verdict.proven:
        raise NotProvenError(verdict.sentence)
    return with_bound(entry, data, verdict, prover)
