from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.api import Run, Status
from bench.judging.judge import judge
from instances import InputError, Workload
from instances.catalogue import gpu_type
from instances.suites.inss import four_gpus, larger
from rl.grouping import NoFitError, deal
from rl.hierarchy import TOP, TopLayer, deal_in_layers, group_results, top_layer
from rl.planning import agent_for
from rl.policy import load_policy, save_policy
from rl.sac_discrete import SacSettings
from rl.train_hierarchy import HierarchyTraining
from rl.ts import SHIPPED, Ts, TsHierarchy

EIGHT_GPUS, SIXTEEN_GPUS = larger()[:2]
LOWER_POLICY = load_policy(SHIPPED / "ts-4gpu-s0.pt")
QUICK = HierarchyTraining(episodes=3, steps=3, clusters=1, drawn=0, hidden=8, minibatch=4, buffer=16, warm_up=1)


def layer_for(groups, seed=0, **settings):
    return TopLayer(LOWER_POLICY, groups, SacSettings(**({"hidden": 8, "buffer": 64} | settings)), seed)


def loads(clusters, groups, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1.0, (clusters, groups, len(LOWER_POLICY.models)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    QUICK.train(EIGHT_GPUS, 3, folder, lambda episode, scalars: None)
    return folder


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_every_group_gets_one_workload_per_place(spread):
    load = loads(3, 5)
    dealing = layer_for(5).deal(load, spread)
    assert np.all(np.sort(dealing.source, axis=1) == np.arange(5)[:, None])
    assert np.all(np.sort(dealing.group, axis=2) == np.arange(5))


def test_only_groups_with_a_free_place_are_safe():
    dealing = layer_for(4).deal(loads(2, 4), 1.0)
    for cluster in range(2):
        for place in range(10):
            free = [True] * 4
            for turn in range(4):
                assert dealing.safe[cluster, place, turn].tolist() == free
                free[dealing.group[cluster, place, turn]] = False


def test_an_actors_state_is_its_rate_and_the_members_of_the_groups():
    load = loads(2, 3)
    dealing = layer_for(3).deal(load)
    dealt = (np.take_along_axis(load, dealing.source, axis=1) - 0.75) / 0.25
    state = dealing.state.reshape(2, 10, 3, 3, 11)  # clusters, places, turns, groups, features
    for place in range(10):
        assert np.all(state[:, place, :, :, 1 + place :] == 0.0)
        assert np.allclose(state[:, place, :, :, 1 : 1 + place], dealt[:, None, :, :place], atol=1e-6)
        for turn in range(3):
            own = dealt[np.arange(2), dealing.group[:, place, turn], place]
            assert np.allclose(state[:, place, turn, :, 0], own[:, None], atol=1e-6)
        unusual = np.abs(state[:, place, :, 0, 0])
        assert np.all(np.diff(unusual, axis=1) <= 1e-6)


def test_the_layer_learns_to_combine_large_loads():
    """A group's reward grows with the product of its first two loads, so that large loads belong together."""
    layer = layer_for(4, hidden=32, buffer=512, minibatch=64, learning_rate=3e-3, temperature=0.05, discount=0.0)
    layer.sac.exploration = 0.2
    for step in range(150):
        load = loads(4, 4, seed=step)
        dealing = layer.deal(load, 1.0)
        dealt = np.take_along_axis(load, dealing.source, axis=1)
        reward = np.zeros(dealt.shape)
        reward[:, :, 0] = 16.0 * (dealt[:, :, 0] - 0.75) * dealt[:, :, 1]
        reward[:, :, 1] = 16.0 * dealt[:, :, 0] * (dealt[:, :, 1] - 0.75)
        layer.remember(dealing, reward)
        layer.sac.update()
    load = loads(100, 4, seed=999)
    dealt = np.take_along_axis(load, layer.deal(load).source, axis=1)
    least, most = (np.sum(np.sort(load[:, :, 0]) * np.sort(load[:, :, 1])[:, ::direction]) for direction in (-1, 1))
    reached = np.sum(dealt[:, :, 0] * dealt[:, :, 1])
    assert (reached - least) / (most - least) > 0.9


def test_more_draws_are_never_worse_and_late_workloads_lower_the_worth():
    agent = agent_for(LOWER_POLICY, gpu_type(LOWER_POLICY.gpu))
    rates_rps = loads(1, 20)[0] * np.array(LOWER_POLICY.rate_rps)
    likeliest, best = (group_results(agent, rates_rps, drawn) for drawn in (0, 15))
    assert np.all(best.worth >= likeliest.worth)
    assert not best.late.any()
    crowded = group_results(agent, 2.0 * rates_rps, 0)
    assert np.all(crowded.late > 0)
    assert crowded.worth.max() < likeliest.worth.min()


def test_interrupted_training_gives_the_same_policy(trained, tmp_path):
    replace(QUICK, episodes=1).train(EIGHT_GPUS, 3, tmp_path, lambda episode, scalars: None)
    episodes = []
    QUICK.train(EIGHT_GPUS, 3, tmp_path, lambda episode, scalars: episodes.append(episode))
    assert episodes == [2, 3]
    assert (tmp_path / "scalars.csv").read_text() == (trained / "scalars.csv").read_text()
    interrupted, policy = (load_policy(folder / "policy.pt").weights[TOP] for folder in (tmp_path, trained))
    assert all(torch.equal(interrupted[name], policy[name]) for name in policy)


def test_training_does_not_change_the_lower_policy(trained):
    policy = load_policy(trained / "policy.pt")
    for stage in ("sac", "td3"):
        assert all(
            torch.equal(policy.weights[stage][name], LOWER_POLICY.weights[stage][name])
            for name in LOWER_POLICY.weights[stage]
        )


@pytest.mark.parametrize("instance", [EIGHT_GPUS, SIXTEEN_GPUS], ids=lambda instance: instance.name)
def test_plans_are_complete_for_any_number_of_groups(trained, instance):
    scheduler = TsHierarchy(trained / "policy.pt", drawn=15)
    scheduler.warm(instance.objective)
    outcome = scheduler.schedule(instance, Run())
    assert outcome.status is Status.FEASIBLE
    assert judge(outcome.plan, instance).feasible
    assert sorted(slot.workload for _, _, slot in outcome.plan.slots()) == sorted(w.id for w in instance.workloads)
    assert scheduler.schedule(instance, Run()) == outcome
    assert outcome != Ts(trained / "policy.pt", drawn=15).schedule(instance, Run())


def test_both_ways_of_dealing_deal_the_same_workloads(trained):
    policy = load_policy(trained / "policy.pt")
    even = deal(policy, EIGHT_GPUS.workloads, 8)
    dealt = deal_in_layers(policy, EIGHT_GPUS.workloads, 8)
    assert np.array_equal(np.sort(dealt.position, axis=0), np.sort(even.position, axis=0))
    rates_rps = np.array([workload.rate_rps for workload in EIGHT_GPUS.workloads])
    assert np.array_equal(dealt.rate_rps, rates_rps[dealt.position])


def test_instances_and_policies_that_do_not_fit_are_refused(trained):
    policy = load_policy(trained / "policy.pt")
    with pytest.raises(NoFitError, match="has no top layer"):
        deal_in_layers(LOWER_POLICY, EIGHT_GPUS.workloads, 8)
    with pytest.raises(NoFitError, match="full groups; 1 of 20 places are empty"):
        deal_in_layers(policy, EIGHT_GPUS.workloads[1:], 8)
    with pytest.raises(InputError, match="ts-4gpu-s0: trained for capacity"):
        QUICK.train(replace(EIGHT_GPUS, objective="goodput"), 0, trained / "none", lambda episode, scalars: None)
    below = str(SHIPPED / "ts-4gpu-goodput-s0.pt")
    overloaded = replace(EIGHT_GPUS, objective="goodput", workloads=_times(EIGHT_GPUS.workloads, 2.5))
    with pytest.raises(InputError, match="decides for goodput; expected capacity"):
        replace(QUICK, below=below).train(overloaded, 0, trained / "none", lambda episode, scalars: None)
    assert not (trained / "none").exists()
    with pytest.raises(ValueError, match="drawn is -1"):
        replace(QUICK, drawn=-1)


def _times(workloads, factor):
    return tuple(replace(workload, rate_rps=workload.rate_rps * factor) for workload in workloads)


def test_weights_of_another_network_are_refused(trained, tmp_path):
    policy = load_policy(trained / "policy.pt")
    for wrong in ({}, {"weights.0": torch.zeros(1)}, {**policy.weights[TOP], "biases.0": torch.zeros(2)}):
        save_policy(replace(policy, weights={**policy.weights, TOP: wrong}), tmp_path / "wrong.pt")
        with pytest.raises(InputError, match=r"weights\.top: do not fit"):
            top_layer(load_policy(tmp_path / "wrong.pt"), 2)


def test_four_gpus_form_a_single_group(trained):
    by_hierarchy, by_ts = (kind(trained / "policy.pt").schedule(four_gpus()[0], Run()) for kind in (TsHierarchy, Ts))
    assert by_hierarchy == by_ts


@pytest.mark.parametrize("drawn", [0, 63])
def test_the_shipped_layer_deals_better_than_evenly(drawn):
    policy = load_policy(SHIPPED / "ts-hierarchy-64gpu-s0.pt")
    agent = agent_for(policy, gpu_type(policy.gpu))
    even, dealt = [], []
    for load in loads(5, 16, seed=77):
        rates_rps = load * np.array(policy.rate_rps)
        workloads = tuple(
            Workload(f"{group}-{place}", policy.models[place], policy.slo_ms[place], rates_rps[group, place])
            for group, place in np.ndindex(rates_rps.shape)
        )
        for dealing, totals in ((deal, even), (deal_in_layers, dealt)):
            groups = group_results(agent, dealing(policy, workloads, 64).rate_rps, drawn)
            totals.append((groups.worth.sum(), groups.throughput_rps.sum(), groups.late.sum()))
    (even_worth, even_rps, even_late), (worth, rps, late) = np.sum(even, axis=0), np.sum(dealt, axis=0)
    assert worth > even_worth
    assert late <= even_late
    # The layer's reward permits less throughput for fewer late workloads.
    assert rps > even_rps or late < even_late
