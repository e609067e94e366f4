"""Plans for GPUs that are too few for all services: against brute force, with priorities, and as printed."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

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
from bench.fleet.solving import solved_here
from bench.judging.judge import judge
from formulations.colgen.spatial import pricer
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.inputs import instance_from_tables
from instances.one_gpu import Resident, fit_gpu
from instances.view import View

STEPS = 20

MODELS = ("resnet50", "vgg16", "resnet101", "mobilenet", "densenet121", "resnet152", "alexnet", "vgg19", "inceptionv3")


@pytest.fixture(scope="module")
def tight() -> Instance:
    gpu = gpu_type("v100")
    models = {name: replace(gpu.models[name], max_batch=4) for name in ("alexnet", "vgg19")}
    workloads = (Workload("a", "alexnet", 30.0, 2000.0), Workload("b", "vgg19", 80.0, 800.0))
    pools = (GpuPool(replace(gpu, models=models), 1),)
    return Instance("tight", Objective.COST, SloRule.HALF_SLO, "igniter", pools, workloads)


def best_by_hand(instance: Instance, weights: dict[str, float], first: str | None = None) -> float:
    """Return the largest weighted rate that one GPU serves, by trying all steps of the rates and all batches.

    With ``first``, only rates with the highest possible rate of that workload count.
    """
    view = View.of(instance, instance.gpus[0].type)
    feasible_rates = []
    for steps in product(range(STEPS + 1), repeat=2):
        rates = [workload.rate_rps * step / STEPS for workload, step in zip(instance.workloads, steps, strict=True)]
        served = [w for w, step in enumerate(steps) if step]
        if any(
            fit_gpu(view, [Resident(w, batch, rates[w]) for w, batch in zip(served, batches, strict=True)]) is not None
            for batches in product(range(1, 5), repeat=len(served))
        ):
            feasible_rates.append({workload.id: rate for workload, rate in zip(instance.workloads, rates, strict=True)})
    if first is not None:
        highest_rps = max(rates[first] for rates in feasible_rates)
        feasible_rates = [rates for rates in feasible_rates if rates[first] == highest_rps]
    return max(sum(weights[name] * rate for name, rate in rates.items()) for rates in feasible_rates)


def test_the_weighted_rate_on_one_gpu_is_that_of_brute_force(tight: Instance, subtests: pytest.Subtests) -> None:
    for weights in ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 4.0}, {"a": 9.0, "b": 1.0}):
        with subtests.test(weights=weights):
            answer = within_budget(tight, Preferences(weights), 120.0)
            assert answer is not None
            (stage,) = answer.stages
            assert sum(weights[name] * rate for name, rate in answer.served_rps.items()) == pytest.approx(
                stage.weighted_rps
            )
            assert stage.weighted_rps == pytest.approx(best_by_hand(tight, weights))
            assert stage.weighted_rps <= stage.bound_rps <= 1.02 * stage.weighted_rps
            assert judge(answer.plan, answer.instance).feasible
            assert stage.weighted_rps < sum(weights[workload.id] * workload.rate_rps for workload in tight.workloads)


def test_bounds_hold_under_the_attainment_rule(
    tight: Instance, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    by_share = replace(tight, slo_rule=SloRule.ATTAINMENT)
    for weights in ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 4.0}):
        best = best_by_hand(by_share, weights)
        for many_options in (
            0,
            pricer.MANY_OPTIONS,
        ):  # few options: entries by configuration; many (always, at 0): by batch
            with subtests.test(weights=weights, many_options=many_options):
                monkeypatch.setattr(pricer, "MANY_OPTIONS", many_options)
                answer = within_budget(by_share, Preferences(weights), 120.0)
                assert answer is not None
                (stage,) = answer.stages
                assert stage.weighted_rps <= best * (1.0 + 1e-9)
                assert best <= stage.bound_rps * (1.0 + 1e-9)
                assert stage.bound_rps <= 1.02 * stage.weighted_rps
        monkeypatch.undo()


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_lower_priority_gets_what_the_higher_one_leaves(tight: Instance, first: str) -> None:
    answer = within_budget(tight, Preferences({}, {first: 1}), 120.0)
    assert answer is not None
    assert [stage.priority for stage in answer.stages] == [1, 0]
    total = best_by_hand(tight, {"a": 1.0, "b": 1.0}, first)
    assert sum(answer.served_rps.values()) == pytest.approx(total)
    assert all(stage.bound_rps >= stage.weighted_rps - 1e-6 for stage in answer.stages)
    assert "given the rates of higher priorities" in budget_proof_line(answer)


def test_one_more_gpu_serves_more_and_the_lines_say_so(tight: Instance) -> None:
    answer = within_budget(tight, Preferences({"b": 4.0}), 120.0)
    assert answer is not None
    more = one_more_gpu(tight, Preferences({"b": 4.0}), answer, 120.0)
    assert more is not None
    assert more.budgeted.plan.gpus_used == 2
    assert served_line(answer, tight).startswith("served: ")
    assert "1 v100" in served_line(answer, tight)
    assert more.budgeted.stages[0].weighted_rps > answer.stages[0].weighted_rps
    assert one_more_line(more, answer, tight).startswith("one more GPU: a further v100 ($")
    assert ": a 95 to 100 %, b 40 to " in one_more_line(more, answer, tight)
    assert turned_away_line(answer, tight) == "turned away: a 100 req/s, b 480 req/s"
    assert one_more_line(None, answer, tight).startswith("one more GPU: of no type")


def fifteen_services(seed: int) -> str:
    """Table of services with random models, SLOs, weights, and rates that load an A100 by 10 to 90 % at batch 8."""
    gpu, random = gpu_type("a100"), Random(seed)
    names = [name for name in MODELS if name in gpu.models]
    rows = ["service,model,rate_rps,slo_ms,weight"]
    for number in range(1, 16):
        model = random.choice(names)
        solo = gpu.model(model).profiled(gpu.name)
        batch_ms = solo.gpu_ms[list(solo.batch).index(8)][-1]
        rate_rps = round(8000.0 / batch_ms * random.uniform(0.1, 0.9))
        slo_ms = round(batch_ms * random.uniform(3, 10) + 10)
        rows.append(f"s{number},{model},{rate_rps},{slo_ms},{random.choice([1, 1, 1, 2, 3, 5])}")
    return "\n".join(rows) + "\n"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_half_the_gpus_that_fifteen_services_need_serve_within_two_percent_of_the_bound(
    seed: int, tmp_path: Path
) -> None:
    services, gpus = tmp_path / "services.csv", tmp_path / "gpus.csv"
    gpus.write_text("gpu,count\na100,40\n")
    services.write_text(fifteen_services(seed))
    table = instance_from_tables(services, None, gpus)
    everything = solved_here(table.instance, 30.0).plan
    assert everything is not None
    half = GpuPool(table.instance.gpus[0].type, everything.gpus_used // 2)
    answer = within_budget(replace(table.instance, gpus=(half,)), Preferences(table.weight), 60.0)
    assert answer is not None
    (stage,) = answer.stages
    assert stage.weighted_rps >= 0.98 * stage.bound_rps
