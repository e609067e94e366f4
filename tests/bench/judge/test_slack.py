"""Slack in verdicts: a plan with slack s meets its SLOs if all latencies are 1 + s times as long, but not longer."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from bench.judging.judge import judge
from instances import Instance, Plan, SloRule, spatial_gpu
from instances.generate import generate
from tests.bench.judge import test_mig as mig
from tests.bench.judge.test_turns import SLOW_A, SLOW_B
from tests.bench.toys import ROWS, TURNS, instance, of, plan

TOLERANCE = 1e-6


def breaks_slo(answer: Plan, problem: Instance, factor: float) -> bool:
    """Return whether an SLO is violated if all latencies are ``factor`` times as long."""
    slower = replace(problem, latency_buffer=problem.latency_buffer * factor)
    return any(violation.kind in ("latency", "duty-cycle", "rate") for violation in judge(answer, slower).violations)


def judged_cases() -> Iterator[tuple[str, Plan, Instance]]:
    """Yield plans under every rule, with turns, with planned rates above the workloads', and on MIG instances."""
    random = Random(3)
    for rule in SloRule:
        for case in range(6):
            problem = replace(
                generate("igniter-mix", 3, random.randrange(10**9), name="toys"), slo_rule=rule, latency_buffer=1.25
            )
            rows = [(w.id, random.randint(4, 12), random.randint(1, 9), w.rate_rps) for w in problem.workloads]
            yield f"{rule} {case}", Plan("toys", (spatial_gpu("v100", rows),)), problem
    yield "full batches", plan(ROWS), instance()
    yield "rates above the arriving ones", plan([("a", 4, 1, 220.0), ("b", 4, 2, 150.0)]), instance()
    yield "turns", of(TURNS), instance(SLOW_A, SLOW_B)
    yield "turns that take all of the cycle", of(replace(TURNS, duty_cycle_ms=13.0)), instance(SLOW_A, SLOW_B)
    yield "MIG", mig.plan([mig.bert(0)]), mig.instance(mig.BERT)
    yield "MIG at a low rate", mig.plan([mig.bert(0, rate_rps=7.0)]), mig.instance(replace(mig.BERT, rate_rps=7.0))


def test_a_plan_meets_its_slos_up_to_its_slack_and_not_beyond(subtests: pytest.Subtests) -> None:
    signs = set()
    for name, answer, problem in judged_cases():
        with subtests.test(name):
            slack = judge(answer, problem).least_slack
            assert slack is not None
            # At a slack of -1, a batch takes longer to assemble than its SLO, whatever its latency.
            assert slack <= -1.0 or not breaks_slo(answer, problem, (1.0 + slack) * (1.0 - TOLERANCE))
            assert breaks_slo(answer, problem, max(TOLERANCE, (1.0 + slack) * (1.0 + TOLERANCE)))
            signs.add(slack > 0.0 if slack > -1.0 else None)
    assert signs == {True, False, None}


def test_slack_is_that_calculated_by_hand() -> None:
    # GPU times of 2.4 and 11.6 ms, transfers of 0.15 and 0.3 ms, limits of 5.12 / 2 and 24.2 / 2 ms
    a, b = judge(plan(ROWS), instance()).slots
    assert (a.slack, b.slack) == pytest.approx((2.56 / 2.55 - 1.0, 12.1 / 11.9 - 1.0))
    # Inference times of 2.25 and 10.5 ms; SLOs of 30 and 40 ms after a cycle of 20 ms
    a, b = judge(of(TURNS), instance(SLOW_A, SLOW_B)).slots
    assert (a.slack, b.slack) == pytest.approx((20.0 / 12.75 - 1.0, 20.0 / 12.75 - 1.0))


def test_a_plan_without_slots_has_no_slack() -> None:
    assert judge(Plan("toys", ()), instance()).least_slack is None
