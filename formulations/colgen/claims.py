"""Claims that follow from a bound: a plan is optimal, or no plan exists."""

from formulations.colgen.column_generation import prices_and_counts
from instances import Instance
from instances.costs import next_cost


def pool_price(instance: Instance) -> float:
    """Return the price of all GPUs of the pool; infinite if some type has no limit."""
    prices_counts = zip(*prices_and_counts(instance), strict=True)
    return sum(float(price) * float(count) for price, count in prices_counts if price > 0.0)


def excludes_every_plan(bound: float, instance: Instance) -> bool:
    """Return whether a bound proves that no plan exists: a cost above the pool's, or a throughput below zero."""
    return bound > pool_price(instance) * (1.0 + 1e-9) if instance.objective.minimised else bound < 0.0


def proves(bound: float, value: float, instance: Instance, proof_tolerance: float) -> bool:
    """Return whether a bound proves a value optimal.

    A bound on cost is first rounded up to the next cost that a plan can have. A throughput or scale may differ from its
    bound by the fraction ``proof_tolerance``.
    """
    if instance.objective.minimised:
        return value <= next_cost(bound, instance) * (1.0 + 1e-9)
    return value >= bound * (1.0 - proof_tolerance)


def is_better(bound: float, than: float, instance: Instance) -> bool:
    """Return whether a bound is better than another one."""
    return bound > than if instance.objective.minimised else bound < than
