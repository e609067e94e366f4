"""Searches of the scheduler ``cpsat`` by objective: weights, first plans and limits of the assignment model.

Importing this module loads OR-Tools.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from bench.api import Outcome, Run, Status
from formulations.confirmation import reserved_s
from formulations.cpsat.assignment import Assignment
from formulations.cpsat.capacity.throughput import MostThroughput
from formulations.cpsat.claims import confirmed
from formulations.cpsat.integers import Weights
from formulations.cpsat.progress import CpSatProgress, solver_deadline
from formulations.cpsat.scale import largest_scale
from formulations.cpsat.solving import solve
from formulations.pattern import Pattern
from formulations.problem import Problem, first_fit, groups_of
from instances import PART_STEPS, Instance, Objective
from instances.attainment_terms import POISSON
from instances.configurations import Rates, rates_of


def solved(instance: Instance, run: Run, conflict_sets: int, gpu_sets: int) -> Outcome:
    """Solve an instance with workloads; see ``CpSat`` for the limits."""
    if instance.objective is Objective.SCALE:
        return largest_scale(instance, run, conflict_sets)
    try:
        problem = _problem(instance, run.deadline)
    except TimeoutError as late:
        return Outcome(Status.UNKNOWN, reason=str(late))
    if instance.objective is Objective.CAPACITY:
        return MostThroughput(problem, run, gpu_sets).outcome()
    search = _least_cost if instance.objective is Objective.COST else _most_goodput
    return search(problem, run, conflict_sets)


def build_once(instance: Instance, conflict_sets: int) -> None:
    """Build the model of an instance with one GPU, so that its kernels are loaded."""
    problem = _problem(instance)
    Assignment(problem, [1], conflict_sets, math.inf)


def _problem(instance: Instance, deadline: float = math.inf) -> Problem:
    return Problem(instance, [rates_of(instance, w) for w in range(len(instance.workloads))], deadline)


def _least_cost(problem: Problem, run: Run, conflict_sets: int) -> Outcome:
    if problem.instance.slo_rule.by_share and (reason := problem.unservable()):
        if problem.instance.arrivals != POISSON:
            return Outcome(Status.UNKNOWN, reason=f"{reason} under gamma arrivals")
        try:
            problem = _in_parts(problem, run.deadline)
        except TimeoutError as late:
            return Outcome(Status.UNKNOWN, reason=str(late))
    if reason := problem.unservable():
        return Outcome(Status.INFEASIBLE, reason=reason)
    price = [offer.view.gpu.price_per_hour for offer in problem.offers]
    exact = [Fraction(repr(each)) for each in price]
    weights = Weights.of(exact, max(exact) * len(problem.rates), round_up=False)
    progress = CpSatProgress(problem, run, weights, lambda groups: sum(weights.whole[group.pool] for group in groups))
    for groups in _starts(problem, run, _with_parts(problem), price):
        if problem.serves_all(groups):
            progress.accept(groups)
    progress.improve_bound(_volume_bound(problem, weights), certified=True)

    # The model covers only plans that are cheaper than the incumbent; no such plan uses more GPUs than these.
    below = progress.worth if progress.plan is not None else None
    counts = [
        offer.count if below is None or each == 0 else min(offer.count, (below - 1) // each)
        for offer, each in zip(problem.offers, weights.whole, strict=True)
    ]
    if progress.proven:
        return progress.outcome()
    return _search(progress, counts, conflict_sets, lambda model: model.minimise(weights.whole, below))


def _in_parts(problem: Problem, deadline: float) -> Problem:
    """Return the problem in which workloads that no single GPU serves are served in parts on different GPUs."""
    split = frozenset(w for w in range(len(problem.rates)) if math.isinf(problem.least_fraction(w)))
    step = np.arange(1, PART_STEPS, dtype=np.int64)
    rates = [
        Rates(own.rate_rps * (step / PART_STEPS), step) if w in split else own for w, own in enumerate(problem.rates)
    ]
    return Problem(problem.instance, rates, deadline, split)


def _with_parts(problem: Problem) -> list[int]:
    """Return the workloads by decreasing share, split ones as often as the largest parts take to serve them."""
    order = []
    for w in problem.largest_first():
        largest = max(int(offer.configurations[w].step.max(initial=1)) for offer in problem.offers)
        order += [w] * (math.ceil(PART_STEPS / largest) if w in problem.split else 1)
    return order


def _volume_bound(problem: Problem, weights: Weights) -> int:
    """Bound the cost by the least units of each workload, at the price of a unit on its cheapest type."""
    total = Fraction(0)
    for w in range(len(problem.rates)):
        whole = PART_STEPS if w in problem.split else 1
        total += min(
            Fraction(price * units * whole, offer.view.tables.share_units * step)
            for offer, price in zip(problem.offers, weights.whole, strict=True)
            for units, step in zip(
                offer.configurations[w].units.tolist(), offer.configurations[w].step.tolist(), strict=True
            )
        )
    unit = math.gcd(*weights.whole) or 1
    return unit * math.ceil(total / unit)


def _most_goodput(problem: Problem, run: Run, conflict_sets: int) -> Outcome:
    workloads = problem.instance.workloads
    step_rps = [Fraction(repr(workload.rate_rps)) / PART_STEPS for workload in workloads]
    weights = Weights.of(step_rps, PART_STEPS * sum(step_rps, Fraction(0)), round_up=True)

    def worth_of(groups: Sequence[Pattern]) -> int:
        return sum(weights.whole[r.workload] * problem.steps(r) for group in groups for r in group.residents)

    progress = CpSatProgress(problem, run, weights, worth_of)
    progress.accept(())
    servable = [w for w in range(len(workloads)) if problem.least_fraction(w) <= 1.0]
    progress.improve_bound(sum(PART_STEPS * weights.whole[w] for w in servable), certified=True)
    most_per_unit = sorted(servable, key=lambda w: problem.least_fraction(w) / workloads[w].rate_rps)
    for groups in _starts(problem, run, most_per_unit, [1.0] * len(problem.offers)):
        progress.accept(groups)

    def prepare(model: Assignment) -> None:
        model.maximise(lambda w, step: weights.whole[w] * step)
        model.hint(progress.groups)

    if progress.proven:
        return progress.outcome()
    return _search(progress, [offer.count for offer in problem.offers], conflict_sets, prepare)


def _starts(problem: Problem, run: Run, order: Sequence[int], price: Sequence[float]) -> Iterator[Sequence[Pattern]]:
    if run.start is not None:
        yield groups_of(run.start, problem, problem.rates)
    yield first_fit(problem, order, price, run.deadline)


def _search(
    progress: CpSatProgress, counts: Sequence[int], conflict_sets: int, prepare: Callable[[Assignment], None]
) -> Outcome:
    """Solve the model with the objective set by ``prepare``, and confirm what CP-SAT claims."""
    run = progress.run
    try:
        deadline = solver_deadline(run, reserved_s=reserved_s(run))
        model = Assignment(progress.problem, counts, conflict_sets, deadline)
    except TimeoutError:
        return progress.outcome()
    prepare(model)
    progress.statistics["cuts"] = float(sum(len(gpus.conflicts) for gpus in model.modelled))
    completed = solve(model, run, progress.accept, progress.improve_bound, progress.statistics)
    if completed and progress.plan is not None:
        progress.improve_bound(progress.worth)
    if not completed and not progress.proven:
        return progress.outcome()
    return confirmed(progress, model)
