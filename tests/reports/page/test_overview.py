"""The first screen: its answers and table compare only schedulers that ran on the same instances."""

from dataclasses import replace

import pytest

from instances.suites import suite
from reports.page.curves import CheckedPlan, checked_plans
from reports.page.instance_results import in_gpus
from reports.page.overview import selections, why_no_plan
from reports.page.styles import page_look
from tests.reports.page.runs_made_here import BOUND, TWELVE, case_of, row_of

SERVERS = "(on servers that drop late requests, or that drop none where the instance says so)."

MIXES = suite("igniter-scaling").build()[:3]
SCOPE = BOUND["bound_scope"]


def plan_of_value(scheduler, instance, value, **given):
    plan = {"version": 1, "instance": instance.name, "gpus": []}
    defaults = {"value": value, "feasible": True, "plan": plan, "plan_class": "spatial", "violations": 0}
    return row_of(scheduler, instance, **(defaults | given))


def bound_of(instance, value):
    proven = {"bound": value, "bound_certified": True, "bound_scope": SCOPE, "status": "optimal", "decision_s": 5.0}
    return plan_of_value("colgen", instance, value, **proven)


@pytest.fixture
def cases():
    """Return results on three mixes of colgen, igniter and ffd+ (no feasible plan), and of mediator on one mix."""
    results = []
    for number, instance in enumerate(MIXES):
        rows = [
            bound_of(instance, 9.18),
            plan_of_value("igniter", instance, 12.24, sim_violating=3, decision_s=0.001),
            row_of("ffd+", instance, value=8.0, feasible=False, violations=4, status="feasible"),
            *([plan_of_value("mediator", instance, 9.18)] if number == 0 else []),
        ]
        results.append(case_of(instance, *rows, suite="mixes"))
    return results


def test_only_schedulers_that_ran_on_all_instances_are_compared(cases):
    selection, *_ = selections(cases)
    assert [one.name for one in selection.results] == ["colgen", "igniter", "ffd+"]
    assert selection.left_out == ["mediator"]
    assert len(selection.instances) == selection.instance_count == 3
    assert [one.value for one in selection.results] == ["", "", ""]  # no mean over instances of different size
    of_one, *_ = selections(cases[1:2])
    assert [one.value for one in of_one.results] == ["9.18 $/h", "12.24 $/h", ""]
    assert [one.gap for one in selection.results] == pytest.approx([0.0, 0.25, 1.0])
    assert (selection.bounded, selection.proven) == (True, 3)


def test_the_three_answers_are_the_best_scheduler_its_distance_and_whether_its_plans_hold(cases):
    selection, *_ = selections(cases)
    assert selection.sentences() == [
        (
            "Which scheduler is best?",
            "colgen: best known plan on 3 of 3 instances, decided in 5.00 s (median). Within 1 s, the best is"
            " igniter, 25.0 % away from the bound.",
        ),
        (
            "How far from the optimum?",
            "0.0 %: the mean distance of colgen to the certified bound; the best plan is proven optimal in its plan"
            " class on 3 of 3 instances. The others are 25.0 % away.",
        ),
        (
            "Do its plans hold?",
            "Not tested: bench run --check-holds tests the plans of colgen. No scheduler's plans are all known to"
            " hold.",
        ),
    ]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"holds": True}, f"Yes: no workload is late under random arrivals in the 1 plans of igniter {SERVERS}"),
        (
            {"holds": False, "late_workloads": 2},
            f"No: random arrivals make workloads late in 1 of 1 plans of igniter {SERVERS}"
            " All plans of ffd++ hold, 20.0 % away.",
        ),
    ],
)
def test_the_third_answer_follows_from_the_tests_of_plans(given, answer):
    rows = [plan_of_value("igniter", TWELVE, 10.0, **given), plan_of_value("ffd++", TWELVE, 12.5, holds=True)]
    (selection, *_) = selections([case_of(TWELVE, *rows)])
    assert selection.sentences()[2][1] == answer
    assert {one.name: one.holds for one in selection.tradeoffs()}["ffd++"] is True


def test_a_row_without_a_plan_has_a_reason():
    crash = row_of("cpsat", TWELVE, termination="crashed", reason="signal 11")
    broken = row_of("ffd+", TWELVE, value=1.0, feasible=False, violations=1)
    infeasible = row_of("sbp", TWELVE, status="infeasible", reason="w1 fits no GPU")
    assert [why_no_plan([row]) for row in (crash, broken, infeasible)] == [
        "crashed: signal 11",
        "breaks 1 constraint",
        "no plan: w1 fits no GPU",
    ]


def test_a_bound_at_the_time_limit_is_listed(cases):
    rows = list(cases[0].rows)
    early = replace(rows[0], status="feasible", decision_s=9.9, time_limit_s=10.0, bound=7.0)
    case = case_of(MIXES[0], early, *rows[1:], suite="mixes")
    assert selections([case])[0].open_at_limit == {"colgen": 10.0}
    assert selections(cases)[0].open_at_limit == {}


def test_an_instance_that_random_solves_is_listed(cases):
    lucky = case_of(MIXES[0], *cases[0].rows, plan_of_value("random", MIXES[0], 9.18), suite="mixes")
    assert selections([lucky])[0].undecided == [MIXES[0].name]
    assert selections(cases)[0].undecided == []


def test_values_are_shown_with_whole_gpus():
    case = case_of(TWELVE, bound_of(TWELVE, 18.36))
    assert in_gpus(18.36, case) == "18.36 $/h (6 GPUs)"
    assert in_gpus(3.06, case) == "3.06 $/h (1 GPU)"
    assert in_gpus(None, case) == "-"


def test_every_checked_plan_is_a_point():
    rows = [
        plan_of_value("igniter", TWELVE, 18.36, gpus_used=6, holds=False, late_workloads=3),
        plan_of_value("igniter", TWELVE, 36.72, gpus_used=12, holds=True, late_workloads=0, headroom=2.0),
        plan_of_value("ffd+", TWELVE, 18.36, gpus_used=6),
    ]
    servers = "servers that drop late requests"
    late = CheckedPlan(75.0, 6, False, f"late on {servers}; headroom 1")
    holds = CheckedPlan(100.0, 12, True, f"holds on {servers}; headroom 2")
    assert checked_plans([case_of(TWELVE, *rows)]) == {TWELVE.name: {"igniter": [late, holds]}}


def test_colours_of_schedulers_differ_on_a_dark_background():
    """Two schedulers have different marks, or colours that differ by more than 40 in a channel."""
    names = (
        "igniter",
        "ffd+",
        "ffd++",
        "gpu-lets+",
        "gslice+",
        "local-search",
        "colgen",
        "cpsat",
        "random",
        "mediator",
    )
    looks = [page_look(name) for name in names]
    for index, look_ in enumerate(looks):
        for other_look in looks[:index]:
            channels = zip(
                *([int(look.dark[i : i + 2], 16) for i in (1, 3, 5)] for look in (look_, other_look)), strict=True
            )
            assert look_.marker != other_look.marker or max(abs(a - b) for a, b in channels) > 40


def test_only_the_first_sentence_has_the_parameters_of_a_scheduler():
    rows = [
        [
            plan_of_value("colgen", mix, 9.18, parameters={"colgen": {"plan_class": "spatial"}}),
            plan_of_value("igniter", mix, 12.24),
        ]
        for mix in MIXES
    ]
    rows[0].append(plan_of_value("colgen", MIXES[0], 9.18, parameters={"colgen": {"plan_class": "split"}}))
    cases = [
        case_of(instance, *instance_rows, suite="mixes") for instance, instance_rows in zip(MIXES, rows, strict=True)
    ]
    which, how_far, holds = (answer for _, answer in selections(cases)[0].sentences())
    assert which.startswith("colgen (plan_class=spatial): best known plan")
    assert "distance of colgen to" in how_far
    assert "plans of colgen." in holds
