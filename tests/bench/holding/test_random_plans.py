"""The test on random slots and services whose missed fraction is known from far longer simulations."""

from collections import Counter
from random import Random

import pytest

from bench.holding import windows
from bench.holding.check import holding
from bench.plan_simulation import finished
from bench.simulation.arrivals import Arrivals
from tests.bench.holding.random_problems import FRACTIONS, Known, known

KINDS = ("slot", "slot", "slot", "beside another", "service")
LATE, UNCLEAR, IN_TIME = "late", "cannot tell", "in time"


def verdicts(problem: Known, repeats: int) -> Counter[str]:
    """Verdicts on the first workload, by tests with seeds of their own."""
    found: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for number in range(repeats):
            patch.setattr(windows, "FIRST_SEED", 7_000_000 + 1000 * number)
            one = finished(holding(problem.plan, problem.instance, Arrivals())).workloads[0]
            found[LATE if one.late else UNCLEAR if one.unclear else IN_TIME] += 1
    return found


def described(problem: Known, told: Counter[str]) -> str:
    made = problem.instance.workloads[0]
    missed = f"misses {100.0 * problem.missed:.3f} ± {100.0 * problem.error:.3f} %"
    return f"{problem.kind}, SLO {made.slo_ms:.0f} ms, {made.rate_rps:.1f} req/s: {missed}: {dict(told)}"


def tried(count: int, repeats: int, seed: int) -> list[tuple[Known, Counter[str]]]:
    random, found = Random(seed), []
    while len(found) < count:
        number = len(found)
        # Five kinds and six fractions have no common divisor, so every kind gets every fraction.
        problem = known(random, KINDS[number % len(KINDS)], FRACTIONS[number % len(FRACTIONS)])
        if problem is not None:
            found.append((problem, verdicts(problem, repeats)))
            print(described(*found[-1]), flush=True)  # with pytest -s
    return found


def fraction(found: list[tuple[Known, Counter[str]]], low: float, high: float, verdict: str) -> tuple[float, int]:
    """Fraction of a verdict on the problems whose missed fraction lies in a range, and the number of these verdicts."""
    chosen = [told for problem, told in found if low <= problem.missed <= high]
    total = sum(told.total() for told in chosen)
    return sum(told[verdict] for told in chosen) / max(1, total), total


def test_a_few_random_plans() -> None:
    found = tried(10, 1, 1)

    assert fraction(found, 0.0, 0.0085, LATE)[0] == 0.0
    assert fraction(found, 0.0145, 1.0, IN_TIME)[0] == 0.0


@pytest.mark.soak
def test_two_hundred_random_plans() -> None:
    found = tried(200, 5, 2)

    for low, high in (
        (0.0, 0.007),
        (0.007, 0.0095),
        (0.0095, 0.0100),
        (0.0100, 0.0105),
        (0.0105, 0.0145),
        (0.0145, 0.03),
        (0.03, 1.0),
    ):
        parts = {verdict: fraction(found, low, high, verdict) for verdict in (LATE, UNCLEAR, IN_TIME)}
        print(f"{100 * low:.2f} to {100 * high:.2f} %: {parts}")
    false_alarms, tests = fraction(found, 0.0, 0.0100, LATE)
    assert tests > 300
    assert false_alarms <= 0.05
    at_the_target, tests = fraction(found, 0.0095, 0.0100, LATE)
    assert at_the_target <= 0.05 + 3.0 * (0.05 * 0.95 / max(1, tests)) ** 0.5
    overlooked, tests = fraction(found, 0.0145, 1.0, IN_TIME)
    assert tests > 150
    assert overlooked <= 0.05
