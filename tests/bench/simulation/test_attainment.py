"""Missed fractions under the rule ``attainment``: the Markov chain against the simulator, for random slots."""

import math
from collections import deque
from random import Random

import numpy as np
import pytest

from bench.plan_simulation import Interference, Settings
from bench.simulation.driver import Simulation
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.attainment import MOST_NODES, missed_fraction, node_distance_ms
from instances.attainment_chain import chain_for
from instances.backlog import late_fraction
from instances.backlog_levels import backlog_for
from instances.catalogue import gpu_type
from instances.slot_times import SlotTimes, batch_times
from instances.view import View

V100 = gpu_type("v100")
BLOCKS = 100  # of a simulation, whose spread gives the standard error


def instance(workload: Workload, dropping: bool) -> Instance:
    pool = (GpuPool(V100, None),)
    return Instance("one", Objective.COST, SloRule.ATTAINMENT, "igniter", pool, (workload,), dropping=dropping)


def random_slot(random: Random, dropping: bool) -> tuple[Instance, int, int, SlotTimes, float]:
    """Return an instance with one workload, and its batch, share units, times, and a GPU time near the budget."""
    model = random.choice(list(V100.models))
    workload = Workload("w", model, random.uniform(10.0, 60.0), random.uniform(20.0, 900.0))
    batch, units = random.randint(1, 12), random.randint(4, 40)
    problem = instance(workload, dropping)
    view = View.of(problem, V100)
    times = batch_times(view.tables, int(view.model[0]), batch).under_load(workload.slo_ms, workload.rate_rps)
    budget_ms = float(view.budgets_at_ms(0, batch, workload.rate_rps, units))
    return problem, batch, units, times, budget_ms * random.uniform(0.97, 1.03)


def chain_and_simulation(
    problem: Instance, units: int, times: SlotTimes, time_ms: float, requests: int, seed: int
) -> tuple[float, float, float]:
    """Return the missed fraction by the chain, that by a simulation with the same times, and its standard error."""
    gpu_ms = times.alone_ms[:, units] + time_ms - times.alone_ms[times.batch, units]
    result_ms, busy_ms, slo_ms = gpu_ms + times.transfer_ms, gpu_ms + times.exposed_ms, times.slo_ms
    slot = times.rate_per_ms, slo_ms, times.batch, result_ms, busy_ms
    if problem.dropping:
        latest_ms = max(0.0, slo_ms - float(result_ms[-1]))
        step_ms = node_distance_ms(times.rate_per_ms, latest_ms, times.batch, float(busy_ms[-1]))
        exact = missed_fraction(chain_for(times.batch, MOST_NODES + 1), *slot, step_ms)
    else:
        exact = late_fraction(backlog_for(times.batch), *slot)
    if not 0.002 < exact < 0.05:
        return exact, math.nan, math.nan
    rate_rps = problem.workloads[0].rate_rps
    plan = Plan("one", (spatial_gpu("v100", [("w", units, times.batch, rate_rps)]),))
    seconds = max(1, math.ceil(requests / rate_rps / BLOCKS)) * BLOCKS
    settings = Settings(seconds=seconds, seed=seed, interference=Interference.STATIC, interval_s=1.0)
    simulation = Simulation(plan, problem, settings, problem)
    site = simulation.groups[0].site
    site.times["gpu_ms"][0], site.times["promised_ms"][0] = gpu_ms, result_ms
    deque(simulation.run(), maxlen=0)
    series = simulation.result().series
    assert series is not None
    arrived, in_time = (each[:, 0].reshape(BLOCKS, -1).sum(axis=1) for each in (series.arrived, series.in_time))
    missed = arrived - in_time
    fraction = float(missed.sum() / arrived.sum())
    error = math.sqrt(np.sum((missed - fraction * arrived) ** 2) * BLOCKS / (BLOCKS - 1)) / float(arrived.sum())
    return exact, fraction, error


def deviations(count: int, requests: int, seed: int, dropping: bool) -> list[float]:
    """Return differences between simulation and chain in standard errors, for slots that miss 0.2 to 5 %."""
    random, differences = Random(seed), []
    while len(differences) < count:
        problem, _, units, times, time_ms = random_slot(random, dropping)
        if time_ms < times.alone_ms[times.batch, units]:
            continue
        exact, fraction, error = chain_and_simulation(problem, units, times, time_ms, requests, random.randrange(10**6))
        if not math.isnan(fraction):
            differences.append((fraction - exact) / error)
    return differences


@pytest.mark.parametrize("dropping", [True, False])
def test_the_chain_agrees_with_the_simulator(dropping: bool) -> None:
    distances = np.abs(deviations(30, 400_000, 1, dropping))

    assert np.sum(distances > 3.0) <= 1
    assert distances.max() < 5.0


@pytest.mark.soak
@pytest.mark.parametrize("dropping", [True, False])
def test_the_chain_agrees_with_the_simulator_on_a_thousand_slots(dropping: bool) -> None:
    distances = np.abs(deviations(1000, 1_000_000, 2, dropping))

    assert np.sum(distances > 3.0) <= 8
    assert distances.max() < 5.0
