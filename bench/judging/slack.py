"""Slack of a slot: the fraction by which its latencies may exceed the planned ones before its SLO breaks.

Planned latencies are the predicted ones times the instance's latency buffer.

A slot with slack s keeps its SLO if all its latencies are 1 + s times as long: it is feasible if the instance's latency
buffer is multiplied by any factor up to 1 + s. The slack of a slot that breaks its SLO is negative. It is at most -1 if
the requests of a batch take as long as the SLO, or longer, to arrive.
"""

import math
from collections.abc import Sequence

from bench.judging.verdict import Verdict
from instances import SloRule
from instances.tolerance import TOLERANCE, widened
from instances.view import View


def steady_slack(
    view: View, workload: int, batch: int, rates_rps: Sequence[float], budget_ms: float, gpu_ms: float
) -> float:
    """Return the slack of a slot that takes no turns.

    Parameters
    ----------
    workload
        Position in the instance.
    rates_rps
        Rates at each of which the slot must keep its SLO.
    budget_ms, gpu_ms
        Smallest latency budget at these rates, and the GPU time of a batch with its neighbours.
    """
    if math.isinf(gpu_ms):  # the predicted frequency is 0, or a figure is missing
        return -1.0
    rule, buffer, model = view.instance.slo_rule, view.instance.latency_buffer, int(view.model[workload])
    if rule.by_share or view.steps[workload] > 0:  # the budget is a limit on the GPU time, without transfers
        return budget_ms / gpu_ms - 1.0
    inference_ms = gpu_ms + float(view.tables.transfer_ms[model, batch])
    if rule is not SloRule.HALF_SLO:
        return (budget_ms - gpu_ms) / inference_ms
    # ``half-slo`` limits the inference time by half of the SLO (iGniter, equation 14), and the busy time by the period
    # in which a batch arrives (equation 13).
    period_ms = 1000.0 * batch / max(rates_rps)
    busy_ms = gpu_ms + float(view.tables.exposed_ms[model, batch])
    half_slo_ms = float(view.slo_ms[workload]) / 2.0
    return min(widened(half_slo_ms) / inference_ms, widened(period_ms) / busy_ms) / buffer - 1.0


def turn_slack(slo_ms: float, cycle_ms: float, inference_ms: float, all_inference_ms: float, buffer: float) -> float:
    """Return the slack of a slot that takes turns within a duty cycle.

    Parameters
    ----------
    inference_ms, all_inference_ms
        Inference time of the slot's batch, and of the batches of all slots of the gpulet together.
    buffer
        Factor on every predicted latency.
    """
    in_time = (widened(slo_ms) - cycle_ms) / inference_ms
    return min(in_time, widened(cycle_ms) / all_inference_ms) / buffer - 1.0


def is_roomier(verdict: Verdict, other: Verdict) -> bool:
    """Return whether a plan is feasible and has more slack than another plan of the same cost."""
    return (
        verdict.feasible
        and verdict.least_slack is not None
        and other.least_slack is not None
        and verdict.least_slack > other.least_slack
        and math.isclose(verdict.cost_per_hour, other.cost_per_hour, rel_tol=TOLERANCE)
    )
