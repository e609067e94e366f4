"""MediatorDNN's utilisations: the busy fractions that jobs and workloads demand."""

from dataclasses import replace

import numpy as np
import pytest

from heuristics.mediator.utilisation import busy_fractions, largest_batch, of_items, of_jobs
from instances import GpuPool, Instance, Objective, SloRule
from instances.catalogue import gpu_type
from instances.generate import generate
from instances.view import View
from tests.heuristics.mediator_jobs import jobs

V100 = gpu_type("v100")


def test_busy_fractions_are_as_worked_out_by_hand() -> None:
    arrivals = np.array([0.0, 10.0, 950.0, 960.0, 2500.0])

    # Pairs run from 10 ms for 70 ms, and from 960 ms with 30 ms in the next second; one runs alone after 20 ms
    busy = busy_fractions(arrivals, 2, 70.0, 20.0, 3)

    assert busy == pytest.approx([0.07 + 0.04, 0.03, 0.07])


def test_utilisation_of_workloads_follows_from_their_rate() -> None:
    problem = generate("igniter-mix", 8, 3)
    view = View.of(problem, V100)
    workloads = np.arange(8)
    batch = np.ones(8, dtype=np.int64)
    units = np.full(8, 30)
    alone_ms = view.tables.scheduling_ms[view.model] + view.tables.active_ms[view.model, batch, units]

    utilisation = of_items(view, workloads, batch, units, view.rate_rps)

    offered = view.rate_rps * alone_ms / 1000.0
    light = offered < 0.9
    assert light.any()
    assert utilisation.mean[light] == pytest.approx(offered[light] * 0.75, rel=0.05)
    assert np.all(utilisation.deviation[light] > 0)
    assert utilisation.metrics[:, 0] == pytest.approx(view.tables.l2_pct[view.model, batch, units])


def test_utilisation_of_jobs_follows_from_their_batches() -> None:
    (template,) = jobs(1)
    view = View.of(Instance("c", Objective.COLOCATION, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), ()), V100)
    row = list(V100.models).index(template.model)
    times = view.tables.scheduling_ms[row] + view.tables.active_ms[row, :, 40]
    for batches in ((1, 4, 8), (1, 4, 100)):  # 100 is served as 32, 32, 32 and 4
        job = replace(template, batches=batches)
        service = [times[b] if b <= 32 else 3 * times[32] + times[4] for b in batches]

        utilisation = of_jobs(view, (job,))

        assert utilisation.mean[0] == pytest.approx((service[0] + 2 * service[1] + service[2]) / 4 / 80.0, rel=0.1)
        assert utilisation.deviation[0] > 0
        usual = round((batches[0] + 2 * batches[1] + batches[2]) / 4)
        assert utilisation.metrics[0, 0] == view.tables.l2_pct[row, usual, 40]


def test_utilisation_of_no_jobs_is_empty() -> None:
    view = View.of(Instance("c", Objective.COLOCATION, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), ()), V100)

    assert [array.shape for array in of_jobs(view, ())] == [(0,), (0,), (0, 3)]


def test_profiles_depend_on_the_seed_of_the_instance() -> None:
    problem = Instance("c", Objective.COLOCATION, SloRule.HALF_SLO, "igniter", (GpuPool(V100),), (), jobs=jobs(3))
    first, same, other = (of_jobs(View.of(replace(problem, seed=seed), V100), problem.jobs) for seed in (1, 1, 2))

    assert np.array_equal(first.mean, same.mean)
    assert not np.array_equal(first.mean, other.mean)


def test_the_largest_batch_is_profiled_and_fits_in_memory() -> None:
    (template,) = jobs(1)
    sizes = {size: replace(template, batches=(1, size), batch_weights=(1.0, 1.0)) for size in (8, 100)}
    tight = replace(V100, memory_mib=V100.models[template.model].memory_mib(5) + 1.0)

    assert [largest_batch(V100, sizes[size]) for size in sizes] == [8, 32]
    assert [largest_batch(tight, sizes[size]) for size in sizes] == [5, 5]
