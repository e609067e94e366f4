"""Prices far from those of real GPUs: an optimal plan stays optimal if all prices are multiplied by a number."""

import warnings
from dataclasses import replace

import pytest

from bench.api import Run, Scheduler, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from formulations.minlp import Minlp
from formulations.pwl import Pwl
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type


@pytest.mark.parametrize("price", [1e-300, 1e-9, 0.30000000000000004, 1.01, 1e12, 1e300])
@pytest.mark.parametrize("scheduler", [ColGen(), CpSat(), Pwl(), Minlp()], ids=lambda s: s.name)
def test_the_least_cost_is_the_price_of_one_gpu_at_any_price(scheduler: Scheduler, price: float) -> None:
    """One T4 serves the three workloads, so the V100, which costs three times as much, is not needed."""
    pools = [GpuPool(replace(gpu_type(name), price_per_hour=p)) for name, p in (("v100", 3 * price), ("t4", price))]
    rates_rps = (("alexnet", 200.0), ("resnet50", 100.0), ("vgg19", 60.0))
    workloads = tuple(Workload(f"w{n}", model, 60.0, rate) for n, (model, rate) in enumerate(rates_rps))
    instance = Instance("priced", Objective.COST, SloRule.HALF_SLO, "igniter", tuple(pools), workloads)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = scheduler.schedule(instance, Run())

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value == price
    assert outcome.bound is not None
    assert outcome.bound.value <= price
