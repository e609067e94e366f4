"""Choice of sets that place every workload once, for the largest sum of their bounds.

Importing this module loads OR-Tools.
"""

import math
import time
from collections.abc import Sequence

from ortools.sat.python import cp_model

from bench.api import Run
from formulations.cpsat.capacity.one_gpu import GpuSets, OneGpu
from formulations.cpsat.integers import EXACT_LIMIT

BOUND_ALLOWANCE = 1e-3
"""Allowance for the rounding of the solver's floating-point bound, in integer steps of the objective."""

Chosen = tuple[tuple[int, OneGpu], ...]
"""Chosen sets: the GPU type and the set of each GPU."""


def best_partition(
    sets: Sequence[GpuSets], counts: Sequence[int], sizes: Sequence[int], run: Run, deadline: float
) -> tuple[Chosen, float]:
    """Choose sets of workloads for the GPUs, so that every workload is placed.

    Parameters
    ----------
    sets, counts
        For each GPU type: sets that may fit, and number of GPUs.
    sizes
        Number of workloads of each class.
    deadline
        ``time.monotonic()`` value at which to stop.

    Returns
    -------
    gpus
        The best choice found, empty if there is none.
    bound
        Upper bound on the sum of the sets' bounds in every choice, in requests per second; -inf if no choice exists.
    """
    model = cp_model.CpModel()
    options = []
    for gpu_type, (sets_of_type, count) in enumerate(zip(sets, counts, strict=True)):
        for members, search in sets_of_type.items():
            if not search.impossible:
                most_copies = min(count, *(sizes[class_] // members.count(class_) for class_ in members))
                options.append((model.new_int_var(0, most_copies, ""), gpu_type, members, search))
        model.add(sum(copies for copies, option_type, _, _ in options if option_type == gpu_type) <= count)
    for class_, size in enumerate(sizes):
        model.add(sum(members.count(class_) * copies for copies, _, members, _ in options if class_ in members) == size)
    # Bounds are rounded up to integer steps; the steps are as small as the limit on sums permits.
    largest = max((search.bound for _, _, _, search in options), default=1.0)
    steps_per_rps = EXACT_LIMIT / (largest * max(1, sum(counts)))
    total = sum(math.ceil(search.bound * steps_per_rps) * copies for copies, _, _, search in options)
    model.maximize(total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = run.threads
    solver.parameters.random_seed = run.seed
    solver.parameters.max_time_in_seconds = max(0.0, deadline - time.monotonic())
    # Linear relaxations of set partitioning are strong. Presolve takes longer than it saves, and presolve of OR-Tools
    # 9.15 has lost the best choice in models with coefficients as large as those of this objective.
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_presolve = False
    status = solver.solve(model)
    if status == cp_model.MODEL_INVALID:
        raise RuntimeError(f"CP-SAT rejects the model: {model.validate()}")
    if status == cp_model.INFEASIBLE:
        return (), -math.inf
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return (), math.inf
    gpus = tuple((gpu_type, search) for copies, gpu_type, _, search in options for _ in range(solver.value(copies)))
    return gpus, math.floor(solver.best_objective_bound + BOUND_ALLOWANCE) / steps_per_rps
