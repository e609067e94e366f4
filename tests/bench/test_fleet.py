"""Plans for the user's cluster: solves in this process, the last straw, replanning, spares, and printed lines."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.api import Run
from bench.fleet.answer import (
    cost_line,
    dropping_line,
    extrapolation_lines,
    holding_line,
    proof_line,
    routing_line,
    spare_line,
    straw_line,
    without_dropping_line,
)
from bench.fleet.example import write_example
from bench.fleet.last_straw import candidates, last_straw, relaxed
from bench.fleet.lower_bound import lower_bound
from bench.fleet.replanning import replan
from bench.fleet.solving import best_plan, solved_here
from bench.fleet.surviving import surviving
from bench.holding.verdict import Holding, WorkloadAttainment
from bench.judging.judge import judge
from bench.ledger.row import Row
from heuristics.baselines.equal_shares import WholeGpu
from instances import Gpulet, GpuPool, InputError, Instance, PlacedGpu, Plan, Slot, Workload
from instances.files.records import TableColumn, describe
from instances.generate import generate
from instances.inputs import instance_from_tables, tables
from instances.view import View


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    services, profile, gpus = write_example(tmp_path_factory.mktemp("example"))[:3]
    return instance_from_tables(services, profile, gpus, slowdown=1.814).instance


def test_the_sum_of_the_services_duals_is_at_most_the_cost(asked: Instance) -> None:
    solved = solved_here(asked, 60.0)
    assert solved.plan is not None
    assert solved.bound is not None
    verdict = judge(solved.plan, asked)
    assert verdict.feasible
    duals = solved.workload_duals(asked)
    assert set(duals) == set(asked.workload_index)
    assert sum(duals.values()) <= verdict.cost_per_hour + 1e-6
    assert sum(duals.values()) > 0.0


def test_the_last_straw_is_confirmed_by_a_cheaper_plan(asked: Instance) -> None:
    one, *_ = asked.workloads
    heavy = replace(asked, workloads=(replace(one, rate_rps=5.0), Workload("heavy", one.model, one.slo_ms, 1400.0)))
    before = _plan(heavy)
    assert before.gpus_used == 2
    straw = last_straw(heavy, before, 60.0)
    assert straw is not None
    words, plan = straw
    assert words.startswith("heavy at ")
    assert plan.gpus_used == 1
    line = straw_line(straw, heavy, 8.2)
    assert line == f"last straw: {words} saves $4.10/h and takes 1 a100 (solved again)"
    assert "none of the 3 dearest" in straw_line(None, heavy, 8.2)


def test_more_services_and_smaller_shares_than_were_measured_are_named(asked: Instance) -> None:
    (pool,), residents = asked.gpus, asked.workloads[:3]
    measured_from_pct = pool.type.models[residents[0].model].solo.share_pct[0]  # type: ignore[union-attr]

    def placed(*shares_pct: float) -> Plan:
        gpulets = [
            Gpulet(round(share_pct * pool.type.share_units / 100.0), (Slot(workload.id, 1, workload.rate_rps),))
            for share_pct, workload in zip(shares_pct, residents, strict=False)
        ]
        return Plan(asked.name, (PlacedGpu(pool.type.name, tuple(gpulets)),))

    assert extrapolation_lines(placed(50.0, 50.0), asked) == []
    crowded, small = extrapolation_lines(placed(50.0, 30.0, measured_from_pct / 2.0), asked)
    assert crowded == "  extrapolated: 1 GPU with 3 services; interference was measured between 2"
    assert small.startswith(f"  extrapolated: shares below the least measured one: {residents[2].id} ")
    assert small.endswith(f" % (from {measured_from_pct:g} %)")


def _plan(instance: Instance) -> Plan:
    plan = solved_here(instance, 60.0).plan
    assert plan is not None
    return plan


def test_a_relaxation_changes_one_service(asked: Instance) -> None:
    dearest = candidates(asked, {"moderation": 3.0, "photo-tags": 2.0})
    assert [each.id for each in dearest][:2] == ["moderation", "photo-tags"]
    (strong, mild), (_, later) = relaxed(asked, dearest[0])
    assert mild[0] == "moderation at 135 instead of 150 req/s"
    assert later[0] == "moderation within 125 instead of 100 ms"
    for _, changed_instance in (strong, mild, later):
        pairs = zip(changed_instance.workloads, asked.workloads, strict=True)
        assert sum(changed != before for changed, before in pairs) == 1


def test_the_example_is_complete(tmp_path: Path, asked: Instance) -> None:
    names = [path.name for path in write_example(tmp_path)]
    assert names == ["services.csv", "profile.csv", "gpus.csv", "pairs.csv", "rates.csv"]
    assert len(asked.workloads) == 6


def test_savings_are_against_simple_schedulers_whose_plans_hold(asked: Instance, make_row: Callable[..., Row]) -> None:
    plan = Plan(asked.name, (PlacedGpu("a100", (Gpulet(54, (Slot("moderation", 1, 1.0),)),)),))
    two_gpus, no_plan = (make_row(gpus_used=n, cost_per_hour=cost) for n, cost in ((2, 8.2), (None, None)))
    attainment = WorkloadAttainment("moderation", 100, 10.0, 0.5, 0.01, 0.012, True, False)
    late, holds, unclear = (
        Holding(0.99, True, 300.0, (each,))
        for each in (
            attainment,
            replace(attainment, attainment=1.0, late=False),
            replace(attainment, attainment=1.0, late=False, unclear=True, detectable=0.03),
        )
    )
    practice = {"whole-gpu": (two_gpus, holds), "equal-shares": (two_gpus, late), "time-slicing": (no_plan, None)}
    line = cost_line(plan, 4.1, practice)
    assert line == (
        "saves 50 % over whole-gpu (2 GPUs, $8.20/h): 1 a100 for $4.10/h; "
        "equal-shares takes 2 GPUs, $8.20/h and does not hold on servers that drop late requests; "
        "time-slicing finds no plan"
    )
    cheaper = {"time-slicing": (make_row(gpus_used=1, cost_per_hour=2.0), holds)}
    assert cost_line(plan, 4.1, cheaper) == (
        "1 a100 for $4.10/h; time-slicing would take 1 GPU, $2.00/h if its processes did not slow each other down"
    )
    doubtful = {"whole-gpu": (two_gpus, unclear)}
    assert cost_line(plan, 4.1, doubtful) == (
        "1 a100 for $4.10/h; whole-gpu takes 2 GPUs, $8.20/h, and the test cannot tell whether it holds on"
        " servers that drop late requests"
    )


def test_the_answer_says_on_which_servers_the_plan_holds() -> None:
    attainment = WorkloadAttainment("moderation", 100, 3000.0, 0.5, 0.01, 0.0123, True, False)
    late, holds = (
        Holding(0.99, True, 300.0, (attainment,)),
        Holding(0.99, False, 300.0, (replace(attainment, late=False, attainment=1.0),)),
    )
    unclear = replace(
        holds, workloads=(replace(attainment, late=False, unclear=True, attainment=1.0, detectable=0.03),)
    )
    overloaded = replace(late, workloads=(replace(attainment, load=1.25),))

    assert holding_line(late).startswith(
        "does not hold on servers that drop late requests: moderation 50.0 % below 99.0 % in time (10 x 300 s"
    )
    assert holding_line(overloaded).endswith("load of 1 or more: moderation 1.25)")
    assert holding_line(holds).startswith("holds on servers that drop no requests: every service keeps 99.0 % in time")
    assert "a workload that misses 1.23 % of its requests would be found late by 95 % of such tests" in holding_line(
        holds
    )
    assert holding_line(unclear).startswith("may hold on servers that drop no requests: the test cannot tell")
    assert "missed more than moderation 3.0 %" in holding_line(unclear)


def test_the_answer_says_how_the_plan_does_on_servers_that_drop_nothing() -> None:
    slow, fast = (
        WorkloadAttainment(name, 100, 3000.0, attainment, 0.001, 0.0123, False, False)
        for name, attainment in (("tagging", 0.58), ("search", 1.0))
    )
    assert without_dropping_line(Holding(0.99, False, 300.0, (fast, slow))) == (
        "  the same plan on servers that drop no requests: 79.0 % of all requests are in time, tagging 58.0 %"
    )
    assert "there are no requests" in without_dropping_line(Holding(0.99, False, 300.0, ()))


def test_the_answer_says_what_not_dropping_costs(make_row: Callable[..., Row]) -> None:
    row = make_row(gpus_used=2, cost_per_hour=8.2, feasible=True)

    assert dropping_line(row, 12.3) == (
        "  not dropping costs $4.10/h more: servers that drop late requests would take 2 GPUs, $8.20/h"
    )
    assert dropping_line(row, 8.2).startswith("  not dropping costs nothing: ")
    assert "no plan was found" in dropping_line(make_row(cost_per_hour=None), 8.2)


def test_the_answer_says_what_random_routing_costs() -> None:
    def gpu(*workloads: str) -> PlacedGpu:
        return PlacedGpu("a100", tuple(Gpulet(10, (Slot(name, 1, 1.0),)) for name in workloads))

    attainment = WorkloadAttainment("tagging", 100, 3000.0, 0.993, 0.001, 0.0123, False, False)
    second_attainment = replace(attainment, workload="search", attainment=0.999)
    at_random, in_turns = (
        Holding(0.99, True, 300.0, (replace(attainment, attainment=value), second_attainment))
        for value in (0.993, 0.9996)
    )
    split, whole = (Plan("x", gpus) for gpus in ((gpu("tagging", "search"), gpu("tagging")), (gpu("tagging"),)))
    assert routing_line(split, 8.2, at_random, in_turns) == (
        "  random routing costs nothing: the plan for turns is the same 2 a100 for $8.20/h;"
        " in time at random and in turns: tagging 99.3 % and 100.0 %"
    )
    assert routing_line(whole, 4.1, at_random, None) == (
        "  random routing costs nothing: no service has several servers"
    )


@pytest.mark.parametrize(
    ("cost", "bound", "certified", "words"),
    [
        (12.3, 8.3, True, "proven: no plan is cheaper"),
        (12.3, 4.2, True, "proven: 1 GPU is too few, 2 GPUs are not excluded"),
        (12.3, 0.1, True, "proven: every plan takes at least 1 GPU, in any class, by compute alone"),
        (12.3, 4.2, False, "proven: every plan takes at least 1 GPU, in any class, by compute alone"),
        (None, 4.2, False, "proven: every plan takes at least 1 GPU, in any class, by compute alone"),
    ],
)
def test_the_proof_line_rounds_the_bound_up_to_whole_gpus(
    asked: Instance, make_row: Callable[..., Row], cost: float | None, bound: float, certified: bool, words: str
) -> None:
    row = make_row(cost_per_hour=cost, bound=bound, bound_certified=certified, bound_scope=None)
    assert proof_line(row, asked, cost).startswith(words)


def test_no_plan_costs_less_than_its_compute_and_memory(asked: Instance) -> None:
    (pool,) = asked.gpus
    view = View.of(asked, pool.type)
    least_areas = []
    for workload, row in zip(asked.workloads, view.model, strict=True):
        served_rps = workload.rate_rps * asked.attainment
        shares = [
            (served_rps * active_ms / (1000.0 * batch) * units, units)
            for batch in range(1, int(view.tables.max_batch[row]) + 1)
            for units in view.tables.permitted.tolist()
            if (active_ms := float(view.tables.active_ms[row, batch, units])) <= workload.slo_ms
        ]
        least_areas.append(max(min(area for area, _ in shares), min(units for _, units in shares)))
    gpus = math.ceil(sum(least_areas) / pool.type.share_units - 1e-6)

    assert lower_bound(asked).cost_per_hour == pytest.approx(gpus * pool.type.price_per_hour)
    assert lower_bound(asked).resource == "compute"
    assert lower_bound(asked).cost_per_hour <= judge(_plan(asked), asked).cost_per_hour


def test_memory_alone_may_demand_gpus(asked: Instance) -> None:
    (pool,) = asked.gpus
    least_mib = [pool.type.models[workload.model].memory_mib(1) for workload in asked.workloads]
    small = replace(pool.type, memory_mib=max(least_mib) * 1.01)
    tight = replace(asked, gpus=(GpuPool(small, None),))

    bound = lower_bound(tight)
    assert bound.resource == "memory"
    gpus = math.ceil(sum(least_mib) / small.memory_mib - 1e-6)
    assert bound.cost_per_hour == pytest.approx(gpus * pool.type.price_per_hour)


def test_the_best_plan_is_feasible(asked: Instance, make_row: Callable[..., Row]) -> None:
    plan = _plan(asked)
    emptied = Plan(plan.instance, (*plan.gpus[:-1], replace(plan.gpus[-1], gpulets=())))
    no_plan, complete, incomplete = make_row(plan=None), make_row(plan=plan), make_row(plan=emptied)

    assert best_plan([no_plan, incomplete, complete], asked) is plan
    assert best_plan([no_plan, incomplete], asked) is None


@pytest.mark.parametrize("table", [tables.SERVICES, tables.PROFILE, tables.GPUS, tables.PAIRS])
def test_every_column_is_documented_with_its_unit(table: tuple[TableColumn, ...]) -> None:
    document = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()
    assert "\n".join(f"| `{name}` | {meaning} |" for name, meaning in describe(table)) in document


@pytest.fixture(scope="module")
def mix() -> Instance:
    return generate("igniter-mix", 6, 0)


def test_replanning_keeps_services_where_they_are(mix: Instance) -> None:
    old = _plan(mix)
    same = replan(mix, old, 0, 30.0)
    assert (same.moved, same.complete) == ((), True)
    assert judge(same.plan, mix).feasible
    grown = replace(mix, workloads=tuple(replace(w, rate_rps=w.rate_rps * 1.2) for w in mix.workloads))
    assert len(replan(mix, old, 1, 30.0).plan.gpus) == len(old.gpus)  # no spare GPU without services
    costs = []
    for moves in (1, 2, 3):
        try:
            replanned = replan(grown, old, moves, 60.0)
        except InputError as error:
            assert "moves are not enough" in str(error)  # noqa: PT017
            continue
        home = {slot.workload: position for position, _, slot in old.slots()}
        now = {slot.workload: position for position, _, slot in replanned.plan.slots()}
        assert {name for name in home if now[name] != home[name]} == set(replanned.moved)
        assert len(replanned.moved) <= moves
        assert judge(replanned.plan, grown).feasible
        costs.append(judge(replanned.plan, grown).cost_per_hour)
    assert costs
    assert costs == sorted(costs, reverse=True)


def test_a_service_that_ends_closes_its_gpu_and_a_new_one_is_placed(mix: Instance) -> None:
    old = one_gpu_each(mix)
    fewer = replace(mix, workloads=(*mix.workloads[1:], replace(mix.workloads[1], id="new")))
    replanned = replan(fewer, old, 1, 60.0)
    assert not replanned.plan.gpus[0].gpulets or [slot.workload for g, _, slot in replanned.plan.slots() if g == 0] == [
        "new"
    ]
    assert judge(replanned.plan, fewer).feasible
    with pytest.raises(InputError, match="the old plan has a t4, which is not on offer"):
        replan(mix, Plan("old", (PlacedGpu("t4", ()),)), 1, 5.0)


def one_gpu_each(mix: Instance) -> Plan:
    plan = WholeGpu().schedule(mix, Run()).plan
    assert plan is not None
    return plan


def test_a_spare_survives_any_failure(mix: Instance) -> None:
    plan = _plan(mix)
    with_spare = surviving(plan, mix, judge(plan, mix).cost_per_hour, 30.0)
    assert with_spare is not None
    assert with_spare.cost_per_hour == with_spare.bound_per_hour == pytest.approx(judge(plan, mix).cost_per_hour + 3.06)
    assert spare_line(with_spare).endswith("(proven least)")
    full = replace(mix, gpus=(GpuPool(mix.gpus[0].type, plan.gpus_used),))
    assert surviving(plan, full, 0.0, 5.0) is None


def test_a_spare_of_another_type_must_serve_what_the_failed_gpu_did(mix: Instance) -> None:
    big, small = mix.gpus[0].type, replace(mix.gpus[0].type, name="small", price_per_hour=0.1, memory_mib=1.0)
    two = replace(mix, gpus=(GpuPool(big), GpuPool(small)))
    plan = replace(_plan(mix), instance=two.name)
    with_spare = surviving(plan, two, 0.0, 4.0)
    assert with_spare is not None
    assert with_spare.spare == big.name  # nothing fits into the memory of the cheaper one
