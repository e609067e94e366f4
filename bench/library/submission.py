"""Submissions to the library: a plan that the judge accepts, or a certificate that the checker proves."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from bench.certificate.checking import ProofVerdict, check
from bench.certificate.patterns import Progress, ignore
from bench.judging.judge import check_belongs, judge
from bench.provenance import distribution_version
from instances import InputError, Objective, Partition, Plan, PlanClass
from instances.files import instance_from_json, plan_from_json
from instances.library import Credit, Library, LibraryEntry
from instances.library.entry import NONE, better


@dataclass(frozen=True, slots=True)
class Submission:
    """Result of a submission.

    Attributes
    ----------
    new_best, new_bound
        Whether the submission improves the plan of the entry ``name``, and whether it improves the entry's bound.
    sentence
        The result in words.
    """

    name: str
    new_best: bool
    new_bound: bool
    sentence: str


def submit(
    library: Library,
    data: object,
    where: str,
    author: str,
    progress: Progress = ignore,
    *,
    machine: str | None = None,
    work: str | None = None,
) -> Submission:
    """Judge a plan or check a certificate, and write the entry that it improves.

    ``data`` is the content of a file, as parsed from JSON, and ``where`` the place that errors name. The entry credits
    ``author`` with the ``machine`` and the ``work``. For ``progress``, see ``bench.certificate.checking.check``.

    Raises
    ------
    InputError
        If the data is neither a plan nor a certificate, belongs to no entry, or the library cannot be written.
    """
    finder = credit(author, machine, work)
    if isinstance(data, dict) and "claim" in data:
        return _submit_certificate(library, data, where, finder, progress)
    plan = plan_from_json(data, where)
    entry = library.entry(plan.instance)
    submission, entry = with_plan(entry, plan, finder, where)
    if submission.new_best:
        library.write(entry)
    return submission


def with_plan(entry: LibraryEntry, plan: Plan, finder: Credit, where: str = "plan") -> tuple[Submission, LibraryEntry]:
    """Compare a plan with the plan of an entry; return the result, and the entry with the better plan."""
    instance = entry.instance
    name = instance.name
    check_belongs(plan, instance, where)
    is_mig = instance.partition is Partition.MIG
    if not (PlanClass.SPLIT if is_mig else PlanClass.SPATIAL).contains(plan.plan_class):
        why = "entries have plans with one slot per gpulet" + ("" if is_mig else " and each workload on one GPU")
        return Submission(name, False, False, f"{name}: refused: the plan is {plan.plan_class}; {why}"), entry
    verdict = judge(plan, instance)
    if not verdict.feasible:
        reason = verdict.violations[0].message
        return Submission(name, False, False, f"{name}: refused: the plan is infeasible: {reason}"), entry
    if entry.value is not None and not better(verdict.value, entry.value, instance.objective):
        relation = "is worse than" if better(entry.value, verdict.value, instance.objective) else "ties with"
        sentence = f"{name}: no new best: {verdict.value:.10g} {relation} {entry.value:.10g}"
        return Submission(name, False, False, sentence), entry
    previous = "" if entry.value is None else f" (before: {entry.value:.10g})"
    improved = replace(entry, plan=plan, value=verdict.value, plan_credit=finder)
    closed = ", which the bound proves best" if improved.closed else ""
    return Submission(name, True, False, f"{name}: new best: {verdict.value:.10g}{previous}{closed}"), improved


def _submit_certificate(
    library: Library, data: Mapping[str, Any], where: str, finder: Credit, progress: Progress
) -> Submission:
    """Check a certificate; write the entry if the bound or the plan of the certificate improves it."""
    instance = instance_from_json(data.get("instance"), f"{where}: instance")
    entry = library.entry(instance.name)
    if instance.fingerprint != entry.instance.fingerprint:
        raise InputError(f"{where}: instance", f'differs from the instance "{instance.name}" of the library')
    verdict = check(data, where, progress)
    if not verdict.proven:
        return Submission(instance.name, False, False, f"{instance.name}: refused: {verdict.sentence}")
    submission, entry = with_bound(entry, data, verdict, finder)
    if data.get("plan") is not None:
        plan_submission, entry = with_plan(
            entry, plan_from_json(data["plan"], f"{where}: plan"), finder, f"{where}: plan"
        )
        sentence = f"{plan_submission.sentence}; {submission.sentence}"
        submission = replace(submission, new_best=plan_submission.new_best, sentence=sentence)
    if submission.new_best or submission.new_bound:
        library.write(entry)
    return submission


def with_bound(
    entry: LibraryEntry, data: Mapping[str, Any], verdict: ProofVerdict, finder: Credit
) -> tuple[Submission, LibraryEntry]:
    """Compare a proven bound with the bound of an entry; return the result, and the entry with the better bound.

    A bound on split plans is also a bound on spatial plans.
    """
    name, objective = entry.instance.name, entry.instance.objective
    assert verdict.proven
    new_bound, old_bound = str(data["claim"]["bound"]), entry.bound
    if not tighter(new_bound, old_bound, objective):
        return Submission(name, False, False, f"{name}: {no_new_bound(new_bound, entry)}"), entry
    previous = "" if old_bound is None else f" (before: {old_bound})"
    improved = replace(entry, claim=data["claim"], proof=data["proof"], proof_credit=finder)
    closed = "; the entry is closed" if improved.closed else ""
    return Submission(name, False, True, f"{name}: new bound: {new_bound}{previous}{closed}"), improved


def no_new_bound(bound: str, entry: LibraryEntry) -> str:
    """Return in words that a bound is no tighter than that of an entry."""
    return f"no new bound: {bound}, the entry has {entry.bound}"


def tighter(bound: str, other: str | None, objective: Objective) -> bool:
    """Return whether a bound is tighter than another one, or than no bound (``None``)."""
    if other is None or NONE in (bound, other):
        return other != NONE
    return better(float(other), float(bound), objective)  # a tighter bound is a worse value


def credit(author: str, machine: str | None = None, work: str | None = None) -> Credit:
    """Return the credit for a finding with this version of the bench on this day."""
    version, date = distribution_version("gpushare-bench") or "", datetime.now(UTC).date().isoformat()
    return Credit(author, version, date, machine, work)
