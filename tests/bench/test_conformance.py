"""Tests of ``bench check-plugin``: it finds faulty schedulers, and the built-in schedulers pass."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Call, target

from bench.api import Status
from bench.conformance import CheckResult, CheckSettings, check
from bench.conformance.cases import CheckedInstance, infeasible_instance, large_instance, small_instances
from bench.conformance.checks import _loads, _missing_workload, _Suite
from bench.ledger.row import Row
from bench.runner.inspection import SchedulerInfo, inspect_schedulers
from bench.schedulers.registry import Entry, entries, parse_spec
from bench.selection import find_problems
from instances import Instance, Objective, Partition, SloRule, spatial_gpu
from instances.plan import Plan
from tests.formulations import exhaustive
from tests.soak import first

QUICK = CheckSettings(time_limit_s=5.0, hurried_s=1.0, grace_s=5.0)
"""The grace is long enough that on a busy machine only schedulers that never look at the clock overrun it."""

ALL = [(objective, Partition.SHARES) for objective in Objective] + [(Objective.COST, Partition.MIG)]


def info_of(name: str, overrides: dict[str, str] | None = None) -> SchedulerInfo:
    return inspect_schedulers([entries()[name]], {name: overrides or {}})[name]


def hostile(name: str, registered: str | None = None) -> SchedulerInfo:
    entry = Entry(registered or name.lower(), target(name), "hostile", "0.1")
    (info,) = inspect_schedulers([entry]).values()
    return info


def by_check(findings: list[CheckResult]) -> dict[str, CheckResult]:
    assert len({finding.check for finding in findings}) == len(findings)
    return {finding.check: finding for finding in findings}


def test_every_broken_promise_is_found() -> None:
    terms = CheckSettings(time_limit_s=5.0, hurried_s=0.2, grace_s=0.5)
    found = by_check(list(check(hostile("Sloppy"), terms)))
    assert {name for name, finding in found.items() if finding.passed} == {"loads", "solves cost"}
    assert found["solves scale"].why == "check-scale: unknown, no plan: no reason given"
    assert found["keeps every workload"].why == 'check-cost-alike: "alike c" is missing from the plan'
    assert found["is honest"].why.startswith('check-cost: reports "optimal"; the judge finds: ')
    assert "was changed" in found["leaves the instance alone"].why
    assert "return different plans" in found["repeats itself"].why
    assert found["keeps to its deadline"].why == "check-large (cost) in 0.2 s: still running 0.5 s later, and killed"
    assert 'reports "infeasible" without a reason' in found["gives up honestly"].why


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (lambda: hostile("Sloppy", "other"), 'is registered as "other", but its class has name = "sloppy"'),
        (lambda: hostile("Aimless"), "has no objectives"),
        (lambda: hostile("Absent"), 'has no "Absent"'),
    ],
)
def test_a_scheduler_that_cannot_be_loaded_is_not_run(info: Callable[[], SchedulerInfo], why: str) -> None:
    (finding,) = check(info(), QUICK)
    assert (finding.check, finding.passed) == ("loads", False)
    assert why in finding.why


def test_a_class_in_a_file_may_have_any_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    lines = ["from heuristics.igniter.igniter import IGniter", "class Mine(IGniter):", '    """Mine."""', ""]
    file.write_text("\n".join(lines))
    (info,) = inspect_schedulers(parse_spec(f"{file}:Mine", entries())).values()
    assert info.class_name == "igniter"
    assert _loads(info).passed


def test_the_exception_of_a_run_is_reported() -> None:
    found = by_check(
        list(check(hostile("Crash"), QUICK, [small_instances(Objective.COST, Partition.SHARES)[0].instance]))
    )
    assert (
        found["solves cost"].why == found["repeats itself"].why == "check-cost: exception: LookupError: no such thing"
    )
    assert found["is honest"].why == "there is no plan to check"
    assert [name for name, finding in found.items() if finding.passed] == ["loads"]


@pytest.mark.parametrize(("name", "honest"), [("Dreamer", False), ("Blind", True)])
def test_only_schedulers_with_an_own_model_may_return_violating_plans(name: str, honest: bool) -> None:
    cases = [small_instances(Objective.COST, Partition.SHARES)[0].instance]
    assert by_check(list(check(hostile(name), QUICK, cases)))["is honest"].passed is honest


def test_a_scheduler_fails_if_no_instance_has_its_objectives(make_instance: Callable[..., Instance]) -> None:
    other = make_instance(objective="scale", gpus=[{"type": "v100", "count": 1}])
    assert [(one.check, one.passed) for one in check(hostile("Crash"), QUICK, [other])][1:] == [("solves", False)]


# Claims of status and bound, checked on rows made by hand


def wrong_claim(row: Row, reachable: float | None = 6.12, own_model: bool = False) -> str | None:
    case = CheckedInstance(small_instances(Objective.COST, Partition.SHARES)[1].instance, reachable)
    info = SchedulerInfo(Entry("s", "s:S"), own_model=own_model)
    return _Suite(info, QUICK, ())._wrong_claim(case, row)


SCOPE = {"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None}


@pytest.mark.parametrize(
    ("values", "lie"),
    [
        ({"status": Status.INFEASIBLE}, 'reports "infeasible"; there is a plan'),
        ({"status": Status.UNKNOWN}, None),
        ({"status": Status.OPTIMAL, "value": 6.12, "feasible": True}, None),
        (
            {"status": Status.OPTIMAL, "value": 3.06, "feasible": True},
            None,
        ),  # cheaper than the class allows: a plan of a wider class
        (
            {"status": Status.OPTIMAL, "value": 9.18, "feasible": True},
            'reports "optimal" for 9.18; 6.12 can be reached',
        ),
        ({"status": Status.FEASIBLE, "value": 9.18, "feasible": True}, None),
        ({"bound": 6.12, "bound_certified": True, "bound_scope": SCOPE}, None),
        ({"bound": 6.2, "bound_certified": True, "bound_scope": SCOPE}, "certifies the bound 6.2; 6.12 can be reached"),
        ({"bound": 6.2, "bound_certified": False, "bound_scope": SCOPE}, None),
        ({"bound": 9.18, "bound_certified": True, "bound_scope": SCOPE | {"max_batch": 1}}, None),
        ({"bound": 9.18, "bound_certified": True, "bound_scope": SCOPE | {"allowed_shares": [40]}}, None),
    ],
)
def test_claims_are_checked_against_the_known_optimum(
    make_row: Callable[..., Row], values: dict[str, object], lie: str | None
) -> None:
    assert wrong_claim(make_row(**values)) == lie


@pytest.mark.parametrize(
    ("position", "reason", "passes"), [(3, "no budgets", True), (3, "", False), (0, "full", False)]
)
def test_only_under_attainment_a_scheduler_may_give_up_with_a_reason(
    make_row: Callable[..., Row], position: int, reason: str, passes: bool
) -> None:
    cases = small_instances(Objective.COST, Partition.SHARES)
    plan = Plan(cases[0].instance.name, (spatial_gpu("v100", [("a", 40, 1, 500.0)]),))
    results = [(case, make_row(instance=case.instance.name, status=Status.FEASIBLE, plan=plan)) for case in cases]
    results[position] = cases[position], make_row(status=Status.UNKNOWN, plan=None, reason=reason)
    suite = _Suite(SchedulerInfo(Entry("s", "s:S")), QUICK, ())
    assert suite._solves(Objective.COST, results).passed is passes


def test_without_a_known_optimum_only_the_judge_objects(make_row: Callable[..., Row]) -> None:
    assert wrong_claim(make_row(status=Status.INFEASIBLE), reachable=None) is None
    broken = make_row(status=Status.FEASIBLE, feasible=False, violation_details=[{"message": "too slow"}])
    assert wrong_claim(broken, reachable=None) == 'reports "feasible"; the judge finds: too slow'
    assert wrong_claim(broken, reachable=None, own_model=True) is None


def test_workloads_may_be_missing_under_goodput_only(make_row: Callable[..., Row]) -> None:
    for objective, lost in ((Objective.COST, True), (Objective.GOODPUT, False)):
        case = small_instances(objective, Partition.SHARES)[0]
        plan = Plan(case.instance.name, (spatial_gpu("v100", [("a", 40, 1, 500.0)]),))
        assert (_missing_workload(case, make_row(plan=plan)) is not None) is lost


# The instances of the checks


def test_known_optima_are_those_of_brute_force() -> None:
    for case in small_instances(Objective.COST, Partition.SHARES):
        if case.instance.slo_rule is SloRule.ATTAINMENT:
            assert case.reachable == case.instance.gpus[0].type.price_per_hour  # no plan costs less than one GPU
        else:
            assert exhaustive.least_cost(case.instance) == pytest.approx(case.reachable)
    first, _ = small_instances(Objective.GOODPUT, Partition.SHARES)
    assert first.reachable == sum(workload.rate_rps for workload in first.instance.workloads)
    (scale,) = small_instances(Objective.SCALE, Partition.SHARES)
    assert scale.reachable is not None


@pytest.mark.soak
def test_known_optima_are_those_of_two_schedulers() -> None:
    from bench.planning import Limits, RunOrder, plan_tasks
    from bench.runner.runner import run_tasks

    known = {case.instance.name: case for objective, partition in ALL for case in small_instances(objective, partition)}
    asked = [case.instance for case in known.values() if case.reachable is not None]
    for schedulers in (["colgen", "mig"], ["local-search", "cpsat"]):
        reached: dict[str, list[float]] = {}
        for scheduler in schedulers:
            tasks, _ = plan_tasks(RunOrder(asked, [scheduler], [], [0], Limits(20.0, 8.0, 1)))
            for row in run_tasks(tasks, None, 2):
                if row.value is not None and row.feasible:
                    reached.setdefault(row.instance, []).append(row.value)
        for name, values in reached.items():
            assert values == pytest.approx([known[name].reachable] * len(values), rel=1e-9)


@pytest.mark.parametrize(("objective", "partition"), ALL)
def test_there_are_instances_for_every_objective(objective: Objective, partition: Partition) -> None:
    made = [*(case.instance for case in small_instances(objective, partition)), large_instance(objective, partition)]
    asked = infeasible_instance(objective, partition)
    made += [] if asked is None else [asked]
    assert all((one.objective, one.partition) == (objective, partition) for one in made)
    assert len({one.name for one in made}) == len(made)


# The built-in schedulers

KNOWN = {
    # Under goodput, pricing fills a table per box without checking the clock.
    "colgen": {"keeps to its deadline"},
    # Under capacity, it assumes 1/n of the GPU's time for each of n processes; their turns can serve less than that.
    "time-slicing": {"keeps every workload"},
}
"""Checks that built-in schedulers fail, and why."""


POLICIES = Path(__file__).parents[2] / "rl/policies"

LEARNED = {"ts", "ts-ni", "ts+repair", "ts-hierarchy"}
"""Schedulers with policies that are trained for some instances only."""

SLOW_TO_LOAD = {"colgen", "cpsat", "minlp", "pwl"} | LEARNED


def failures(name: str, terms: CheckSettings) -> set[str]:
    own = (
        [finding for finding in find_problems(["4gpu"], "") if isinstance(finding, Instance)] if name in LEARNED else []
    )
    info = info_of(name, {"rounds": "200"} if name in ("local-search", "ruin-recreate") else {})
    findings = list(check(info, terms, own))
    print("\n".join(f"{name}: {finding.check}: {finding.passed}: {finding.why}" for finding in findings))
    return {finding.check for finding in findings if not finding.passed}


@pytest.mark.parametrize("name", ["igniter", "mig"])
def test_built_in_schedulers_pass(name: str) -> None:
    assert failures(name, QUICK) == set()


@pytest.mark.parametrize("name", first(5, sorted(set(entries()) - SLOW_TO_LOAD - {"igniter", "mig"})))
def test_schedulers_that_load_fast_pass_on_one_instance(name: str) -> None:
    """One instance takes seconds; all instances take minutes."""
    cases = [small_instances(Objective.COST, Partition.SHARES)[1].instance]
    info = info_of(name, {"rounds": "200"} if name in ("local-search", "ruin-recreate") else {})
    assert [finding for finding in check(info, QUICK, cases) if not finding.passed] == []


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(entries()))
def test_every_built_in_scheduler_passes(name: str) -> None:
    if name == "ts-ni" and not list(POLICIES.glob("ts-ni-*.pt")):
        pytest.skip("no policy is shipped")
    assert failures(name, CheckSettings(time_limit_s=5.0, grace_s=5.0)) <= KNOWN.get(name, set())


@pytest.mark.parametrize("name", sorted({"ffd+", "gpu-lets+", "greedy-best-fit", "gslice+", "guided-self-tuning"}))
def test_schedulers_that_do_not_use_the_judges_model_declare_it(name: str) -> None:
    assert info_of(name).own_model


# The command line


def test_failed_checks_are_printed_and_give_exit_code_1(call: Call) -> None:
    line = "check-plugin random --instances igniter-3 --param random.draws=1 --time-limit 5"
    done = call(f"{line} --format json")
    assert done.code == 0
    assert [finding["passed"] for finding in json.loads(done.out)] == [True] * 7
    assert "random: 7 of 7 checks passed" in done.err
    failed = call("check-plugin ts --instances igniter-12 --time-limit 5")
    assert failed.code == 1
    assert "none of the given instances has an objective that it solves" in failed.out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check-plugin", "NAME: is missing"),
        ("check-plugin ignitr", 'NAME: unknown scheduler "ignitr"; did you mean "igniter"?'),
        ("check-plugin igniter --param ffd+.x=1", '--param ffd+: "ffd+" is not "igniter", the scheduler to check'),
        ("check-plugin igniter --param igniter.x=1", '--param igniter.x: unknown parameter "x"'),
        ("check-plugin igniter --instances gpulet-1023", "--instances gpulet-1023: is a scenario set"),
        ("check-plugin igniter --time-limit 0", "--time-limit: 0; expected"),
    ],
)
def test_wrong_input_is_one_line(call: Call, line: str, message: str) -> None:
    done = call(line)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err
