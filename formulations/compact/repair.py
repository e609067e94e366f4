"""Repair of the compact model's assignment: the one-GPU kernel tests each GPU, and excess workloads move elsewhere.

The shares of the solver satisfy only the constraints of the compact model, within the solver's tolerances. So only the
placement, the batches and the rates are used. If the residents of a GPU do not fit, the best batch of each is tried,
then the largest residents leave. These join the first GPU with room, get a new GPU, or (``goodput``) are served at a
lower rate. Without patterns to start from, the repair is first fit decreasing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from formulations.problem import Offer, Problem, residents_by_step
from instances import Objective
from instances.configurations import Configurations, leanest
from instances.one_gpu import Pattern, Resident
from instances.tolerance import TOLERANCE

BATCHES_REPAIRED = 2
"""Number of batches that the repair tries at each rate of a workload: those that need the fewest units."""


def repair(problem: Problem, patterns: Sequence[Pattern]) -> list[Pattern] | None:
    """Return feasible patterns close to ``patterns``, or ``None`` if a required workload fits nowhere.

    Parameters
    ----------
    patterns
        At most ``Offer.count`` patterns of each offer, which is a GPU type with its configurations. Each workload is in
        at most one pattern. ``Pattern.pool`` is a position in ``problem.offers``.
    """
    feasible_patterns = [_made_feasible(problem, pattern) for pattern in patterns]
    repaired = [_Repaired.of(pattern, problem) for pattern in feasible_patterns if pattern.residents]
    served = {resident.workload for gpu in repaired for resident in gpu.pattern.residents}
    configurations_of = {
        position: [leanest(offer.configurations[position], BATCHES_REPAIRED) for offer in problem.offers]
        for position in range(len(problem.rates))
        if position not in served
    }
    must_be_placed = problem.instance.objective is not Objective.GOODPUT
    for workload in sorted(
        configurations_of, key=lambda position: -_least_fraction(problem.offers, configurations_of[position])
    ):
        is_placed = _place(problem, repaired, configurations_of[workload])
        if must_be_placed and not is_placed:
            return None
    return [gpu.pattern for gpu in repaired]


@dataclass(slots=True)
class _Repaired:
    """Feasible pattern, and the units that its least shares leave free; no workload that needs more units can join."""

    pattern: Pattern
    free_units: int

    @classmethod
    def of(cls, pattern: Pattern, problem: Problem) -> "_Repaired":
        placed = problem.fit(pattern)
        assert placed is not None, "only patterns that fit are repaired"
        return cls(pattern, problem.offers[pattern.pool].view.tables.share_units - placed.share_units)


def _made_feasible(problem: Problem, pattern: Pattern) -> Pattern:
    """Return the pattern if it fits, else its residents at their best batches, or without the largest of them."""
    configurations = problem.offers[pattern.pool].configurations
    while pattern.residents and problem.fit(pattern) is None:
        with_best_batches = Pattern.of(
            pattern.pool,
            tuple(_with_best_batch(configurations[resident.workload], resident) for resident in pattern.residents),
        )
        if problem.fit(with_best_batches) is not None:
            return with_best_batches
        largest = max(pattern.residents, key=lambda resident: int(configurations[resident.workload].units.min()))
        pattern = Pattern.of(pattern.pool, tuple(resident for resident in pattern.residents if resident is not largest))
    return pattern


def _with_best_batch(configurations: Configurations, resident: Resident) -> Resident:
    """Return the resident with the batch that serves its rate on the fewest units."""
    for residents in residents_by_step(leanest(configurations, BATCHES_REPAIRED)).values():
        for candidate in residents:
            if abs(candidate.rate_rps - resident.rate_rps) <= TOLERANCE * resident.rate_rps:
                return candidate
    return resident


def _least_fraction(offers: Sequence[Offer], configurations_by_offer: Sequence[Configurations]) -> float:
    """Return the least fraction of a GPU that serves a workload at its highest feasible rate."""
    # The first configuration has the fewest units among those of the highest rate.
    fractions = [
        int(configurations.units[0]) / offer.view.tables.share_units
        for offer, configurations in zip(offers, configurations_by_offer, strict=True)
        if configurations.size
    ]
    return min(fractions, default=0.0)


def _place(problem: Problem, repaired: list[_Repaired], configurations_by_offer: Sequence[Configurations]) -> bool:
    """Add a workload to the first pattern with room, else to a new one; try lower rates only if both fail."""
    offers = problem.offers
    residents_by_offer = [residents_by_step(configurations) for configurations in configurations_by_offer]
    cheapest_first = sorted(range(len(offers)), key=lambda position: offers[position].view.gpu.price_per_hour)
    for rate_step in sorted({rate_step for by_step in residents_by_offer for rate_step in by_step}, reverse=True):
        for position, gpu in enumerate(repaired):
            configurations = configurations_by_offer[gpu.pattern.pool]
            units = configurations.units[configurations.step == rate_step].tolist()
            residents = residents_by_offer[gpu.pattern.pool].get(rate_step, [])
            for resident, least_units in zip(residents, units, strict=True):
                if least_units <= gpu.free_units:
                    enlarged = Pattern.of(gpu.pattern.pool, (*gpu.pattern.residents, resident))
                    if problem.fit(enlarged) is not None:
                        repaired[position] = _Repaired.of(enlarged, problem)
                        return True
        for offer_position in cheapest_first:
            residents = residents_by_offer[offer_position].get(rate_step, [])
            used_gpus = sum(gpu.pattern.pool == offer_position for gpu in repaired)
            if residents and used_gpus < offers[offer_position].count:
                repaired.append(_Repaired.of(Pattern.of(offer_position, (residents[0],)), problem))
                return True
    return False
