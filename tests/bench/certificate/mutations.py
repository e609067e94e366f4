"""Mutations for certificates of every kind, and checks of their answers."""

import copy
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from bench.certificate.checking import check
from instances import InputError

Data = dict[str, Any]


def factor(random: Random) -> float:
    return random.choice((0.0, 0.5, 0.9, 0.999, 1.001, 1.1, 2.0, -1.0))


def change_a_dual(duals: list[int], random: Random) -> None:
    """Change one of the duals."""
    at = random.randrange(len(duals))
    duals[at] = int(duals[at] * factor(random)) + random.choice((0, 0, 1, 10**9))


def change_claim(data: Data, random: Random, price: float) -> None:
    """Change the claimed bound: to or from "none", by a factor, or by the price of a GPU."""
    bound = data["claim"]["bound"]
    if random.random() < 0.2:
        data["claim"]["bound"] = "5" if bound == "none" else "none"
    elif bound != "none":
        changed = float(bound) * random.choice((0.5, 0.99, 1.0, 1.000001, 1.01, 2.0)) + random.choice((0.0, 0.0, price))
        data["claim"]["bound"] = f"{changed:.9f}"


def change_a_price(data: Data, random: Random) -> None:
    entry = random.choice(list(data["instance"]["catalogue"].values()))
    entry["price_per_hour"] *= random.choice((0.5, 0.99, 1.01, 2.0))


def change_the_structure(data: Data, random: Random) -> None:
    where = random.choice((data, data["claim"], data["proof"], data["instance"]))
    key = random.choice(list(where))
    if random.random() < 0.5:
        del where[key]
    else:
        where[key] = random.choice((None, [], "text", -1, 1e300, {"x": [[]]}))


def mutated(data: Data, mutations: Sequence[Callable[[Data, Random], None]], random: Random) -> Data:
    """Return a certificate after one or two of the mutations."""
    changed = copy.deepcopy(data)
    for mutation in random.choices(mutations, k=random.choice((1, 1, 2))):
        try:
            mutation(changed, random)
        except (AttributeError, KeyError, TypeError, IndexError):
            break  # the data to change is absent, from the start or after an earlier mutation
    return changed


def is_called_proven(data: Data, is_true: Callable[[Data], bool]) -> bool:
    """Return whether the checker calls a certificate proven; assert that it is true if so."""
    try:
        verdict = check(data, "proof")
    except InputError:
        return False
    assert not verdict.proven or is_true(data), verdict.sentence
    return verdict.proven
