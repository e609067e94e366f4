"""Integer program: the number of GPUs of each layout, and of MIG instances of each kind for each workload."""

from dataclasses import dataclass

import highspy
import numpy as np

from bench.api import Run
from formulations.highs import MOST_NODES, new_highs, reset_threads
from formulations.mig.offers import Offers
from instances import Instance
from instances.arrays import Ints

_ROW_SCALE = 1e4
"""Right side of the coverage rows, so large that the solver's absolute tolerance of 1e-6 is less than the judge's."""


@dataclass(frozen=True, slots=True)
class MigSolution:
    """Solution of the integer program.

    Attributes
    ----------
    gpus
        Number of GPUs of each layout, shape (layouts,); ``None`` without a solution.
    used
        Number of MIG instances of each kind for each workload, shape (workloads, kinds).
    proven
        Whether the solver claims that the solution is optimal, or that none exists.
    """

    gpus: Ints | None
    used: Ints
    proven: bool
    nodes: int


def solve(instance: Instance, offers: Offers, run: Run, stop_at: float) -> MigSolution:
    """Minimise the cost within the limits of ``run``; a plan that costs at most ``stop_at`` is optimal.

    min  sum_l price_l x_l
    s.t. sum_k rate_wk y_wk >= R_w            for every workload w
         sum_w y_wk <= sum_l count_lk x_l     for every kind k of MIG instance
         sum_(l of pool p) x_l <= count_p     for every bounded pool p;  x, y integer

    ``x`` is ``gpus_of_layout``, and ``y`` is ``instances_of_kind``.
    """
    reset_threads()
    solver = new_highs(
        run.threads,
        random_seed=run.seed % 2**31,
        time_limit=min(run.remaining_s, 1e9),
        mip_rel_gap=0.0,
        mip_max_nodes=min(run.work_left(0, MOST_NODES), MOST_NODES),
        objective_target=stop_at * (1.0 + 1e-9),
    )
    workloads, kinds = offers.rate_rps.shape
    gpus_of_layout = [solver.addIntegral(lb=0, obj=float(price)) for price in offers.price]
    instances_of_kind = [[solver.addIntegral(lb=0) for _ in range(kinds)] for _ in range(workloads)]
    for w, workload in enumerate(instance.workloads):
        # A MIG instance counts for at most the whole rate of the workload.
        served_part = np.minimum(offers.rate_rps[w], workload.rate_rps) / workload.rate_rps
        solver.addConstr(
            solver.qsum(float(_ROW_SCALE * served_part[kind]) * instances_of_kind[w][kind] for kind in range(kinds))
            >= _ROW_SCALE
        )
    for kind in range(kinds):
        available_instances = solver.qsum(
            int(offers.count[layout, kind]) * gpus_of_layout[layout] for layout in range(len(gpus_of_layout))
        )
        solver.addConstr(solver.qsum(instances_of_kind[w][kind] for w in range(workloads)) <= available_instances)
    for position, pool in enumerate(instance.gpus):
        if pool.count is not None:
            layouts_of_pool = [
                gpus_of_layout[layout]
                for layout, (layout_pool, _) in enumerate(offers.layouts)
                if layout_pool == position
            ]
            solver.addConstr(solver.qsum(layouts_of_pool) <= pool.count)
    solver.run()
    status, info = solver.getModelStatus(), solver.getInfo()
    proven = status in (
        highspy.HighsModelStatus.kOptimal,
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kObjectiveTarget,
    )
    nodes = max(0, int(info.mip_node_count))
    no_instances = np.zeros((workloads, kinds), np.int64)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return MigSolution(None, no_instances, proven, nodes)
    values = np.round(solver.getSolution().col_value).astype(np.int64)
    return MigSolution(
        values[: len(gpus_of_layout)], values[len(gpus_of_layout) :].reshape(workloads, kinds), proven, nodes
    )
