"""Gaps between values and bounds, against gaps calculated by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.ledger.gap import Gap, gaps, ledger_gaps, relative_gap
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import GpuPool, Instance
from instances.costs import next_cost

MakeRow = Callable[..., Row]
SCOPE = {"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None}


def with_offers(instance: Instance, *offers: tuple[float, int | None]) -> Instance:
    """Return the instance with GPUs offered as (price, count); a count of ``None`` is unlimited."""
    gpu = instance.gpus[0].type
    types = [replace(gpu, name=f"gpu{i}", price_per_hour=price) for i, (price, _) in enumerate(offers)]
    return replace(instance, gpus=tuple(GpuPool(gpu, count) for gpu, (_, count) in zip(types, offers, strict=True)))


def plan(units: int = 10, batch: int = 4, slots: int = 1) -> dict[str, object]:
    slot = {"workload": "w1", "batch": batch, "rate_rps": 50.0}
    gpulet = {"share_units": units, "duty_cycle_ms": None, "slots": [slot] * slots}
    return {"version": 1, "instance": "mix", "gpus": [{"type": "v100", "gpulets": [gpulet]}]}


@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [(100.0, 75.0, 0.25), (75.0, 100.0, 0.25), (0.0, 0.0, 0.0), (5.0, 0.0, 1.0), (3.0, 3.0, 0.0)],
)
def test_the_relative_gap_is_the_difference_over_the_larger(value: float, bound: float, gap: float) -> None:
    assert relative_gap(value, bound) == gap


@pytest.mark.parametrize(
    ("offers", "bound", "cost"),
    [
        ([(3.06, None)], 5.1667 * 3.06, 6 * 3.06),
        ([(3.06, None)], 18.36000000001, 18.36),
        ([(3.06, None)], 18.35, 18.36),
        ([(3.06, None)], 18.37, 21.42),
        ([(3.06, None)], 0.0, 0.0),
        ([(3.06, None)], -1.0, 0.0),
        ([(3.06, None)], 1e300, 1e300),  # so large that adding a GPU's price is lost by rounding: unchanged
        ([(3.06, 5)], 1e300, 1e300),
        ([(3.06, 5)], float("inf"), float("inf")),
        ([(3.06, 5)], 14.0, 15.3),
        ([(3.06, 5)], 16.0, 16.0),  # unchanged, above the 15.30 of the whole pool
        ([(3.0, None), (5.0, None)], 7.1, 8.0),
        ([(3.0, None), (5.0, None)], 8.1, 9.0),
        ([(3.0, 1), (5.0, None)], 8.1, 10.0),
        ([(3.0, 1), (5.0, 1)], 5.5, 8.0),
        ([(5.0, None), (3.0, 1)], 5.5, 8.0),
        ([(0.526, 4), (3.06, None), (32.77, 2)], 33.5, 33.66),  # eleven at 3.06
        ([(0.526, 4), (3.06, None), (32.77, 2)], 33.7, 33.822),  # one at 32.77 and two at 0.526
    ],
)
def test_cost_bound_is_rounded_up_to_whole_gpus(
    instance: Instance, offers: list[tuple[float, int | None]], bound: float, cost: float
) -> None:
    assert next_cost(bound, with_offers(instance, *offers)) == pytest.approx(cost, rel=1e-12)


def feasible_row(make_row: MakeRow, **values: object) -> Row:
    return make_row(**{"feasible": True, "plan": plan(), "plan_class": "spatial", **values})


def row_with_bound(make_row: MakeRow, bound: float, certified: bool = True, **scope: object) -> Row:
    return make_row(key=f"bound {bound}", bound=bound, bound_certified=certified, bound_scope={**SCOPE, **scope})


def test_cost_gap_takes_the_largest_certified_bound(make_row: MakeRow, instance: Instance) -> None:
    row = feasible_row(make_row, value=24.48)  # 8 GPUs
    bounds = [
        row_with_bound(make_row, 10.0),
        row_with_bound(make_row, 16.0),
        row_with_bound(make_row, 24.0, certified=False),
    ]
    # The bound 16.00 is rounded up to 6 GPUs, which cost 18.36.
    gap = gaps([row], bounds, instance)["00ff"]
    assert (gap.gap, gap.own_gap, gap.bound) == (pytest.approx(0.25), None, None)
    assert gap.best is not None
    assert gap.best.value == pytest.approx(18.36)


def test_the_gap_to_the_own_bound_needs_no_certificate(make_row: MakeRow, instance: Instance) -> None:
    row = feasible_row(make_row, value=24.48, bound=16.0, bound_certified=False, bound_scope=SCOPE)
    assert gaps([row], [row], instance) == {"00ff": Gap(own_gap=pytest.approx(0.25), bound=pytest.approx(18.36))}
    assert gaps([row], [row], None)["00ff"].bound == 16.0


@pytest.mark.parametrize(("objective", "throughput_of"), [("throughput", "capacity"), ("scale", None)])
def test_a_maximised_gap_takes_the_smallest_bound_without_rounding(
    make_row: MakeRow, instance: Instance, objective: str, throughput_of: str | None
) -> None:
    row = feasible_row(make_row, objective=objective, throughput_of=throughput_of, value=75.0)
    bounds = [row_with_bound(make_row, 100.0), row_with_bound(make_row, 120.0)]
    assert gaps([row], bounds, instance)["00ff"].gap == 0.25


@pytest.mark.parametrize("values", [{"feasible": False}, {"plan": None, "feasible": None}, {"value": None}])
def test_only_feasible_plans_have_gaps(make_row: MakeRow, instance: Instance, values: dict[str, object]) -> None:
    row = feasible_row(make_row, **{"value": 24.48, "bound": 16.0, **values})
    gap = gaps([row], [row_with_bound(make_row, 16.0)], instance)["00ff"]
    assert (gap.gap, gap.own_gap) == (None, None)


@pytest.mark.parametrize(
    ("scope", "plan_class", "of_plan", "applies"),
    [
        ({}, "spatial", {}, True),
        ({}, "split", {}, False),
        ({"plan_class": "split"}, "spatial", {}, True),
        ({"plan_class": "spatio-temporal"}, "split", {}, True),
        ({"allowed_shares": [4, 10]}, "spatial", {}, True),
        ({"allowed_shares": [4, 8]}, "spatial", {}, False),
        ({"plan_class": "spatio-temporal"}, "spatio-temporal", {"slots": 2}, False),
        ({"plan_class": "spatio-temporal", "slots_per_gpulet": 2}, "spatio-temporal", {"slots": 2}, True),
        ({"max_batch": 4}, "spatial", {}, True),
        ({"max_batch": 3}, "spatial", {}, False),
    ],
)
def test_a_bound_applies_to_plans_of_its_scope_only(
    make_row: MakeRow,
    instance: Instance,
    scope: dict[str, object],
    plan_class: str,
    of_plan: dict[str, int],
    applies: bool,
) -> None:
    row = feasible_row(make_row, value=24.48, plan_class=plan_class, plan=plan(**of_plan))
    gap = gaps([row], [row_with_bound(make_row, 16.0, **scope)], instance)["00ff"].gap
    assert gap == (pytest.approx(0.25) if applies else None)


@pytest.mark.parametrize(("model", "applies"), [("igniter", True), ("gpulet", False)])
def test_bounds_under_gpulets_model_do_not_cover_three_gpulets_on_a_gpu(
    make_row: MakeRow, instance: Instance, model: str, applies: bool
) -> None:
    crowded = plan()
    (gpu,) = crowded["gpus"]  # type: ignore[misc]
    gpu["gpulets"] *= 3
    row = feasible_row(make_row, value=24.48, plan_class="spatial", plan=crowded, performance_model=model)

    gap = gaps([row], [row_with_bound(make_row, 16.0)], instance)["00ff"].gap

    assert gap == (pytest.approx(0.25) if applies else None)


def test_gaps_use_bounds_of_other_runs_on_the_same_instance(
    make_row: MakeRow, make_instance: Callable[..., Instance], tmp_path: Path
) -> None:
    mix, other = make_instance(), make_instance("other")
    row = feasible_row(make_row, instance_hash=mix.fingerprint, value=24.48)
    exact = replace(row_with_bound(make_row, 16.0), instance_hash=mix.fingerprint, key="01")
    better_elsewhere = replace(row_with_bound(make_row, 24.0), instance_hash=other.fingerprint, key="02")
    alone = feasible_row(make_row, instance_hash=other.fingerprint, value=24.48, key="03")
    with Ledger(tmp_path / "ledger", create=True) as ledger:
        for stored, instance in ((row, mix), (exact, mix), (better_elsewhere, other), (alone, other)):
            ledger.add(stored, instance)
        gap_of = ledger_gaps([row, alone], ledger)
    assert gap_of["00ff"].gap == pytest.approx(0.25)
    assert gap_of["03"].gap == 0.0
