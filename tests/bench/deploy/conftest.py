"""Fixtures of the deployment tests: a plan of five services, and its deployment to every target with shares."""

import pytest

from bench.api import Run
from bench.deploy.deployment import Deployment, deployed
from bench.deploy.target import Target
from heuristics.baselines.local_search import LocalSearch
from instances import Instance, Plan
from instances.generate import generate

BY_SHARE = [target for target in Target if target not in (Target.MIG_PARTED, Target.MPS_STATIC)]


@pytest.fixture(scope="package")
def mix() -> Instance:
    return generate("igniter-mix", 5, 1)


@pytest.fixture(scope="package")
def plan(mix: Instance) -> Plan:
    found = LocalSearch(rounds=200).schedule(mix, Run()).plan
    assert found is not None
    return found


@pytest.fixture(scope="package")
def deployments(mix: Instance, plan: Plan) -> dict[Target, Deployment]:
    return {target: deployed(plan, mix, target, 20.0) for target in BY_SHARE}
