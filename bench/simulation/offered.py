"""Rates of the requests that are sent to a plan."""

from instances import Instance, Objective, Plan


def offered_rps(plan: Plan, instance: Instance) -> dict[str, float]:
    """Return the offered rate of each workload, by id.

    Under ``cost`` and ``capacity``, all arriving requests are sent. Under ``goodput``, the planned rates are sent and
    further requests are rejected. Under ``scale``, every rate is multiplied by the scale that the plan reaches. A
    request of an application visits all stages, so all stages get the smallest offered rate among them.
    """
    planned: dict[str, float] = {workload.id: 0.0 for workload in instance.workloads}
    for _, _, slot in plan.slots():
        planned[slot.workload] += slot.rate_rps
    if instance.objective is Objective.GOODPUT:
        offered = {w.id: min(w.rate_rps, planned[w.id]) for w in instance.workloads}
    else:
        reached = 1.0
        if instance.objective is Objective.SCALE:
            reached = min((planned[w.id] / w.rate_rps for w in instance.workloads), default=0.0)
        offered = {w.id: w.rate_rps * reached for w in instance.workloads}
    for application in instance.applications:
        offered |= dict.fromkeys(application.stages, min(offered[stage] for stage in application.stages))
    return offered
