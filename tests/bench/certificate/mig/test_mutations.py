"""Mutated certificates of MIG instances: those that the checker still calls proven are true by brute force."""

import copy
from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from bench.certificate.checking import check
from bench.judging.judge import judge
from instances.files import instance_from_json, plan_from_json
from tests.bench.certificate.mig.made import drawn, proven, said
from tests.bench.certificate.mutations import (
    Data,
    change_a_dual,
    change_a_price,
    change_claim,
    change_the_structure,
    is_called_proven,
    mutated,
)
from tests.formulations.tiny_mig import cheapest

MOST_GPUS = 5  # of a plan that brute force tries
BASES = (0, 2, 3, 4, 5, 6, 7, 8, 13, 35, 80, 81)
"""Seeds of instances with one or two GPU types, with bounded or unlimited pools, or without any plan."""


@cache
def base(seed: int) -> Data:
    data = proven(drawn(seed))
    assert check(data, "proof").proven
    return data


def a_dual(data: Data, random: Random) -> None:
    proof = data["proof"]
    duals = random.choice((proof["workloads"], proof["gpus"], *proof["slices"]))
    change_a_dual(duals, random)


def the_number_of_duals(data: Data, random: Random) -> None:
    duals = random.choice((data["proof"]["workloads"], data["proof"]["gpus"], *data["proof"]["slices"]))
    if random.random() < 0.5:
        duals.pop()
    else:
        duals.append(10**9)


def the_unit(data: Data, random: Random) -> None:
    data["proof"]["unit"] = max(1, int(data["proof"]["unit"] * random.choice((0.1, 0.999, 1.001, 10.0))))


def the_claim(data: Data, random: Random) -> None:
    change_claim(data, random, 1.0)


def a_workload(data: Data, random: Random) -> None:
    workloads = data["instance"]["workloads"]
    chosen = random.choice(workloads)
    match random.randrange(5):
        case 0:
            chosen["rate_rps"] *= random.choice((0.7, 0.99, 1.01, 1.5))
        case 1:
            chosen["slo_ms"] *= random.choice((0.4, 0.99, 1.01, 2.5))
        case 2:
            chosen["model"] = random.choice(workloads)["model"]
        case 3 if len(workloads) > 1:
            workloads.remove(chosen)
        case _ if len(workloads) < 4:
            workloads.append(chosen | {"id": "another"})


def the_pool(data: Data, random: Random) -> None:
    random.choice(data["instance"]["gpus"])["count"] = random.choice((None, 1, 2))


def a_layout(data: Data, random: Random) -> None:
    sizes = random.choice(list(data["instance"]["catalogue"].values()))["mig"]["slices"]
    size = random.choice(sizes)
    match random.randrange(3):
        case 0:
            size["starts"] = sorted(random.sample(range(5), random.randint(1, 4)))
        case 1:
            size["span"] = max(size["units"], size["span"] + random.choice((-1, 1)))
        case _:
            size["units"], size["span"] = size["units"] + 1, size["span"] + 1


def a_configuration(data: Data, random: Random) -> None:
    models = random.choice(list(data["instance"]["catalogue"].values()))["mig"]["models"]
    rows = random.choice(list(models.values()))
    row = random.choice(rows)
    match random.randrange(4):
        case 0:
            row[3] *= random.choice((0.5, 0.99, 1.01, 2.0))
        case 1:
            row[4] *= random.choice((0.5, 0.99, 1.01, 2.0))
        case 2:
            row[2] += 1
        case _:
            rows.remove(row)


def the_plan(data: Data, random: Random) -> None:
    if data["plan"] is None:
        return
    gpus = data["plan"]["gpus"]
    gpulet = random.choice(random.choice(gpus)["gpulets"])
    match random.randrange(7):
        case 0:
            gpus.pop()
        case 1:
            gpulet["share_units"] = random.randint(1, 4)
        case 2:
            gpulet["start"] = random.randint(0, 4)
        case 3:
            gpulet["processes"] = random.randint(1, 3)
        case 4:
            gpulet["slots"][0]["rate_rps"] *= random.choice((0.5, 0.95, 1.05, 2.0))
        case 5:
            gpulet["slots"][0]["workload"] = random.choice(data["instance"]["workloads"])["id"]
        case _:
            gpus.append(copy.deepcopy(gpus[0]))


MUTATIONS: tuple[Callable[[Data, Random], None], ...] = (
    a_dual,
    a_dual,
    a_dual,
    the_number_of_duals,
    the_unit,
    the_claim,
    the_claim,
    a_workload,
    a_workload,
    the_pool,
    change_a_price,
    a_layout,
    a_configuration,
    a_configuration,
    the_plan,
    change_the_structure,
)


def true_by_brute_force(data: Data) -> bool:
    """Return whether no plan is cheaper than the claimed bound and the file's plan, if any, is feasible."""
    instance, bound = instance_from_json(data["instance"]), data["claim"]["bound"]
    if data.get("plan") is not None and not judge(plan_from_json(data["plan"]), instance).feasible:
        return False
    best = cheapest(instance, MOST_GPUS)
    if best is not None:
        return bound != "none" and float(bound) <= best * (1.0 + 1e-12)
    if all(pool.count is not None and pool.count <= 2 for pool in instance.gpus):
        return True  # the brute force has tried the whole pool
    cheapest_gpu = min(pool.type.price_per_hour for pool in instance.gpus)
    return (
        cheapest(instance, MOST_GPUS + 2) is None if bound == "none" else float(bound) <= (MOST_GPUS + 1) * cheapest_gpu
    )


def mutate(seed: int) -> bool:
    """Mutate a certificate once or twice and check it; return whether it is still called proven."""
    random = Random(seed)
    return is_called_proven(mutated(base(random.choice(BASES)), MUTATIONS, random), true_by_brute_force)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_mutated_certificates_that_are_called_proven_are_true(first: int) -> None:
    called_proven = [mutate(seed) for seed in range(first, first + 50)]

    assert 3 <= sum(called_proven) <= 35  # some weaker proofs hold, most mutations do not


@pytest.mark.soak
def test_3000_mutated_certificates_that_are_called_proven_are_true() -> None:
    called_proven = sum(mutate(seed) for seed in range(300, 3300))

    assert 0 < called_proven < 1800


def test_the_base_certificates_are_of_both_kinds_and_one_has_no_plan() -> None:
    bases = [base(seed) for seed in BASES]

    assert {data["proof"]["kind"] for data in bases} == {"slices", "exhaustive"}
    assert "none" in {data["claim"]["bound"] for data in bases}
    assert {len(data["instance"]["gpus"]) for data in bases} == {1, 2}


@pytest.mark.parametrize("seed", BASES)
def test_a_false_claim_is_refused(seed: int) -> None:
    """The claim is one cent above the optimum, with duals that would prove it."""
    data = copy.deepcopy(base(seed))
    if data["claim"]["bound"] == "none":
        return  # no plan exists, so every bound is true
    data["claim"]["bound"] = f"{float(data['claim']['bound']) + 0.01:.6f}"
    if data["proof"]["kind"] == "slices":
        data["proof"]["workloads"] = [dual * 2 + 1 for dual in data["proof"]["workloads"]]

    assert not check(data, "proof").proven
    assert said(data).startswith("not proven: ")
