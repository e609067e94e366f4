"""Switches between plans: positions of GPUs with running processes, and memory while both plans are resident."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.online.plan_switch import aligned, is_ready, memory_pct, resident
from instances import GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Workload, spatial_gpu
from tests.instances.reference import TOY

Resident = tuple[str, int, int]
"""Workload, share units and batch of a process."""

WORKLOADS = tuple(Workload(name, "small", 20.0, 100.0) for name in "abcd")
INSTANCE = Instance("few", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(TOY, None),), WORKLOADS)


def plan_of(*gpus: Sequence[Resident], rate_rps: float = 100.0) -> Plan:
    return Plan("few", tuple(spatial_gpu("toy", [(*resident, rate_rps) for resident in gpu]) for gpu in gpus))


A, B, C, D = ("a", 4, 1), ("b", 6, 2), ("c", 5, 1), ("d", 10, 1)


def test_gpus_get_the_positions_where_their_processes_run() -> None:
    current = plan_of([A, B], [C], [D])

    assert aligned(plan_of([D], [A, B], [C]), current) == current
    # b has the larger share, so its GPU keeps the position; a goes to a position in use rather than to a new one
    assert aligned(plan_of([A], [B]), plan_of([A, B], [C])) == plan_of([B], [A])
    assert aligned(plan_of([A], [B], [D]), plan_of([B])) == plan_of([B], [A], [D])
    assert aligned(plan_of([C]), plan_of([A], [C], [B])) == plan_of([], [C], [])


def test_a_changed_batch_or_share_needs_a_new_process_and_a_changed_rate_does_not() -> None:
    current = plan_of([A, B])

    assert is_ready(plan_of([B, A], rate_rps=7.0), [current])
    assert is_ready(plan_of([A]), [current])
    assert not is_ready(plan_of([A, ("b", 6, 3)]), [current])
    assert not is_ready(plan_of([A, ("b", 5, 2)]), [current])
    assert not is_ready(plan_of([A, A]), [current])
    assert not is_ready(plan_of([A], [B]), [current])
    assert is_ready(plan_of([A], [B]), [current, plan_of([], [B])])


def test_processes_of_both_plans_are_resident_once() -> None:
    both = resident([plan_of([A, B]), plan_of([B, C], [D])])

    assert both == {0: plan_of([A, B, C]).gpus[0], 1: plan_of([D]).gpus[0]}


def test_memory_is_that_of_the_fullest_gpu() -> None:
    # 500 MiB per process and 100 per item of its batch, on GPUs of 4,000 MiB
    assert memory_pct([plan_of([A, B], [C])], INSTANCE) == pytest.approx(100 * (600 + 700) / 4000)
    assert memory_pct([plan_of([A, B]), plan_of([A, C])], INSTANCE) == pytest.approx(100 * (600 + 700 + 600) / 4000)
    assert memory_pct([plan_of()], INSTANCE) == 0.0


_GPUS = st.lists(st.lists(st.sampled_from([A, B, C, D]), max_size=3), min_size=1, max_size=4)


@given(_GPUS, _GPUS)
def test_aligning_changes_only_the_order_of_gpus(
    gpus: list[list[tuple[str, int, int]]], current_gpus: list[list[tuple[str, int, int]]]
) -> None:
    plan, current = plan_of(*gpus), plan_of(*current_gpus)

    moved = aligned(plan, current)

    def used(plan: Plan) -> list[PlacedGpu]:
        return sorted((gpu for gpu in plan.gpus if gpu.gpulets), key=repr)

    assert used(moved) == used(plan)
    assert len(moved.gpus) == max(len(current.gpus), plan.gpus_used)
    assert aligned(moved, moved) == moved
    assert len(resident([current, moved])) <= max(len(current.gpus), plan.gpus_used)
