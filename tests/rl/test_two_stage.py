import csv
from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.api import Run, Status
from bench.judging.judge import judge
from instances import InputError, PlanClass, SloRule, Workload
from instances.suites.inss import four_gpus
from rl.cluster import Cluster
from rl.environment import Environments
from rl.grouping import NoFitError, deal
from rl.policy import load_policy
from rl.train import Training
from rl.ts import Ts, TsNi

FOUR_GPUS = four_gpus()[0]
QUICK = Training(episodes=4, steps=6, clusters=4, hidden=8, minibatch=8, buffer=100, warm_up=2, save_every=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ts")
    QUICK.train(FOUR_GPUS, 3, folder, lambda episode, scalars: None)
    return folder


def agent_and_decision(count=5, seed=0, **terms):
    cluster = Cluster.of(FOUR_GPUS)
    agent = replace(QUICK, **terms).agent(cluster, seed)
    environments = Environments(cluster, count, QUICK.process(), np.random.default_rng(seed))
    return cluster, agent, environments, agent.decide(environments.rates_rps, environments.queued)


def test_a_decision_fills_every_gpu_in_use():
    cluster, _, environments, decision = agent_and_decision(50)
    environments.step(decision.gpu, decision.units, decision.batch)  # refuses decisions that do not fit
    for k in range(4):
        on_gpu = decision.gpu == k
        used = np.where(on_gpu, decision.units, 0).sum(axis=1)
        residents = on_gpu.sum(axis=1)
        assert np.all(used[residents == 0] == 0)
        assert np.all((used >= cluster.tables.share_units - residents)[residents > 0])
    assert set(np.unique(decision.gpu)) == {0, 1, 2, 3}


def test_the_stages_agree_with_each_other():
    cluster, _, _, decision = agent_and_decision(7)
    for n in range(7):
        for i in range(cluster.workloads):
            k = decision.gpu[n, i]
            assert decision.allocation[n, k, i] == 1.0
            assert decision.allocation[n, :, i].sum() == 1.0
            expected = 1 + np.floor(decision.action[n, k, i] * (54 - (decision.gpu[n] == k).sum()) + 1e-9)
            assert decision.units[n, i] == pytest.approx(expected, abs=1)


def test_both_stages_remember_their_rewards():
    _, agent, environments, decision = agent_and_decision(5)
    feedback = environments.step(decision.gpu, decision.units, decision.batch)
    agent.remember(decision, feedback, agent.decide(environments.rates_rps, environments.queued))
    assert len(agent.sac.replay) == 5
    occupied = sum(len(set(row)) for row in decision.gpu.tolist())
    assert len(agent.td3.replay) == occupied
    stored = agent.td3.replay.state_dict()["fields"]["reward"]
    assert np.count_nonzero(stored) == 5 * 10  # one reward per workload, on its GPU
    of_first_stage = agent.sac.replay.state_dict()["fields"]["reward"]
    assert torch.equal(of_first_stage, of_first_stage[:, :1].expand(5, 10))
    assert float(stored.sum()) == pytest.approx(float(of_first_stage[:, 0].sum()), rel=1e-5)


def test_the_printed_reward_is_the_workloads():
    """Sec. 5.1: r' is the reward of the single workload, equation 2 without a transformation."""
    _, agent, environments, decision = agent_and_decision(5, own_reward=True, compressed_rewards=False)
    feedback = environments.step(decision.gpu, decision.units, decision.batch)
    agent.remember(decision, feedback, agent.decide(environments.rates_rps, environments.queued))
    assert feedback.reward.min() < -1.0
    stored = agent.sac.replay.state_dict()["fields"]["reward"].numpy()
    assert stored == pytest.approx(feedback.reward, rel=1e-6)


def test_the_printed_states_lack_further_inputs():
    """Sec. 5.1: lambda, g, p, W and, for each GPU, u, L and E, that is, 4 + 3 K numbers."""
    _, _, _, further = agent_and_decision(5)
    cluster, agent, _, printed = agent_and_decision(5, further_inputs=False)
    assert printed.placement.shape == (5, 10, 4 + 3 * cluster.gpus)
    assert np.array_equal(printed.placement[:, 0], further.placement[:, 0, : 4 + 3 * cluster.gpus])
    assert agent.sac.actor.weights[0].shape[1] == 4 + 3 * cluster.gpus


def test_a_policy_with_the_printed_states_gives_plans(tmp_path):
    printed = replace(QUICK, episodes=1, further_inputs=False, pooled=True, summed=True)
    printed.train(FOUR_GPUS, 3, tmp_path, lambda episode, scalars: None)
    assert Ts(tmp_path / "policy.pt").schedule(FOUR_GPUS, Run()).status is Status.FEASIBLE


def test_pooled_agents_have_one_temperature_and_a_critic_for_the_sum():
    _, agent, _, _ = agent_and_decision(pooled=True, summed=True)
    assert agent.sac.log_temperature.shape == (1,)
    assert [critics.weights[-1].shape[0] for critics in (agent.sac.critics, agent.td3.critics)] == [2, 2]
    assert agent.td3.critics.weights[-1].shape[2] == 1


def test_a_workload_without_requests_gets_no_gpu():
    _, agent, environments, _ = agent_and_decision(3)
    rates_rps = environments.rates_rps.copy()
    rates_rps[1, 4] = 0.0
    decision = agent.decide(rates_rps, environments.queued, spread=0.0, exploring=False)
    assert decision.gpu[1, 4] == -1
    assert np.count_nonzero(decision.gpu < 0) == 1


def test_training_writes_scalars(trained):
    with (trained / "scalars.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["episode"] for row in rows] == ["1", "2", "3", "4"]
    assert all(float(row["reward"]) < 0.0 and float(row["sac_temperature"]) > 0.0 for row in rows)


def test_interrupted_training_gives_the_same_policy(trained, tmp_path):
    replace(QUICK, episodes=2).train(FOUR_GPUS, 3, tmp_path, lambda episode, scalars: None)
    episodes = []
    QUICK.train(FOUR_GPUS, 3, tmp_path, lambda episode, scalars: episodes.append(episode))
    assert episodes == [3, 4]
    assert (tmp_path / "scalars.csv").read_text() == (trained / "scalars.csv").read_text()
    weights = [load_policy(folder / "policy.pt").weights for folder in (trained, tmp_path)]
    for stage in ("sac", "td3"):
        assert all(torch.equal(weights[0][stage][name], weights[1][stage][name]) for name in weights[0][stage])


def test_another_seed_gives_another_training(trained, tmp_path):
    QUICK.train(FOUR_GPUS, 4, tmp_path, lambda episode, scalars: None)
    assert (tmp_path / "scalars.csv").read_text() != (trained / "scalars.csv").read_text()


def test_a_checkpoint_of_another_training_is_refused(trained):
    with pytest.raises(InputError, match="belongs to a training with seed 3, not 4"):
        QUICK.train(FOUR_GPUS, 4, trained, lambda episode, scalars: None)
    with pytest.raises(InputError, match="belongs to a training with hidden 8, not 16"):
        replace(QUICK, hidden=16).train(FOUR_GPUS, 3, trained, lambda episode, scalars: None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"episodes": 0},
        {"lowest": 2.0},
        {"minibatch": 0},
        {"temperature": 0.0},
        {"halve_every": 0.0},
        {"discount": 1.0},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        replace(QUICK, **wrong)


def test_plans_are_complete_and_repeatable(trained):
    outcome = Ts(trained / "policy.pt").schedule(FOUR_GPUS, Run())
    assert outcome.status is Status.FEASIBLE
    verdict = judge(outcome.plan, FOUR_GPUS)
    assert {slot.workload for slot in verdict.slots} == {workload.id for workload in FOUR_GPUS.workloads}
    assert {violation.kind for violation in verdict.violations} <= {"latency"}
    assert Ts(trained / "policy.pt").schedule(FOUR_GPUS, Run()) == outcome


def test_sixteen_gpus_are_planned_in_four_groups(trained):
    workloads = tuple(
        Workload(f"{w.id}-{copy}", w.model, w.slo_ms, w.rate_rps * (0.7 + 0.1 * copy))
        for w in FOUR_GPUS.workloads
        for copy in range(4)
    )
    large = replace(FOUR_GPUS, workloads=workloads, gpus=(replace(FOUR_GPUS.gpus[0], count=16),))
    outcome = Ts(trained / "policy.pt").schedule(large, Run())
    placed = [slot.workload for _, _, slot in outcome.plan.slots()]
    assert sorted(placed) == sorted(w.id for w in workloads)
    assert {v.kind for v in judge(outcome.plan, large).violations} <= {"latency"}


def test_every_workload_is_dealt_once(trained):
    policy = load_policy(trained / "policy.pt")
    dealt = deal(policy, FOUR_GPUS.workloads, 4)
    assert dealt.position.tolist() == [list(range(10))]
    assert dealt.rate_rps.tolist() == [[w.rate_rps for w in FOUR_GPUS.workloads]]
    halves = deal(policy, FOUR_GPUS.workloads[:8], 8)
    assert sorted(halves.position[halves.position >= 0].tolist()) == list(range(8))
    assert np.all((halves.rate_rps > 0.0) == (halves.position >= 0))


def test_a_heavy_workload_is_replicated(trained):
    policy = load_policy(trained / "policy.pt")
    heavy = replace(FOUR_GPUS.workloads[0], rate_rps=7000.0)  # the policy is trained for at most 3,000 and 2,000
    dealt = deal(policy, (heavy, *FOUR_GPUS.workloads[1:8]), 8)
    parts = dealt.rate_rps[dealt.position == 0]
    assert parts == pytest.approx([1750.0] * 4)
    large = replace(
        FOUR_GPUS, workloads=(heavy, *FOUR_GPUS.workloads[1:8]), gpus=(replace(FOUR_GPUS.gpus[0], count=8),)
    )
    plan = Ts(trained / "policy.pt").schedule(large, Run()).plan
    assert plan.plan_class is PlanClass.SPLIT
    assert {v.kind for v in judge(plan, large).violations} <= {"latency"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rate_rps": 999.0}, r"1000 to 2000 req/s; W1 \(alexnet\) has 999"),
        ({"rate_rps": 9001.0}, "there are 6 workloads of alexnet at 10 ms, replicas included; trained for 2"),
        ({"slo_ms": 11.0}, r"not trained for alexnet at 11 ms \(W1\)"),
        (
            {"model": "resnet18", "slo_ms": 15.0},
            "there are 3 workloads of resnet18 at 15 ms, replicas included; trained for 1",
        ),
    ],
)
def test_workloads_that_do_not_fit_are_named(trained, change, problem):
    policy = load_policy(trained / "policy.pt")
    other = (replace(FOUR_GPUS.workloads[0], **change), *FOUR_GPUS.workloads[1:])
    with pytest.raises(NoFitError, match=problem):
        deal(policy, other, 4)
    outcome = Ts(trained / "policy.pt").schedule(replace(FOUR_GPUS, workloads=other), Run())
    assert outcome.status is Status.UNKNOWN
    assert outcome.plan is None
    assert outcome.reason.startswith("no trained policy fits: policy: ")


def test_a_missing_policy_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("rl.ts.SHIPPED", tmp_path)
    for scheduler in (Ts(), TsNi()):
        scheduler.warm(FOUR_GPUS.objective)
        outcome = scheduler.schedule(FOUR_GPUS, Run())
        assert outcome.status is Status.UNKNOWN
        assert outcome.plan is None
        assert f"none is shipped for {scheduler.name}" in outcome.reason
    with pytest.raises(InputError, match=r"none\.pt: cannot be read: No such file"):
        Ts(tmp_path / "none.pt").schedule(FOUR_GPUS, Run())


def test_groups_of_three_gpus_do_not_fit(trained):
    three = replace(FOUR_GPUS, gpus=(replace(FOUR_GPUS.gpus[0], count=3),))
    assert "groups of 4 GPUs; there are 3" in Ts(trained / "policy.pt").schedule(three, Run()).reason


def test_another_rule_or_buffer_is_refused(trained):
    policy = Ts(trained / "policy.pt")
    assert "without a latency buffer" in policy.schedule(replace(FOUR_GPUS, latency_buffer=1.1), Run()).reason
    half = replace(FOUR_GPUS, slo_rule=SloRule.HALF_SLO)
    assert 'the SLO rule "assembly"' in policy.schedule(half, Run()).reason
    assert policy.schedule(replace(FOUR_GPUS, latency_buffer=1.1), Run()).plan is None
