"""Guided self-tuning by another reading of gpulet arXiv'21, Sec. 6.1: the optimal partition is ``p_eff`` alone."""

from heuristics.gpulet.best_fit import serve_alone
from heuristics.gpulet.elastic_partitioning import EfficientShare, max_efficient_partition
from heuristics.gpulet.state import Gpulets
from instances.view import View
from reports.claim import Values, query
from reports.need import Need
from reports.runs import Runs, the_instance


def cut_by_efficient_share_alone(view: View, gpus: int) -> Gpulets | None:
    """Give each workload gpulets of its most efficient share, however high its rate is; ``None`` if that fails.

    The scheduler ``guided-self-tuning`` takes a larger share if the rate needs it.
    """
    gpulets, unserved_rps = Gpulets.undivided(view, gpus, interference=False), view.rate_rps.copy()
    for workload in range(len(unserved_rps)):
        units = max_efficient_partition(view, gpulets, workload, EfficientShare.KNEE)
        while unserved_rps[workload] > 0.0:
            if not serve_alone(view.tables, gpulets, workload, units, unserved_rps):
                return None
    return gpulets


@query
def shares_by_efficient_share_alone(runs: Runs, need: Need, name: str, workload: str) -> Values:
    """Return the shares of a workload's gpulets by this reading, in words.

    ``need`` has the runs of ``guided-self-tuning``; the rates are the largest for which it has a plan.
    """
    largest = next(row.value for row in runs.rows(need) if row.instance == name)
    instance = the_instance(name).scaled(largest or 0.0)
    (pool,) = instance.gpus
    view = View.of(instance, pool.type)
    gpulets = cut_by_efficient_share_alone(view, pool.count or 0)
    if gpulets is None:
        return (None,)
    position = instance.workload_index[workload]
    units = [
        int(gpulet_units)
        for gpulet_units, slot_count, slot_workloads in zip(gpulets.units, gpulets.slots, gpulets.workload, strict=True)
        if slot_count and slot_workloads[0] == position
    ]
    return (", ".join(f"{pool.type.share_pct(share):g} %" for share in sorted(units)),)
