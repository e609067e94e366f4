"""Tables of GPU types: they are filled before a scheduler's clock starts."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from conftest import TaskFactory

from bench.evaluation import Trial
from bench.ledger.row import Termination
from bench.runner.runner import run_tasks
from instances import GpuPool, Instance, ScenarioSet, SloRule
from instances.attainment_table import known_ranges, known_rows
from instances.catalogue import gpu_type, gpu_type_names
from instances.performance import performance_model_names
from instances.tables import tables_in_order
from instances.view import prepared

WITH_SHARES = [gpu_type(name) for name in gpu_type_names() if gpu_type(name).models]
USERS_GPU = replace(gpu_type("v100"), name="own", price_per_hour=2.0)


@pytest.fixture
def all_types(make_instance: Callable[..., Instance]) -> Instance:
    """Return an instance with one workload, all GPU types of the catalogue with shares, and a user's GPU type."""
    small = make_instance(workloads=[{"id": "w1", "model": "resnet50", "slo_ms": 60, "rate_rps": 20}])
    return replace(small, gpus=tuple(GpuPool(gpu) for gpu in (*WITH_SHARES, USERS_GPU)))


def test_schedulers_find_the_tables_filled(make_task: TaskFactory, all_types: Instance) -> None:
    names = performance_model_names()
    tasks = [make_task("LooksForTables", replace(all_types, performance_model=name)) for name in names]
    tasks.append(make_task("LooksForTables", all_types, trial=Trial(headroom=1.2)))
    tasks.append(make_task("LooksForTables@LooksForTables", all_types))
    tasks.append(make_task("LooksForTables", all_types, scenarios=ScenarioSet(all_types, np.array([[5.0], [6.0]]))))
    rows = run_tasks(tasks, None, jobs=2)
    assert [(row.termination, row.reason) for row in rows] == [(Termination.FINISHED, "")] * len(tasks)


def test_the_filled_tables_are_those_of_the_instance(all_types: Instance) -> None:
    tables_in_order.cache_clear()
    prepared_instance = prepared(all_types)
    assert prepared_instance == all_types
    assert tables_in_order.cache_info().currsize == len(all_types.gpus)
    assert [pool.type is gpu for pool, gpu in zip(prepared_instance.gpus, (*WITH_SHARES, USERS_GPU), strict=True)] == [
        True
    ] * len(prepared_instance.gpus)


def test_a_type_with_a_catalogue_name_but_other_figures_is_not_replaced(all_types: Instance) -> None:
    cheap = replace(gpu_type("v100"), price_per_hour=1.0)
    (pool,) = prepared(replace(all_types, gpus=(GpuPool(cheap),))).gpus
    assert pool.type.price_per_hour == 1.0


def test_budgets_by_share_are_computed_before_the_clock_starts(all_types: Instance) -> None:
    known_rows.cache_clear()
    known_ranges.cache_clear()
    prepared(all_types)
    assert known_rows.cache_info().currsize == known_ranges.cache_info().currsize == 0
    prepared(replace(all_types, gpus=(GpuPool(gpu_type("v100")),), slo_rule=SloRule.ATTAINMENT))
    assert known_rows.cache_info().currsize == known_ranges.cache_info().currsize == 1
