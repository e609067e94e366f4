"""Planning with a policy: by the two-stage agent of InSS (TS), and with GPUs divided again by repair."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run, Status
from bench.judging.judge import judge
from instances import InputError, Objective, PlacedGpu, PlanClass
from instances.suites.inss import four_gpus, overloaded
from instances.view import View
from rl.environment import DecisionProcess, Environments
from rl.grouping import deal
from rl.planning import LATE_RPS, agent_for, decided, queues
from rl.policy import load_policy, save_policy
from rl.repair import TsRepair, divide
from rl.train import Training
from rl.ts import Ts

FOUR_GPUS, OVERLOADED = four_gpus()[0], overloaded()[0]
"""Instances of one group of four GPUs, under ``capacity`` and ``goodput``: arrays of a decision have one row."""


@pytest.fixture(scope="module", params=[FOUR_GPUS, OVERLOADED], ids=lambda instance: instance.name)
def trained(request, tmp_path_factory):
    """An instance, and a policy trained for it for one episode."""
    folder = tmp_path_factory.mktemp("ts")
    quick = Training(episodes=1, steps=4, clusters=4, hidden=8, minibatch=8, buffer=100, warm_up=2)
    quick.train(request.param, 3, folder, lambda episode, scalars: None)
    return request.param, folder / "policy.pt"


def at_other_rates(instance, seed):
    """Return the instance with each rate times a random factor, as in training."""
    factors = np.random.default_rng(seed).uniform(0.5, 1.0, len(instance.workloads)).tolist()
    return replace(
        instance,
        workloads=tuple(replace(w, rate_rps=w.rate_rps * f) for w, f in zip(instance.workloads, factors, strict=True)),
    )


def test_the_best_draw_is_no_worse_than_the_likeliest(trained):
    instance, path = trained
    policy = load_policy(path)
    improved = 0
    for seed in range(10):
        changed = at_other_rates(instance, seed)
        (likeliest,), (best,) = decided(changed, policy, 0, seed), decided(changed, policy, 31, seed)
        assert best.worth[0] >= likeliest.worth[0]
        improved += best.worth[0] > likeliest.worth[0]
    assert improved > 5


def test_the_chosen_decision_has_no_worse_verdict_than_the_likeliest(trained):
    """Fewer violations count first, then the value."""
    instance, path = trained
    for seed in range(10):
        changed = at_other_rates(instance, seed)
        likeliest, chosen = (
            judge(Ts(path, drawn=drawn).schedule(changed, Run(seed=seed)).plan, changed) for drawn in (0, 31)
        )
        assert len(chosen.violations) <= len(likeliest.violations)
        if len(chosen.violations) == len(likeliest.violations):
            assert chosen.value >= likeliest.value * (1.0 - 1e-9)


def test_queues_are_those_that_earlier_steps_leave(trained):
    """They are the mean queues of many clusters whose environment draws arrivals with the rate as their mean."""
    instance, path = trained
    policy = load_policy(path)
    rates_rps = deal(policy, instance.workloads, 4).rate_rps
    agent = agent_for(policy, instance.gpus[0].type)
    assert not queues(agent, rates_rps, 0, policy.headroom).any()
    after_one_step = queues(agent, rates_rps, 1, policy.headroom)
    clusters, at_these_rates = 200, DecisionProcess(lowest=1.0, highest=1.0)
    environments = Environments(agent.cluster, clusters, at_these_rates, np.random.default_rng(0))
    decision = agent.decide(environments.rates_rps, environments.queued, 0.0, exploring=False)
    environments.step(decision.gpu, decision.units, decision.batch)
    assert after_one_step.any()
    sampling_error = 4.0 * environments.queued.std(axis=0) / np.sqrt(clusters)
    difference = np.abs(environments.queued.mean(axis=0) - after_one_step[0])
    # A queue is served in whole batches, so a few more arrivals may leave a batch less or more.
    assert np.all(difference <= sampling_error + decision.batch[0])


def test_decisions_are_ranked_from_the_best(trained):
    instance, path = trained
    ranked = decided(instance, load_policy(path), 15, 0, ranks=20)
    assert len(ranked) == 16
    worth = [decision.worth[0] for decision in ranked]
    assert worth == sorted(worth, reverse=True)


def test_the_worth_of_a_decision_follows_from_the_judge(trained, tmp_path):
    """The policy has no headroom."""
    instance, path = trained
    policy = replace(load_policy(path), headroom=1.0)
    save_policy(policy, tmp_path / "policy.pt")
    for seed in range(10):
        changed = at_other_rates(instance, seed)
        (best,) = decided(changed, policy, 15, seed)
        verdict = judge(Ts(tmp_path / "policy.pt", drawn=15).schedule(changed, Run(seed=seed)).plan, changed)
        if instance.objective is Objective.GOODPUT:
            assert verdict.violations == ()
            assert verdict.goodput_rps == pytest.approx(best.worth[0])
        else:
            late = LATE_RPS * len({violation.workload for violation in verdict.violations})
            assert verdict.throughput_rps - late == pytest.approx(best.worth[0])


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_repaired_plans_are_no_worse_and_feasible_under_goodput(trained, seed):
    instance, path = trained
    changed = at_other_rates(instance, seed)
    original = Ts(path, drawn=7).schedule(changed, Run(seed=seed))
    repaired = TsRepair(path, drawn=7, repaired=2).schedule(changed, Run(seed=seed))
    before, after = judge(original.plan, changed), judge(repaired.plan, changed)
    if instance.objective is Objective.GOODPUT:
        assert after.violations == ()
        assert after.goodput_rps >= before.goodput_rps * (1.0 - 1e-9)
    else:
        assert len(after.violations) <= len(before.violations)
        if not before.violations:
            assert after.throughput_rps >= before.throughput_rps * (1.0 - 1e-9)


@pytest.mark.parametrize("divided", [lambda *_: None, lambda *_: (-np.inf, PlacedGpu("a100-inss", ()))])
def test_gpus_that_cannot_be_divided_better_are_unchanged(trained, monkeypatch, divided):
    instance, path = trained
    monkeypatch.setattr("rl.repair.divide", divided)
    original = Ts(path, drawn=7).schedule(instance, Run())
    assert TsRepair(path, drawn=7).schedule(instance, Run()) == original


@pytest.mark.parametrize("instance", [FOUR_GPUS, OVERLOADED], ids=lambda instance: instance.name)
def test_a_single_workload_gets_all_shares_or_as_many_as_it_needs(instance):
    """Under ``capacity`` it gets all shares, under ``goodput`` no more than it needs."""
    view = View.of(instance, instance.gpus[0].type)
    worth, gpu = divide(view, np.array([1]), view.rate_rps[1:2], 1.0)
    (gpulet,) = gpu.gpulets
    (slot,) = gpulet.slots
    assert slot.workload == "W2"
    if instance.objective is Objective.GOODPUT:
        assert worth == pytest.approx(slot.rate_rps)
        assert slot.rate_rps == pytest.approx(view.rate_rps[1])
        assert gpulet.share_units < view.tables.share_units
    else:
        assert gpulet.share_units == view.tables.share_units
        assert worth > view.rate_rps[1]


def test_a_gpu_cannot_be_divided_among_workloads_with_impossible_slos():
    workloads = tuple(replace(w, slo_ms=0.1) for w in OVERLOADED.workloads)
    view = View.of(replace(OVERLOADED, workloads=workloads), OVERLOADED.gpus[0].type)
    assert divide(view, np.array([0, 1]), view.rate_rps[:2], 1.0) is None


def test_required_workloads_without_a_gpu_are_reported(trained):
    """Under ``goodput`` no workload is required."""
    instance, path = trained
    (decision,) = decided(instance, load_policy(path), 0, 0)
    decision.decision.gpu[0, 3] = -1
    if instance.objective is Objective.GOODPUT:
        assert len(decision.unplaced) == 0
    else:
        assert decision.unplaced.tolist() == [3]


def test_replicas_are_admitted_in_twentieths_of_the_whole_rate(trained):
    instance, path = trained
    # The rate is 2.8 times that of the smaller place of the model. So a part has at most 7 of 20 steps, and there are
    # three parts: 7, 7 and 6 steps.
    heavy = replace(instance.workloads[0], rate_rps=28.0 / 15.0 * instance.workloads[0].rate_rps)
    changed = replace(
        instance,
        workloads=(heavy, *instance.workloads[1:8]),
        gpus=(replace(instance.gpus[0], count=8),),
    )
    for scheduler in (Ts(path), TsRepair(path)):
        plan = scheduler.schedule(changed, Run()).plan
        assert plan.plan_class is PlanClass.SPLIT
        kinds = {violation.kind for violation in judge(plan, changed).violations}
        assert kinds <= (set() if instance.objective is Objective.GOODPUT else {"latency"})


def test_a_policy_for_another_objective_does_not_fit(trained):
    instance, path = trained
    other = OVERLOADED if instance is FOUR_GPUS else FOUR_GPUS
    outcome = Ts(path).schedule(other, Run())
    assert outcome.status is Status.UNKNOWN
    assert outcome.reason == f"no trained policy fits: policy: trained for {instance.objective}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "fame"}, 'objective: is "fame"; expected capacity or goodput'),
        ({"headroom": 0.0}, "headroom above 0"),
        ({"lowest": 2.0, "highest": 1.0}, "0 < lowest <= highest"),
        ({"hidden": 16}, "weights: do not fit its networks"),
        ({"weights": {}}, "weights: do not fit its networks"),
    ],
)
def test_a_damaged_policy_is_refused(trained, tmp_path, change, message):
    instance, path = trained
    save_policy(replace(load_policy(path), **change), tmp_path / "damaged.pt")
    with pytest.raises(InputError, match=message):
        Ts(tmp_path / "damaged.pt").schedule(instance, Run())


def test_refuses_impossible_parameters():
    with pytest.raises(ValueError, match="drawn is -1"):
        TsRepair(drawn=-1)
    with pytest.raises(ValueError, match="earlier_steps is -1"):
        Ts(earlier_steps=-1)
    with pytest.raises(ValueError, match="repaired is 0"):
        TsRepair(repaired=0)
