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
from formulations.problem import Problem, first_fit, patterns_of
from instances import PART_STEPS, Instance, Objective
from instances.attainment_terms import POISSON
from instances.configurations import Rates, rates_of
from instances.one_gpu import Pattern


def solved(instance: Instance, run: Run, conflict_sets: int, gpu_sets: int) -> Outcome:
    """Solve an instance with workloads; see ``CpSat`` for the limits."""
    if instance.objective is Objective.SCALE:
        return largest_scale(instance, run, conflict_sets)
    try:
        problem = _problem(instance, run.deadline)
    except TimeoutError as timeout:
        return Outcome(Status.UNKNOWN, reason=str(timeout))
    if instance.objective is Objective.CAPACITY:
        return MostThroughput(problem, run, gpu_sets).outcome()
    search_for_objective = _least_cost if instance.objective is Objective.COST else _most_goodput
    return search_for_objective(problem, run, conflict_sets)


def build_once(instance: Instance, conflict_sets: int) -> None:
    """Build the model of an instance with one GPU, so that its kernels are loaded."""
    problem = _problem(instance)
    Assignment(problem, [1], conflict_sets, math.inf)


def _problem(instance: Instance, deadline: float = math.inf) -> Problem:
    return Problem(instance, [rates_of(instance, w) for w in range(len(instance.workloads))], deadline)


def _least_cost(problem: Problem, run: Run, conflict_sets: int) -> Outcome:
    if problem.instance.slo_rule.by_share and (reason := problem.unservable()):
        # Sampled budgets: a part may have a smaller budget than the whole, so a bound on parts would not be certain.
        if problem.instance.arrivals != POISSON:
            return Outcome(Status.UNKNOWN, reason=f"{reason} under gamma arrivals")
        try:
            problem = _in_parts(problem, run.deadline)
        except TimeoutError as timeout:
            return Outcome(Status.UNKNOWN, reason=str(timeout))
    if reason := problem.unservable():
        return Outcome(Status.INFEASIBLE, reason=reason)
    prices = [offer.view.gpu.price_per_hour for offer in problem.offers]
    exact_prices = [Fraction(repr(price)) for price in prices]
    weights = Weights.of(exact_prices, max(exact_prices) * len(problem.rates), round_up=False)
    progress = CpSatProgress(
        problem, run, weights, lambda patterns: sum(weights.whole[pattern.pool] for pattern in patterns)
    )
    for patterns in _start_patterns(problem, run, _first_fit_order(problem), prices):
        if problem.serves_all(patterns):
            progress.accept(patterns)
    progress.improve_bound(_volume_bound(problem, weights), certified=True)

    # The model covers only plans that are cheaper than the incumbent; no such plan uses more GPUs than these.
    cost_limit = progress.worth if progress.plan is not None else None
    gpu_counts = [
        offer.count if cost_limit is None or price == 0 else min(offer.count, (cost_limit - 1) // price)
        for offer, price in zip(problem.offers, weights.whole, strict=True)
    ]
    if progress.proven:
        return progress.outcome()
    return _search(progress, gpu_counts, conflict_sets, lambda model: model.minimise(weights.whole, cost_limit))


def _in_parts(problem: Problem, deadline: float) -> Problem:
    """Return the problem in which workloads that no single GPU serves are served in parts on different GPUs."""
    split = frozenset(
        workload for workload in range(len(problem.rates)) if math.isinf(problem.least_fraction(workload))
    )
    steps = np.arange(1, PART_STEPS, dtype=np.int64)
    rates = [
        Rates(whole_rates.rate_rps * (steps / PART_STEPS), steps) if workload in split else whole_rates
        for workload, whole_rates in enumerate(problem.rates)
    ]
    return Problem(problem.instance, rates, deadline, split)


def _first_fit_order(problem: Problem) -> list[int]:
    """Return the workloads by decreasing share; a split workload occurs once for each of its largest parts."""
    order = []
    for workload in problem.largest_first():
        largest = max(int(offer.configurations[workload].step.max(initial=1)) for offer in problem.offers)
        order += [workload] * (math.ceil(PART_STEPS / largest) if workload in problem.split else 1)
    return order


def _volume_bound(problem: Problem, weights: Weights) -> int:
    """Bound the cost from below by the least units of each workload, at the price of a unit on its cheapest type."""
    total_cost = Fraction(0)
    for workload in range(len(problem.rates)):
        needed_steps = PART_STEPS if workload in problem.split else 1
        total_cost += min(
            Fraction(price * units * needed_steps, offer.view.tables.share_units * step)
            for offer, price in zip(problem.offers, weights.whole, strict=True)
            for units, step in zip(
                offer.configurations[workload].units.tolist(), offer.configurations[workload].step.tolist(), strict=True
            )
        )
    cost_step = math.gcd(*weights.whole) or 1
    return cost_step * math.ceil(total_cost / cost_step)


def _most_goodput(problem: Problem, run: Run, conflict_sets: int) -> Outcome:
    workloads = problem.instance.workloads
    step_rps = [Fraction(repr(workload.rate_rps)) / PART_STEPS for workload in workloads]
    weights = Weights.of(step_rps, PART_STEPS * sum(step_rps, Fraction(0)), round_up=True)

    def worth_of(patterns: Sequence[Pattern]) -> int:
        return sum(
            weights.whole[resident.workload] * problem.steps(resident)
            for pattern in patterns
            for resident in pattern.residents
        )

    progress = CpSatProgress(problem, run, weights, worth_of)
    progress.accept(())
    servable = [w for w in range(len(workloads)) if problem.least_fraction(w) <= 1.0]
    progress.improve_bound(sum(PART_STEPS * weights.whole[w] for w in servable), certified=True)
    by_rate_per_unit = sorted(servable, key=lambda w: problem.least_fraction(w) / workloads[w].rate_rps)
    for patterns in _start_patterns(problem, run, by_rate_per_unit, [1.0] * len(problem.offers)):
        progress.accept(patterns)

    def prepare(model: Assignment) -> None:
        model.maximise(lambda w, step: weights.whole[w] * step)
        model.hint(progress.patterns)

    if progress.proven:
        return progress.outcome()
    return _search(progress, [offer.count for offer in problem.offers], conflict_sets, prepare)


def _start_patterns(
    problem: Problem, run: Run, order: Sequence[int], price: Sequence[float]
) -> Iterator[Sequence[Pattern]]:
    """Yield the patterns of the run's start plan, if there is one, and of first fit."""
    if run.start is not None:
        yield patterns_of(run.start, problem, problem.rates)
    yield first_fit(problem, order, price, run.deadline)


def _search(
    progress: CpSatProgress, gpu_counts: Sequence[int], conflict_sets: int, prepare: Callable[[Assignment], None]
) -> Outcome:
    """Solve the model with the objective that ``prepare`` sets, and confirm CP-SAT's claim."""
    run = progress.run
    try:
        deadline = solver_deadline(run, reserved_s=reserved_s(run))
        model = Assignment(progress.problem, gpu_counts, conflict_sets, deadline)
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
