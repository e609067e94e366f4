"""A step of the training of TS: a decision, the environment, the replay and one update of both stages."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.schedulers.parameters import instantiate
from instances.suites.inss import four_gpus
from rl.cluster import Cluster
from rl.environment import Environments
from rl.networks import limited_threads
from rl.train import PAPER, Training


@pytest.mark.parametrize("preset", [{}, PAPER], ids=["default", "paper"])
def test_a_training_step(benchmark: BenchmarkFixture, preset: dict[str, str]) -> None:
    training = instantiate(Training, preset | {"buffer": "5000"}, "ts")
    cluster = Cluster.of(four_gpus()[0])
    agent = training.agent(cluster, 0)
    environments = Environments(cluster, training.clusters, training.process(), np.random.default_rng(0))

    def step() -> dict[str, float]:
        decision = agent.decide(environments.rates_rps, environments.queued)
        feedback = environments.step(decision.gpu, decision.units, decision.batch)
        agent.remember(decision, feedback, decision)
        return agent.update()

    with limited_threads(1):
        scalars = benchmark.pedantic(step, rounds=20, warmup_rounds=3)
    assert scalars["sac_temperature"] > 0.0
    benchmark.extra_info["updates"] = training.episodes * training.steps
