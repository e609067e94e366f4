from dataclasses import replace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.judging.judge import judge
from instances import GpuPool, InputError, Instance, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.plan import spatial_gpu
from instances.suites.inss import four_gpus, overloaded
from rl.cluster import Cluster
from rl.environment import DecisionProcess, Environments, predicted, whole_batches, whole_units
from rl.gymnasium_environment import SchedulingEnv
from rl.states import Placing, allocation_size, placement_size

FOUR_GPUS, OVERLOADED = four_gpus()[0], overloaded()[0]


@pytest.fixture(scope="module")
def cluster():
    return Cluster.of(FOUR_GPUS)


def environments(cluster, count=3, seed=0, **terms):
    return Environments(cluster, count, DecisionProcess(**terms), np.random.default_rng(seed))


def random_decision(cluster, count, random):
    gpu = random.integers(cluster.gpus, size=(count, cluster.workloads))
    weight = random.random(gpu.shape) + 0.01
    on_gpu = gpu[:, :, None] == np.arange(cluster.gpus)
    total = np.take_along_axis(np.sum(weight[:, :, None] * on_gpu, axis=1), gpu, axis=1)
    units = whole_units(weight / total, gpu, cluster.gpus, cluster.tables.share_units)
    return gpu, units, whole_batches(random.random(gpu.shape), cluster.max_batch)


def test_a_step_is_as_worked_out_by_hand():
    """A single ResNet-50 has half an A100 and batch 8."""
    pool = GpuPool(gpu_type("a100-inss"), 1)
    instance = Instance(
        "one", Objective.CAPACITY, SloRule.ASSEMBLY, "inss", (pool,), (Workload("w", "resnet50", 35.0, 800.0),)
    )
    cluster = Cluster.of(instance)
    environment = environments(cluster, 1, lowest=1.0, highest=1.0)
    feedback = environment.step(np.array([[0]]), np.array([[27]]), np.array([[8]]))

    model, tables = cluster.view.model[0], cluster.tables
    inference_ms = tables.active_ms[model, 8, 27] + tables.transfer_ms[model, 8]
    assert inference_ms == pytest.approx(5.5, abs=1.5)
    assert feedback.throughput_rps[0, 0] == pytest.approx(8000.0 / inference_ms)
    # The first of a batch waits for seven more, 1.25 ms apart: 8.75 + t < 35. A batch is due every 10 ms > t.
    assert feedback.late[0, 0] == 0.0
    assert feedback.reward[0, 0] == pytest.approx(8000.0 / inference_ms / cluster.rms_rps)
    assert environment.used_mib[0, 0] == tables.memory_mib[model, 8]
    assert environment.queued[0, 0] == feedback.arrivals[0, 0] % 8


def test_a_workload_without_a_gpu_has_the_penalty(cluster):
    environment = environments(cluster)
    no_gpu = np.full((3, cluster.workloads), -1)
    feedback = environment.step(no_gpu, np.zeros_like(no_gpu), np.zeros_like(no_gpu))
    assert np.all(feedback.late == 1.0)
    assert np.all(feedback.reward == -40.0)
    assert np.all(environment.queued <= environment.cluster.view.slo_ms / 1000.0 * feedback.arrivals + 1)


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_steps_agree_with_the_judge(seed):
    """Throughputs are the judge's, and requests are late where the judge finds a latency violated."""
    cluster = Cluster.of(FOUR_GPUS)
    environment = environments(cluster, 1, seed, lowest=0.3, highest=0.8, step_s=10.0)
    rates_rps = environment.rates_rps[0].copy()
    gpu, units, batch = random_decision(cluster, 1, np.random.default_rng(seed))
    feedback = environment.step(gpu, units, batch)
    ids = [w.id for w in FOUR_GPUS.workloads]
    rows = [
        [(ids[i], units[0, i], batch[0, i], rates_rps[i]) for i in np.flatnonzero(gpu[0] == k)]
        for k in range(cluster.gpus)
    ]
    workloads = tuple(replace(w, rate_rps=r) for w, r in zip(FOUR_GPUS.workloads, rates_rps, strict=True))
    plan = Plan("4gpu", tuple(spatial_gpu("a100-inss", residents) for residents in rows))
    verdict = judge(plan, replace(FOUR_GPUS, workloads=workloads))
    by_id = {slot.workload: slot for slot in verdict.slots}
    for i, name in enumerate(ids):
        slot = by_id[name]
        assert feedback.throughput_rps[0, i] == pytest.approx(slot.throughput_rps)
        if slot.t_gpu_ms < 0.9 * slot.budget_ms:
            assert feedback.late[0, i] < 0.01
        if slot.t_gpu_ms > 1.2 * slot.budget_ms + 1.0:
            assert feedback.late[0, i] > 0.0


def test_rejected_requests_are_not_late():
    """Under ``goodput`` the rate that a slot serves in time is admitted and rewarded; without a GPU it is 0."""
    cluster = Cluster.of(OVERLOADED)
    assert cluster.choices == 5
    environment = environments(cluster, 20, lowest=0.4, highest=1.6, step_s=10.0)
    rates_rps = environment.rates_rps.copy()
    gpu, units, batch = random_decision(cluster, 20, np.random.default_rng(4))
    gpu[:, 0] = -1
    feedback = environment.step(gpu, units, batch)
    assert np.all(feedback.throughput_rps[:, 0] == 0.0)
    assert np.all(feedback.arrivals[:, 0] == 0)
    inference_ms, served_rps = predicted(cluster, gpu, units, batch)
    assert np.all(np.isinf(inference_ms[:, 0]))
    assert np.all(feedback.throughput_rps <= np.minimum(rates_rps, served_rps) * (1.0 + 1e-9))
    steps = feedback.throughput_rps / rates_rps * 20.0
    assert steps == pytest.approx(np.rint(steps))
    assert np.any((steps > 0.5) & (steps < 19.5))
    assert np.mean(feedback.late) < 0.01
    reward = feedback.throughput_rps / cluster.rms_rps - 40.0 * feedback.late
    assert feedback.reward == pytest.approx(reward)


def test_under_goodput_no_gpu_is_an_additional_choice():
    cluster = Cluster.of(OVERLOADED)
    environment = environments(cluster, 2)
    placing = Placing(cluster, environment.rates_rps, environment.queued)
    assert placing.turn(0)[0].shape == (2, placement_size(10, 4))
    assert placing.turn(0)[1].tolist() == [[True] * 5] * 2
    full = replace(cluster, tables=cluster.tables._replace(memory_limit_mib=1.0))
    assert Placing(full, environment.rates_rps, environment.queued).turn(0)[1].tolist() == [[False] * 4 + [True]] * 2


def test_without_interference_throughputs_are_larger(cluster):
    without_interference = Cluster.of(FOUR_GPUS, interference=False)
    decision = random_decision(cluster, 50, np.random.default_rng(1))
    quiet = environments(without_interference, 50).step(*decision)
    disturbed = environments(cluster, 50).step(*decision)
    assert np.all(quiet.throughput_rps >= disturbed.throughput_rps * (1 - 1e-12))
    assert np.mean(quiet.throughput_rps) > 1.05 * np.mean(disturbed.throughput_rps)


def test_clusters_are_independent(cluster):
    """A decision has the same outcome in a vector of one cluster, for equal rates and requests."""
    random = np.random.default_rng(3)
    gpu, units, batch = random_decision(cluster, 5, random)
    several = environments(cluster, 5, seed=7)
    for _ in range(3):
        rates_rps, queued, running_ms = several.rates_rps, several.queued.copy(), several.running_ms.copy()
        feedback = several.step(gpu, units, batch)

        class Same:
            def __init__(self, arrivals):
                self.arrivals = arrivals

            def poisson(self, mean):
                return self.arrivals

            def uniform(self, low, high, shape):
                return np.ones(shape)

        for n in range(5):
            one_cluster = Environments(cluster, 1, DecisionProcess(), Same(feedback.arrivals[n : n + 1]))
            one_cluster.rates_rps = rates_rps[n : n + 1]
            one_cluster.queued, one_cluster.running_ms = queued[n : n + 1].copy(), running_ms[n : n + 1].copy()
            single = one_cluster.step(gpu[n : n + 1], units[n : n + 1], batch[n : n + 1])
            assert np.array_equal(single.reward[0], feedback.reward[n])
            assert np.array_equal(one_cluster.queued[0], several.queued[n])
            assert np.array_equal(one_cluster.running_ms[0], several.running_ms[n])


def test_environments_continue_from_a_saved_state(cluster):
    decision = random_decision(cluster, 3, np.random.default_rng(2))
    first, second = environments(cluster), environments(cluster, seed=99)
    first.step(*decision)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        assert np.array_equal(first.step(*decision).reward, second.step(*decision).reward)


@pytest.mark.parametrize("change", [{"units": 55}, {"units": 0}, {"batch": 33}])
def test_impossible_decisions_are_refused(cluster, change):
    gpu, units, batch = random_decision(cluster, 3, np.random.default_rng(2))
    units[0, 0] = change.get("units", units[0, 0])
    batch[0, 0] = change.get("batch", batch[0, 0])
    with pytest.raises(ValueError, match=r"shares|out of range"):
        environments(cluster).step(gpu, units, batch)


@settings(max_examples=200)
@given(st.data())
def test_whole_units_fit_and_waste_little(data):
    workloads = data.draw(st.integers(1, 12))
    gpu = np.array([data.draw(st.lists(st.integers(0, 3), min_size=workloads, max_size=workloads))])
    weight = np.array([data.draw(st.lists(st.floats(0.0, 1.0), min_size=workloads, max_size=workloads))]) + 1e-9
    total = np.array([[weight[0][gpu[0] == k].sum() for k in gpu[0]]])
    units = whole_units(weight / total, gpu, 4, 54)
    assert np.all(units >= 1)
    for k in set(gpu[0].tolist()):
        on_gpu = gpu[0] == k
        assert 54 - on_gpu.sum() <= units[0][on_gpu].sum() <= 54


def test_states_hold_rates_demands_and_placements(cluster):
    environment = environments(cluster, 4)
    placing = Placing(cluster, environment.rates_rps, environment.queued)
    for i in range(cluster.workloads):
        state, safe = placing.turn(i)
        assert state.shape == (4, placement_size(10, 4))
        assert state.dtype == np.float32
        assert np.all(safe)
        assert state[:, 3] == pytest.approx((environment.rates_rps / cluster.rms_rps)[:, i:].sum(axis=1), rel=1e-5)
        placing.place(i, np.array([0, 1, i % 4, -1]))
    # Memory, L2, DRAM and demand of GPU 0, and the rates of all workloads
    assert np.count_nonzero(placing.turn(0)[0][0, 4:20]) == 4
    assert placing.turn(0)[0][0, 20:] == pytest.approx((environment.rates_rps / cluster.rms_rps)[0], rel=1e-5)
    allocation = placing.allocation()
    assert allocation.shape == (4, 4, allocation_size(10))
    assert np.array_equal(allocation[2, 1, :10], np.arange(10) % 4 == 1)
    assert np.all(allocation[3] == 0.0)
    assert np.all(allocation[0, 0, 10:20] > 0.0)


def test_gpus_with_too_little_memory_are_unsafe(cluster):
    small = replace(cluster, tables=cluster.tables._replace(memory_limit_mib=3500.0))
    environment = environments(small, 1)
    placing = Placing(small, environment.rates_rps, environment.queued)
    placing.place(2, np.array([1]))  # VGG-16, 2,919 MiB at batch 32
    assert placing.turn(0)[1].tolist() == [[True, False, True, True]]
    assert placing.turn(4)[1].tolist() == [[True, True, True, True]]  # MobileNet, 513 MiB


def test_least_units_are_the_fewest_that_serve_alone(cluster):
    view, tables = cluster.view, cluster.tables
    units = cluster.least_units(view.rate_rps)
    for i in range(cluster.workloads):
        batch = np.arange(1, 33)

        def enough(u, i=i, batch=batch):
            time_ms = tables.active_ms[view.model[i], batch, u]
            served_rps = 1000.0 * batch / (time_ms + tables.transfer_ms[view.model[i], batch])
            return np.any((served_rps >= view.rate_rps[i]) & (time_ms <= view.budget_ms(i, batch, served_rps) + 1e-9))

        assert enough(units[i])
        assert not enough(units[i] - 1)
    assert np.all(cluster.least_units(np.full(10, 1e9)) == 54)


@pytest.mark.parametrize("instance", [FOUR_GPUS, OVERLOADED], ids=lambda instance: instance.name)
def test_gymnasium_accepts_the_environment(instance):
    check_env(SchedulingEnv(instance), skip_render_check=True)


def test_the_gymnasium_environment_permits_no_gpu():
    env = SchedulingEnv(OVERLOADED)
    env.reset(seed=0)
    assert env.action_space["gpu"].nvec.tolist() == [5] * 10
    action = {"gpu": np.array([4] + [0, 1, 2] * 3), "share": np.ones(10), "batch": np.full(10, 0.1)}
    observation, reward, _, _, info = env.step(action)
    assert info["throughput_rps"][0] == info["late"][0] == 0.0
    assert reward == pytest.approx(
        (info["throughput_rps"] / Cluster.of(OVERLOADED).rms_rps - 40.0 * info["late"]).sum()
    )
    assert observation[-1] == 0.0  # the last GPU is empty


def test_episodes_are_truncated_and_seeded():
    env = SchedulingEnv(FOUR_GPUS, DecisionProcess(steps=3))
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(3)]

    def episode():
        first, _ = env.reset(seed=5)
        return [first.tolist()] + [(o.tolist(), r, d, t) for o, r, d, t, _ in map(env.step, actions)]

    recorded = episode()
    assert [t for _, _, _, t in recorded[1:]] == [False, False, True]
    assert recorded == episode()


def test_unsupported_instances_are_refused():
    pool = FOUR_GPUS.gpus[0]
    with pytest.raises(InputError, match="known number of GPUs"):
        Cluster.of(replace(FOUR_GPUS, gpus=(replace(pool, count=None),)))
    with pytest.raises(InputError, match='objective: is "cost"; expected capacity or goodput'):
        Cluster.of(replace(FOUR_GPUS, objective=Objective.COST))
    with pytest.raises(InputError, match=r"latency_buffer: is 1\.1; expected 1"):
        Cluster.of(replace(FOUR_GPUS, latency_buffer=1.1))
    with pytest.raises(InputError, match="slo_rule"):
        Cluster.of(replace(FOUR_GPUS, slo_rule=SloRule.HALF_SLO))
    restricted = replace(pool, type=replace(pool.type, allowed_shares=(27, 54)))
    with pytest.raises(InputError, match="permits only some shares"):
        Cluster.of(replace(FOUR_GPUS, gpus=(restricted,)))


def test_correlated_rates_are_uniform_and_depend_on_the_previous_step():
    cluster = Cluster.of(four_gpus()[0])
    environments = Environments(cluster, 2000, DecisionProcess(correlation=0.9), np.random.default_rng(0))
    no_gpu = np.full((2000, cluster.workloads), -1)
    factors = []
    for _ in range(4):
        factors.append((environments.rates_rps / cluster.view.rate_rps).ravel())
        environments.step(no_gpu, np.ones_like(no_gpu), np.ones_like(no_gpu))
    for factor in factors:
        assert np.histogram(factor, 10, (0.5, 1.0))[0] == pytest.approx(2000, rel=0.1)
        assert 0.5 <= factor.min() <= factor.max() <= 1.0
    # The rank correlation of normal scores with the correlation r is 6/pi asin(r/2).
    for lag in (1, 2, 3):
        expected = 6.0 / np.pi * np.arcsin(0.9**lag / 2.0)
        assert np.corrcoef(factors[0], factors[lag])[0, 1] == pytest.approx(expected, abs=0.02)
    environments.reset()
    fresh = (environments.rates_rps / cluster.view.rate_rps).ravel()
    assert np.corrcoef(factors[-1], fresh)[0, 1] == pytest.approx(0.0, abs=0.03)
