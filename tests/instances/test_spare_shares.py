"""Spending spare shares on one GPU: against values worked out by hand and exhaustive search."""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from instances import GpuPool, GpuType, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.least_shares import least_shares
from instances.one_gpu import Resident, fit_gpu
from instances.spare_shares import spend_spare_shares, throughput_rps
from instances.tables import gpu_tables
from instances.view import View
from tests.instances import reference
from tests.instances.reference import LARGE, SMALL, TOY, Tenant

V100 = gpu_type("v100")
COARSE = replace(V100, name="coarse", share_units=10)
GAPS = replace(V100, name="gaps", share_units=20, allowed_shares=(1, 3, 4, 8, 9, 15))
HOT = replace(COARSE, name="hot", hardware=replace(V100.hardware, max_power_w=150.0))
# Cache contention is so strong that a larger share for one resident can lower the total throughput
CACHE_SENSITIVE = replace(
    TOY, name="cache-sensitive", models={name: replace(model, alpha_cache=0.2) for name, model in TOY.models.items()}
)
UNREACHED_LIMIT = 1_000_000


def arrays(gpu: GpuType, tenants: list[Tenant]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = list(gpu.models)
    return (
        np.array([rows.index(t.model.name) for t in tenants], dtype=np.int64),
        np.array([t.batch for t in tenants], dtype=np.int64),
        np.array([[t.budget_ms] for t in tenants]).reshape(-1, 1),
    )


def spend(
    gpu: GpuType, tenants: list[Tenant], start: list[int], node_limit: int = UNREACHED_LIMIT
) -> tuple[float, bool, list[int]]:
    """Spend spare shares; return the throughput, whether it is proven, and the shares."""
    units = np.array(start, dtype=np.int64)
    value, proven = spend_spare_shares(gpu_tables(gpu, "igniter"), *arrays(gpu, tenants), units, node_limit)
    return value, proven, units.tolist()


def draw_feasible(random: Random, gpu: GpuType, count: int) -> tuple[list[Tenant], list[int]]:
    """Return tenants that fit, some with spare units, and their least shares."""
    while True:
        slack = random.uniform(1.0, 4.0)
        tenants = [replace(t, budget_ms=t.budget_ms * slack) for t in reference.draw_tenants(random, gpu, count)]
        units = np.zeros(count, dtype=np.int64)
        if least_shares(gpu_tables(gpu, "igniter"), *arrays(gpu, tenants), units):
            return tenants, units.tolist()


def test_throughput_is_as_worked_out_by_hand() -> None:
    # The pair of test_interference.py at 40 % each: 2.4 and 11.6 ms of GPU time, 0.05 and 0.1 ms of feedback
    model, batch, _ = arrays(TOY, [Tenant(SMALL, 1, 2.41), Tenant(LARGE, 2, 11.61)])

    value = throughput_rps(gpu_tables(TOY, "igniter"), model, batch, np.array([4, 4]))

    assert value == pytest.approx(1000 * 1 / (2.4 + 0.05) + 1000 * 2 / (11.6 + 0.1))  # equation 2


def test_throughput_agrees_with_plain_python() -> None:
    random = Random(7)
    for case in range(200):
        tenants = reference.draw_tenants(random, V100, 1 + case % 6)
        units = [random.randint(1, 20) for _ in tenants]
        model, batch, _ = arrays(V100, tenants)

        value = throughput_rps(gpu_tables(V100, "igniter"), model, batch, np.array(units))

        assert value == pytest.approx(reference.throughput_rps(V100, tenants, units), rel=1e-12)


def test_one_resident_gets_the_whole_gpu() -> None:
    value, proven, units = spend(TOY, [Tenant(SMALL, 1, 3.0)], [3])

    assert (units, proven) == ([10], True)
    assert value == pytest.approx(1000 / (0.1 + 1.4 + 0.05))


@pytest.mark.parametrize(
    ("tenants", "start", "units"),
    [
        pytest.param([Tenant(SMALL, 1, 9.0)], [2], [5], id="half of the GPU is left, and no larger share permitted"),
        pytest.param([Tenant(SMALL, 1, 9.0)] * 2, [2, 2], [5, 5], id="both reach the largest"),
        pytest.param([Tenant(SMALL, 1, 9.0)] * 3, [3, 3, 3], [3, 3, 3], id="the unit left makes no permitted share"),
        pytest.param([Tenant(SMALL, 8, 99.0), Tenant(SMALL, 1, 9.0)], [3, 3], [5, 5], id="two units more each"),
    ],
)
def test_only_permitted_shares_are_assigned(tenants: list[Tenant], start: list[int], units: list[int]) -> None:
    gpu = replace(TOY, name="toy with gaps", allowed_shares=(2, 3, 5))

    assert spend(gpu, tenants, start)[1:] == (True, units)


# TOUCHY residents lose more to contention than spare units gain; GAPS leaves units that make no share.
@pytest.mark.parametrize("gpu", [TOY, COARSE, GAPS, HOT, CACHE_SENSITIVE], ids=lambda gpu: gpu.name)
def test_a_proven_throughput_is_the_largest_of_all_shares(gpu: GpuType) -> None:
    random = Random(8)
    seen = Counter[str]()
    for case in range(120):
        tenants, least = draw_feasible(random, gpu, 1 + case % 4)

        value, proven, units = spend(gpu, tenants, least)

        assert proven
        assert value == pytest.approx(reference.most_throughput_rps(gpu, tenants, least), rel=1e-11), (tenants, least)
        assert value == pytest.approx(reference.throughput_rps(gpu, tenants, units), rel=1e-12)
        assert reference.fits(gpu, tenants, units)
        assert all(u >= start and u in reference.permitted(gpu) for u, start in zip(units, least, strict=True))
        seen["grown"] += units != least
        seen["units left"] += sum(units) < gpu.share_units
    assert seen["grown"] > 60
    if gpu in (GAPS, CACHE_SENSITIVE):
        assert seen["units left"] > 10


def test_on_the_real_grid_spending_never_loses_and_stays_feasible() -> None:
    random = Random(9)
    for case in range(60):
        tenants, least = draw_feasible(random, V100, 1 + case % 6)
        before = reference.throughput_rps(V100, tenants, least)

        value, _, units = spend(V100, tenants, least, node_limit=20_000)

        assert value >= before * (1 - 1e-12)
        assert reference.fits(V100, tenants, units)
        assert all(u >= start for u, start in zip(units, least, strict=True))


def test_the_node_limit_is_respected_and_costs_only_the_proof() -> None:
    tenants, least = draw_feasible(Random(10), V100, 4)
    best, proven, _ = spend(V100, tenants, least)
    assert proven
    limits = [0, 1, 2, 5, 10, 50, 100, 500, 1000, 5000, 20_000, 100_000, UNREACHED_LIMIT]

    results = [spend(V100, tenants, least, limit) for limit in limits]

    assert results[0] == (pytest.approx(reference.throughput_rps(V100, tenants, least)), False, least)  # no node
    values, proofs = [value for value, _, _ in results], [proven for _, proven, _ in results]
    assert values == sorted(values)
    assert proofs == sorted(proofs)  # unproven up to some limit, proven from there on
    assert proofs.count(False) > 4
    assert all(value == best for value, proven, _ in results if proven)
    assert all(reference.fits(V100, tenants, units) for _, _, units in results)


@pytest.mark.parametrize(
    ("node_limit", "units", "proven"), [(0, 8, False), (1, 10, False), (2, 10, False), (3, 10, True), (4, 10, True)]
)
def test_one_resident_needs_a_node_per_share(node_limit: int, units: int, proven: bool) -> None:
    """With two spare units there are three shares to try, the largest first."""
    assert spend(TOY, [Tenant(SMALL, 1, 3.0)], [8], node_limit)[1:] == (proven, [units])


def test_one_node_fewer_than_the_search_needs_leaves_it_unproven() -> None:
    tenants, least = draw_feasible(Random(11), COARSE, 3)
    least_limit = next(limit for limit in range(UNREACHED_LIMIT) if spend(COARSE, tenants, least, limit)[1])

    assert least_limit > 3
    assert not spend(COARSE, tenants, least, least_limit - 1)[1]
    assert spend(COARSE, tenants, least, least_limit + 1)[1]


def test_spending_twice_changes_nothing() -> None:
    tenants, least = draw_feasible(Random(12), COARSE, 3)
    value, _, units = spend(COARSE, tenants, least)

    assert spend(COARSE, tenants, units) == (value, True, units)


def test_fit_gpu_spends_only_when_asked() -> None:
    workloads = (Workload("a", "small", 8.0, 100.0),)  # 0.1 + 40 / r + 1 <= 8 / 2 - 0.15 from 20 % on
    instance = Instance("lone", Objective.CAPACITY, SloRule.HALF_SLO, "igniter", (GpuPool(TOY, 1),), workloads)
    view = View.of(instance, TOY)

    unspent, spent = (fit_gpu(view, [Resident(0, 1, 100.0)], spend_spare=spend) for spend in (False, True))

    assert unspent is not None
    assert spent is not None
    assert (unspent.share_units, spent.share_units) == (2, 10)
