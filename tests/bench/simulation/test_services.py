"""Simulation of language-model services: by hand, against Little's law and the SLO rule, and as plain workloads."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from bench.plan_simulation import Settings, simulate
from bench.replay.serving_plan import ServingPlan
from bench.simulation.arrivals import parse_arrivals
from bench.simulation.decoding import Noise, decode, prefill
from bench.simulation.services import ServiceSimulation
from instances import Gpulet, GpuPool, InputError, Instance, PlacedGpu, Plan, Slot
from instances.catalogue import gpu_type
from instances.continuous import continuous_budget_ms
from instances.instance import instance_of_services
from instances.services import Service
from instances.tables import gpu_tables
from tests.instances.erlang import mean_in_flight

NO_NOISE = Noise(0.0, 0, 0)
CHAT = Service("chat", "llama-7b", 128, 96, 500.0, 50.0)


def instance_of(*services: tuple[Service, float], **fields: object) -> Instance:
    return instance_of_services("mix", services, [GpuPool(gpu_type("a100-llm"))], **fields)


def plan_of(*gpulets: tuple[str, int, int, float]) -> Plan:
    """Return a plan of gpulets given as (workload, share units, batch, rate), three to a GPU."""
    made = [Gpulet(units, (Slot(workload, batch, rate),)) for workload, units, batch, rate in gpulets]
    return Plan("mix", tuple(PlacedGpu("a100-llm", tuple(made[at : at + 3])) for at in range(0, len(made), 3)))


def test_decoding_times_are_those_calculated_by_hand() -> None:
    """Two places in the batch and three steps per request; steps of one request take 10 ms, of two 15 ms."""
    joined, done = decode(np.array([0.0, 4.0, 5.0, 200.0]), 3, np.array([0.0, 10.0, 15.0]), 0.0, NO_NOISE)

    assert joined.tolist() == [0.0, 10.0, 40.0, 200.0]
    # Steps: 0-10 the first alone; 10-25 and 25-40 first and second; 40-55 second and third; 55-65 and 65-75 the third.
    assert done.tolist() == [40.0, 55.0, 75.0, 230.0]


def test_littles_law_and_the_slo_rule_hold_for_100_random_services() -> None:
    """Mean batch, residence time and token throughput are within 3 % of their formulas."""
    random, worst = Random(24), np.zeros(3)
    for number in range(100):
        model = random.choice(["llama-7b", "llama-13b"])
        prompt, output = random.randrange(32, 400), random.randrange(8, 112)
        service = Service("x", model, prompt, output, 1000.0, random.choice([40.0, 60.0, 100.0]))
        instance = instance_of((service, 1.0))
        tables, units = gpu_tables(instance.gpus[0].type, "table"), random.randrange(17, 55)
        row = list(instance.gpus[0].type.models).index(service.decode_model)
        largest_batch = int(tables.max_batch[row])
        places = random.randrange(2, largest_batch + 1)
        step_ms = np.concatenate(([0.0], tables.active_ms[row, 1 : places + 1, units]))
        # A random part of the largest rate at which the rule holds with these places
        largest_rps = continuous_budget_ms(1e9, 1.0, places, output, 0.01, 1.0) / step_ms[-1]
        rate = float(largest_rps) * random.uniform(0.3, 1.0)
        arrivals = np.cumsum(np.random.default_rng(number).exponential(1000.0 / rate, 40_000))
        joined, done = decode(arrivals, output, step_ms, 0.0, NO_NOISE)

        begin_ms, end_ms = arrivals[2_000], arrivals[38_000]
        in_flight_ms = np.clip(np.minimum(done, end_ms) - np.maximum(joined, begin_ms), 0.0, None).sum()
        batch = in_flight_ms / (end_ms - begin_ms)
        inside = (begin_ms <= joined) & (joined < end_ms)
        tokens_rps = 1000.0 * output * inside.sum() / (end_ms - begin_ms)
        residence_ms = float((done - joined)[inside].mean())
        assert batch == pytest.approx(rate * residence_ms / 1000.0, rel=0.03)  # Little's law
        expected = mean_in_flight(step_ms, rate, output)
        ratios = batch / expected, residence_ms / (1000.0 * expected / rate), tokens_rps / (rate * output)
        worst = np.maximum(worst, np.abs(np.array(ratios) - 1.0))
        # By the rule, at most 1 % of the requests wait for a place longer than the step in progress.
        waited = joined - arrivals > step_ms[-1] * (1.0 + 1e-9)
        assert float(waited.mean()) <= 0.012, (number, places, waited.mean())
    assert worst.max() <= 0.03, worst


def test_prefill_has_the_results_of_a_plain_workload() -> None:
    """Requests, batches and drops are the same as those of a workload outside a service."""
    service = replace(CHAT, ttft_ms=150.0)
    asked = instance_of((service, 70.0))
    plan = plan_of(("chat/prefill", 40, 4, 70.0))
    alone = replace(asked, workloads=(asked.workloads[0],))
    plain = replace(asked, workloads=(replace(asked.workloads[0], service=None),))
    settings = Settings(seconds=60.0, interval_s=1.0)

    as_service, as_workload = (simulate(plan, each, settings) for each in (alone, plain))
    (prefill_results,), (plain_results,) = as_service.workloads, as_workload.workloads
    assert prefill_results.dropped > 0
    assert (prefill_results.requests, prefill_results.dropped, prefill_results.throughput_rps) == (
        plain_results.requests,
        plain_results.dropped,
        plain_results.throughput_rps,
    )
    assert prefill_results.p99_ms == pytest.approx(plain_results.p99_ms)
    assert prefill_results.mean_ms == pytest.approx(plain_results.mean_ms)
    assert as_service.series is not None and as_workload.series is not None  # noqa: PT018
    assert as_service.series.dropped.tolist() == as_workload.series.dropped.tolist()


def test_prefill_drops_late_requests_only_with_dropping() -> None:
    arrivals, times = np.array([0.0, 1.0, 2.0]), np.array([0.0, 10.0])
    done = prefill(arrivals, times, times, 15.0, 0.0, 0.0, True, NO_NOISE)
    assert done.tolist() == [10.0, pytest.approx(np.nan, nan_ok=True), pytest.approx(np.nan, nan_ok=True)]
    done = prefill(arrivals, times, times, 19.0, 0.0, 0.0, True, NO_NOISE)
    assert done.tolist() == [10.0, 20.0, pytest.approx(np.nan, nan_ok=True)]
    done = prefill(arrivals, times, times, 15.0, 0.0, 0.0, False, NO_NOISE)
    assert done.tolist() == [10.0, 20.0, 30.0]


def test_results_are_times_to_first_token_and_per_token() -> None:
    asked = instance_of((CHAT, 4.0))
    plan = plan_of(("chat/prefill", 20, 2, 4.0), ("chat/decode", 20, 32, 4.0))
    first, token = simulate(plan, asked, Settings(seconds=120.0)).workloads

    assert (first.id, first.slo_ms, token.id, token.slo_ms) == ("chat/prefill", 500.0, "chat/decode", 50.0)
    assert first.requests == token.requests > 400
    assert not first.violating
    assert not token.violating
    assert token.p50_ms is not None
    assert 10.0 < token.p50_ms < token.p99_ms < 50.0  # type: ignore[operator]
    assert first.p50_ms is not None
    assert 30.0 < first.p50_ms < 500.0


def test_too_few_places_delay_first_tokens_and_slow_steps_miss_the_time_per_token() -> None:
    asked = instance_of((CHAT, 6.0))
    plan = plan_of(("chat/prefill", 30, 2, 6.0), ("chat/decode", 20, 8, 6.0))
    first, token = simulate(plan, asked, Settings(seconds=60.0)).workloads
    assert first.violating
    assert not token.violating

    hurried = instance_of((replace(CHAT, tpot_ms=12.0), 6.0))
    slow = plan_of(("chat/prefill", 30, 2, 6.0), ("chat/decode", 20, 64, 6.0))
    assert simulate(slow, hurried, Settings(seconds=30.0)).workloads[1].violation_rate > 0.9


def test_requests_are_divided_between_decoding_slots_by_planned_rates() -> None:
    asked = instance_of((CHAT, 8.0))
    plan = plan_of(("chat/prefill", 54, 4, 8.0), ("chat/decode", 20, 32, 6.0), ("chat/decode", 20, 16, 2.0))
    settings = Settings(seconds=200.0)
    run = ServiceSimulation(plan, asked, settings, asked)
    requests_by_batch = {int(slot.record["batch"]): int(mine.sum()) for slot, mine in run._slots_with_requests(1, 800)}
    assert requests_by_batch == {32: 600, 16: 200}
    assert simulate(plan, asked, settings).workloads[1].throughput_rps == pytest.approx(8.0, rel=0.1)


def test_requests_without_a_slot_are_dropped() -> None:
    asked = instance_of((CHAT, 4.0))
    first, token = simulate(plan_of(("chat/prefill", 20, 2, 4.0)), asked, Settings(interval_s=1.0)).workloads
    assert first.drop_rate == token.drop_rate == 1.0
    first, token = simulate(plan_of(("chat/decode", 20, 32, 4.0)), asked).workloads
    assert first.drop_rate == 1.0
    assert token.requests == 0


def test_the_same_settings_give_the_same_results_and_noise_changes_them() -> None:
    asked = instance_of((CHAT, 4.0))
    plan = plan_of(("chat/prefill", 20, 2, 4.0), ("chat/decode", 20, 32, 4.0))
    bursts = Settings(arrivals=parse_arrivals("gamma:2"), noise=0.2)

    assert simulate(plan, asked, bursts).workloads == simulate(plan, asked, bursts).workloads
    assert simulate(plan, asked, bursts).workloads != simulate(plan, asked, replace(bursts, noise=0.0)).workloads


def test_plans_of_services_are_not_replayed() -> None:
    with pytest.raises(InputError, match="a replay has no language models"):
        ServingPlan.of(plan_of(("chat/prefill", 20, 2, 4.0)), instance_of((CHAT, 4.0)))


def test_too_many_requests_are_refused() -> None:
    asked = instance_of((CHAT, 4.0))
    with pytest.raises(InputError, match="requests of one service would arrive"):
        simulate(plan_of(("chat/prefill", 20, 2, 4.0)), asked, Settings(seconds=9e6))
