"""Claims at the limits of the checker's tolerances and integers: the false ones are refused."""

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.certificate.certificate import LARGEST_WHOLE
from bench.certificate.checking import check
from bench.judging.judge import judge
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.interference import gpu_times_ms
from instances.tables import gpu_tables
from tests.bench.certificate.claims import ASKED, V100, asking, claiming, duals, said


def largest_rate() -> float:
    """The largest rate of the workload that one V100 serves, by bisection with the judge."""
    low, high = 100.0, 100_000.0
    while high - low > 1e-13 * high:
        rate = (low + high) / 2.0
        instance = asking(replace(ASKED, rate_rps=rate))
        plans = (Plan("asked", (spatial_gpu("v100", [("w", 40, batch, rate)]),)) for batch in range(1, 33))
        low, high = (rate, high) if any(judge(plan, instance).feasible for plan in plans) else (low, rate)
    return low


# --- Tolerance of rates ---


def served_at(instance: Instance, rate_rps: float) -> bool:
    """Return whether the judge accepts a plan of one slot for this rate."""
    plans = (Plan("asked", (spatial_gpu("v100", [("w", 40, batch, rate_rps)]),)) for batch in range(1, 33))
    return any(judge(plan, instance).feasible for plan in plans)


def test_the_largest_rate_of_the_judge_is_the_largest_that_no_proof_excludes() -> None:
    """A plan may serve a billionth less than the rate, but must be in time for the whole rate."""
    largest_rps = largest_rate()
    last, near, far = (asking(replace(ASKED, rate_rps=largest_rps * over)) for over in (1.0, 1.0 + 1e-12, 1.0 + 1e-8))

    assert served_at(last, largest_rps)
    assert not any(
        served_at(near, rate) for rate in (largest_rps, largest_rps * (1.0 - 5e-10), largest_rps * (1.0 + 1e-12))
    )
    assert said(claiming(last, "none")) == "not proven: the proof does not exclude every plan"
    assert said(claiming(near, "none")) == "proven: no spatial plan exists"
    assert said(claiming(far, "none")) == "proven: no spatial plan exists"


def test_split_plans_need_a_second_gpu_only_beyond_the_tolerance() -> None:
    largest_rps = largest_rate()
    near, far = (asking(replace(ASKED, rate_rps=largest_rps * (1.0 + over))) for over in (5e-10, 0.02))

    assert "is worth more than the GPU" in said(claiming(near, "6.12", duals(3_060_000_001), kind="split"))
    assert (
        said(claiming(far, "6.12", duals(3_065_000_000), kind="split")) == "proven: no split plan has fewer than 2 GPUs"
    )


@pytest.mark.parametrize(("served", "proven"), [(1.0, True), (1.0 - 5e-10, True), (1.0 - 5e-9, False)])
def test_a_plan_may_miss_a_rate_by_the_tolerance_alone(served: float, proven: bool) -> None:
    plan = Plan("asked", (spatial_gpu("v100", [("w", 40, 4, 100.0 * served)]),))

    assert check(claiming(asking(ASKED), "3.06", plan=plan), "proof").proven == proven


# --- Copies: slots of a class count at most as its workloads ---


@pytest.mark.parametrize("kind", ["spatial", "split"])
def test_a_dual_that_pays_for_one_gpu_alone_is_too_large_for_two_identical_workloads(kind: str) -> None:
    one, two = asking(ASKED), asking(ASKED, replace(ASKED, id="v"))
    proof = duals(3_060_000_000)

    assert check(claiming(one, "3.06", proof, kind=kind), "proof").proven
    assert "is worth more than the GPU" in said(claiming(two, "6.12", proof, kind=kind))


# --- Catalogue ---


def test_the_checker_uses_the_embedded_catalogue() -> None:
    """The embedded v100 is slower than the v100 of the catalogue."""
    rate = 0.9 * largest_rate()
    instance = asking(replace(ASKED, rate_rps=rate))
    true, slow = (claiming(instance, "none") for _ in range(2))
    slow["instance"]["catalogue"]["v100"]["models"]["alexnet"]["scheduling_alone_ms"] = 16.0  # more than half the SLO

    assert said(true) == "not proven: the proof does not exclude every plan"
    assert said(slow) == "proven: no spatial plan exists"
    missing = copy.deepcopy(true)
    missing["instance"]["catalogue"] = {"t4": missing["instance"]["catalogue"]["v100"] | {"name": "t4"}}
    with pytest.raises(Exception, match="embed"):
        check(missing, "proof")


# --- Sizes ---


@pytest.mark.parametrize("kind", ["spatial", "split"])
def test_worths_beyond_64_bits_are_given_up(kind: str) -> None:
    """The smallest part of the rate is worth more than 2**48 units; after an overflow, it would look small."""
    fast = asking(replace(ASKED, rate_rps=1e5), objective=Objective.GOODPUT, count=1)
    plan = Plan("asked", (spatial_gpu("v100", [("w", 40, 16, 5000.0)]),))
    assert judge(plan, fast).value == 5000.0

    sentence = said(claiming(fast, "300", duals(0, gpu=LARGEST_WHOLE, unit=10**12), kind=kind))

    ended = "given up: the duals: the search over patterns of v100 ended"
    assert sentence == f"{ended}: worths of slots are too large to be added in 64 bits"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"l2": (0.0, 5e13), "alpha_cache": 0.0}, "too large to be counted in steps"),
        ({"power": (0.0, 5e13)}, "too large to be counted in steps"),
        ({"k": (0.0, 0.0, 0.0, 0.0, -100.0), "scheduling_alone_ms": 0.0}, "an active time is not positive"),
        ({"scheduling_alone_ms": -1.0}, "a scheduling delay is negative"),
    ],
)
def test_absurd_coefficients_are_given_up(changed: dict[str, Any], sentence: str) -> None:
    model = replace(V100.models["alexnet"], **changed)
    gpu = replace(V100, name="absurd", models={"alexnet": model}, hardware=replace(V100.hardware, alpha_f=0.0))
    instance = replace(asking(replace(ASKED, slo_ms=500.0, rate_rps=10.0)), gpus=(GpuPool(gpu, None),))
    proof = duals(306_000_000, unit=10**6)

    assert sentence in said(claiming(instance, "306", proof, kind="split"))


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT, Objective.CAPACITY])
def test_demands_beyond_64_bits_exclude_no_plan(objective: Objective) -> None:
    """A demand of 10**15 percent is harmless while the workload is alone; after an overflow, it would be negative."""
    gpu = replace(V100, models={"alexnet": replace(V100.models["alexnet"], l2=(0.0, 1e15), alpha_cache=0.0)})
    instance = replace(asking(replace(ASKED, slo_ms=500.0), objective=objective), gpus=(GpuPool(gpu, 1),))
    assert judge(Plan("asked", (spatial_gpu("v100", [("w", 40, 1, 100.0)]),)), instance).feasible

    ended = "given up: the search over patterns of v100 ended"
    assert said(claiming(instance, "none")) == f"{ended}: the demands on a GPU are too large to be counted in steps"


# --- Splits: patterns at the limits of a GPU ---


def test_a_neighbour_may_shorten_the_times_of_a_workload() -> None:
    """Under the model "gpulet" on an RTX 2080 Ti, times beside a neighbour can be shorter than times alone."""
    gpu = gpu_type("rtx2080ti")
    names, units, batch = ("googlenet", "densenet161"), np.array([5, 5]), np.array([2, 16])
    tables = gpu_tables(gpu, "gpulet")
    model, times_ms = np.array([list(gpu.models).index(name) for name in names]), np.empty(2)
    gpu_times_ms(tables, model, batch, units, 2, times_ms)
    slos_ms = 2.0 * (times_ms + tables.transfer_ms[model, batch]) * (1.0 + 1e-7)
    rates_rps = 1000.0 * batch / (times_ms + tables.exposed_ms[model, batch]) * (1.0 - 1e-7)
    columns = zip("ab", names, slos_ms.tolist(), rates_rps.tolist(), strict=True)
    workloads = tuple(Workload(id, name, slo_ms, rate_rps) for id, name, slo_ms, rate_rps in columns)
    pool = GpuPool(gpu, None)
    instance = Instance("asked", Objective.COST, SloRule.HALF_SLO, "gpulet", (pool,), workloads)
    slots = [(w.id, 5, int(b), w.rate_rps) for w, b in zip(workloads, batch, strict=True)]
    assert judge(Plan("asked", (spatial_gpu("rtx2080ti", slots),)), instance).feasible

    half = round(gpu.price_per_hour * 500_000) + 20
    bound = f"{2.0 * gpu.price_per_hour:.4f}"
    sentence = said(claiming(instance, bound, duals(half, half, unit=10**6), kind="split"))

    assert "is worth more than the GPU" in sentence


@pytest.mark.parametrize("kind", ["spatial", "split"])
@pytest.mark.parametrize(
    ("memory_mib", "limit_mib"),
    [
        ((500.1, 500.3, 500.2), math.fsum((500.1, 500.3, 500.2))),  # their sum in this order is rounded up
        ((500.3,) * 7, 3502.1),
        ((0.1,) * 10, 1.0),
        ((1000.1, 0.7, 33.3), 1034.1 / (1.0 + 0.99e-9)),  # over the memory by almost the tolerance, 1e-9
    ],
)
def test_memories_that_fill_a_gpu_are_not_excluded_by_rounding(
    kind: str, memory_mib: tuple[float, ...], limit_mib: float
) -> None:
    names = list(V100.models) if len(set(memory_mib)) > 1 else ["alexnet"] * len(memory_mib)
    models = {
        name: replace(V100.models[name], memory_base_mib=mib, memory_per_item_mib=0.0, max_batch=2)
        for name, mib in zip(names, memory_mib, strict=False)
    }
    gpu = replace(V100, name="full", models=models, memory_mib=limit_mib, share_units=10)
    workloads = tuple(Workload(f"w{n}", name, 500.0, 1.0) for n, name in enumerate(names[: len(memory_mib)]))
    instance = replace(asking(*workloads), gpus=(GpuPool(gpu, None),))
    plan = Plan("asked", (spatial_gpu("full", [(w.id, 1, 1, 1.0) for w in workloads]),))
    assert judge(plan, instance).feasible
    worth = 3_060_000 // len(workloads) + 1
    proof = duals(*[worth] * len(set(names[: len(memory_mib)])), unit=10**6)

    assert "is worth more than the GPU" in said(claiming(instance, "6.12", proof, kind=kind))
    proven = said(claiming(instance, "3.06", {**proof, "workloads": [worth - 1] * len(proof["workloads"])}, plan, kind))
    assert proven == f"proven: 1 GPU, no {kind} plan has fewer"
