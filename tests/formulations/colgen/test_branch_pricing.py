"""Pricing of throughput under conditions on pairs of workloads, against the search of the checker."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Duals
from bench.certificate.certificate import BoundClaim
from bench.certificate.conditions import Conditions
from bench.certificate.dual import offers_of
from bench.certificate.patterns import candidates_on
from bench.certificate.search import GpuSearch
from bench.certificate.statement import Statement
from formulations.colgen.branching import Branch
from formulations.colgen.capacity.problem import CapacityProblem
from formulations.colgen.pairs import permitted
from formulations.colgen.restricted_master import Relaxation
from formulations.colgen.spatial.problem import SpatialProblem
from instances import GpuPool, Instance, Objective
from tests.bench.certificate.drawn import COARSE, drawn

UNIT = 10**6
WORKLOADS = 4
PAIRS = st.sets(st.sampled_from([(a, b) for b in range(WORKLOADS) for a in range(b)]), max_size=2)


def best_worth(instance: Instance, charges: list[int], branch: Branch) -> float:
    """Return the largest worth of a GPU's workloads after their charges, or 0, by the search of the checker."""
    statement = Statement.of(instance, BoundClaim(bound="1", plan_class="spatial"))
    barred = {class_ for class_, _ in branch.barred}
    offers = offers_of(
        statement, [c * UNIT for c in charges], UNIT, [c for c in range(len(charges)) if c not in barred]
    )
    pairs = Conditions((0,), (1,), apart=frozenset(branch.apart), together=frozenset(branch.together))
    candidates = candidates_on(statement.views[0], offers)
    search = GpuSearch(statement.views[0].tables, candidates, statement.copies, *pairs.matrices(len(charges)))
    return search.above(0, best=True)[0] / UNIT


@pytest.mark.parametrize("objective", [Objective.GOODPUT, Objective.CAPACITY])
@settings(max_examples=10)
@given(
    seed=st.integers(0, 200),
    parts=st.lists(st.floats(0.0, 1.6), min_size=WORKLOADS, max_size=WORKLOADS),
    apart=PAIRS,
    together=PAIRS,
    barred=st.sets(st.integers(0, WORKLOADS - 1), max_size=1),
)
def test_pricing_in_a_branch_finds_the_worth_that_the_checker_finds(
    objective: Objective,
    seed: int,
    parts: list[float],
    apart: set[tuple[int, int]],
    together: set[tuple[int, int]],
    barred: set[int],
) -> None:
    small = drawn(seed, Objective.COST, WORKLOADS)
    while (
        len(small.workloads) < WORKLOADS or len({(w.model, w.slo_ms, w.rate_rps) for w in small.workloads}) < WORKLOADS
    ):
        seed += 1
        small = drawn(seed, Objective.COST, WORKLOADS)
    instance = Instance("one", objective, small.slo_rule, "igniter", (GpuPool(COARSE, 1),), small.workloads)
    # Charges above the rate make a tied workload worth less than nothing.
    charges = [round(part * w.rate_rps) for part, w in zip(parts, instance.workloads, strict=True)]
    branch = Branch(
        0.0,
        np.zeros(1),
        np.ones(1),
        0,
        Duals((), ()),
        tuple((class_, 0) for class_ in sorted(barred)),
        tuple(sorted(apart)),
        tuple(sorted(together)),
    )
    best = best_worth(instance, charges, branch)
    problem = SpatialProblem(instance) if objective is Objective.GOODPUT else CapacityProblem(instance)
    dual = -np.array(charges, dtype=np.float64)
    dual[list(barred)] = -inf
    pairs = branch.pairs(problem.order, problem.class_of)
    relaxation = Relaxation(-1.0, dual, np.zeros(1), np.zeros(0))
    room = 1e-5 * max(1.0, best)

    complete = problem.price_in_branch(0, relaxation, pairs, best + room, 10**7, inf)
    found = problem.price_in_branch(0, relaxation, pairs, max(0.0, best - room), 10**7, inf)

    assert complete.bound <= best + 2.0 * room
    assert not complete.cut_short
    assert found.bound >= best - room
    place = {int(w): at for at, w in enumerate(problem.order)}
    worths = []
    for pattern in (*complete.patterns, *found.patterns):
        members = [w for w, _, _ in pattern.residents]
        assert permitted(pairs, np.sort([place[w] for w in members]))
        assert branch.allows(0, {int(problem.class_of[w]) for w in members})
        worths.append(-problem.cost(pattern) - sum(charges[int(problem.class_of[w])] for w in members))
    assert max(worths, default=0.0) <= best + room
    assert best <= room or max(worths) >= best - 2.0 * room
