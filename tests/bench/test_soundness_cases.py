"""Instances with wrong answers in earlier versions: full memory, odd prices, rates far below 1 req/s."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.api import Run, Scheduler, Status
from bench.certificate.checking import check
from bench.judging.judge import judge
from bench.ledger.refutation import TOLERANCE
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from instances import GpuPool, Instance, Workload
from instances.files import read_instance, read_json, read_plan
from tests.bench.certificate.drawn import certified

CASES = Path(__file__).parents[1] / "fixtures/soundness"
SOLVERS: tuple[Scheduler, ...] = (ColGen(), CpSat())


def full(memory_mib: float, price: float = 3.06, rate_rps: float = 5.0, count: int = 7) -> Instance:
    """Return the file's instance with ``count`` workloads whose memories add up to that of the GPU."""
    instance = read_instance(CASES / "memory-full.json")
    gpu = instance.gpus[0].type
    models = {name: replace(model, memory_base_mib=memory_mib) for name, model in gpu.models.items()}
    total = float(f"{memory_mib * count:.10g}")
    changed = replace(gpu, models=models, memory_mib=total, price_per_hour=price)
    asked = tuple(replace(instance.workloads[0], id=f"w{n}", rate_rps=rate_rps) for n in range(count))
    return replace(instance, gpus=(GpuPool(changed),), workloads=asked)


def test_seven_models_fill_the_memory_of_one_gpu() -> None:
    plan, instance = read_plan(CASES / "memory-full-plan.json")
    assert instance is not None
    verdict = judge(plan, instance)
    assert verdict.feasible
    assert (verdict.gpus_used, verdict.value) == (1, 3.06)


@pytest.mark.parametrize(
    "instance",
    [
        read_instance(CASES / "memory-full.json"),
        full(500.3),
        full(0.1, price=1.01),
        full(1234.7, count=5, rate_rps=30.0),
        full(333.3, count=3, price=0.30000000000000004),
    ],
    ids=["file", "same", "small", "five", "three"],
)
def test_a_full_memory_is_one_gpu_for_solvers_and_checker(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    price = instance.gpus[0].type.price_per_hour
    for solver in SOLVERS:
        outcome = solver.schedule(instance, Run())
        assert outcome.status is Status.OPTIMAL
        assert outcome.plan is not None
        assert judge(outcome.plan, instance).value == price
    data = certified(instance, ColGen().schedule(instance, Run()), monkeypatch, False)
    assert check(data, "proof").optimal
    two_gpus_claimed = {**data, "plan": None, "claim": {**data["claim"], "bound": repr(2.0 * price)}}
    assert not check(two_gpus_claimed, "proof").proven


def test_one_more_model_takes_a_second_gpu() -> None:
    instance = full(500.3)
    more = replace(instance, workloads=(*instance.workloads, replace(instance.workloads[0], id="more")))
    for solver in SOLVERS:
        outcome = solver.schedule(more, Run())
        assert outcome.status is Status.OPTIMAL
        assert outcome.plan is not None
        assert judge(outcome.plan, more).gpus_used == 2


def test_a_certificate_of_odd_prices_is_proven() -> None:
    data = read_json(CASES / "prices-certificate.json")
    assert check(data, "proof").sentence.startswith("proven: ")


@pytest.mark.parametrize(("rate_rps", "model"), [(0.5, "alexnet"), (0.01, "alexnet"), (0.25, "resnet50")])
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: s.name)
def test_the_largest_rate_does_not_depend_on_the_rate_of_the_workload(
    solver: Scheduler, rate_rps: float, model: str
) -> None:
    """Under scale, the largest rate is the scale times the workload's rate: a low rate gets a large scale."""
    instance = read_instance(CASES / "scale-low.json")
    asked = replace(instance, workloads=(Workload("a", model, 50.0, rate_rps),))
    at_100 = replace(instance, workloads=(Workload("a", model, 50.0, 100.0),))

    outcome, outcome_at_100 = solver.schedule(asked, Run()), solver.schedule(at_100, Run())

    assert outcome.plan is not None
    assert outcome_at_100.plan is not None
    assert outcome.bound is not None
    served = judge(outcome.plan, asked).value * rate_rps
    assert outcome.status is Status.OPTIMAL
    # At 100 req/s, a step of the scale is a larger rate.
    assert served == pytest.approx(judge(outcome_at_100.plan, at_100).value * 100.0, abs=0.51)
    assert outcome.bound.value * rate_rps >= served * (1.0 - TOLERANCE)
    if (rate_rps, model) == (0.5, "alexnet"):
        assert judge(outcome.plan, asked).value == pytest.approx(18_334.23, abs=0.01)
