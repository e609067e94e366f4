"""Limits of the checker: it handles odd prices, and gives up before it makes a large array."""

from dataclasses import replace

import pytest

from bench.certificate.certificate import BoundClaim, Leaf
from bench.certificate.checking import check
from bench.certificate.conditions import Conditions
from bench.certificate.dual import proven_bound
from bench.certificate.failures import GivenUpError
from bench.certificate.statement import Statement
from bench.judging.judge import judge
from instances import GpuPool, InputError, Instance, Objective, Plan, Workload, spatial_gpu
from instances.tables import gpu_tables
from tests.bench.certificate.claims import V100, asking, claiming, duals, said


def priced(*prices: float, count: int | None = None, workloads: int = 12) -> Instance:
    """Return an instance whose workloads together fit on one GPU, on GPU types that differ in price only."""
    pools = tuple(GpuPool(replace(V100, name=f"g{n}", price_per_hour=price), count) for n, price in enumerate(prices))
    asked = tuple(Workload(f"w{n}", "alexnet", 50.0, 5.0) for n in range(workloads))
    return replace(asking(*asked), gpus=pools)


@pytest.mark.parametrize(
    ("prices", "bound", "dual", "unit", "sentence"),
    [
        # Bounds far below and near a price; the common divisor of both prices is tiny.
        ((0.30000000000000004, 1.01), "0.000000000001", 1, 10**12, "proven: no spatial plan costs less than"),
        ((0.30000000000000004, 1.01), "0.3", 1, 10**12, "proven: no spatial plan costs less than $0.3 per hour"),
        ((0.30000000000000004, 1.01), "0.30000000000000004", 1, 10**12, "proven: no spatial plan costs less than"),
        ((0.30000000000000004, 1.01), "0.31", 1, 10**12, "not proven: the proof yields 0.3, the claim says 0.31"),
        ((1e-12, 1e12), "0.000000000001", 1, 10**15, "proven: no spatial plan costs less than $0.000000000001"),
        ((5e-324, 1.7e308), "0." + "0" * 323 + "5", 1, 10**330, "proven: no spatial plan costs less than"),
        ((5e-324, 1.7e308), "1", 1, 10**330, "not proven: the proof yields 4.940656458e-324, the claim says 1"),
        ((1.7e308, 1.6e308), "1", 10**9, 10**9, "proven: no spatial plan costs less than $1 per hour"),
    ],
)
def test_a_proven_bound_is_rounded_up_to_a_cost_of_odd_prices(
    prices: tuple[float, ...], bound: str, dual: int, unit: int, sentence: str
) -> None:
    assert said(claiming(priced(*prices), bound, duals(dual, unit=unit) | {"gpus": [0, 0]})).startswith(sentence)


def test_a_plan_of_odd_prices_is_proven_optimal() -> None:
    instance = priced(0.30000000000000004, 1.01)
    plan = Plan("asked", (spatial_gpu("g0", [(f"w{n}", 3, 1, 5.0) for n in range(12)]),))
    assert judge(plan, instance).feasible

    verdict = check(claiming(instance, "0.30000000000000004", duals(1) | {"gpus": [0, 0]}, plan), "proof")

    assert verdict.optimal
    assert verdict.sentence == "proven: $0.30000000000000004 per hour, no spatial plan costs less"


def test_tables_of_many_types_are_given_up_before_they_are_made() -> None:
    fine = tuple(GpuPool(replace(V100, name=f"g{n}", share_units=4_000)) for n in range(9))
    proof = duals(1) | {"gpus": [0] * len(fine)}

    verdict = check(claiming(replace(priced(1.0), gpus=fine), "0.5", proof), "proof")

    assert verdict.given_up
    assert not verdict.proven
    assert verdict.sentence.startswith("given up: the tables of the GPU types would take")


@pytest.mark.parametrize(
    ("objective", "kind", "most", "arrays"),
    [
        (Objective.COST, "spatial", 300, "the dynamic program of a search"),
        (Objective.COST, "split", 2_000, "the dynamic programs of a search"),
        (Objective.CAPACITY, "spatial", 2_000, "the alternatives of a search"),
    ],
)
def test_a_search_gives_up_before_it_makes_large_arrays(
    objective: Objective, kind: str, most: int, arrays: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = replace(priced(1.0, count=1), objective=objective)
    statement = Statement.of(instance, BoundClaim.model_validate({"bound": "1", "plan_class": kind}))
    monkeypatch.setattr("bench.certificate.failures.MOST_NUMBERS", most)

    with pytest.raises(GivenUpError, match=f"the duals: the search over patterns of g0 ended: {arrays} would take"):
        proven_bound(
            statement, Leaf(workloads=[1], gpus=[0]), 10**9, Conditions.root(statement), "the duals", lambda part: None
        )


def test_an_exhaustive_proof_gives_up_at_its_number_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.certificate.exhaustive.MOST_STATES", 1000)
    instance = priced(*[1.0 + n / 7 for n in range(4)], workloads=8)

    assert (
        said(claiming(instance, "0.5"))
        == "given up: an exhaustive proof over more than 1,000 sets of workloads and GPUs"
    )


def test_tables_that_are_too_large_are_wrong_input() -> None:
    gpu = replace(
        V100, name="fine", share_units=10_000, models={"alexnet": replace(V100.models["alexnet"], max_batch=900)}
    )
    with pytest.raises(InputError, match="fine: has 9,010,901 combinations of model, batch and share; at most"):
        gpu_tables(gpu, "igniter")


def test_a_tree_with_too_many_open_conditions_is_given_up() -> None:
    """A chain of 2,000 forks has branches with 1, 2, 3, ... conditions, all in memory until their leaves come."""
    depth = 2_000
    instance = asking(*(Workload(f"w{n}", "alexnet", 50.0 + n, 5.0) for n in range(70)))
    pairs = [(a, b) for a in range(70) for b in range(a)][:depth]
    forks = [
        {"on": "pair", "first": a, "second": b, "branches": [n + 1, depth + 1 + n]} for n, (a, b) in enumerate(pairs)
    ]
    leaf = {"workloads": [0] * 70, "gpus": [0]}
    tree = {"kind": "tree", "unit": 1, "nodes": [*forks, *[leaf] * (depth + 1)]}

    assert "the branches that remain to be checked have more than" in said(claiming(instance, "0.1", tree))
