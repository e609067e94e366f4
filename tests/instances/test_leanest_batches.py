"""Least shares of the leanest batches: equal to those of all batches, which are tried one by one."""

from dataclasses import replace

import numpy as np
import pytest

from instances import Objective, SloRule
from instances.attainment_table import known_ranges
from instances.leanest_batches import leanest_shares
from instances.pool_mix import pool_mix
from instances.view import View


@pytest.mark.parametrize("dropping", [True, False])
@pytest.mark.parametrize("most", [1, 3])
def test_the_leanest_batches_are_those_of_a_full_search(most: int, dropping: bool) -> None:
    """Other batches have too small a share at most, but a larger one than the leanest."""
    instance = pool_mix(8, 5, "v100,t4", objective=Objective.COST, slo_rule=SloRule.ATTAINMENT)
    instance = replace(instance, dropping=dropping)
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        largest_batch = view.tables.max_batch[view.model]
        workload = np.repeat(np.arange(len(instance.workloads)), largest_batch)
        batch = np.concatenate([np.arange(1, largest + 1) for largest in largest_batch.tolist()])
        rate_rps = view.rate_rps[workload]
        known_ranges.cache_clear()
        units = leanest_shares(view, workload, workload, batch, rate_rps, most)
        every = np.ones(len(batch), dtype=bool)
        known_ranges.cache_clear()
        of_all = leanest_shares(view, workload, workload, batch, rate_rps, most, every)
        with_budget = view.unwidened_budgets_ms(workload, batch, rate_rps)[:, view.tables.permitted] > 0.0
        first = np.append(view.tables.permitted, view.tables.share_units + 1)
        position = np.where(with_budget.any(axis=1), with_budget.argmax(axis=1), len(view.tables.permitted))

        assert of_all.tolist() == first[position].tolist()
        for w in range(len(instance.workloads)):
            mine = workload == w
            largest_of_leanest = np.sort(of_all[mine])[most - 1]
            lean = of_all[mine] <= largest_of_leanest
            assert units[mine][lean].tolist() == of_all[mine][lean].tolist()
            assert (units[mine][~lean] > largest_of_leanest).all()
            assert (units[mine] <= of_all[mine]).all()
        assert (units < of_all).any()

        # What is known from one search shortens the next one, whose result is the same.
        assert leanest_shares(view, workload, workload, batch, rate_rps, most).tolist() == of_all.tolist()
