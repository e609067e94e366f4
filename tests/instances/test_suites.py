"""Named suites: what the papers state of them, and that they are as hard as they claim."""

from collections.abc import Sequence

import numpy as np
import pytest

from instances import GOODPUT_STEP, InputError, Instance, Objective, Partition
from instances.suites import SUITES, suite
from instances.view import View

INSTANCES = {name: chosen.build() for name, chosen in SUITES.items()}
EVERY_INSTANCE = {f"{name} {instance.name}": instance for name, built in INSTANCES.items() for instance in built}
SIXTY_FOUR = {instance.name: instance for instance in INSTANCES["64gpu"]}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("igniter-3", [3]),
        ("igniter-12", [12]),
        ("64gpu", [160] * 4),
        ("igniter-scaling", [10, 20, 50, 100, 200, 500, 1000]),
        ("smoke", [3, 5, 4, 4]),
    ],
)
def test_suites_have_their_sizes(name: str, sizes: list[int]) -> None:
    assert [len(instance.workloads) for instance in INSTANCES[name]] == sizes


@pytest.mark.parametrize(
    ("name", "objective", "gpus"),
    [
        ("64gpu-cost", Objective.COST, None),
        ("64gpu-pool", Objective.COST, 72),
        ("64gpu-capacity", Objective.CAPACITY, 64),
        ("64gpu-goodput", Objective.GOODPUT, 64),
    ],
)
def test_the_64_gpu_instances_are_of_every_kind(name: str, objective: Objective, gpus: int | None) -> None:
    instance = SIXTY_FOUR[name]

    assert (instance.objective, [pool.count for pool in instance.gpus]) == (objective, [gpus])


def test_smoke_has_every_objective_of_the_paper_schedulers() -> None:
    assert {i.objective for i in INSTANCES["smoke"]} == {Objective.COST, Objective.CAPACITY, Objective.GOODPUT}


def test_igniter_12_asks_for_what_the_papers_plan_serves() -> None:
    (instance,) = INSTANCES["igniter-12"]

    assert [(w.id, w.model, w.slo_ms, w.rate_rps) for w in instance.workloads if w.model == "resnet50"] == [
        ("W4", "resnet50", 20.0, 400.0),
        ("W5", "resnet50", 30.0, 600.0),
        ("W6", "resnet50", 40.0, 200.0),
    ]
    assert sum(w.rate_rps for w in instance.workloads) == 5000.0


def test_the_motivating_example_is_table_1() -> None:
    (instance,) = INSTANCES["igniter-3"]

    assert [(w.model, w.slo_ms, w.rate_rps) for w in instance.workloads] == [
        ("alexnet", 15.0, 500.0),
        ("resnet50", 40.0, 400.0),
        ("vgg19", 60.0, 200.0),
    ]


def test_suites_are_listed_under_their_own_names() -> None:
    assert all(name == chosen.name and chosen.description for name, chosen in SUITES.items())
    assert suite("smoke") is SUITES["smoke"]


def test_a_name_stands_for_one_instance_across_suites() -> None:
    """Ledgers and plans refer to instances by name: one in two suites must be the same."""
    fingerprints: dict[str, set[str]] = {}
    for instance in EVERY_INSTANCE.values():
        fingerprints.setdefault(instance.name, set()).add(instance.fingerprint)

    assert {name for name, found in fingerprints.items() if len(found) > 1} == set()


@pytest.mark.parametrize("name", sorted(SUITES))
def test_a_suite_is_the_same_every_time(name: str) -> None:
    assert [i.fingerprint for i in SUITES[name].build()] == [i.fingerprint for i in INSTANCES[name]]


def test_an_unknown_suite_gets_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        suite("64gpus", "--instances")

    assert str(caught.value) == '--instances: unknown suite "64gpus"; did you mean "64gpu"?'


# --- How hard the 64-GPU instances are ---


def least_units(view: View, workload: int, rates_rps: Sequence[float]) -> list[int]:
    """Fewest units that serve each rate alone, over all batches; more than the GPU has where none do."""
    tables, row = view.tables, int(view.model[workload])
    batch = np.arange(1, int(tables.max_batch[row]) + 1)
    budget_ms = view.budget_ms(workload, batch[None, :], np.array(rates_rps)[:, None])
    slack_ms = budget_ms - tables.scheduling_ms[row]
    too_slow = tables.active_ms[row, batch, 1:][None, :, :] > slack_ms[:, :, None]  # rate, batch, share
    return [int(units) for units in 1 + too_slow.sum(axis=2).min(axis=1)]  # times fall with the share


def most_goodput_rps(instance: Instance) -> float:
    """An upper bound on what any plan serves, workloads split over GPUs or not, interference ignored.

    The fractional multiple-choice knapsack: every workload chooses among (units, rate) pairs, any number of times and
    in any fraction, at most to its own rate. Then only its best rate per unit matters, and the units of the pool go to
    the best of those first.
    """
    (pool,) = instance.gpus
    assert pool.count is not None
    view = View.of(instance, pool.type)
    best = []
    for position, workload in enumerate(instance.workloads):
        rates = [step * GOODPUT_STEP * workload.rate_rps for step in range(1, round(1 / GOODPUT_STEP) + 1)]
        units = least_units(view, position, rates)
        worth = max(rate / u for rate, u in zip(rates, units, strict=True) if u <= pool.type.share_units)
        best.append((worth, workload.rate_rps))
    left, served = float(pool.count * pool.type.share_units), 0.0
    for worth, rate in sorted(best, reverse=True):
        used = min(left, rate / worth)
        left, served = left - used, served + used * worth
    return served


def test_the_goodput_instance_asks_for_much_more_than_fits() -> None:
    instance = SIXTY_FOUR["64gpu-goodput"]
    demand = sum(w.rate_rps for w in instance.workloads)

    assert 1.3 <= demand / most_goodput_rps(instance) < 2.0


TO_SERVE_WHOLE = [
    key
    for key, instance in EVERY_INSTANCE.items()
    if instance.objective in (Objective.COST, Objective.CAPACITY) and instance.partition is Partition.SHARES
]


@pytest.mark.parametrize("key", TO_SERVE_WHOLE)
def test_no_workload_of_a_cost_or_capacity_instance_is_oversized(key: str) -> None:
    instance = EVERY_INSTANCE[key]
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        for position, workload in enumerate(instance.workloads):
            assert least_units(view, position, [workload.rate_rps])[0] <= pool.type.share_units, workload


@pytest.mark.parametrize("name", ["64gpu-cost", "64gpu-pool", "64gpu-capacity"])
def test_the_64_gpu_instances_need_about_that_many(name: str) -> None:
    """The volume bound: least shares alone, interference ignored."""
    instance = SIXTY_FOUR[name]
    view = View.of(instance, instance.gpus[0].type)

    units = sum(least_units(view, w, [workload.rate_rps])[0] for w, workload in enumerate(instance.workloads))

    assert 50 * 40 < units <= 64 * 40
