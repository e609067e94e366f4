"""Loads of servers: overloads that they prove, and the warm-up that they require."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.plan_simulation import Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from bench.simulation.layout import sites
from bench.simulation.load import Overload, ServerLoad, overloads, server_loads, warmup_s
from bench.simulation.serving_rules import offered_rps
from bench.simulation.settings import Interference
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload, spatial_gpu
from instances.catalogue import gpu_type
from instances.files import read_instance, read_plan
from instances.instance import instance_of_services
from instances.services import Service
from tests.instances.reference import TOY

A = Workload("a", "small", 40.0, 200.0)
CONSTANT = Arrivals(Process.CONSTANT)
CASES = Path(__file__).parents[2] / "fixtures" / "holds"


def toys(*workloads: Workload, **fields: object) -> Instance:
    pool = (GpuPool(TOY, None),)
    return Instance("toys", Objective.COST, SloRule.HALF_SLO, "igniter", pool, workloads, **fields)  # type: ignore[arg-type]


def loads(plan: Plan, instance: Instance, settings: Settings | None = None) -> list[ServerLoad]:
    plan_sites = sites(plan, instance, instance)
    return server_loads(plan_sites, instance, settings or Settings(), offered_rps(plan, instance))


def proven(plan: Plan, instance: Instance, settings: Settings) -> list[Overload]:
    return overloads(loads(plan, instance, settings), instance, settings)


def alone(rate_rps: float, batch: int = 1) -> tuple[Plan, Instance]:
    return Plan("toys", (spatial_gpu("toy", [("a", 4, batch, rate_rps)]),)), toys(replace(A, rate_rps=rate_rps))


def test_the_load_is_the_rate_over_the_throughput_of_the_fastest_batch() -> None:
    """Alone, a batch of one takes 2.1 ms, and the next one may start 0.05 ms later."""
    (server,) = loads(*alone(400.0))

    assert server.least_load == server.full_load == pytest.approx(400.0 * 2.15 / 1000.0)
    assert server.request_ms == pytest.approx(2.15)
    (larger,) = loads(*alone(400.0, batch=8))
    assert larger.least_load < server.least_load


def test_neighbours_raise_the_full_load_only() -> None:
    instance = toys(A, replace(A, id="b"))
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 2, 200.0), ("b", 4, 2, 200.0)]),))
    (server, _), (static, _) = loads(plan, instance), loads(plan, instance, Settings(interference=Interference.STATIC))

    assert server.least_load < server.full_load
    assert static.least_load == static.full_load == server.full_load


def test_the_parts_of_a_split_workload_add_up() -> None:
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 300.0)]), spatial_gpu("toy", [("a", 4, 1, 100.0)])))
    (large, small), (undivided,) = loads(plan, toys(replace(A, rate_rps=400.0))), loads(*alone(400.0))

    assert [server.parts.tolist() for server in (large, small)] == [[0.75], [0.25]]
    assert large.least_load + small.least_load == pytest.approx(undivided.least_load)


def test_an_overloaded_server_that_drops_misses_1_minus_1_over_its_load() -> None:
    """At 600 req/s the load is 1.29, so at least 22.5 % are dropped; the simulation drops as many."""
    plan, instance = alone(600.0)
    settings = Settings(seconds=100.0)
    (overload,) = proven(plan, instance, settings)

    assert overload.workloads == ("a",)
    assert overload.load == pytest.approx(1.29)
    assert overload.missed == pytest.approx(1.0 - 1.0 / 1.29)
    found = simulate(plan, instance, settings)
    assert found.overloads == (overload,)
    assert found.to_json()["overloads"] == [{"workloads": ["a"], "load": overload.load, "missed": overload.missed}]
    assert found.violation_rate == pytest.approx(overload.missed, abs=0.005)
    assert simulate(*alone(400.0)).overloads == ()


@pytest.mark.parametrize(
    ("arrivals", "dropping", "load", "expected"),
    [
        (Arrivals(), True, 1.0, False),
        (Arrivals(), True, 1.01, True),
        (Arrivals(), False, 0.99, False),
        (Arrivals(), False, 1.0, True),  # under random arrivals, the queue grows without limit
        (CONSTANT, False, 1.0, False),
        (CONSTANT, False, 1.01, True),
    ],
)
def test_loads_above_1_and_random_loads_of_1_without_dropping_prove_an_overload(
    arrivals: Arrivals, dropping: bool, load: float, expected: bool
) -> None:
    proven_overloads = proven(*alone(load * 1000.0 / 2.15), Settings(arrivals, dropping=dropping))

    assert bool(proven_overloads) == expected
    if expected and not dropping:
        assert proven_overloads[0].missed == 1.0


def test_slots_that_take_turns_are_overloaded_together() -> None:
    instance = toys(replace(A, rate_rps=300.0), replace(A, id="b", rate_rps=300.0))
    turns = Gpulet(4, (Slot("a", 1, 300.0), Slot("b", 1, 300.0)), 20.0)
    (overload,) = proven(Plan("toys", (PlacedGpu("toy", (turns,)),)), instance, Settings())

    assert overload.workloads == ("a", "b")
    assert overload.load == pytest.approx(1.29)
    # If b has another server, no overload is proven.
    other = spatial_gpu("toy", [("b", 4, 1, 1.0)])
    assert proven(Plan("toys", (PlacedGpu("toy", (turns,)), other)), instance, Settings()) == []


def test_a_split_workload_misses_the_part_of_its_overloaded_server() -> None:
    plan = Plan("toys", (spatial_gpu("toy", [("a", 4, 1, 600.0)]), spatial_gpu("toy", [("a", 4, 1, 200.0)])))
    (overload,) = proven(plan, toys(replace(A, rate_rps=800.0)), Settings())

    assert overload.missed == pytest.approx(0.75 * (1.0 - 1.0 / 1.29))


CHAT = Service("chat", "llama-13b", 256, 256, 1500.0, 60.0)


def chat(rate_rps: float, places: int) -> tuple[Plan, Instance]:
    slots = ((("chat/prefill"), 4), ("chat/decode", places))
    gpus = tuple(PlacedGpu("a100-llm", (Gpulet(54, (Slot(name, batch, rate_rps),)),)) for name, batch in slots)
    return Plan("chat", gpus), instance_of_services("chat", [(CHAT, rate_rps)], [GpuPool(gpu_type("a100-llm"))])


def test_decoding_never_drops_requests() -> None:
    """A request occupies one of 16 places of the batch for 256 steps, which gives the load."""
    plan, instance = chat(2.0, 16)
    prefill, decode = loads(plan, instance)
    step_ms = float(sites(plan, instance, instance)[0].times["gpu_ms"][1, 16])

    assert decode.least_load == pytest.approx(2.0 * 256 * step_ms / 16 / 1000.0)
    assert (prefill.waits, decode.waits) == (False, True)
    (overload,) = proven(*chat(2.0 / decode.least_load, 16), Settings())
    assert (overload.workloads, overload.missed) == (("chat/decode",), 1.0)
    assert overload.load == pytest.approx(1.0)


# --- Warm-up ---


def warmup(plan: Plan, instance: Instance, settings: Settings | None = None) -> float:
    return warmup_s(loads(plan, instance, settings), instance, settings or Settings())


@pytest.mark.parametrize(("slo_ms", "expected_s"), [(40.0, 5.0), (1000.0, 5.0), (10_000.0, 50.0)])
def test_five_seconds_are_enough_for_short_requests(slo_ms: float, expected_s: float) -> None:
    plan, _ = alone(200.0)

    assert warmup(plan, toys(replace(A, slo_ms=slo_ms))) == expected_s
    assert warmup(plan, toys(replace(A, slo_ms=slo_ms)), Settings(warmup_s=3.0)) == 3.0


def test_an_overloaded_server_needs_time_to_fill_its_queue() -> None:
    """At a load of 1.29, the queue has 10 s of work after 10 / 0.29 s."""
    plan, instance = alone(600.0)

    expected_s = 5.0 * 10.0 + 10.0 / 0.29
    assert warmup(plan, toys(replace(A, slo_ms=10_000.0, rate_rps=600.0))) == pytest.approx(expected_s, rel=1e-3)
    assert warmup(plan, instance) == 5.0


def test_without_dropping_the_warm_up_is_longer_near_full_load() -> None:
    settings = Settings(dropping=False)

    assert warmup(*alone(0.5 * 1000.0 / 2.15), settings) == 5.0
    assert warmup(*alone(0.99 * 1000.0 / 2.15), settings) == pytest.approx(5.0 * 2.15e-3 / 0.01**2, rel=1e-3)
    assert warmup(*alone(0.99999 * 1000.0 / 2.15), settings) == pytest.approx(5.0 * 1e5 * 2.15e-3, rel=1e-3)


def test_requests_that_decode_for_long_are_simulated_in_the_steady_state() -> None:
    """At a load of 0.99, the queue of decoding grows for half an hour; after a warm-up of 5 s, it is still short."""
    (plan, _), instance = read_plan(CASES / "llmplan.json"), read_instance(CASES / "llm.json")

    late = [simulate(plan, instance, Settings(warmup_s=warmup)).workloads[0].violation_rate for warmup in (5.0, None)]
    assert late[0] == 0.0
    assert late[1] > 0.5
