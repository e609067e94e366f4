"""iGniter's twelve workloads served online under constant arrivals, as the paper measures them."""

from bench.online.control import Online, Pace
from bench.online.planner import Planner
from bench.online.policies import POLICIES
from bench.online.result import OnlineRun
from bench.simulation.arrivals import Arrivals, Process, Stream
from instances.misspecification import misspecified
from instances.suites import suite

_WEIGHT = 1.0
"""Length of the last period; the rates are constant."""


def constant_course(scheduler: str, policy: str, pace: Pace, error: float = 0.0) -> OnlineRun:
    """Serve the twelve workloads.

    Parameters
    ----------
    scheduler
        Scheduler of the first plan.
    policy
        As in ``bench online``.
    pace
        Times at which the policy acts.
    error
        Largest relative error of every figure of the GPUs, with seed 0.
    """
    (instance,) = suite("igniter-12").build()
    planner = Planner(scheduler, instance)
    requests = {
        workload.id: Stream(Arrivals(Process.CONSTANT), workload.rate_rps, 0, workload.id)
        for workload in instance.workloads
    }
    chosen = POLICIES[policy](instance, planner, _WEIGHT)
    truth = misspecified(instance, error=error, seed=0)
    run = Online(planner.first(), instance, chosen, requests, pace, truth=truth)
    return OnlineRun(tuple(requests), tuple(run.run()))
