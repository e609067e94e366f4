"""Number of requests that a plan is offered."""

from instances import Instance, Objective, Plan


def offered_rps(plan: Plan, instance: Instance) -> dict[str, float]:
    """Return the rate at which each workload's requests are let in, by id.

    All that come under ``cost`` and ``capacity``; under ``goodput`` what the plan undertakes to serve, the rest being
    turned away at the door; under ``scale`` every rate times the scale that the plan reaches. A request of an
    application visits all its stages: they see as many as the one of them that is offered least.
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
