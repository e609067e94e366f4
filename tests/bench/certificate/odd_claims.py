"""Answers of the checker to certificates of odd instances, and to the same certificates with odd claims."""

import json
from collections.abc import Callable
from random import Random

from bench.api import Outcome
from bench.certificate.checking import check
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.proving import certificate
from instances import Instance, Plan
from tests.bench.certificate.drawn import nodes_of
from tests.bench.certificate.mutations import Data


def with_odd_claim(data: Data, random: Random) -> Data:
    """Return the certificate with another claim, or with another dual."""
    changed: Data = json.loads(json.dumps(data))
    if random.random() < 0.5:
        changed["claim"]["bound"] = random.choice(("none", "0", "1" + "0" * 300, "0." + "0" * 300 + "1", "0.3"))
    leaves = [node for node in changed["proof"].get("nodes", [changed["proof"]]) if "workloads" in node]
    if leaves:
        leaf = random.choice(leaves)
        duals = random.choice((leaf["workloads"], leaf["gpus"], *leaf.get("slices", ())))
        duals[random.randrange(len(duals))] = random.choice((0, 1, 10**9, 2**48, -1))
    return changed


def answers(
    instance: Instance, outcome: Outcome, plan: Plan | None, random: Random, assert_true: Callable[[str, Data], None]
) -> list[str]:
    """Return the answers to the certificate of an outcome with ``plan``, and to a changed one.

    ``assert_true`` sees each answer with its certificate.
    """
    bound = None if outcome.bound is None else outcome.bound.value
    try:
        data: Data = json.loads(json.dumps(certificate(instance, plan, nodes_of(outcome), bound)))
    except GivenUpError as limit:
        return [f"given up: {limit}"]
    except NotProvenError as reason:
        return [f"not proven: {reason}"]
    found = []
    for made in (data, with_odd_claim(data, random)):
        found.append(check(made, "proof").sentence)
        assert_true(found[-1], made)
    return found
