"""Rates that MIG instances serve, by the judge's own comparisons and in whole numbers."""

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, lcm, nextafter

from bench.certificate.failures import GivenUpError, check_memory
from bench.certificate.statement import Statement
from instances import Instance, MigProfile, Workload
from instances.tolerance import TOLERANCE, widened

_NUMBERS_PER_RATE = 64
"""Largest size of an exact rate, in numbers of 8 bytes: a float has up to 2,098 binary digits."""


@dataclass(frozen=True)
class MigRates:
    """Rates of the classes of workloads on the sizes of MIG instances.

    A MIG instance has one slot of one workload, whose batch and number of processes follow from the size: those with
    the most throughput among the measured configurations within the latency budget.

    Attributes
    ----------
    sizes
        Sizes of MIG instances, as (GPU type, position of the slice in its profile). A type without GPUs has none.
    served
        Largest rate of a slot of each class on each size, 0 if none is in time. Each class has a unit of its own.
    needed
        Least sum of such rates with which the judge counts a workload of the class as served, in the class's unit.
    """

    sizes: tuple[tuple[int, int], ...]
    served: tuple[tuple[int, ...], ...]
    needed: tuple[int, ...]

    @classmethod
    def of(cls, statement: Statement) -> "MigRates":
        """Return the rates of a statement about GPUs that are cut into MIG instances.

        Raises
        ------
        GivenUpError
            If they would take too much memory, or a rate of the catalogue is not finite.
        """
        instance = statement.instance
        profiles = profiles_of(instance)
        sizes = tuple(
            (gpu_type, position)
            for gpu_type, profile in enumerate(profiles)
            if statement.limits[gpu_type] != 0
            for position, slice_ in enumerate(profile.slices)
            if profile.slice_of(slice_.units) is slice_  # of sizes with equal units, plans can name only the first
        )
        check_memory("the rates of MIG instances", len(statement.member), len(sizes) + 1, _NUMBERS_PER_RATE)
        served, needed = [], []
        for member in statement.member.tolist():
            workload = instance.workloads[member]
            refused = Fraction(_refused_rps(workload.rate_rps))
            largest_rates = [_most_rps(instance, workload, profiles[t], position) for t, position in sizes]
            unit = lcm(refused.denominator, *(rate.denominator for rate in largest_rates))
            served.append(tuple(int(rate * unit) for rate in largest_rates))
            needed.append(int(refused * unit) + 1)
        return cls(sizes, tuple(served), tuple(needed))

    @property
    def unserved(self) -> bool:
        """Whether there is a class that no MIG instance serves in time."""
        return any(not any(row) for row in self.served)


def profiles_of(instance: Instance) -> list[MigProfile]:
    """Return the sizes and the measured configurations of each GPU type."""
    return [pool.type.mig for pool in instance.gpus if pool.type.mig is not None]


def _most_rps(instance: Instance, workload: Workload, profile: MigProfile, position: int) -> Fraction:
    """Return the largest rate at which the judge accepts a slot on a size; 0 if none is in time."""
    budget_ms = widened(workload.slo_ms / 2.0 / instance.latency_buffer)
    largest_rps = Fraction(0)
    for configuration in profile.models[workload.model]:
        if configuration.units == profile.slices[position].units and configuration.latency_ms <= budget_ms:
            rate_rps = widened(configuration.throughput_rps / instance.latency_buffer)
            if not isfinite(rate_rps):
                raise GivenUpError(f"the rate of {workload.model} on a MIG instance is not finite")
            largest_rps = max(largest_rps, Fraction(rate_rps))
    return largest_rps


def _refused_rps(rate_rps: float) -> float:
    """Return a sum of served rates that the judge refuses as too low for a workload, like all lower sums.

    Sums are rounded to the nearest float. A sum that the judge accepts is a larger float, so the exact sum is larger.
    """
    refused_rps = rate_rps / (1.0 + TOLERANCE)
    while widened(refused_rps) >= rate_rps:
        refused_rps = nextafter(refused_rps, 0.0)
    return refused_rps
