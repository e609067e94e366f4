"""Services on GPUs that do not suffice: brute force on one GPU, priorities, and the lines of the answer."""

from dataclasses import replace
from itertools import product

import pytest

from bench.fleet.budget import (
    Preferences,
    budget_proof_line,
    one_more_gpu,
    one_more_line,
    served_line,
    turned_away_line,
    within_budget,
)
from bench.judging.judge import judge
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.one_gpu import Resident, fit_gpu
from instances.view import View

STEPS = 20


@pytest.fixture(scope="module")
def tight() -> Instance:
    gpu = gpu_type("v100")
    models = {name: replace(gpu.models[name], max_batch=4) for name in ("alexnet", "vgg19")}
    workloads = (Workload("a", "alexnet", 30.0, 2000.0), Workload("b", "vgg19", 80.0, 800.0))
    pools = (GpuPool(replace(gpu, models=models), 1),)
    return Instance("tight", Objective.COST, SloRule.HALF_SLO, "igniter", pools, workloads)


def best_by_hand(instance: Instance, weights: dict[str, float], first: str | None = None) -> float:
    """The most weighted rate on one GPU, over all steps and batches; with ``first``, its rate is maximised before."""
    view = View.of(instance, instance.gpus[0].type)
    fitting = []
    for steps in product(range(STEPS + 1), repeat=2):
        rates = [workload.rate_rps * step / STEPS for workload, step in zip(instance.workloads, steps, strict=True)]
        served = [w for w, step in enumerate(steps) if step]
        if any(
            fit_gpu(view, [Resident(w, batch, rates[w]) for w, batch in zip(served, batches, strict=True)]) is not None
            for batches in product(range(1, 5), repeat=len(served))
        ):
            fitting.append({workload.id: rate for workload, rate in zip(instance.workloads, rates, strict=True)})
    if first is not None:
        most = max(rates[first] for rates in fitting)
        fitting = [rates for rates in fitting if rates[first] == most]
    return max(sum(weights[name] * rate for name, rate in rates.items()) for rates in fitting)


@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 4.0}, {"a": 9.0, "b": 1.0}])
def test_the_weighted_rate_on_one_gpu_is_the_best_of_all(tight: Instance, weights: dict[str, float]) -> None:
    found = within_budget(tight, Preferences(weights), 120.0)
    assert found is not None
    (stage,) = found.stages
    assert sum(weights[name] * rate for name, rate in found.served_rps.items()) == pytest.approx(stage.weighted_rps)
    assert stage.weighted_rps == pytest.approx(best_by_hand(tight, weights))
    assert stage.weighted_rps <= stage.bound_rps <= 1.02 * stage.weighted_rps
    assert judge(found.plan, found.instance).feasible
    assert stage.weighted_rps < sum(weights[workload.id] * workload.rate_rps for workload in tight.workloads)


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_lower_priority_gets_what_the_higher_one_leaves(tight: Instance, first: str) -> None:
    found = within_budget(tight, Preferences({}, {first: 1}), 120.0)
    assert found is not None
    assert [stage.priority for stage in found.stages] == [1, 0]
    total = best_by_hand(tight, {"a": 1.0, "b": 1.0}, first)
    assert sum(found.served_rps.values()) == pytest.approx(total)
    assert all(stage.bound_rps >= stage.weighted_rps - 1e-6 for stage in found.stages)
    assert "given the rates of higher priorities" in budget_proof_line(found)


def test_one_more_gpu_serves_more_and_the_lines_say_so(tight: Instance) -> None:
    found = within_budget(tight, Preferences({"b": 4.0}), 120.0)
    assert found is not None
    more = one_more_gpu(tight, Preferences({"b": 4.0}), found, 120.0)
    assert more is not None
    assert more.budgeted.plan.gpus_used == 2
    assert served_line(found, tight).startswith("served: ")
    assert "1 v100" in served_line(found, tight)
    assert more.budgeted.stages[0].weighted_rps > found.stages[0].weighted_rps
    assert one_more_line(more, found, tight).startswith("one more GPU: a further v100 ($")
    assert ": a 95 to 100 %, b 40 to " in one_more_line(more, found, tight)
    assert turned_away_line(found, tight) == "turned away: a 100 req/s, b 480 req/s"
    assert one_more_line(None, found, tight).startswith("one more GPU: of no type")
