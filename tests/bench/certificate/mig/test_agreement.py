"""The checker of plans on MIG instances against brute force: optima, layouts, covers, and rates at their limits."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run
from bench.certificate.certificate import BoundClaim
from bench.certificate.checking import check
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.mig.duals import fractional_cover, layout_worth, least_cover
from bench.certificate.mig.exhaustive import exhaustive_mig_bound
from bench.certificate.mig.plans import mig_cost_of
from bench.certificate.patterns import ignore
from bench.certificate.statement import Statement
from bench.judging.judge import judge
from formulations.mig import Mig
from instances import Gpulet, GpuPool, Instance, MigProfile, MigSlice, PlacedGpu, Plan, Slot
from instances.files import plan_from_json
from instances.suites import suite
from instances.tolerance import widened
from tests.bench.certificate.mig.made import certified, drawn, proven, said
from tests.formulations.tiny_mig import (
    BLOCKED,
    FOURTHS,
    SLICES,
    cheapest,
    layouts_of,
    random_processes,
    tiny_gpu,
    tiny_instance,
)

A100 = suite("parvagpu").build()[0].gpus[0].type
SPLIT = BoundClaim(bound="1", plan_class="split")  # the bound is not used


def test_a_certificate_proves_the_optimum_of_brute_force(subtests: pytest.Subtests) -> None:
    for seed in range(100):
        with subtests.test(seed=seed):
            instance = drawn(seed)
            optimum = cheapest(instance, most=7)

            data = proven(instance)
            verdict = check(data, "proof")

            assert verdict.proven, verdict.sentence
            assert verdict.optimal
            if optimum is None:
                assert data["claim"]["bound"] == "none"
            else:
                assert float(data["claim"]["bound"]) == pytest.approx(optimum, rel=1e-12)


def test_the_certificates_of_tiny_instances_are_of_both_kinds() -> None:
    kinds = [proven(drawn(seed))["proof"]["kind"] for seed in range(100)]

    assert kinds.count("slices") >= 50
    assert kinds.count("exhaustive") >= 3


def test_an_exhaustive_proof_finds_the_optimum_of_brute_force(subtests: pytest.Subtests) -> None:
    for seed in range(100):
        with subtests.test(seed=seed):
            instance = drawn(seed)
            optimum = cheapest(instance, most=7)

            bound = exhaustive_mig_bound(Statement.of(instance, SPLIT), ignore)

            assert float(bound) == pytest.approx(math.inf if optimum is None else optimum, rel=1e-12)


@pytest.mark.parametrize(("mix", "gpus"), [(1, 2), (2, 3), (3, 5), (4, 7), (5, 12), (6, 15)])
def test_the_optima_of_parvagpus_mixes_are_proven(mix: int, gpus: int) -> None:
    instance = suite("parvagpu").build()[mix - 1]

    data = proven(instance)

    assert data["proof"]["kind"] == "slices"
    assert said(data) == f"proven: {gpus} GPUs, no split plan has fewer"
    one_more = data | {"claim": data["claim"] | {"bound": f"{4.1 * (gpus + 1):.1f}"}, "plan": None}
    assert said(one_more).startswith(f"not proven: the proof yields {4.1 * gpus:.10g}, the claim says")


# --- Layouts ---


@given(st.sampled_from([SLICES, FOURTHS, BLOCKED, A100.mig.slices if A100.mig else ()]), st.data())
@settings(max_examples=100)
def test_the_worth_of_a_gpu_is_that_of_its_best_layout(slices: tuple[MigSlice, ...], data: st.DataObject) -> None:
    profile = MigProfile(slices, {})
    duals = data.draw(st.lists(st.integers(0, 50), min_size=len(slices), max_size=len(slices)))
    gpu = replace(A100, mig=profile)
    dual_of = {slice_.units: dual for slice_, dual in zip(profile.slices, duals, strict=True)}

    best = max(sum(dual_of[units] for units in layout) for layout in layouts_of(gpu))

    assert layout_worth(profile, duals) == best


# --- Covers ---


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=4).filter(
        lambda sizes: any(rate for _, rate in sizes)
    ),
    st.integers(1, 25),
    st.integers(0, 80),
)
@settings(max_examples=300)
def test_the_least_cover_is_that_of_brute_force(sizes: list[tuple[int, int]], needed: int, enough: int) -> None:
    duals, served = zip(*sizes, strict=True)
    least = min(
        sum(n * dual for n, dual in zip(numbers, duals, strict=True))
        for numbers in product(*(range(-(-needed // rate) + 1 if rate else 1) for rate in served))
        if sum(n * rate for n, rate in zip(numbers, served, strict=True)) >= needed
    )

    assert least_cover(duals, served, needed) == least
    assert least_cover(duals, served, needed, enough) == min(least, enough)
    assert fractional_cover(duals, served, needed) <= least


def test_a_search_for_a_cover_gives_up_and_the_fractional_bound_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = suite("parvagpu").build()[5]
    outcome = Mig().schedule(instance, Run())
    monkeypatch.setattr("bench.certificate.mig.duals.MOST_NODES", 0)
    with pytest.raises(GivenUpError, match="the search for the cheapest MIG instances has more than 0 nodes"):
        least_cover([10, 21], [5, 10], 12)

    data = certified(instance, outcome)

    assert said(data).startswith("proven: no split plan has fewer than 14 GPUs")


# --- Rates ---


def whole_gpus_plan(instance: Instance, gpus: int, rate_rps: float) -> Plan:
    """Return a plan that serves workload "w0" at ``rate_rps`` on each of ``gpus`` whole GPUs."""
    gpulet = Gpulet(3, (Slot("w0", 1, rate_rps),), start=0)
    return Plan(instance.name, (PlacedGpu("tiny", (gpulet,)),) * gpus)


@pytest.mark.parametrize("buffer", [1.0, 1.1])
@pytest.mark.parametrize("gpus", [1, 2, 3, 7])
@pytest.mark.parametrize("served", [0.1, 7.3, 1000.0 / 3.0, 1e15])
def test_the_largest_rate_of_the_judge_is_the_largest_that_no_proof_excludes(
    buffer: float, gpus: int, served: float
) -> None:
    """A slot may exceed its capacity by a billionth, and a plan may miss a rate by another; more takes one more GPU."""
    pool = GpuPool(tiny_gpu("tiny", 1.0, [[0.0, 0.0, served]]))
    most_rps = widened(served / buffer)
    low, high = gpus * most_rps, gpus * most_rps * (1.0 + 1e-8)
    while math.nextafter(low, math.inf) < high:
        middle = (low + high) / 2.0
        instance = buffered(tiny_instance([pool], [middle]), buffer)
        low, high = (
            (middle, high) if judge(whole_gpus_plan(instance, gpus, most_rps), instance).feasible else (low, middle)
        )

    last, next_ = (buffered(tiny_instance([pool], [rate]), buffer) for rate in (low, high))

    assert judge(whole_gpus_plan(last, gpus, most_rps), last).feasible
    assert exhaustive_mig_bound(Statement.of(last, SPLIT), ignore) == gpus
    # Sums of rates are rounded, so the checker may admit a sum that the judge refuses by one float.
    assert exhaustive_mig_bound(Statement.of(next_, SPLIT), ignore) in (gpus, gpus + 1)
    far = buffered(tiny_instance([pool], [high * (1.0 + 1e-15)]), buffer)
    assert exhaustive_mig_bound(Statement.of(far, SPLIT), ignore) == gpus + 1


def buffered(instance: Instance, buffer: float) -> Instance:
    """Return the instance with a latency buffer, and with twice the SLOs so that the buffer excludes nothing."""
    workloads = tuple(replace(w, slo_ms=2.0 * w.slo_ms) for w in instance.workloads)
    return replace(instance, latency_buffer=buffer, workloads=workloads)


# --- Plans ---


def test_the_checker_judges_plans_as_the_judge_does(subtests: pytest.Subtests) -> None:
    """The plans have random changes of sizes, starts, batches, processes, rates, workloads and numbers of GPUs."""
    for seed in range(30):
        with subtests.test(seed=seed):
            random, instance = Random(seed), random_processes(Random(2 * seed))
            data = proven(instance)
            plan = None if data["plan"] is None else plan_from_json(data["plan"])
            if plan is None:
                continue
            for _ in range(20):
                position = random.randrange(len(plan.gpus))
                gpu = plan.gpus[position]
                at = random.randrange(len(gpu.gpulets))
                gpulet = gpu.gpulets[at]
                slot = gpulet.slots[0]
                factor = random.choice((0.9, 1.0 - 1e-10, 1.2))
                change: Gpulet = random.choice(
                    (
                        replace(gpulet, share_units=random.randint(1, 4)),
                        replace(gpulet, start=random.randint(0, 4)),
                        replace(gpulet, processes=random.randint(1, 3)),
                        replace(gpulet, slots=(replace(slot, batch=random.randint(1, 3)),)),
                        replace(gpulet, slots=(replace(slot, rate_rps=slot.rate_rps * factor),)),
                        replace(gpulet, slots=(replace(slot, workload=random.choice(instance.workloads).id),)),
                    )
                )
                gpulets = (*gpu.gpulets[:at], change, *gpu.gpulets[at + 1 :])
                gpus = (*plan.gpus[:position], replace(gpu, gpulets=gpulets), *plan.gpus[position + 1 :])
                if random.random() < 0.2:
                    gpus = (*gpus, gpus[0])
                changed = replace(plan, gpus=gpus)

                assert_same_answer_as_judge(instance, changed)


def assert_same_answer_as_judge(instance: Instance, plan: Plan) -> None:
    verdict = judge(plan, instance)
    if verdict.feasible:
        assert mig_cost_of(plan, instance) == pytest.approx(Fraction(verdict.value))
    else:
        with pytest.raises(NotProvenError):
            mig_cost_of(plan, instance)
