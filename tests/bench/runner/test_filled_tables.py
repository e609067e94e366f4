"""Tables of the instance's GPU types, which are filled before a scheduler's clock starts."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from conftest import TaskFactory

from bench.evaluation import Trial
from bench.ledger.row import Termination
from bench.runner.runner import run_tasks
from instances import GpuPool, Instance, ScenarioSet, SloRule
from instances.attainment_table import known_rows
from instances.catalogue import gpu_type, gpu_type_names
from instances.performance import performance_model_names
from instances.tables import tables_in_order
from instances.view import prepared

SHARED = [gpu_type(name) for name in gpu_type_names() if gpu_type(name).models]
OWN = replace(gpu_type("v100"), name="own", price_per_hour=2.0)


@pytest.fixture
def everything(make_instance: Callable[..., Instance]) -> Instance:
    """A workload, and a pool of every GPU type that is shared freely, one of the user's own among them."""
    small = make_instance(workloads=[{"id": "w1", "model": "resnet50", "slo_ms": 60, "rate_rps": 20}])
    return replace(small, gpus=tuple(GpuPool(gpu) for gpu in (*SHARED, OWN)))


def test_schedulers_find_the_tables_filled(make_task: TaskFactory, everything: Instance) -> None:
    names = performance_model_names()
    tasks = [make_task("LooksForTables", replace(everything, performance_model=name)) for name in names]
    tasks.append(make_task("LooksForTables", everything, trial=Trial(headroom=1.2)))
    tasks.append(make_task("LooksForTables@LooksForTables", everything))
    tasks.append(make_task("LooksForTables", everything, scenarios=ScenarioSet(everything, np.array([[5.0], [6.0]]))))
    rows = run_tasks(tasks, None, jobs=2)
    assert [(row.termination, row.reason) for row in rows] == [(Termination.FINISHED, "")] * len(tasks)


def test_the_filled_tables_are_those_of_the_instance(everything: Instance) -> None:
    tables_in_order.cache_clear()
    ready = prepared(everything)
    assert ready == everything
    assert tables_in_order.cache_info().currsize == len(everything.gpus)
    assert [pool.type is gpu for pool, gpu in zip(ready.gpus, (*SHARED, OWN), strict=True)] == [True] * len(ready.gpus)


def test_a_changed_type_with_a_name_of_the_catalogue_stays_changed(everything: Instance) -> None:
    cheap = replace(gpu_type("v100"), price_per_hour=1.0)
    (pool,) = prepared(replace(everything, gpus=(GpuPool(cheap),))).gpus
    assert pool.type.price_per_hour == 1.0


def test_a_budget_that_depends_on_the_share_is_computed_before_the_clock_starts(everything: Instance) -> None:
    known_rows.cache_clear()
    prepared(everything)
    assert known_rows.cache_info().currsize == 0
    prepared(replace(everything, gpus=(GpuPool(gpu_type("v100")),), slo_rule=SloRule.ATTAINMENT))
    assert known_rows.cache_info().currsize == 1
