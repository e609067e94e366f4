"""Improvement of a plan under ``capacity`` by moves of one workload: another batch, another GPU, or both.

First fit and a solver's rounded solution often use a batch only because it was tried first. Moves that raise the
throughput are made until none is left. The one-GPU kernel tests every changed GPU and spends its spare shares.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from bench.api import Run
from formulations.problem import Problem
from instances.one_gpu import Pattern, Resident, fit_gpu, placed_throughput_rps

MOST_TRIALS = 5_000
"""Limit on the GPUs that are tried in one improvement."""

TIME_PART = 0.1
"""Fraction of the remaining time that one improvement may take."""

LEAST_GAIN = 1e-9
"""Least relative gain of a move, so that rounding cannot make moves repeat in a cycle."""


def improved(problem: Problem, patterns: Sequence[Pattern], run: Run) -> list[Pattern]:
    """Return patterns with at least the throughput of ``patterns``, which fit and serve all workloads."""
    trials = 0
    end_s = (1.0 - TIME_PART) * run.remaining_s

    def is_over() -> bool:
        return trials >= MOST_TRIALS or run.remaining_s < end_s

    @cache
    def throughput_rps(pattern: Pattern) -> float | None:
        nonlocal trials
        trials += 1
        if not pattern.residents:
            return 0.0
        view = problem.offers[pattern.pool].view
        if len(pattern.residents) > view.tables.most_residents:
            return None
        placed = fit_gpu(view, pattern.residents, spend_spare=True)
        return None if placed is None else placed_throughput_rps(view, placed)

    current = [*patterns, *_idle(problem, patterns)]
    moved = True
    while moved and not is_over():
        moved = False
        for workload in sorted({resident.workload for pattern in current for resident in pattern.residents}):
            best_gain, best_move = 0.0, None
            for changed in _moves(problem, current, workload):
                before = sum(throughput_rps(current[gpu]) or 0.0 for gpu in changed)
                after = [throughput_rps(pattern) for pattern in changed.values()]
                if is_over():
                    break
                gain = sum(value for value in after if value is not None) - before
                if None not in after and gain > max(best_gain, LEAST_GAIN * before):
                    best_gain, best_move = gain, changed
            if best_move is not None:
                moved = True
                for gpu, pattern in best_move.items():
                    current[gpu] = pattern
    return [pattern for pattern in current if pattern.residents]


def _idle(problem: Problem, patterns: Sequence[Pattern]) -> list[Pattern]:
    """Return one empty GPU of each offer that has an unused GPU."""
    used = [pattern.pool for pattern in patterns]
    return [Pattern.of(t, ()) for t, offer in enumerate(problem.offers) if used.count(t) < offer.count]


def _moves(problem: Problem, patterns: Sequence[Pattern], workload: int) -> Iterator[dict[int, Pattern]]:
    """Yield, for each move of a workload, the new patterns of the GPUs that it changes, by GPU."""
    home, resident_before = next(
        (gpu, resident)
        for gpu, pattern in enumerate(patterns)
        for resident in pattern.residents
        if resident.workload == workload
    )
    home_residents = [resident for resident in patterns[home].residents if resident.workload != workload]
    for gpu, pattern in enumerate(patterns):
        configurations = problem.offers[pattern.pool].configurations[workload]
        staying = home_residents if gpu == home else list(pattern.residents)
        for batch in np.unique(configurations.batch).tolist():
            if gpu == home and batch == resident_before.batch:
                continue
            joined = Pattern.of(pattern.pool, (*staying, Resident(workload, batch, resident_before.rate_rps)))
            others = {} if gpu == home else {home: Pattern.of(patterns[home].pool, home_residents)}
            yield {**others, gpu: joined}
