"""Claims of iGniter's paper on its twelve workloads, from plans that this file makes."""

from functools import cache
from types import SimpleNamespace

import pytest

from bench.api import Run
from heuristics.igniter.gpu_lets_plus import GpuLetsPlus
from heuristics.igniter.gslice_plus import GslicePlus
from heuristics.igniter.igniter import FfdPlus, IGniter
from instances.suites import suite
from reports.claim import TAKEN_FROM_PAPER
from reports.papers import (
    igniter_contention,
    igniter_model,
    igniter_placement,
    igniter_plans,
    igniter_shares,
)
from reports.papers.igniter_violations import FIG14_VIOLATIONS, after_shadows, late_if_full

SCHEDULERS = {scheduler.name: scheduler for scheduler in (IGniter, GpuLetsPlus, FfdPlus, GslicePlus)}


@cache
def plan_of(scheduler):
    (twelve,) = suite("igniter-12").build()
    return SCHEDULERS[scheduler]().schedule(twelve, Run()).plan


@pytest.fixture
def runs():
    return SimpleNamespace(row=lambda need: SimpleNamespace(plan=plan_of(need.schedulers[0]), instance="igniter-12"))


def claim(claims, what, first=False):
    found, *others = (each for each in claims if what in each.what)
    assert first or not others
    return found


def test_violations_are_counted_without_dropping_requests(runs):
    counts = {
        scheduler: claim(FIG14_VIOLATIONS.claims, f"number of workloads in violation under {scheduler}").ours(runs)
        for scheduler in SCHEDULERS
    }
    assert counts == {"igniter": (0,), "gpu-lets+": (4,), "ffd+": (6,), "gslice+": (2,)}
    assert claim(FIG14_VIOLATIONS.claims, "14: workloads in violation under gslice+").ours(runs) == ("W2, W12",)
    assert claim(FIG14_VIOLATIONS.claims, "14: workloads in violation under gpu-lets+").ours(runs) == (
        "W8, W9, W10, W12",
    )


def test_if_batches_wait_until_they_are_full_more_of_gslice_is_late():
    late = {scheduler: late_if_full(plan_of(scheduler)) for scheduler in SCHEDULERS}
    assert {scheduler: len(names) for scheduler, names in late.items()} == {
        **{"igniter": 0, "gpu-lets+": 4, "ffd+": 6},
        "gslice+": 5,
    }
    assert late["gslice+"] == ("W2", "W3", "W8", "W11", "W12")


def test_with_the_batches_of_igniter_the_late_workloads_of_gpu_lets_are_those_in_print():
    at_40_pct, at_50_pct, at_60_pct = claim(FIG14_VIOLATIONS.claims, "share of SSD", first=True).ours(None)
    assert (at_40_pct, at_60_pct) == ("8 GPUs, W7, W8, W12", "9 GPUs, W7, W8, W12")
    assert at_50_pct == "8 GPUs, W7, W8, W10, W12"


def test_with_times_fitted_to_pairs_two_workloads_of_igniter_move_and_none_is_late():
    assert after_shadows("hybrid") == (["W2", "W7"], [])


def test_igniter_rents_the_cheaper_type_of_both_clusters():
    assert claim(igniter_plans.FIG20.claims, "GPU type").ours(None) == ("T4", pytest.approx(7.89))


def test_first_fit_places_the_second_workload_on_the_printed_gpu(runs):
    assert claim(igniter_placement.FIG19.claims, "other eleven").ours(runs) == (5, 10.0, 20.0)


def test_gpu_lets_has_at_most_two_workloads_on_a_gpu_and_igniter_three(runs):
    assert claim(igniter_shares.FIG18.claims, "most workloads on one GPU by gpu-lets+").ours(runs) == (2,)
    assert claim(igniter_shares.FIG18.claims, "most workloads on one GPU by iGniter").ours(runs) == (3,)


def test_no_number_that_is_an_input_of_gpu_lets_counts_as_reproduced(runs):
    claims = (*igniter_shares.FIG18.claims, *igniter_placement.FIG19.claims)
    for what in ("one GPU by gpu-lets+", "shares that gpu-lets+ gives", "share of W2 by gpu-lets+"):
        assert claim(claims, what).not_comparable == TAKEN_FROM_PAPER


def test_by_the_knee_w4_and_w9_have_the_printed_shares_and_w2_has_not():
    (twelve,) = suite("igniter-12").build()
    plan = GpuLetsPlus(printed_shares=False).schedule(twelve, Run()).plan
    share_and_batch = {slot.workload: (gpulet.share_units, slot.batch) for _, gpulet, slot in plan.slots()}
    assert (share_and_batch["W4"], share_and_batch["W9"]) == ((24, 2), (16, 2))
    assert share_and_batch["W2"][0] == 24


def test_the_active_time_of_fig_6_grows_by_equation_8():
    alone_ms, beside_four_ms = claim(igniter_contention.FIG6.claims, "Fig. 6").ours(None)
    growth = igniter_contention.gpu_type("v100").model("resnet50").alpha_cache * (
        4.0 * float(igniter_contention.demand_alone("resnet50").l2_pct[0])
    )
    assert beside_four_ms / alone_ms == pytest.approx(1.0 + growth)


def test_the_lines_of_fig_9_need_the_light_profile(monkeypatch):
    monkeypatch.setattr(igniter_model, "light_profile", dict)
    with pytest.raises(igniter_model.MissingDataError):
        claim(igniter_model.FIG9.claims, "Fig. 9").ours(None)
