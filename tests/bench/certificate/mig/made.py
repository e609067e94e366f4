"""Certificates of tiny plans of MIG instances, made from runs of the scheduler ``mig``."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from random import Random
from typing import Any

from bench.api import Outcome, Run
from bench.certificate.checking import check
from bench.certificate.proving import certificate
from formulations.mig import Mig
from instances import Instance
from tests.bench.certificate.mutations import Data
from tests.formulations.tiny_mig import random_processes, random_tiny


def drawn(seed: int) -> Instance:
    """Return a tiny instance: with odd seeds one configuration for each size, with even seeds several."""
    return random_tiny(Random(seed), bounded=seed % 6 == 1) if seed % 2 else random_processes(Random(seed))


def certified(instance: Instance, outcome: Outcome) -> Data:
    """Return the certificate of an outcome, as read from a file."""
    nodes = json.loads(json.dumps([asdict(node) for node in outcome.proof]))
    scope = None if outcome.bound is None else asdict(outcome.bound)
    bound = None if outcome.bound is None else outcome.bound.value
    data: Data = json.loads(json.dumps(certificate(instance, outcome.plan, nodes, bound, scope)))
    return data


def proven(instance: Instance) -> Data:
    """Return the certificate of a run of ``mig`` on the instance."""
    return certified(instance, Mig().schedule(instance, Run()))


def said(data: Mapping[str, Any]) -> str:
    return check(data, "proof").sentence
