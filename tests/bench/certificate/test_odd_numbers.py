"""Certificates with odd prices, rates, SLOs and counts: the answer to each is one line, in limited memory.

Child processes make and check the certificates, since the peak memory is that of a process.
"""

import json
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.api import Outcome, Run
from bench.certificate.certificate import NO_PLAN_EXISTS
from bench.judging.judge import judge
from formulations.colgen import ColGen
from instances import GpuPool, Instance, Objective, SloRule, Workload
from tests.bench.certificate.drawn import COARSE
from tests.bench.certificate.odd_claims import answers

PRICES = (0.30000000000000004, 1.01, 1e-9, 1e12, 3.06, 1e200, 5e-324, 0.1, 1 / 3, 2.0**-40, 1e-300, 7.0)
RATES = (1e-200, 1e-9, 0.1 + 0.2, 1 / 3, 20.0, 97.3, 250.00000000000003, 1e5, 1e15, 1e200)
SLOS_MS = (1e-3, 20.000000000000004, 50.0, 333.3333333333333, 1e5, 1e300)
COUNTS = (None, None, 1, 2, 1000, 2**31 - 1)
MOST_MIB = 2048  # peak memory of a child process
OBJECTIVES = (Objective.COST, Objective.COST, Objective.CAPACITY, Objective.GOODPUT, Objective.SCALE)
RULES = (SloRule.HALF_SLO, SloRule.DUTY_CYCLE, SloRule.ASSEMBLY)


def odd_instance(random: Random) -> Instance:
    objective = random.choice(OBJECTIVES)
    bounded = objective is not Objective.COST
    pools = tuple(
        GpuPool(
            replace(COARSE, name=f"g{n}", price_per_hour=random.choice(PRICES)),
            random.choice(COUNTS[2:] if bounded else COUNTS),
        )
        for n in range(random.randint(1, 3))
    )
    models = sorted(COARSE.models)
    workloads = tuple(
        Workload(f"w{n}", random.choice(models), random.choice(SLOS_MS[2:5]), random.choice(RATES[1:7]))
        for n in range(random.choice((1, 2, 3, 5, 12)))
    )
    if random.random() < 0.4:
        at = random.randrange(len(workloads))
        changed = replace(workloads[at], rate_rps=random.choice(RATES), slo_ms=random.choice(SLOS_MS))
        workloads = (*workloads[:at], changed, *workloads[at + 1 :])
    return Instance("odd", objective, random.choice(RULES), "igniter", pools, workloads)


def assert_true(sentence: str, data: Mapping[str, Any], instance: Instance, outcome: Outcome) -> None:
    """Assert that a proven claim does not contradict the plan that the run found."""
    if not sentence.startswith("proven") or outcome.plan is None:
        return
    claimed, value = data["claim"]["bound"], judge(outcome.plan, instance).value
    assert claimed != NO_PLAN_EXISTS, sentence
    tolerance = 1 if instance.objective is Objective.COST else 1 + Fraction(1, 10**8)
    if instance.objective.minimised:
        assert Fraction(claimed) <= Fraction(repr(value)) * tolerance, sentence
    else:
        assert Fraction(claimed) * tolerance >= Fraction(value), sentence


def sentences(seed: int) -> list[str]:
    """Return the answers for one odd instance: those of its own certificate and of a changed one."""
    random = Random(seed)
    instance = odd_instance(random)
    outcome = ColGen().schedule(instance, Run(work_limit=20_000))
    return answers(
        instance, outcome, outcome.plan, random, lambda sentence, data: assert_true(sentence, data, instance, outcome)
    )


def answers_by_kind(first: int, last: int) -> dict[str, int]:
    """Check the certificates of seeds ``first`` to ``last - 1``; return the answers by kind, and the peak in MiB."""
    kinds = {"proven": 0, "not proven": 0, "given up": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(first, last):
            for sentence in sentences(seed):
                assert "\n" not in sentence, (seed, sentence)
                kinds[sentence.partition(":")[0]] += 1
    return {**kinds, "peak_mib": peak_mib()}


def peak_mib() -> int:
    """Return the peak memory of this process; ``getrusage`` may report the parent's peak instead."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def in_a_child(first: int, last: int) -> dict[str, int]:
    code = f"import json; from {__name__} import answers_by_kind; print(json.dumps(answers_by_kind({first}, {last})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


def test_odd_certificates_are_answered_in_one_line() -> None:
    counts = in_a_child(0, 20)
    assert counts["proven"] > 5
    assert counts["not proven"] > 2
    assert counts["peak_mib"] < MOST_MIB


@pytest.mark.soak
@pytest.mark.parametrize("part", range(6))
def test_600_odd_certificates_are_answered_in_one_line(part: int) -> None:
    counts = in_a_child(1000 + 50 * part, 1050 + 50 * part)
    assert counts["proven"] > 10
    assert counts["peak_mib"] < MOST_MIB
    print(counts)
