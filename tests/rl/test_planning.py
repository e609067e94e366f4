"""Tests of planning with a policy: by TS itself, and with GPUs divided anew."""

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


@pytest.fixture(scope="module", params=[FOUR_GPUS, OVERLOADED], ids=lambda instance: instance.name)
def trained(request, tmp_path_factory):
    """An instance and a policy that has hardly been trained for it."""
    folder = tmp_path_factory.mktemp("ts")
    quick = Training(episodes=1, steps=4, clusters=4, hidden=8, minibatch=8, buffer=100, warm_up=2)
    quick.train(request.param, 3, folder, lambda episode, scalars: None)
    return request.param, folder / "policy.pt"


def drawn_rates(instance, seed):
    factors = np.random.default_rng(seed).uniform(0.5, 1.0, len(instance.workloads)).tolist()
    return replace(
        instance,
        workloads=tuple(replace(w, rate_rps=w.rate_rps * f) for w, f in zip(instance.workloads, factors, strict=True)),
    )


def test_the_best_drawn_is_no_worse_than_the_likeliest(trained):
    instance, path = trained
    policy = load_policy(path)
    better = 0
    for seed in range(10):
        asked = drawn_rates(instance, seed)
        (likeliest,), (best,) = decided(asked, policy, 0, seed), decided(asked, policy, 31, seed)
        assert best.worth[0] >= likeliest.worth[0]
        better += best.worth[0] > likeliest.worth[0]
    assert better > 5


def test_the_judge_finds_the_taken_decision_no_worse_than_the_likeliest(trained):
    """Fewer broken constraints first, then throughput; nothing but the judge's own condition filters a decision."""
    instance, path = trained
    for seed in range(10):
        asked = drawn_rates(instance, seed)
        likeliest, taken = (
            judge(Ts(path, drawn=drawn).schedule(asked, Run(seed=seed)).plan, asked) for drawn in (0, 31)
        )
        assert len(taken.violations) <= len(likeliest.violations)
        if len(taken.violations) == len(likeliest.violations):
            assert taken.value >= likeliest.value * (1.0 - 1e-9)


def test_queues_are_left_by_earlier_steps(trained):
    """By the environment itself, which draws the arrivals; its mean is the rate."""
    instance, path = trained
    policy = load_policy(path)
    dealt = deal(policy, instance.workloads, 4)
    agent = agent_for(policy, instance.gpus[0].type)
    assert not queues(agent, dealt.rate_rps, 0, policy.headroom).any()
    left = queues(agent, dealt.rate_rps, 1, policy.headroom)
    there = Environments(agent.cluster, 200, DecisionProcess(lowest=1.0, highest=1.0), np.random.default_rng(0))
    decision = agent.decide(there.rates_rps, there.queued, 0.0, exploring=False)
    there.step(decision.gpu, decision.units, decision.batch)
    assert left.any()
    assert np.all(np.abs(there.queued.mean(axis=0) - left[0]) <= 4.0 * there.queued.std(axis=0) + 32)


def test_ranked_from_the_best(trained):
    instance, path = trained
    ranked = decided(instance, load_policy(path), 15, 0, ranks=20)
    assert len(ranked) == 16
    worth = [one.worth[0] for one in ranked]
    assert worth == sorted(worth, reverse=True)


def test_worth_is_what_the_judge_says(trained, tmp_path):
    """Without headroom."""
    instance, path = trained
    policy = replace(load_policy(path), headroom=1.0)
    save_policy(policy, tmp_path / "policy.pt")
    for seed in range(10):
        asked = drawn_rates(instance, seed)
        (best,) = decided(asked, policy, 15, seed)
        verdict = judge(Ts(tmp_path / "policy.pt", drawn=15).schedule(asked, Run(seed=seed)).plan, asked)
        if instance.objective is Objective.GOODPUT:
            assert verdict.violations == ()
            assert verdict.goodput_rps == pytest.approx(best.worth[0])
        else:
            late = LATE_RPS * len({violation.workload for violation in verdict.violations})
            assert verdict.throughput_rps - late == pytest.approx(best.worth[0])


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_repaired_is_no_worse_and_keeps_its_promises(trained, seed):
    instance, path = trained
    asked = drawn_rates(instance, seed)
    own = Ts(path, drawn=7).schedule(asked, Run(seed=seed))
    repaired = TsRepair(path, drawn=7, repaired=2).schedule(asked, Run(seed=seed))
    before, after = judge(own.plan, asked), judge(repaired.plan, asked)
    if instance.objective is Objective.GOODPUT:
        assert after.violations == ()
        assert after.goodput_rps >= before.goodput_rps * (1.0 - 1e-9)
    else:
        assert len(after.violations) <= len(before.violations)
        if not before.violations:
            assert after.throughput_rps >= before.throughput_rps * (1.0 - 1e-9)


@pytest.mark.parametrize("divided", [lambda *_: None, lambda *_: (-np.inf, PlacedGpu("a100-inss", ()))])
def test_what_cannot_be_divided_better_stays(trained, monkeypatch, divided):
    instance, path = trained
    monkeypatch.setattr("rl.repair.divide", divided)
    own = Ts(path, drawn=7).schedule(instance, Run())
    assert TsRepair(path, drawn=7).schedule(instance, Run()) == own


@pytest.mark.parametrize("instance", [FOUR_GPUS, OVERLOADED], ids=lambda instance: instance.name)
def test_a_gpu_divided_by_hand(instance):
    """Alone on a GPU: under ``capacity`` it gets all shares, under ``goodput`` no more than it needs."""
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


def test_nobody_can_be_served_in_no_time():
    hurried = tuple(replace(w, slo_ms=0.1) for w in OVERLOADED.workloads)
    view = View.of(replace(OVERLOADED, workloads=hurried), OVERLOADED.gpus[0].type)
    assert divide(view, np.array([0, 1]), view.rate_rps[:2], 1.0) is None


def test_who_has_no_place_is_told(trained):
    """A decision without a place for somebody is never taken for a better one."""
    instance, path = trained
    (one,) = decided(instance, load_policy(path), 0, 0)
    one.decision.gpu[0, 3] = -1
    if instance.objective is Objective.GOODPUT:
        assert len(one.unplaced) == 0
    else:
        assert one.unplaced.tolist() == [3]


def test_replicas_are_let_in_by_the_steps_of_the_whole(trained):
    instance, path = trained
    # Three parts: 7, 7 and 6 of 20 steps
    heavy = replace(instance.workloads[0], rate_rps=28.0 / 15.0 * instance.workloads[0].rate_rps)
    asked = replace(
        instance,
        workloads=(heavy, *instance.workloads[1:8]),
        gpus=(replace(instance.gpus[0], count=8),),
    )
    for scheduler in (Ts(path), TsRepair(path)):
        plan = scheduler.schedule(asked, Run()).plan
        assert plan.plan_class is PlanClass.SPLIT
        kinds = {violation.kind for violation in judge(plan, asked).violations}
        assert kinds <= (set() if instance.objective is Objective.GOODPUT else {"latency"})


def test_a_policy_for_another_objective_does_not_fit(trained):
    instance, path = trained
    other = OVERLOADED if instance is FOUR_GPUS else FOUR_GPUS
    outcome = Ts(path).schedule(other, Run())
    assert outcome.status is Status.UNKNOWN
    assert outcome.reason == f"no trained policy fits: policy: trained for {instance.objective}"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"objective": "fame"}, 'objective: is "fame"; expected capacity or goodput'),
        ({"headroom": 0.0}, "headroom above 0"),
        ({"lowest": 2.0, "highest": 1.0}, "0 < lowest <= highest"),
        ({"hidden": 16}, "weights: do not fit its networks"),
        ({"weights": {}}, "weights: do not fit its networks"),
    ],
)
def test_a_damaged_policy_is_refused(trained, tmp_path, change, told):
    instance, path = trained
    save_policy(replace(load_policy(path), **change), tmp_path / "damaged.pt")
    with pytest.raises(InputError, match=told):
        Ts(tmp_path / "damaged.pt").schedule(instance, Run())


def test_refuses_impossible_parameters():
    with pytest.raises(ValueError, match="drawn is -1"):
        TsRepair(drawn=-1)
    with pytest.raises(ValueError, match="earlier_steps is -1"):
        Ts(earlier_steps=-1)
    with pytest.raises(ValueError, match="repaired is 0"):
        TsRepair(repaired=0)
