"""Mutated certificates: those that the checker still calls proven are true by brute force, and nothing crashes."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from bench.certificate.checking import check
from bench.judging.judge import judge
from instances import Instance, Objective
from instances.files import instance_from_json, plan_from_json
from tests.bench.certificate.drawn import certified, certified_split, drawn, solved, solved_split, tree_of
from tests.bench.certificate.mutations import (
    Data,
    change_a_dual,
    change_a_price,
    change_claim,
    change_the_structure,
    is_called_proven,
    mutated,
)
from tests.formulations import enumeration, split_plans
from tests.soak import first


@cache
def base(seed: int) -> Data:
    """Return a valid certificate: a tree, duals, an exhaustive proof, or duals for split plans."""
    if seed % 5 == 3:
        instance = split_plans.tiny(seed, (Objective.COST, Objective.GOODPUT)[seed % 2])
        data = certified_split(instance, solved_split(instance))
        assert check(data, "proof").proven
        return data
    with pytest.MonkeyPatch.context() as patch:
        instance, outcome = tree_of(seed, patch) if seed % 5 == 4 else (drawn(seed), None)
        outcome = outcome or solved(instance)
        duals = bool(outcome.proof) and (seed % 5 == 4 or seed % 2 == 0)
        data = dict(certified(instance, outcome, patch, duals))
    assert check(data, "proof").proven
    return data


def leaves(data: Data) -> list[Data]:
    proof = data["proof"]
    return [node for node in proof.get("nodes", [proof]) if "workloads" in node]


def a_dual(data: Data, random: Random) -> None:
    for leaf in random.sample(leaves(data), min(1, len(leaves(data)))):
        duals = leaf[random.choice(("workloads", "gpus"))]
        change_a_dual(duals, random)


def the_length_of_duals(data: Data, random: Random) -> None:
    for leaf in leaves(data):
        leaf["workloads"] = leaf["workloads"][1:] if random.random() < 0.5 else [*leaf["workloads"], 10**9]


def the_unit(data: Data, random: Random) -> None:
    if "unit" in data["proof"]:
        data["proof"]["unit"] = max(1, int(data["proof"]["unit"] * random.choice((0.1, 0.999, 1.001, 10.0))))


def the_claim(data: Data, random: Random) -> None:
    change_claim(data, random, 3.06)


def the_class(data: Data, random: Random) -> None:
    data["claim"]["plan_class"] = random.choice(("spatial", "split"))
    data["claim"]["parts"] = random.choice((None, 20))


def a_workload(data: Data, random: Random) -> None:
    workloads = data["instance"]["workloads"]
    chosen = random.choice(workloads)
    match random.randrange(5):
        case 0:
            chosen["rate_rps"] *= random.choice((0.7, 0.99, 1.01, 1.5))
        case 1:
            chosen["slo_ms"] *= random.choice((0.7, 0.99, 1.01, 1.5))
        case 2:
            chosen["model"] = random.choice(workloads)["model"]
        case 3 if len(workloads) > 1:
            workloads.remove(chosen)
        case _ if len(workloads) < 5:
            workloads.append(chosen | {"id": "another"})


def the_pool(data: Data, random: Random) -> None:
    pool = random.choice(data["instance"]["gpus"])
    pool["count"] = random.choice((1, 2, 3)) if data["instance"]["objective"] != "cost" else random.choice((None, 1, 2))


def the_types(data: Data, random: Random) -> None:
    catalogue = data["instance"]["catalogue"]
    names = list(catalogue)
    if len(names) > 1:
        first, second = catalogue[names[0]], catalogue[names[1]]
        catalogue[names[0]], catalogue[names[1]] = second | {"name": names[0]}, first | {"name": names[1]}
    else:
        data["instance"]["gpus"][0]["type"] = "v100"


def a_coefficient(data: Data, random: Random) -> None:
    model = random.choice(list(random.choice(list(data["instance"]["catalogue"].values()))["models"].values()))
    key = random.choice(("k", "l2", "power", "alpha_cache"))
    if key == "alpha_cache":
        model[key] *= random.choice((-1.0, 0.0, 0.5, 2.0))
    else:
        model[key] = [x * random.choice((0.9, 1.0, 1.1)) for x in model[key]]


def the_plan(data: Data, random: Random) -> None:
    if data["plan"] is None:
        return
    gpus = data["plan"]["gpus"]
    gpulet = random.choice(random.choice(gpus)["gpulets"])
    match random.randrange(6):
        case 0:
            gpus.pop()
        case 1:
            gpulet["share_units"] = random.randint(1, 9)
        case 2:
            gpulet["slots"][0]["batch"] = random.randint(1, 8)
        case 3:
            gpulet["slots"][0]["rate_rps"] *= random.choice((0.5, 0.95, 1.05, 2.0))
        case 4:
            gpulet["slots"][0]["workload"] = random.choice(data["instance"]["workloads"])["id"]
        case _:
            gpus.append(copy.deepcopy(gpus[0]))


def a_node(data: Data, random: Random) -> None:
    nodes = data["proof"].get("nodes")
    if not nodes:
        return
    at = random.randrange(len(nodes))
    inner = [node for node in nodes if "on" in node]
    match random.randrange(5):
        case 0:
            nodes.pop(at)
        case 1:
            random.choice(inner)["branches"].reverse()
        case 2:
            random.choice(inner)["branches"][1] = random.randrange(len(nodes))
        case 3:
            random.choice(inner)["second"] = random.randrange(4)
        case _:
            random.choice(inner)["on"] = random.choice(("gpus", "pair", "seat"))


MUTATIONS: tuple[Callable[[Data, Random], None], ...] = (
    a_dual,
    a_dual,
    a_dual,
    the_length_of_duals,
    the_unit,
    the_claim,
    the_claim,
    the_class,
    a_workload,
    a_workload,
    the_pool,
    change_a_price,
    the_types,
    a_coefficient,
    the_plan,
    a_node,
    a_node,
    change_the_structure,
)


def true_by_brute_force(data: Data) -> bool:
    """Return whether the claim is true and the plan, if any, feasible."""
    instance, bound = instance_from_json(data["instance"]), data["claim"]["bound"]
    if data.get("plan") is not None and not judge(plan_from_json(data["plan"]), instance).feasible:
        return False
    if data["claim"]["plan_class"] == "split":
        return split_claim_is_true(instance, bound)
    if instance.objective is Objective.SCALE:
        return enumeration.optimum(replace(instance.scaled(float(bound)), objective=Objective.COST)) is None
    best = enumeration.optimum(instance)
    if bound == "none" or best is None:
        return best is None
    tolerance = 1e-8 * best
    return float(bound) <= best + tolerance if instance.objective.minimised else float(bound) >= best - tolerance


def split_claim_is_true(instance: Instance, bound: str) -> bool:
    """Return whether no split plan beats the bound: by brute force, on large GPUs against a solver's plan only."""
    minimised = instance.objective.minimised
    if any(pool.type.share_units > split_plans.TINY.share_units for pool in instance.gpus):
        plan = solved_split(instance).plan
        best = None if plan is None else judge(plan, instance).value
        return best is None or (bound != "none" and (float(bound) <= best + 1e-8 if minimised else True))
    if not minimised:
        return bound != "none" and float(bound) >= split_plans.most_goodput(instance) * (1.0 - 1e-8)
    best = split_plans.least_cost(instance, split_plans.MOST_GPUS)
    if best is not None:
        return bound != "none" and float(bound) <= best * (1.0 + 1e-8)
    if bound == "none":
        covers = [cover for pool in instance.gpus for _, cover in split_plans.contents(instance, pool.type)]
        unserved = not all(any(cover[w] > 0.0 for cover in covers) for w in range(len(instance.workloads)))
        return unserved or all(pool.count is not None for pool in instance.gpus)
    return float(bound) <= (split_plans.MOST_GPUS + 1) * min(pool.type.price_per_hour for pool in instance.gpus)


def mutate(seed: int) -> bool:
    """Mutate a certificate once or twice and check it; return whether it is still called proven."""
    random = Random(seed)
    return is_called_proven(mutated(base(random.randrange(20)), MUTATIONS, random), true_by_brute_force)


def test_mutated_certificates_that_are_called_proven_are_true(subtests: pytest.Subtests) -> None:
    for seed in range(25):
        with subtests.test(seed=seed):
            mutate(seed)


@pytest.mark.soak
def test_1000_mutated_certificates_that_are_called_proven_are_true() -> None:
    proven = sum(mutate(seed) for seed in range(25, 1025))

    assert 0 < proven < 500  # some weaker proofs hold, most mutations do not


def false_claim_is_refused(seed: int) -> None:
    """Assert that a claim of one GPU (or 2 %) too much is refused, with the duals that would prove it."""
    data = copy.deepcopy(base(seed))
    bound = data["claim"]["bound"]
    if bound == "none":
        return  # no plan exists, so every bound is true
    if data["instance"]["objective"] == "cost":
        price = max(entry["price_per_hour"] for entry in data["instance"]["catalogue"].values())
        data["claim"]["bound"] = f"{float(bound) + price:.6f}"
        for leaf in leaves(data):
            leaf["workloads"] = [int(p * (1.0 + price / float(bound)) * 1.01) + 1 for p in leaf["workloads"]]
    else:
        data["claim"]["bound"] = f"{float(bound) * 0.98:.9f}"
        for leaf in leaves(data):
            leaf["workloads"] = [int(p * 0.97) for p in leaf["workloads"]]
            leaf["gpus"] = [int(g * 0.97) for g in leaf["gpus"]]

    verdict = check(data, "proof")

    assert not verdict.proven or true_by_brute_force(data), verdict.sentence
    assert (
        not verdict.proven or data["instance"]["objective"] == "scale"
    )  # under scale, the bound may be 2 % above the optimum


@pytest.mark.parametrize("seeds", first(1, (range(20), range(20, 60))), ids=str)
def test_a_false_claim_is_refused(seeds: range, subtests: pytest.Subtests) -> None:
    for seed in seeds:
        with subtests.test(seed=seed):
            false_claim_is_refused(seed)
