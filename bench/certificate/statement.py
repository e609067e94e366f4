"""Statement of a certificate: the class of the plans that it covers, and the rates that their slots may serve."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

import numpy as np

from bench.certificate.certificate import NO_PLAN_EXISTS, BoundClaim
from bench.certificate.failures import NotProvenError, check_memory
from bench.certificate.patterns import broken_premise
from instances import PART_STEPS, Instance, Objective, Partition, SloRule
from instances.arrays import Ints
from instances.attainment_terms import POISSON
from instances.tables import table_cells
from instances.view import View

RULES = (SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE, SloRule.ATTAINMENT)
"""SLO rules under which there are certificates: all but ``p99``."""

_ARRAYS_OF_TABLES = 12
"""Number of arrays with one number per combination of model, batch and share that are in memory at a time."""


@dataclass(frozen=True)
class Statement:
    """Instance and claim, with the workloads in classes of identical ones.

    Attributes
    ----------
    instance, claim
        As in the file, but under ``scale`` all rates are multiplied by the claimed bound.
    views
        The instance as seen from each GPU type; empty for GPUs that are cut into MIG instances.
    member
        Position of a workload of each class, shape (classes,); classes are numbered by first occurrence.
    copies
        Number of workloads of each class, shape (classes,).
    """

    instance: Instance
    claim: BoundClaim
    views: tuple[View, ...]
    member: Ints
    copies: Ints

    @classmethod
    def of(cls, instance: Instance, claim: BoundClaim) -> "Statement":
        """Return the statement of a claim about an instance.

        Raises
        ------
        NotProvenError
            If the checker cannot prove such claims.
        """
        _refuse(instance, claim)
        if instance.objective is Objective.SCALE and claim.bound != NO_PLAN_EXISTS:
            factor = float(claim.bound)
            if not 0.0 < factor < inf:
                raise NotProvenError("the bound on a scale must be greater than 0, and not beyond the largest float")
            instance = instance.scaled(factor)
        if instance.partition is Partition.MIG:
            return cls(instance, claim, (), *_members(instance))
        cells = sum(table_cells(pool.type) for pool in instance.gpus)
        check_memory("the tables of the GPU types", _ARRAYS_OF_TABLES, cells)
        views = tuple(View.of(instance, pool.type) for pool in instance.gpus)
        for view in views:
            if broken := broken_premise(view.tables):
                raise NotProvenError(f"a premise of the search fails on {view.gpu.name}: {broken}")
        return cls(instance, claim, views, *_members(instance))

    @property
    def minimised(self) -> bool:
        """Whether duals bound a cost from below; under ``scale``, this is the cost of serving the claimed multiple."""
        return self.instance.objective in (Objective.COST, Objective.SCALE)

    @property
    def serves_all(self) -> bool:
        """Whether plans serve every workload."""
        return self.instance.objective is not Objective.GOODPUT

    @property
    def by_parts(self) -> bool:
        """Whether several slots may serve parts of one workload."""
        return self.claim.plan_class == "split"

    @property
    def parts_of_any_size(self) -> bool:
        """Whether parts may have any size and several parts of a workload may be on one GPU."""
        return self.by_parts and self.claim.parts is None

    @property
    def limits(self) -> list[int | None]:
        """Number of GPUs of each type, ``None`` without a limit."""
        return [pool.count for pool in self.instance.gpus]

    @property
    def prices(self) -> list[Fraction]:
        """Price of a GPU of each type, exactly as written."""
        return [Fraction(repr(float(pool.type.price_per_hour))) for pool in self.instance.gpus]

    @property
    def pool_price(self) -> Fraction:
        """Price of all GPUs of the pool, without the types that have no limit."""
        return sum((price * (limit or 0) for price, limit in zip(self.prices, self.limits, strict=True)), Fraction(0))

    def rates(self, class_: int) -> list[tuple[float, Fraction]]:
        """Return the rates at which one slot may be planned for a class, each with the part of the workload.

        Under ``goodput``, and in split plans, a slot serves a multiple of 1/20 of its workload's rate. Otherwise it
        serves the whole rate. The method is not for statements with ``parts_of_any_size``.
        """
        rate_rps = float(self.instance.workloads[int(self.member[class_])].rate_rps)
        if self.instance.objective is Objective.GOODPUT or self.by_parts:
            return [(rate_rps * (step / PART_STEPS), Fraction(step, PART_STEPS)) for step in range(1, PART_STEPS + 1)]
        return [(rate_rps, Fraction(1))]


def classes(instance: Instance) -> Ints:
    """Return the class of each workload, numbered by first occurrence.

    Workloads of a class differ only in their ids and arrival traces. Plans are made for rates, not for traces.
    """
    keys = [replace(w, id="", arrivals=None) for w in instance.workloads]
    class_of_key = {key: class_ for class_, key in enumerate(dict.fromkeys(keys))}
    return np.array([class_of_key[key] for key in keys], dtype=np.int64)


def _members(instance: Instance) -> tuple[Ints, Ints]:
    """Return the position of a workload of each class, and the number of its workloads."""
    _, member, copies = np.unique(classes(instance), return_index=True, return_counts=True)
    return member, copies


def _refuse(instance: Instance, claim: BoundClaim) -> None:
    """Refuse statements that the checker cannot prove."""
    objective, rule = instance.objective, instance.slo_rule
    budget_by_share = rule.by_share
    if instance.partition is Partition.MIG:
        if objective is not Objective.COST:
            raise NotProvenError(f"GPUs that are cut into MIG instances have no certificates under {objective}")
        if claim.plan_class != "split" or claim.parts is not None:
            raise NotProvenError("on MIG instances, a claim covers split plans with parts of any size")
        return
    if objective is Objective.COLOCATION:
        raise NotProvenError("the objective colocation has no certificates")
    if rule not in RULES:
        raise NotProvenError(f"the rule {rule} has no certificates")
    if budget_by_share and instance.arrivals != POISSON and objective is Objective.SCALE:
        raise NotProvenError("no certificates of a scale under gamma arrivals: sampled budgets may grow with the rate")
    if claim.plan_class == "split" and objective not in (Objective.COST, Objective.GOODPUT):
        raise NotProvenError(f"split plans have no certificates under {objective}")
    if claim.parts is not None and not budget_by_share:
        raise NotProvenError(f"under {rule}, parts have any size; this claim covers only parts in steps")
    if claim.parts is not None and claim.plan_class != "split":
        raise NotProvenError("parts of workloads belong to split plans")
    if claim.plan_class == "split" and claim.parts is None and budget_by_share:
        raise NotProvenError(f"under {rule}, split plans have certificates only for parts in steps")
    if claim.plan_class == "split" and instance.services:
        raise NotProvenError("split plans of language-model services have no certificates")
    if objective is Objective.SCALE and claim.bound == NO_PLAN_EXISTS:
        raise NotProvenError("under scale, a claim needs a bound; every pool serves some multiple of the rates")
    # Claims on parts in steps need no limit: only duals prove them, and the dual of a type without a limit must be 0.
    if objective in (Objective.SCALE, Objective.CAPACITY, Objective.GOODPUT) and claim.parts is None:
        for pool in instance.gpus:
            if pool.count is None:
                raise NotProvenError(f"the pool has no limit on GPUs of type {pool.type.name}")
