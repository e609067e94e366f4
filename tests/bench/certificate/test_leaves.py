"""Workloads that barely fit or barely do not: the checker accepts exactly the patterns that the judge accepts."""

import copy
from fractions import Fraction
from functools import cache
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

from bench.api import Run, Status
from bench.certificate.certificate import BoundClaim
from bench.certificate.checking import check
from bench.certificate.dual import offers_of
from bench.certificate.one_gpu import fits
from bench.certificate.patterns import candidates_on, merged_tables
from bench.certificate.proving import decimal
from bench.certificate.search import SET_NODES
from bench.certificate.statement import Statement
from formulations.colgen import ColGen
from instances import Instance
from tests.bench.certificate.drawn import certified
from tests.formulations.edges import contents, feasible, least_cost, on_the_edge
from tests.soak import first

EDGE_SEEDS = range(20_000, 20_060)


@pytest.mark.parametrize("part", range(4))
def test_a_set_of_workloads_fits_for_the_checker_iff_a_pattern_of_it_fits_for_the_judge(part: int) -> None:
    counts = {True: 0, False: 0}
    for seed in range(21_000 + 50 * part, 21_050 + 50 * part):
        instance = on_the_edge(Random(seed))
        statement = Statement.of(instance, BoundClaim(bound="1", plan_class="spatial"))
        for view in statement.views:
            duals = [1] * len(statement.copies)
            candidates = candidates_on(view, offers_of(statement, duals, 1, range(len(duals))))
            merged = merged_tables(view.tables)
            row_of = {int(statement.member[c]): row for row, c in enumerate(candidates.of_class.tolist())}
            for size in range(1, min(view.tables.most_residents, len(statement.member)) + 1):
                for members in combinations(statement.member.tolist(), size):
                    rows = np.array([row_of.get(w, -1) for w in members])
                    checker_fits = rows.min() >= 0 and fits(view.tables, merged, candidates, rows, SET_NODES)
                    judge_fits = any(feasible(instance, view.gpu, content) for content in contents(view.gpu, members))
                    assert bool(checker_fits) == judge_fits, (seed, members)
                    counts[judge_fits] += 1
    assert min(counts.values()) > 5


@cache
def proofs(seed: int) -> tuple[Instance, float | None, list[dict[str, Any]]]:
    """Return an instance that barely fits, its least cost, and its certificates: exhaustive, and with duals if any."""
    instance = on_the_edge(Random(seed))
    outcome = ColGen().schedule(instance, Run())
    assert outcome.status is (Status.INFEASIBLE if outcome.plan is None else Status.OPTIMAL)
    with pytest.MonkeyPatch.context() as patch:
        certificates = [
            dict(certified(instance, outcome, patch, duals)) for duals in (False, True)[: 1 + bool(outcome.proof)]
        ]
    return instance, least_cost(instance), certificates


def with_too_large_a_bound(data: dict[str, Any], cost: float, random: Random) -> dict[str, Any]:
    """Return the certificate with a false bound: larger by a little or by a GPU's price, or "none"."""
    changed = copy.deepcopy(data)
    price = Fraction(repr(random.choice([t["price_per_hour"] for t in changed["instance"]["catalogue"].values()])))
    excess = random.choice((Fraction(1, 10**12), Fraction(1, 10**6), price))
    changed["claim"]["bound"] = decimal(Fraction(repr(cost)) + excess, up=True, digits=15)
    if random.random() < 0.3:
        changed["claim"]["bound"] = "none"
    if random.random() < 0.7:  # without the plan, only the proof contradicts the claim
        changed["plan"] = None
    return changed


@pytest.mark.parametrize("part", first(1, range(4)))
def test_a_certificate_with_a_slightly_larger_bound_is_refused(part: int) -> None:
    refused = 0
    for seed in EDGE_SEEDS[15 * part : 15 * part + 15]:
        random = Random(seed)
        _, cost, certificates = proofs(seed)
        for data in certificates:
            assert check(data, "proof").proven, seed
            if cost is not None:
                for _ in range(3):
                    verdict = check(with_too_large_a_bound(data, cost, random), "proof")
                    assert not verdict.proven, (seed, verdict.sentence)
                    assert not verdict.given_up
                    refused += 1
    assert refused > 10


def with_a_larger_dual(data: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return the certificate without its plan, and with the dual of one workload raised by 1 or 5 dollars."""
    changed = copy.deepcopy(data)
    leaf = random.choice([node for node in changed["proof"].get("nodes", [changed["proof"]]) if "workloads" in node])
    at = random.randrange(len(leaf["workloads"]))
    leaf["workloads"][at] += changed["proof"]["unit"] * random.choice((1, 5))
    changed["plan"] = None
    return changed


def test_larger_duals_prove_no_larger_cost_than_the_least() -> None:
    tried = 0
    for seed in EDGE_SEEDS:
        random = Random(seed)
        _, cost, certificates = proofs(seed)
        for data in certificates:
            if cost is not None and data["proof"]["kind"] != "exhaustive":
                changed = with_a_larger_dual(data, random)
                changed["claim"]["bound"] = decimal(Fraction(repr(cost)) + Fraction(1, 10**6), up=True)
                assert not check(changed, "proof").proven, seed
                tried += 1
    assert tried > 10
