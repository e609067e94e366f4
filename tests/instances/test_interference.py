"""Interference: times worked out by hand, agreement with plain Python, and the four linear conditions."""

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from instances import GpuType, Partition
from instances.catalogue import gpu_type, gpu_type_names
from instances.interference import gpu_time_ms, gpu_times_ms
from instances.least_shares import delay_is_one_line, premises_satisfied
from instances.tables import Tables, gpu_tables
from tests.instances import reference
from tests.instances.reference import LARGE, SMALL, TOY, Tenant

V100 = gpu_type("v100")
SHARED = [gpu for gpu in map(gpu_type, gpu_type_names()) if gpu.partition is Partition.SHARES and gpu.models]
SMALL_1, SMALL_4, LARGE_2 = Tenant(SMALL, 1, 0.0), Tenant(SMALL, 4, 0.0), Tenant(LARGE, 2, 0.0)


def times_ms(gpu: GpuType, tenants: list[Tenant], units: list[int]) -> list[float]:
    """Return the times of the compiled kernel."""
    rows = list(gpu.models)
    model = np.array([rows.index(t.model.name) for t in tenants], dtype=np.int64)
    batch = np.array([t.batch for t in tenants], dtype=np.int64)
    times = np.empty(len(tenants))
    gpu_times_ms(gpu_tables(gpu, "igniter"), model, batch, np.array(units, dtype=np.int64), len(tenants), times)
    return list(times)


def with_cap(gpu: GpuType, max_power_w: float) -> GpuType:
    return replace(gpu, hardware=replace(gpu.hardware, max_power_w=max_power_w))


# Alone at 40 %: SMALL x 1 takes 2 ms, 6 % L2, 60 W; SMALL x 4 5 ms, 9 %, 90 W; LARGE x 2 10 ms, 10 %, 90 W.
@pytest.mark.parametrize(
    ("gpu", "tenants", "units", "expected_ms"),
    [
        pytest.param(TOY, [SMALL_1], [4], [0.1 + 2.0], id="alone, no delay is added"),
        pytest.param(
            TOY,
            [SMALL_1, LARGE_2],
            [4, 4],
            # equations 5, 6, 8: 10 and 20 kernels wait 0.01 ms more each; the cache costs 1 % or 2 % per percent
            [0.1 + 10 * 0.01 + 2.0 * 1.10, 0.2 + 20 * 0.01 + 10.0 * 1.12],
            id="beside one other",
        ),
        pytest.param(
            TOY,
            [SMALL_1, SMALL_4, SMALL_4],  # 50 + 60 + 90 + 90 W is below the cap of 300
            [4, 4, 4],
            [0.4 + 2.0 * 1.18, 0.4 + 5.0 * 1.15, 0.4 + 5.0 * 1.15],
            id="beside two others",
        ),
        pytest.param(
            with_cap(TOY, 150.0),
            [SMALL_1, LARGE_2],  # equations 9, 10: 50 W above the cap cost 50 of 1000 MHz
            [4, 4],
            [2.4 / 0.95, 11.6 / 0.95],
            id="throttled",
        ),
        pytest.param(with_cap(TOY, 200.0), [SMALL_1, LARGE_2], [4, 4], [2.4, 11.6], id="exactly at the cap"),
        pytest.param(with_cap(TOY, -800.0), [SMALL_1, LARGE_2], [4, 4], [np.inf, np.inf], id="frequency falls to 0"),
    ],
)
def test_gpu_times_are_as_worked_out_by_hand(
    gpu: GpuType, tenants: list[Tenant], units: list[int], expected_ms: list[float]
) -> None:
    assert times_ms(gpu, tenants, units) == pytest.approx(expected_ms, rel=1e-13)


def test_dram_demand_slows_down_like_l2_demand() -> None:
    tables = gpu_tables(TOY, "igniter")._replace(alpha_dram=np.array([0.5, 0.0]))

    time = gpu_time_ms(tables, 0, 1, 4, 2, 10.0, 3.0, 0.0)

    assert time == pytest.approx(0.2 + 2.0 * (1.0 + 0.01 * 10.0 + 0.5 * 3.0))


def test_each_resident_sees_the_dram_demand_of_the_others_only() -> None:
    tables = gpu_tables(TOY, "igniter")
    tables = tables._replace(alpha_l2=np.zeros(2), alpha_dram=np.array([0.1, 0.01]), dram_pct=np.full((2, 9, 11), 7.0))
    times = np.empty(3)

    gpu_times_ms(tables, np.array([0, 0, 1]), np.array([1, 1, 2]), np.array([4, 4, 2]), 3, times)

    # LARGE x 2 at 20 % takes 18 ms alone
    assert times == pytest.approx([0.4 + 2.0 * 2.4, 0.4 + 2.0 * 2.4, 0.8 + 18.0 * 1.14])


def test_only_the_first_residents_count() -> None:
    times = np.full(3, -1.0)
    model, batch, units = np.array([0, 1, 1]), np.array([1, 2, 8]), np.array([4, 4, 10])

    gpu_times_ms(gpu_tables(TOY, "igniter"), model, batch, units, 2, times)

    assert times == pytest.approx([2.4, 11.6, -1.0])


@pytest.mark.parametrize("gpu", [TOY, V100, with_cap(V100, 150.0)], ids=["toy", "v100", "v100 hot"])
def test_kernel_agrees_with_plain_python(gpu: GpuType) -> None:
    random = Random(1)
    for count in range(1, 8):
        for _ in range(100):
            tenants = reference.draw_tenants(random, gpu, count)
            units = [random.randint(1, gpu.share_units) for _ in tenants]

            expected_ms = reference.gpu_times_ms(gpu, tenants, units)

            assert times_ms(gpu, tenants, units) == pytest.approx(expected_ms, rel=1e-12), (tenants, units)


# --- The four linear conditions ---


def four_conditions(
    tables: Tables, place: tuple[int, int, int], sums: tuple[int, float, float, float], tau: float
) -> bool:
    """Return whether a resident at ``place`` meets ``tau`` beside these sums: N, C and D of the others, P of all."""
    residents, l2, dram, power = sums
    model = place[0]
    scheduling_ms = tables.scheduling_ms[model]
    active_ms = tables.active_ms[place] * (1.0 + tables.alpha_l2[model] * l2 + tables.alpha_dram[model] * dram)
    throttled = 1.0 + tables.throttle_per_w * (tables.idle_power_w + power - tables.max_power_w)
    return all(
        scheduling_ms + tables.kernels[model] * delay + active_ms <= tau * frequency
        for delay, frequency in product((0.0, tables.alpha_sch * residents + tables.beta_sch), (1.0, throttled))
    )


def disagreements(tables: Tables, draws: int, fewest: int = 1) -> list[tuple[object, ...]]:
    """Return random residents, sums and budgets, half of them near the threshold, on which the two tests differ."""
    random = Random(2)
    tables = tables._replace(alpha_dram=tables.alpha_l2 / 2)
    differing, answers = [], {True: 0, False: 0}
    for _ in range(draws):
        model = random.randrange(len(tables.max_batch))
        place = model, random.randint(1, int(tables.max_batch[model])), random.randint(1, tables.share_units)
        sums = (
            random.randint(fewest, 12),
            random.uniform(0.0, 150.0),
            random.uniform(0.0, 100.0),
            random.uniform(0.0, 3.0 * tables.max_power_w),
        )
        time = gpu_time_ms(tables, *place, *sums)
        tau = random.choice([time, 10.0]) * random.uniform(0.95, 1.05) if time < np.inf else random.uniform(0.0, 100.0)
        answers[time <= tau] += 1
        if four_conditions(tables, place, sums, tau) != (time <= tau):
            differing.append((place, sums, tau, time))
    assert min(answers.values()) > draws // 5  # both answers occur often
    return differing


@pytest.mark.parametrize("gpu", [TOY, *SHARED], ids=lambda gpu: gpu.name)
def test_a_budget_equals_four_linear_conditions(gpu: GpuType) -> None:
    tables = gpu_tables(gpu, "igniter")

    # On the H100, the delay of a kernel jumps with the first neighbour: the line is above 0 at one resident.
    assert delay_is_one_line(tables) == (gpu.name != "h100-sxm")
    assert disagreements(tables, 50_000, fewest=1 if delay_is_one_line(tables) else 2) == []


@pytest.mark.parametrize("tau", [0.0, -1.0])
def test_no_time_meets_an_impossible_budget_by_either_test(tau: float) -> None:
    tables = gpu_tables(V100, "igniter")

    assert not gpu_time_ms(tables, 0, 1, 40, 2, 0.0, 0.0, 2000.0) <= tau  # the frequency is 0 as well
    assert not four_conditions(tables, (0, 1, 40), (2, 0.0, 0.0, 2000.0), tau)
    assert not four_conditions(tables, (0, 1, 40), (2, 0.0, 0.0, 10.0), tau)


@pytest.mark.parametrize(
    ("alpha_sch", "beta_sch"),
    [
        pytest.param(0.01, -0.05, id="the line is below 0 at two residents"),
        pytest.param(-0.01, 0.01, id="the line falls"),
    ],
)
def test_without_the_premise_the_conditions_differ(alpha_sch: float, beta_sch: float) -> None:
    tables = gpu_tables(V100, "igniter")._replace(alpha_sch=alpha_sch, beta_sch=beta_sch)

    assert disagreements(tables, 2_000, fewest=2) != []


def test_a_delay_that_jumps_with_the_first_neighbour_is_not_one_line() -> None:
    tables = gpu_tables(V100, "igniter")._replace(alpha_sch=0.02, beta_sch=0.01)

    assert not delay_is_one_line(tables)
    assert disagreements(tables, 2_000) != []
    assert disagreements(tables, 2_000, fewest=2) == []


@pytest.mark.parametrize("gpu", SHARED, ids=lambda gpu: gpu.name)
def test_every_catalogue_entry_meets_the_premises_of_the_least_shares(gpu: GpuType) -> None:
    assert premises_satisfied(gpu_tables(gpu, "igniter"))
