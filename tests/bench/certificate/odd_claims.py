"""The checker's answers to a certificate, and to the same certificate with an odd claim or dual."""

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
    """Return the certificate, half of the time with an odd bound, and with one odd dual if its proof has duals."""
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
    """Return the answers to the certificate of an outcome with ``plan``, and to one with an odd claim.

    ``assert_true`` sees each answer with its certificate.
    """
    bound = None if outcome.bound is None else outcome.bound.value
    try:
        data: Data = json.loads(json.dumps(certificate(instance, plan, nodes_of(outcome), bound)))
    except GivenUpError as limit:
        return [f"given up: {limit}"]
    except NotProvenError as reason:
        return [f"not proven: {reason}"]
    sentences = []
    for certificate_data in (data, with_odd_claim(data, random)):
        sentences.append(check(certificate_data, "proof").sentence)
        assert_true(sentences[-1], certificate_data)
    return sentences
