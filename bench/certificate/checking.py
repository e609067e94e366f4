"""Checker of certificates.

Its verdict states the proven claim, the first step of the proof that fails, or the limit that ended the check. The
checker gives up if it would need more memory than ``bench.certificate.failures`` allows, or if a number overflows.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, inf, lcm

import numpy as np

from bench.certificate.certificate import (
    NO_PLAN_EXISTS,
    BoundClaim,
    CertificateFile,
    ExhaustiveProof,
    Leaf,
    SliceProof,
    TreeProof,
)
from bench.certificate.conditions import bound_of_proof
from bench.certificate.costs import costs_around
from bench.certificate.dual import proven_bound
from bench.certificate.exhaustive import exhaustive_bound
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.mig.duals import slice_bound
from bench.certificate.mig.exhaustive import exhaustive_mig_bound
from bench.certificate.mig.plans import mig_cost_of
from bench.certificate.patterns import Progress, ignore
from bench.certificate.plans import value_of
from bench.certificate.statement import Statement
from instances import PART_STEPS, InputError, Instance, Objective, Partition, Plan
from instances.files import instance_from_json, plan_from_json
from instances.files.problems import in_plain_words, refuse_other_kind, validated
from instances.performance import performance_model
from instances.tolerance import MARGIN, TOLERANCE

AGREEMENT = Fraction(TOLERANCE + MARGIN)
"""Largest relative difference at which a value and its bound count as equal, where the value is maximised.

A value further above the bound contradicts the bound. Plans may exceed the rates by the tolerance, so their values may
exceed an exact bound by the same fraction.
"""


@dataclass(frozen=True)
class ProofVerdict:
    """Result of a check.

    Attributes
    ----------
    sentence
        The claim in words, the first step that fails, or the limit that ended the check.
    optimal
        Whether the plan attains the bound, or no plan exists.
    value
        Value of the plan; ``None`` without a plan.
    given_up
        Whether a limit of the checker ended the check: the claim may be true or false.
    """

    proven: bool
    sentence: str
    optimal: bool = False
    value: Fraction | None = None
    given_up: bool = False


def check(data: object, where: str, progress: Progress = ignore) -> ProofVerdict:
    """Check a certificate, given its parsed JSON; error messages begin with ``where``, the name of the file.

    Raises
    ------
    InputError
        If the data is no certificate.
    """
    file = parsed(data, where)
    instance = instance_from_json(file.instance, f"{where}: instance")
    if not isinstance(file.instance.get("catalogue"), dict):
        raise InputError(f"{where}: instance.catalogue", "expected the entries of all GPU types, by name")
    missing = [pool.type.name for pool in instance.gpus if pool.type.name not in file.instance["catalogue"]]
    if missing:
        raise InputError(f"{where}: instance", f"does not embed the coefficients of {missing[0]}")
    plan = None if file.plan is None else plan_from_json(file.plan, f"{where}: plan")
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            value = None if plan is None else _value_of(plan, instance, file.claim)
            proof_bound = _bound_of_file(file, instance, progress)
            return _verdict(file, instance, plan, value, proof_bound)
    except GivenUpError as limit:
        return ProofVerdict(False, f"given up: {limit}", given_up=True)
    except NotProvenError as failure:
        return ProofVerdict(False, f"not proven: {failure}")
    except ArithmeticError:
        return ProofVerdict(False, "given up: a number is too large or too small for the checker", given_up=True)


def parsed(data: object, where: str) -> CertificateFile:
    """Return a certificate in its form; errors are those of ``check``."""
    refuse_other_kind(data, where, "certificate")
    try:
        return validated(CertificateFile, data, where, in_plain_words)
    except InputError as error:
        raise InputError(error.where, f"is no certificate: {error.problem}") from None


def _value_of(plan: Plan, instance: Instance, claim: BoundClaim) -> Fraction:
    if instance.partition is Partition.MIG:
        return mig_cost_of(plan, instance)
    return value_of(plan, instance, claim)


def _bound_of_file(file: CertificateFile, instance: Instance, progress: Progress) -> Fraction | float:
    """Return the bound that the proof yields, in the unit of the objective.

    If no plan exists, it is ``inf`` if the objective is minimised, and negative if it is maximised. Under ``scale``, it
    is ``inf`` if the pool cannot serve the claimed multiple of the rates.
    """
    statement = Statement.of(instance, file.claim)
    if instance.partition is Partition.MIG:
        return attainable(statement, _mig_bound(statement, file, progress))
    if isinstance(file.proof, SliceProof):
        raise NotProvenError("the proof has duals of MIG instances, but the instance's GPUs are not cut into them")
    leaves = sum(isinstance(node, Leaf) for node in file.proof.nodes) if isinstance(file.proof, TreeProof) else 1

    def report(fraction: float) -> None:
        progress(fraction / (leaves * len(statement.views)))

    if isinstance(file.proof, ExhaustiveProof):
        return attainable(statement, exhaustive_bound(statement, report))
    unit = file.proof.unit
    bound = bound_of_proof(
        statement,
        file.proof,
        lambda leaf, branch, where: proven_bound(statement, leaf, unit, branch, where, report),
    )
    return attainable(statement, bound)


def _mig_bound(statement: Statement, file: CertificateFile, progress: Progress) -> Fraction | float:
    if isinstance(file.proof, SliceProof):
        return slice_bound(statement, file.proof, progress)
    if isinstance(file.proof, ExhaustiveProof):
        return exhaustive_mig_bound(statement, progress)
    raise NotProvenError("on MIG instances, a proof has the instances' duals or is exhaustive")


def attainable(statement: Statement, bound: Fraction | float) -> Fraction | float:
    """Return ``bound``, tightened to a cost or a goodput that a plan may have.

    A cost is a sum of prices of whole GPUs, and a goodput is a sum of rate steps. Other bounds are returned unchanged.
    """
    if not 0 < bound < inf:
        return bound
    if statement.minimised:
        _, cost_above = costs_around(Fraction(bound), statement.prices, statement.limits)
        return cost_above
    if statement.instance.objective is not Objective.GOODPUT:
        return bound
    rates = [Fraction(repr(float(w.rate_rps))) / PART_STEPS for w in statement.instance.workloads]
    scale = lcm(*(rate.denominator for rate in rates))
    step = Fraction(gcd(*(int(rate * scale) for rate in rates)), scale)
    return floor(Fraction(bound) / step) * step


def _verdict(
    file: CertificateFile, instance: Instance, plan: Plan | None, value: Fraction | None, proof_bound: Fraction | float
) -> ProofVerdict:
    """Compare the claim with the bound of the proof and with the plan; return the verdict with its sentence."""
    is_cost, claimed = instance.objective is Objective.COST, file.claim.bound
    plans_in_words = _plans_in_words(file, instance)
    if claimed == NO_PLAN_EXISTS:  # never under scale: ``Statement.of`` refuses this claim
        if not (proof_bound == inf if is_cost else proof_bound < 0):
            raise NotProvenError("the proof does not exclude every plan")
        if plan is not None:
            raise NotProvenError("the claim says that no plan exists, and the file has one")
        return ProofVerdict(True, f"proven: no {plans_in_words} exists", True)
    bound = Fraction(claimed)
    if instance.objective is Objective.SCALE:
        if proof_bound != inf:
            raise NotProvenError("the proof does not exclude that the pool serves the claimed multiple of the rates")
    elif (bound > proof_bound) if is_cost else (bound < proof_bound):
        raise NotProvenError(f"the proof yields {float(proof_bound):.10g}, the claim says {claimed}")
    optimal = False
    if value is not None:
        contradicted = value < bound if is_cost else value > bound * (1 + AGREEMENT)
        if contradicted or (instance.objective is Objective.SCALE and value >= bound):
            raise NotProvenError("the plan contradicts the claim; one of them is wrong")
        optimal = value == bound if is_cost else value >= bound * (1 - AGREEMENT)
    # If the pool has a single GPU type, the sentence names numbers of GPUs in place of costs.
    single_price = instance.gpus[0].type.price_per_hour if is_cost and len(instance.gpus) == 1 else 0.0
    match instance.objective:
        case Objective.COST:
            unit, optimum_in_words, better_in_words = "$ per hour", f"${claimed} per hour", "costs less"
            better_than_claim = f"costs less than ${claimed} per hour"
        case Objective.SCALE:
            unit, optimum_in_words, better_in_words = "times the rates", f"{claimed} times the rates", "serves more"
            better_than_claim = f"serves {claimed} times the rates"
        case _:
            unit, optimum_in_words, better_in_words = "req/s", f"{claimed} req/s", "serves more"
            better_than_claim = f"serves more than {claimed} req/s"
    if single_price > 0.0:
        optimum_in_words, better_in_words = _gpu_count_in_words(0 if plan is None else plan.gpus_used), "has fewer"
        better_than_claim = f"has fewer than {_gpu_count_in_words(ceil(bound / Fraction(repr(float(single_price)))))}"
    plan_in_file = "" if value is None else f"; the plan in the file: {float(value):.10g} {unit}"
    sentence = (
        f"{optimum_in_words}, no {plans_in_words} {better_in_words}"
        if optimal
        else f"no {plans_in_words} {better_than_claim}{plan_in_file}"
    )
    return ProofVerdict(True, f"proven: {sentence}", optimal, value)


def _plans_in_words(file: CertificateFile, instance: Instance) -> str:
    """Return a phrase for the plans that the claim covers."""
    phrase = f"{file.claim.plan_class} plan"
    if file.claim.parts is not None:
        phrase = f"plan with parts in multiples of 1/{file.claim.parts} of a rate, each on another GPU,"
    if instance.partition is Partition.SHARES and performance_model(instance.performance_model).pairwise:
        phrase += " with at most two gpulets on a GPU"
    return phrase


def _gpu_count_in_words(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
