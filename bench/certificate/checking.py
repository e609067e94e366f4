"""Checker of certificates: one sentence with the proven claim, or with the first step that fails."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, inf, lcm

import numpy as np
from pydantic import ValidationError

from bench.certificate.certificate import NONE, CertificateFile, DualProof, Leaf, TreeProof
from bench.certificate.conditions import Conditions, tree_bound
from bench.certificate.contents import Progress, ignore
from bench.certificate.dual import proven_bound
from bench.certificate.exhaustive import exhaustive_bound
from bench.certificate.plans import value_of
from bench.certificate.search import TooHardError
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

    bound: Fraction | float
    match file.proof:
        case DualProof():
            branch = Conditions.root(statement)
            bound = proven_bound(statement, file.proof, file.proof.unit, branch, "the duals", each)
        case TreeProof():
            unit = file.proof.unit
            bound = tree_bound(
                statement,
                file.proof,
                lambda leaf, branch, where: proven_bound(statement, leaf, unit, branch, where, each),
            )
        case _:
            bound = exhaustive_bound(statement, each)
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
    minimised = instance.objective is Objective.COST
    plans = _plans_in_words(file, instance)
    if file.claim.bound == NONE:  # under scale, the statement has refused this claim
        if not (proven == inf if minimised else proven < 0):
            raise NotProvenError("the proof does not exclude every plan")
        if plan is not None:
            raise NotProvenError("the claim says that no plan exists, and the file has one")
        return ProofVerdict(True, f"proven: no {plans} exists", True)
    claimed = Fraction(file.claim.bound)
    if instance.objective is Objective.SCALE:
        if proven != inf:
            raise NotProvenError("the pool may serve the claimed multiple of the rates")
    elif (claimed > proven) if minimised else (claimed < proven):
        raise NotProvenError(f"the proof yields {float(proven):.10g}, the claim says {file.claim.bound}")
    return _worded(file, instance, plan, value, plans)


def _plans_in_words(file: CertificateFile, instance: Instance) -> str:
    """Return in words which plans the search covers."""
    plans = f"{file.claim.plan_class} plan"
    if file.claim.parts is not None:
        plans = f"plan with parts in multiples of 1/{file.claim.parts} of a rate, no two of a workload on the same GPU,"
    if performance_model(instance.performance_model).pairwise:
        plans += " with at most two gpulets on a GPU"
    return plans


def _worded(
    file: CertificateFile, instance: Instance, plan: Plan | None, value: Fraction | None, plans: str
) -> ProofVerdict:
    bound, claimed = Fraction(file.claim.bound), file.claim.bound
    least = instance.objective is Objective.COST
    optimal = False
    if value is not None:
        wins = value < bound if least else value > bound * (1 + AGREEMENT)
        if wins or (instance.objective is Objective.SCALE and value >= bound):
            raise NotProvenError("the plan contradicts the claim; one of them is wrong")
        optimal = value == bound if least else value >= bound * (1 - AGREEMENT)
    only = instance.gpus[0].type.price_per_hour if least and len(instance.gpus) == 1 else 0.0
    match instance.objective:
        case Objective.COST if only > 0.0:
            better = f"has fewer than {ceil(bound / Fraction(repr(float(only))))} GPUs"
        case Objective.COST:
            better = f"costs less than ${claimed} per hour"
        case Objective.SCALE:
            better = f"serves {claimed} times the rates"
        case _:
            better = f"serves more than {claimed} req/s"
    if optimal and only > 0.0 and plan is not None:
        return ProofVerdict(True, f"proven: {plan.gpus_used} GPUs, no {plans} has fewer", True, value)
    if optimal:
        attained = f"${claimed} per hour" if least else f"{claimed} req/s"
        return ProofVerdict(
            True, f"proven: {attained}, no {plans} {'costs less' if least else 'serves more'}", True, value
        )
    if value is None:
        return ProofVerdict(True, f"proven: no {plans} {better}")
    unit = {Objective.COST: "$ per hour", Objective.SCALE: "times the rates"}.get(instance.objective, "req/s")
    return ProofVerdict(
        True, f"proven: no {plans} {better}; the plan in the file: {float(value):.10g} {unit}", False, value
    )
