"""Checker of certificates: one sentence with the proven claim, or with the first step that fails."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, inf, lcm

import numpy as np
from pydantic import ValidationError

from bench.certificate.boxes import TooHardError
from bench.certificate.certificate import NONE, CertificateFile, ExhaustiveProof, Leaf, TreeProof
from bench.certificate.conditions import bound_of_proof
from bench.certificate.dual import proven_bound
from bench.certificate.exhaustive import exhaustive_bound
from bench.certificate.patterns import Progress, ignore
from bench.certificate.plans import value_of
from bench.certificate.statement import NotProvenError, Statement
from instances import PART_STEPS, InputError, Instance, Objective, Plan
from instances.errors import printable
from instances.files import instance_from_json, plan_from_json
from instances.performance import performance_model

AGREEMENT = Fraction(1, 10**9)
"""Relative difference below which a throughput and its bound count as equal."""

MOST_STEPS = 10**7
"""A bound of more than this many multiples of the prices' greatest common divisor is not raised to the next cost."""


@dataclass(frozen=True)
class ProofVerdict:
    """Result of a check.

    Attributes
    ----------
    sentence
        The claim in words, or the first step that fails.
    optimal
        Whether the plan attains the bound, or no plan exists.
    value
        Value of the plan; ``None`` without a plan.
    """

    proven: bool
    sentence: str
    optimal: bool = False
    value: Fraction | None = None


def check(data: object, where: str, progress: Progress = ignore) -> ProofVerdict:
    """Check a certificate, given its parsed JSON; errors name ``where`` as its place.

    Raises
    ------
    InputError
        If the data is no certificate.
    """
    file = _read(data, where)
    instance = instance_from_json(file.instance, f"{where}: instance")
    if not isinstance(file.instance.get("catalogue"), dict):
        raise InputError(f"{where}: instance.catalogue", "expected the entries of all GPU types, by name")
    missing = [pool.type.name for pool in instance.gpus if pool.type.name not in file.instance["catalogue"]]
    if missing:
        raise InputError(f"{where}: instance", f"does not embed the coefficients of {missing[0]}")
    plan = None if file.plan is None else plan_from_json(file.plan, f"{where}: plan")
    try:
        value = None if plan is None else value_of(plan, instance, file.claim)
        proven = _proven(file, instance, progress)
        return _compared(file, instance, plan, value, proven)
    except NotProvenError as failure:
        return ProofVerdict(False, f"not proven: {failure}")
    except (OverflowError, TooHardError):
        return ProofVerdict(False, "not proven: the search gave up, or a number is too large")


def _read(data: object, where: str) -> CertificateFile:
    try:
        return CertificateFile.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    raise InputError(printable(f"{where}: {path}" if path else where), printable(f"is no certificate: {first['msg']}"))


def _proven(file: CertificateFile, instance: Instance, progress: Progress) -> Fraction | float:
    """Return the bound that the proof yields, in the unit of the objective; infinite if no plan exists."""
    statement = Statement.of(instance, file.claim)
    leaves = sum(isinstance(node, Leaf) for node in file.proof.nodes) if isinstance(file.proof, TreeProof) else 1

    def each(part: float) -> None:
        progress(part / (leaves * len(statement.views)))

    if isinstance(file.proof, ExhaustiveProof):
        return attainable(statement, exhaustive_bound(statement, each))
    unit = file.proof.unit
    bound = bound_of_proof(
        statement, file.proof, lambda leaf, branch, where: proven_bound(statement, leaf, unit, branch, where, each)
    )
    return attainable(statement, bound)


def attainable(statement: Statement, bound: Fraction | float) -> Fraction | float:
    """Return the best value that a plan can have under a bound.

    A cost is a price of whole GPUs, and a goodput is a sum of rate steps. Other bounds are returned unchanged.
    """
    if not 0 < bound < inf:
        return bound
    if statement.minimised:
        return costs_around(Fraction(bound), statement.prices, statement.limits)[1]
    if statement.instance.objective is not Objective.GOODPUT:
        return bound
    rates = [Fraction(repr(float(w.rate_rps))) / PART_STEPS for w in statement.instance.workloads]
    scale = lcm(*(rate.denominator for rate in rates))
    step = Fraction(gcd(*(int(rate * scale) for rate in rates)), scale)
    return floor(Fraction(bound) / step) * step


def costs_around(
    bound: Fraction, prices: list[Fraction], limits: list[int | None]
) -> tuple[Fraction | float, Fraction | float]:
    """Return the largest cost of whole GPUs below ``bound``, and the least cost that is at least ``bound``.

    The second cost is ``inf`` if the whole pool costs less. If the common divisor of the prices is too small, the costs
    are 0 and ``bound``.
    """
    scale = lcm(*(price.denominator for price in prices))
    steps = [int(price * scale) for price in prices]
    common = gcd(*steps)
    if common == 0:
        return 0, inf
    target = ceil(bound * scale / common)
    if target > MOST_STEPS:
        return 0, bound
    if all(limit is not None for limit in limits):
        whole = sum(step // common * (limit or 0) for step, limit in zip(steps, limits, strict=True))
        if whole < target:
            return Fraction(whole * common, scale), inf
    reached = np.zeros(target + max(steps) // common + 1, dtype=bool)
    reached[0] = True
    for step, limit in zip(steps, limits, strict=True):
        price = step // common
        for _ in range(len(reached) // max(price, 1) if limit is None else min(limit, len(reached))):
            before = reached.copy()
            reached[price:] |= before[: len(reached) - price]
            if np.array_equal(before, reached):
                break
    below, above = int(np.flatnonzero(reached[:target]).max(initial=0)), target + int(np.argmax(reached[target:]))
    return Fraction(below * common, scale), Fraction(above * common, scale)


def _compared(
    file: CertificateFile, instance: Instance, plan: Plan | None, value: Fraction | None, proven: Fraction | float
) -> ProofVerdict:
    """Compare the claim with what was proven and with the plan, and word the result."""
    minimised, claimed = instance.objective is Objective.COST, file.claim.bound
    plans = _plans_in_words(file, instance)
    if claimed == NONE:  # under scale, the statement has refused this claim
        if not (proven == inf if minimised else proven < 0):
            raise NotProvenError("the proof does not exclude every plan")
        if plan is not None:
            raise NotProvenError("the claim says that no plan exists, and the file has one")
        return ProofVerdict(True, f"proven: no {plans} exists", True)
    bound = Fraction(claimed)
    if instance.objective is Objective.SCALE:
        if proven != inf:
            raise NotProvenError("the pool may serve the claimed multiple of the rates")
    elif (bound > proven) if minimised else (bound < proven):
        raise NotProvenError(f"the proof yields {float(proven):.10g}, the claim says {claimed}")
    optimal = False
    if value is not None:
        wins = value < bound if minimised else value > bound * (1 + AGREEMENT)
        if wins or (instance.objective is Objective.SCALE and value >= bound):
            raise NotProvenError("the plan contradicts the claim; one of them is wrong")
        optimal = value == bound if minimised else value >= bound * (1 - AGREEMENT)
    only = instance.gpus[0].type.price_per_hour if minimised and len(instance.gpus) == 1 else 0.0
    match instance.objective:
        case Objective.COST:
            unit, attained, worse = "$ per hour", f"${claimed} per hour", "costs less"
            better = f"costs less than ${claimed} per hour"
        case Objective.SCALE:
            unit, attained, worse = "times the rates", f"{claimed} times the rates", "serves more"
            better = f"serves {claimed} times the rates"
        case _:
            unit, attained, worse = "req/s", f"{claimed} req/s", "serves more"
            better = f"serves more than {claimed} req/s"
    if only > 0.0:
        attained, worse = _gpus(0 if plan is None else plan.gpus_used), "has fewer"
        better = f"has fewer than {_gpus(ceil(bound / Fraction(repr(float(only)))))}"
    found = "" if value is None else f"; the plan in the file: {float(value):.10g} {unit}"
    sentence = f"{attained}, no {plans} {worse}" if optimal else f"no {plans} {better}{found}"
    return ProofVerdict(True, f"proven: {sentence}", optimal, value)


def _plans_in_words(file: CertificateFile, instance: Instance) -> str:
    """Return in words which plans the search covers."""
    plans = f"{file.claim.plan_class} plan"
    if file.claim.parts is not None:
        plans = f"plan with parts in multiples of 1/{file.claim.parts} of a rate, no two of a workload on the same GPU,"
    if performance_model(instance.performance_model).pairwise:
        plans += " with at most two gpulets on a GPU"
    return plans


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
