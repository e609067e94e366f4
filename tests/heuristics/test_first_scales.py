"""First scales and first packings of ruin and recreate where budgets take long."""

import numpy as np
import pytest

from bench.api import Bound, Run
from bench.judging.judge import judge
from heuristics.baselines.largest_scale import bisected_scale
from heuristics.baselines.ruin_recreate import RuinRecreate
from instances import Objective, Plan, SloRule
from instances.leanest_batches import leanest_shares, least_fractions
from instances.pool_mix import pool_mix
from instances.view import View


@pytest.mark.parametrize("largest", [0, 1, 5, 64, 1000])
@pytest.mark.parametrize("first", [1, 7, 64, 300])
def test_the_bisection_finds_the_largest_scale_from_any_first_one(largest: int, first: int) -> None:
    assert bisected_scale(lambda scale: scale <= largest, first) == largest


def test_the_least_fractions_are_at_most_the_least_shares_and_grow_with_the_scale() -> None:
    instance = pool_mix(10, 4, "v100:3,t4:3", objective=Objective.SCALE, slo_rule=SloRule.ATTAINMENT)
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        largest_batch = view.tables.max_batch[view.model]
        workload = np.repeat(np.arange(10), largest_batch)
        batch = np.concatenate([np.arange(1, largest + 1) for largest in largest_batch.tolist()])
        previous = np.zeros(10)
        for scale in (0.5, 1.0, 2.0):
            units = leanest_shares(view, workload, workload, batch, scale * view.rate_rps[workload], 1)
            share = np.full(10, np.inf)
            servable = units <= view.tables.share_units
            np.minimum.at(share, workload[servable], units[servable] / view.tables.share_units)
            fraction = least_fractions(view, scale)

            assert (fraction <= share + 1e-12).all()
            assert (fraction >= previous).all()
            previous = fraction


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT, Objective.CAPACITY, Objective.SCALE])
def test_under_attainment_every_plan_on_the_way_is_feasible(objective: Objective) -> None:
    """Packings of one, two, four and sixteen batches follow each other; none makes the plan worse."""
    pool = "v100,t4" if objective is Objective.COST else "v100:3,t4:3"
    instance = pool_mix(8, 4, pool, objective=objective, slo_rule=SloRule.ATTAINMENT)
    values: list[float] = []

    def listen(plan: Plan | None, bound: Bound | None) -> None:
        assert plan is not None
        verdict = judge(plan, instance)
        assert verdict.feasible, verdict.violations
        values.append(verdict.value)

    outcome = RuinRecreate().schedule(instance, Run(work_limit=2_000, listener=listen))

    assert outcome.plan is not None
    assert len(values) > 1
    best = min(values) if objective.minimised else max(values)
    assert judge(outcome.plan, instance).value == pytest.approx(best)
