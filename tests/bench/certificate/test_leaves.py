"""Decided patterns on the edge: the checker keeps those that the judge accepts, and no others."""

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

EDGES = range(20_000, 20_060)


@pytest.mark.parametrize("part", range(4))
def test_a_set_of_residents_fits_for_the_checker_where_one_of_its_contents_fits_for_the_judge(part: int) -> None:
    known = {True: 0, False: 0}
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
                    found = rows.min() >= 0 and fits(view.tables, merged, candidates, rows, SET_NODES)
                    right = any(feasible(instance, view.gpu, content) for content in contents(view.gpu, members))
                    assert bool(found) == right, (seed, members)
                    known[right] += 1
    assert min(known.values()) > 5


@cache
def proofs(seed: int) -> tuple[Instance, float | None, list[dict[str, Any]]]:
    """Return an instance on the edge, its least cost, and its certificates: with duals, and exhaustive."""
    instance = on_the_edge(Random(seed))
    outcome = ColGen().schedule(instance, Run())
    assert outcome.status is (Status.INFEASIBLE if outcome.plan is None else Status.OPTIMAL)
    with pytest.MonkeyPatch.context() as patch:
        made = [dict(certified(instance, outcome, patch, duals)) for duals in (False, True)[: 1 + bool(outcome.proof)]]
    return instance, least_cost(instance), made


def claims_too_much(data: dict[str, Any], cost: float, random: Random) -> dict[str, Any]:
    """Return the certificate with a bound that is too large: by a little, by a GPU, or that no plan exists."""
    changed = copy.deepcopy(data)
    price = Fraction(repr(random.choice([t["price_per_hour"] for t in changed["instance"]["catalogue"].values()])))
    more = random.choice((Fraction(1, 10**12), Fraction(1, 10**6), price))
    changed["claim"]["bound"] = decimal(Fraction(repr(cost)) + more, up=True, digits=15)
    if random.random() < 0.3:
        changed["claim"]["bound"] = "none"
    if random.random() < 0.7:  # without the plan, only the proof contradicts the claim
        changed["plan"] = None
    return changed


@pytest.mark.parametrize("part", range(4))
def test_a_certificate_on_the_edge_that_claims_a_little_too_much_is_refused(part: int) -> None:
    refused = 0
    for seed in EDGES[15 * part : 15 * part + 15]:
        random = Random(seed)
        _, cost, made = proofs(seed)
        for data in made:
            assert check(data, "proof").proven, seed
            if cost is not None:
                for _ in range(3):
                    verdict = check(claims_too_much(data, cost, random), "proof")
                    assert not verdict.proven, (seed, verdict.sentence)
                    assert not verdict.given_up
                    refused += 1
    assert refused > 10


def larger_duals(data: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return the certificate with one dual of a workload raised by a part of what is missing to the next cost."""
    changed = copy.deepcopy(data)
    leaf = random.choice([node for node in changed["proof"].get("nodes", [changed["proof"]]) if "workloads" in node])
    at = random.randrange(len(leaf["workloads"]))
    leaf["workloads"][at] += changed["proof"]["unit"] * random.choice((1, 5))
    changed["plan"] = None
    return changed


def test_larger_duals_prove_no_larger_cost_than_the_least() -> None:
    tried = 0
    for seed in EDGES:
        random = Random(seed)
        _, cost, made = proofs(seed)
        for data in made:
            if cost is not None and data["proof"]["kind"] != "exhaustive":
                changed = larger_duals(data, random)
                changed["claim"]["bound"] = decimal(Fraction(repr(cost)) + Fraction(1, 10**6), up=True)
                assert not check(changed, "proof").proven, seed
                tried += 1
    assert tried > 10
