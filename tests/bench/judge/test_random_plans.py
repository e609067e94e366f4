"""The judge on random plans: against a plain Python implementation, and with a smaller share or without a slot."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bench.api import Run
from bench.judging.judge import judge
from heuristics.igniter.igniter import IGniter
from instances import Plan, spatial_gpu
from instances.generate import generate
from tests.bench.toys import V100
from tests.instances import reference
from tests.instances.reference import Tenant


def test_verdicts_are_those_of_plain_python() -> None:
    random = Random(30)
    late_seen = on_time_seen = 0
    for _ in range(150):
        problem = generate("igniter-mix", 4, random.randrange(10**9), name="toys")
        rows = [(w.id, random.randint(4, 12), random.randint(1, 9), w.rate_rps) for w in problem.workloads]

        verdict = judge(Plan("toys", (spatial_gpu("v100", rows),)), problem)

        tenants = []
        for workload, (_, _, batch, rate) in zip(problem.workloads, rows, strict=True):
            model = V100.models[workload.model]
            load_ms, feedback_ms = reference.transfers_ms(V100, model, batch)
            budget_ms = min(workload.slo_ms / 2 - load_ms - feedback_ms, 1000 * batch / rate - feedback_ms)
            tenants.append(Tenant(model, batch, budget_ms))
        times = reference.gpu_times_ms(V100, tenants, [units for _, units, _, _ in rows])
        late = {w.id for w, t, ms in zip(problem.workloads, tenants, times, strict=True) if ms > t.budget_ms}
        assert [slot.t_gpu_ms for slot in verdict.slots] == pytest.approx(times, rel=1e-12)
        assert {v.workload for v in verdict.violations if v.kind == "latency"} == late
        assert verdict.feasible == (not late and sum(units for _, units, _, _ in rows) <= 40)
        late_seen += bool(late)
        on_time_seen += len(late) < 4
    assert late_seen > 20
    assert on_time_seen > 20


def lowered(answer: Plan, gpu: int, gpulet: int) -> Plan:
    """Return the plan with one share a unit smaller."""
    placed = answer.gpus[gpu]
    smaller = replace(placed.gpulets[gpulet], share_units=placed.gpulets[gpulet].share_units - 1)
    gpulets = (*placed.gpulets[:gpulet], smaller, *placed.gpulets[gpulet + 1 :])
    return replace(answer, gpus=(*answer.gpus[:gpu], replace(placed, gpulets=gpulets), *answer.gpus[gpu + 1 :]))


def without(answer: Plan, gpu: int, gpulet: int) -> Plan:
    placed = answer.gpus[gpu]
    gpulets = (*placed.gpulets[:gpulet], *placed.gpulets[gpulet + 1 :])
    return replace(answer, gpus=(*answer.gpus[:gpu], replace(placed, gpulets=gpulets), *answer.gpus[gpu + 1 :]))


@pytest.mark.parametrize(
    ("mutate", "kind"), [(lowered, "latency"), (without, "rate")], ids=["a share is lowered", "a slot is lost"]
)
@given(st.integers(1, 12), st.integers(0, 10**6), st.data())
@settings(max_examples=60)
def test_igniters_plans_become_infeasible_by_any_smaller_share_or_missing_slot(
    mutate: Callable[[Plan, int, int], Plan], kind: str, size: int, seed: int, data: st.DataObject
) -> None:
    problem = generate("igniter-mix", size, seed)
    answer = IGniter().schedule(problem, Run()).plan
    assert answer is not None
    assume(judge(answer, problem).feasible)
    places = [(g, p) for g, gpu in enumerate(answer.gpus) for p in range(len(gpu.gpulets))]
    gpu, gpulet = data.draw(st.sampled_from(places))
    assume(answer.gpus[gpu].gpulets[gpulet].share_units > 1)

    verdict = judge(mutate(answer, gpu, gpulet), problem)

    assert not verdict.feasible
    lost = answer.gpus[gpu].gpulets[gpulet].slots[0].workload
    assert (kind, lost) in {(v.kind, v.workload) for v in verdict.violations}
