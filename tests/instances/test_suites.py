"""Named suites: the papers' statements about them, and their difficulty."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from instances import GOODPUT_STEP, InputError, Instance, Objective, Partition, SloRule
from instances.suites import SCENARIO_SUITES, SUITES, suite
from instances.view import View

INSTANCES = {name: chosen.build() for name, chosen in SUITES.items()}
EVERY_INSTANCE = {f"{name} {instance.name}": instance for name, built in INSTANCES.items() for instance in built}
SCENARIOS = {name: chosen.build() for name, chosen in SCENARIO_SUITES.items()}
GPULET = {name: built[0] for name, built in INSTANCES.items() if name.startswith("gpulet-")}
ARXIV = {
    *("gpulet-arxiv-game", "gpulet-arxiv-traffic", "gpulet-game-table4", "gpulet-traffic-table4"),
    *("gpulet-equal", "gpulet-long-only", "gpulet-short-skew"),
    *("gpulet-1023", "gpulet-93"),
}
"""Instances and scenario sets of gpulet's arXiv version."""

SIXTY_FOUR = {instance.name: instance for instance in INSTANCES["64gpu"]}


SIZES = {
    "igniter-3": [3],
    "igniter-12": [12],
    "igniter-12-t4": [12],
    "4gpu": [10],
    "4gpu-eight": [8],
    "4gpu-quadratic": [10],
    "64gpu": [160] * 4,
    "gpulet-scen1": [4],
    "gpulet-scen2": [2],
    "gpulet-scen3": [3],
    "gpulet-scen4": [3],
    "gpulet-scen5": [4],
    "gpulet-scen3-8gpu": [3],
    "gpulet-game": [7],
    "gpulet-traffic": [3],
    "gpulet-arxiv-game": [7],
    "gpulet-arxiv-traffic": [3],
    "gpulet-game-table3": [7],
    "gpulet-traffic-table3": [3],
    "gpulet-game-table4": [7],
    "gpulet-traffic-table4": [3],
    "gpulet-pairs": [2] * 4,
    "gpulet-equal": [5],
    "gpulet-long-only": [3],
    "gpulet-short-skew": [5],
    "igniter-scaling": [10, 20, 50, 100, 200, 500, 1000],
    "margins": [12] * 4,
    "smoke": [3, 5, 4, 4],
    "hetero": [12, 40, 60, 30, 12, 40, 80, 80, 60, 60],
    "large": [1000, 3000, 10_000],
    "llm-4gpu": [10],
    "llm-16gpu": [36],
    "llm-mix": [16] * 5,
    "llm-eighths": [10, 36, *[16] * 5],
    "hard": [30, 60, 16, 30, 40, 20, 24, 30, 80],
}
"""Numbers of workloads of the suites' instances."""


def test_suites_have_their_sizes() -> None:
    assert {name: [len(instance.workloads) for instance in INSTANCES[name]] for name in SIZES} == SIZES


@pytest.mark.parametrize(
    ("name", "objective", "gpus"),
    [
        ("64gpu-cost", Objective.COST, None),
        ("64gpu-pool", Objective.COST, 72),
        ("64gpu-capacity", Objective.CAPACITY, 64),
        ("64gpu-goodput", Objective.GOODPUT, 64),
    ],
)
def test_the_64_gpu_instances_have_their_objectives_and_pools(
    name: str, objective: Objective, gpus: int | None
) -> None:
    instance = SIXTY_FOUR[name]

    assert (instance.objective, [pool.count for pool in instance.gpus]) == (objective, [gpus])


def test_smoke_has_every_objective_of_the_paper_schedulers() -> None:
    assert {i.objective for i in INSTANCES["smoke"]} == {Objective.COST, Objective.CAPACITY, Objective.GOODPUT}


def test_igniter_12_has_the_demands_of_the_papers_plan() -> None:
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


def test_suites_are_listed_by_name() -> None:
    assert all(name == listed.name and listed.description for name, listed in SUITES.items())
    assert suite("smoke") is SUITES["smoke"]
    assert all(name == listed.name and listed.description for name, listed in SCENARIO_SUITES.items())


def test_no_scenario_set_has_the_name_of_a_suite_or_an_instance() -> None:
    assert not SCENARIO_SUITES.keys() & {*SUITES, *(instance.name for instance in EVERY_INSTANCE.values())}
    assert all(scenarios.base.name == name for name, scenarios in SCENARIOS.items())


def test_a_name_means_one_instance_across_suites() -> None:
    """Ledgers and plans refer to instances by name: one in two suites must be the same."""
    fingerprints: dict[str, set[str]] = {}
    for instance in EVERY_INSTANCE.values():
        fingerprints.setdefault(instance.name, set()).add(instance.fingerprint)

    assert {name for name, of_name in fingerprints.items() if len(of_name) > 1} == set()


def test_a_suite_is_the_same_every_time() -> None:
    rebuilt = {name: [instance.fingerprint for instance in chosen.build()] for name, chosen in SUITES.items()}
    assert rebuilt == {name: [instance.fingerprint for instance in built] for name, built in INSTANCES.items()}


def test_an_unknown_suite_gets_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        suite("64gpus")

    assert str(caught.value) == 'suite: unknown suite "64gpus"; did you mean "64gpu"?'


# --- InSS and gpulet ---


def test_the_small_cluster_is_the_papers() -> None:
    (instance,) = INSTANCES["4gpu"]
    slo_ms = {w.model: w.slo_ms for w in instance.workloads}

    assert [(pool.type.name, pool.count) for pool in instance.gpus] == [("a100-inss", 4)]
    assert (instance.objective, instance.slo_rule) == (Objective.CAPACITY, SloRule.ASSEMBLY)
    assert list(slo_ms.items()) == [
        ("alexnet", 10.0),
        ("resnet50", 35.0),
        ("vgg16", 65.0),
        ("mnasnet", 10.0),
        ("mobilenet", 15.0),
        ("efficientnet", 30.0),
        ("resnet18", 15.0),
        ("vgg19", 80.0),
    ]
    assert [(w.model, w.slo_ms) for w in instance.workloads[8:]] == [("alexnet", 10.0), ("resnet50", 35.0)]


def test_workloads_of_the_small_cluster_take_a_fifteenth_to_two_fifths_of_a_gpu() -> None:
    (instance,) = INSTANCES["4gpu"]
    (pool,) = instance.gpus
    view = View.of(instance, pool.type)

    units = [least_units(view, position, [w.rate_rps])[0] for position, w in enumerate(instance.workloads)]

    assert pool.type.share_units / 15 <= min(units) <= max(units) <= 0.4 * pool.type.share_units


@pytest.mark.parametrize("name", [*GPULET, *SCENARIOS])
def test_instances_of_gpulet_have_its_gpus_and_its_rule(name: str) -> None:
    instance = GPULET[name] if name in GPULET else SCENARIOS[name].base

    gpus = {"gpulet-pairs": 2, "gpulet-scen3-8gpu": 8}.get(name, 4)
    gpu = "rtx2080ti-arxiv" if name in ARXIV else "rtx2080ti"
    assert [(pool.type.name, pool.count) for pool in instance.gpus] == [(gpu, gpus)]
    assert (instance.slo_rule, instance.performance_model) == (SloRule.DUTY_CYCLE, "gpulet")
    assert instance.latency_buffer == 1.0
    assert instance.objective is (Objective.SCALE if name in GPULET else Objective.COST)


@pytest.mark.parametrize(("name", "models", "tolerance"), [("gpulet-19682", 9, 0.01), ("gpulet-1023", 5, 0.03)])
def test_slos_of_gpulet_are_twice_the_times_of_a_full_batch(name: str, models: int, tolerance: float) -> None:
    base = SCENARIOS[name].base
    view = View.of(base, base.gpus[0].type)

    tables = view.tables
    full_ms = tables.active_ms[view.model, 32, tables.share_units] + tables.transfer_ms[view.model, 32]

    assert view.slo_ms == pytest.approx(2.0 * full_ms, rel=tolerance)
    assert len(base.workloads) == len(view.gpu.models) == models


@pytest.mark.parametrize(
    ("number", "small", "medium", "large"), [(1, 2, 2, 0), (2, 0, 1, 1), (3, 1, 1, 1), (4, 1, 2, 0), (5, 2, 1, 1)]
)
def test_gpulet_scenarios_mix_memory_footprints_as_table_4(number: int, small: int, medium: int, large: int) -> None:
    """The paper's table puts SSD-MobileNet below 1 GB in scenario 4 and above it in scenario 5; here it is below."""
    instance = GPULET[f"gpulet-scen{number}"]
    mib = np.array([instance.gpus[0].type.models[w.model].memory_mib(32) for w in instance.workloads])

    assert np.histogram(mib, [0.0, 1000.0, 2000.0, np.inf])[0].tolist() == [small, medium, large]
    assert len({w.rate_rps for w in instance.workloads}) == 1


@pytest.mark.parametrize(
    ("name", "demands"),
    [
        ("gpulet-game-table3", [("lenet", 5.0, 100.0)] * 6 + [("resnet50", 108.0, 100.0)]),
        (
            "gpulet-traffic-table3",
            [("ssd-mobilenet", 202.0, 100.0), ("googlenet", 66.0, 100.0), ("vgg16", 142.0, 100.0)],
        ),
        ("gpulet-game-table4", [("lenet", 5.0, 100.0)] * 6 + [("resnet50", 95.0, 100.0)]),
        (
            "gpulet-traffic-table4",
            [("ssd-mobilenet", 136.0, 100.0), ("googlenet", 44.0, 100.0), ("vgg16", 130.0, 100.0)],
        ),
        (
            "gpulet-equal",
            [
                ("lenet", 5.0, 50.0),
                ("googlenet", 44.0, 50.0),
                ("resnet50", 95.0, 50.0),
                ("ssd-mobilenet", 136.0, 50.0),
                ("vgg16", 130.0, 50.0),
            ],
        ),
        ("gpulet-long-only", [("resnet50", 95.0, 100.0), ("ssd-mobilenet", 136.0, 100.0), ("vgg16", 130.0, 100.0)]),
        (
            "gpulet-short-skew",
            [
                ("lenet", 5.0, 100.0),
                ("googlenet", 44.0, 100.0),
                ("resnet50", 95.0, 100.0),
                ("ssd-mobilenet", 136.0, 50.0),
                ("vgg16", 130.0, 50.0),
            ],
        ),
    ],
)
def test_gpulet_demands_are_those_of_its_tables(name: str, demands: list[tuple[str, float, float]]) -> None:
    assert [(w.model, w.slo_ms, w.rate_rps) for w in GPULET[name].workloads] == demands


@pytest.mark.parametrize(
    ("name", "slos_ms"),
    [
        ("gpulet-game", [108.0] * 7),
        ("gpulet-traffic", [90.0, 112.0, 112.0]),
        ("gpulet-arxiv-game", [95.0] * 7),
        ("gpulet-arxiv-traffic", [69.0, 67.0, 67.0]),
    ],
)
def test_stages_of_applications_have_the_slos_of_the_authors_files(name: str, slos_ms: list[float]) -> None:
    """casys-kaist/glet: scripts/createMultiModelAppConfigs.py for ATC'22, resource/config/*.json for arXiv'21."""
    instance = GPULET[name]
    (application,) = instance.applications
    slo_of = {workload.id: workload.slo_ms for workload in instance.workloads}

    assert [workload.slo_ms for workload in instance.workloads] == slos_ms
    # The SLOs of successive steps add up to the SLO of the application.
    last_steps = [slo_of[after] + slo_of[before] for before, after in application.edges] or slos_ms
    assert last_steps == [application.slo_ms] * len(last_steps)


@pytest.mark.parametrize("name", sorted(GPULET))
def test_gpulet_workloads_fit_on_four_gpus_before_they_are_scaled(name: str) -> None:
    instance = GPULET[name]
    (pool,) = instance.gpus
    view = View.of(instance, pool.type)

    units = [least_units(view, position, [w.rate_rps])[0] for position, w in enumerate(instance.workloads)]

    assert max(units) <= pool.type.share_units
    assert sum(units) <= 4 * pool.type.share_units


# --- How hard the 64-GPU instances are ---


def least_units(view: View, workload: int, rates_rps: Sequence[float]) -> list[int]:
    """Return the fewest units that serve each rate alone with any batch; more than the GPU has if none do."""
    tables, row = view.tables, int(view.model[workload])
    batch = np.arange(1, int(tables.max_batch[row]) + 1)
    budget_ms = view.budget_ms(workload, batch[None, :], np.array(rates_rps)[:, None])
    slack_ms = budget_ms - tables.scheduling_ms[row]
    too_slow = tables.active_ms[row, batch, 1:][None, :, :] > slack_ms[:, :, None]  # rate, batch, share
    return [int(units) for units in 1 + too_slow.sum(axis=2).min(axis=1)]  # times fall with the share


def goodput_bound_rps(instance: Instance) -> float:
    """Return an upper bound on the rate that any plan serves, without interference, even if workloads are split.

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
        rps_per_unit = max(rate / u for rate, u in zip(rates, units, strict=True) if u <= pool.type.share_units)
        best.append((rps_per_unit, workload.rate_rps))
    units_left, served = float(pool.count * pool.type.share_units), 0.0
    for rps_per_unit, rate in sorted(best, reverse=True):
        used = min(units_left, rate / rps_per_unit)
        units_left, served = units_left - used, served + used * rps_per_unit
    return served


def test_the_goodput_instance_demands_much_more_than_fits() -> None:
    instance = SIXTY_FOUR["64gpu-goodput"]
    demand = sum(w.rate_rps for w in instance.workloads)

    assert 1.3 <= demand / goodput_bound_rps(instance) < 2.0


SERVED_COMPLETELY = [
    key
    for key, instance in EVERY_INSTANCE.items()
    if instance.objective in (Objective.COST, Objective.CAPACITY) and instance.partition is Partition.SHARES
    if instance.name != "igniter-12-t4" and instance.slo_rule is not SloRule.ATTAINMENT
]


def test_no_workload_of_a_cost_or_capacity_instance_is_oversized(subtests: pytest.Subtests) -> None:
    """In mixed pools, one GPU of some type serves each workload completely."""
    for key in SERVED_COMPLETELY:
        instance = EVERY_INSTANCE[key]
        views = [View.of(instance, pool.type) for pool in instance.gpus]
        with subtests.test(key):
            for position, workload in enumerate(instance.workloads):
                needed = [(view, least_units(view, position, [workload.rate_rps])[0]) for view in views]
                assert any(units <= view.gpu.share_units for view, units in needed), workload


def test_on_t4s_five_of_the_twelve_workloads_are_oversized() -> None:
    """iGniter, Sec. 5.3, states W7, W8, W10 and W12; on the calibrated T4, W5 needs one unit too many as well."""
    (instance,) = INSTANCES["igniter-12-t4"]
    view = View.of(instance, instance.gpus[0].type)
    units = [least_units(view, position, [w.rate_rps])[0] for position, w in enumerate(instance.workloads)]
    oversized = {w.id for w, needed in zip(instance.workloads, units, strict=True) if needed > view.gpu.share_units}
    assert oversized == {"W5", "W7", "W8", "W10", "W12"}


@pytest.mark.parametrize("name", ["64gpu-cost", "64gpu-pool", "64gpu-capacity"])
def test_the_64_gpu_instances_need_50_to_64_gpus(name: str) -> None:
    """The volume bound is the sum of the least shares alone, without interference."""
    instance = SIXTY_FOUR[name]
    view = View.of(instance, instance.gpus[0].type)

    units = sum(least_units(view, w, [workload.rate_rps])[0] for w, workload in enumerate(instance.workloads))

    assert 50 * 40 < units <= 64 * 40


def test_instances_of_hold_differ_from_their_originals_only_in_the_rule_and_dropping() -> None:
    originals = {instance.name: instance for instance in EVERY_INSTANCE.values()}
    for instance in INSTANCES["hold"]:
        original = originals[instance.name.removesuffix("-no-drop").removesuffix("-hold")]
        assert instance.dropping is not instance.name.endswith("-no-drop")
        assert (instance.slo_rule, instance.attainment, instance.arrivals) == (SloRule.ATTAINMENT, 0.99, "poisson")
        same = {"name": original.name, "slo_rule": original.slo_rule, "provenance": original.provenance}
        same["dropping"] = True
        assert replace(instance, **same).fingerprint == original.fingerprint


def test_services_have_the_stated_lengths_objectives_and_rates() -> None:
    for name in ("llm-4gpu", "llm-16gpu", "llm-mix"):
        for instance in INSTANCES[name]:
            assert instance.latency_buffer == 1.2
            for workload in instance.workloads:
                service, slo_factor = workload.service, 1.0
                assert service is not None
                if service.model == "llama-13b":
                    slo_factor = 1.5
                assert service.prompt_tokens in range(64, 321, 16)
                assert service.output_tokens in range(32, 193, 16)
                assert service.ttft_ms / slo_factor in (300.0, 500.0, 1000.0)
                assert service.tpot_ms / slo_factor in (25.0, 40.0, 60.0)
                assert 3.0 <= workload.rate_rps * (2.0 if slo_factor > 1.0 else 1.0) <= 24.1
    assert {w.service.model for w in INSTANCES["llm-4gpu"][0].workloads if w.service} == {"llama-7b"}


def test_eighths_have_the_same_services() -> None:
    plain = (instance for name in ("llm-4gpu", "llm-16gpu", "llm-mix") for instance in INSTANCES[name])
    for instance, other in zip(INSTANCES["llm-eighths"], plain, strict=True):
        assert instance.workloads == other.workloads
