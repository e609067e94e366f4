"""The scheduler ``cpsat``: the compact assignment model, solved exactly by OR-Tools' CP-SAT."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, gcd
from typing import TYPE_CHECKING, ClassVar

from bench.api import Bound, Outcome, Run, Status
from formulations.choices import Rates, rates_of, why_not_exact
from formulations.offers import Fits, Group, Offer, largest_first, offers_of, unservable
from formulations.progress import Progress
from formulations.scale import largest_scale
from formulations.search import search
from formulations.start import first_fit, groups_of
from formulations.whole_numbers import Weights
from instances import GOODPUT_STEP, Instance, Objective, Plan
from instances.view import View

if TYPE_CHECKING:
    from formulations.assignment import Assignment

STEPS = round(1.0 / GOODPUT_STEP)
"""Steps of a rate under ``goodput``."""

RESERVE_S = 0.3
"""Of the time left, kept for the solver's overrun and for what comes after it; at most a tenth."""


@dataclass(frozen=True, slots=True)
class CpSat:
    """Every workload on one GPU at one (batch, share, rate), under the linear conditions of the time test.

    Coefficients are rounded outward, so that bounds hold for the real problem; every solution is checked by the one-GPU
    kernel, and groups that fit in whole numbers only are forbidden.

    Attributes
    ----------
    conflict_sets
        Sets of workloads tested on each GPU type, at most, for the cuts that keep them apart.
    """

    name: ClassVar[str] = "cpsat"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.GOODPUT, Objective.SCALE})

    conflict_sets: int = 30_000

    def warm(self) -> None:
        """Import the solver and load the compiled kernels."""
        from instances.suites import suite

        for instance in suite("smoke").build():
            if instance.objective in self.objectives:
                self.schedule(instance, Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Solve ``instance``; incumbents and bounds are reported as they are found."""
        for pool in instance.gpus:
            if reason := why_not_exact(View.of(instance, pool.type).tables):
                return Outcome(Status.UNKNOWN, reason=f"{pool.type.name}: {reason}")
        if not instance.workloads:
            return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, certified=True))
        if instance.objective is Objective.COST:
            return _cheapest(instance, run, self.conflict_sets)
        if instance.objective is Objective.GOODPUT:
            return _most_goodput(instance, run, self.conflict_sets)
        return largest_scale(instance, run, self.conflict_sets)


def _cheapest(instance: Instance, run: Run, conflict_sets: int) -> Outcome:
    rates = [rates_of(instance, w) for w in range(len(instance.workloads))]
    offers = offers_of(instance, rates)
    if reason := unservable(instance, offers):
        return Outcome(Status.INFEASIBLE, reason=reason)
    prices = [instance.gpus[offer.pool].type.price_per_hour for offer in offers]
    exact = [Fraction(repr(price)) for price in prices]
    weights = Weights.of(exact, max(exact) * len(rates), round_up=False)
    fits = Fits(offers)
    progress = Progress(instance, run, fits, weights, lambda groups: sum(weights.whole[g.offer] for g in groups))
    order = largest_first(offers)
    for groups in _starts(instance, run, rates, offers, order, prices, fits):
        if sum(len(group.residents) for group in groups) == len(rates):
            progress.accept(groups)
    progress.improve_bound(_volume_bound(offers, weights))
    if progress.proven or run.remaining_s <= 0.0:
        return progress.outcome()

    below = progress.worth if progress.plan is not None else None
    counts = [
        offer.count if below is None or price == 0 else min(offer.count, (below - 1) // price)
        for offer, price in zip(offers, weights.whole, strict=True)
    ]
    finished = _solve(
        progress, offers, counts, order, conflict_sets, lambda model: model.minimise(weights.whole, below)
    )
    if finished and progress.plan is not None:
        progress.improve_bound(progress.worth)
    return progress.outcome("the pool has too few GPUs to serve all workloads" if finished else "")


def _volume_bound(offers: Sequence[Offer], weights: Weights) -> int:
    """Bound the cost by the units that each workload takes at least, at the price of a unit where that is cheapest."""
    total = Fraction(0)
    for w in range(len(offers[0].choices)):
        total += min(
            Fraction(price * int(offer.choices[w].units.min()), offer.view.tables.share_units)
            for offer, price in zip(offers, weights.whole, strict=True)
            if len(offer.choices[w])
        )
    step = gcd(*weights.whole) or 1
    return step * ceil(total / step)


def _most_goodput(instance: Instance, run: Run, conflict_sets: int) -> Outcome:
    rates = [rates_of(instance, w) for w in range(len(instance.workloads))]
    offers = offers_of(instance, rates)
    steps = [Fraction(repr(workload.rate_rps)) / STEPS for workload in instance.workloads]
    weights = Weights.of(steps, sum(steps) * STEPS, round_up=True)
    fits = Fits(offers)

    def worth_of(groups: Sequence[Group]) -> int:
        return sum(
            weights.whole[r.workload] * round(STEPS * r.rate_rps / instance.workloads[r.workload].rate_rps)
            for group in groups
            for r in group.residents
        )

    progress = Progress(instance, run, fits, weights, worth_of)
    progress.accept(())
    progress.improve_bound(STEPS * sum(weights.whole) if offers else 0)
    if not offers:
        return progress.outcome()
    order = largest_first(offers)
    for groups in _starts(instance, run, rates, offers, order, [1.0] * len(offers), fits):
        progress.accept(groups)
    if progress.proven or run.remaining_s <= 0.0:
        return progress.outcome()

    def prepare(model: "Assignment") -> None:
        model.maximise(lambda w, step: weights.whole[w] * step)
        model.hint(progress.groups)

    finished = search(
        offers, [offer.count for offer in offers], order, conflict_sets, fits, run,
        must_serve=False,
        prepare=prepare,
        accept=progress.accept,
        improve_bound=progress.improve_bound,
        statistics=progress.statistics,
    )  # fmt: skip
    if finished:
        progress.improve_bound(progress.worth)
    return progress.outcome()


def _starts(
    instance: Instance,
    run: Run,
    rates: Sequence[Rates],
    offers: Sequence[Offer],
    order: Sequence[int],
    prices: Sequence[float],
    fits: Fits,
) -> Iterator[Sequence[Group]]:
    if run.start is not None:
        yield groups_of(run.start, offers, rates, fits)
    yield first_fit(offers, order, prices, fits)
