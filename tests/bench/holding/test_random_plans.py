"""The check whether a plan holds, on random plans whose missed fraction is known from far longer simulations."""

from collections import Counter
from random import Random

import pytest

from bench.holding import windows
from bench.holding.check import holding
from bench.plan_simulation import finished
from bench.simulation.arrivals import Arrivals
from tests.bench.holding.random_problems import FRACTIONS, MeasuredProblem, known

KINDS = ("slot", "slot", "slot", "beside another", "service")
LATE, UNCLEAR, IN_TIME = "late", "cannot tell", "in time"


def verdicts(problem: MeasuredProblem, repeats: int) -> Counter[str]:
    """Return the counts of verdicts on the first workload, by ``repeats`` checks with different seeds."""
    counts: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for number in range(repeats):
            patch.setattr(windows, "FIRST_SEED", 7_000_000 + 1000 * number)
            attainment = finished(holding(problem.plan, problem.instance, Arrivals())).workloads[0]
            counts[LATE if attainment.late else UNCLEAR if attainment.unclear else IN_TIME] += 1
    return counts


def described(problem: MeasuredProblem, counts: Counter[str]) -> str:
    workload = problem.instance.workloads[0]
    missed = f"misses {100.0 * problem.missed_fraction:.3f} ± {100.0 * problem.error:.3f} %"
    return f"{problem.kind}, SLO {workload.slo_ms:.0f} ms, {workload.rate_rps:.1f} req/s: {missed}: {dict(counts)}"


def checked_problems(count: int, repeats: int, seed: int) -> list[tuple[MeasuredProblem, Counter[str]]]:
    random, checked = Random(seed), []
    while len(checked) < count:
        number = len(checked)
        # 5 kinds and 6 fractions have no common divisor, so every kind is drawn with every fraction.
        problem = known(random, KINDS[number % len(KINDS)], FRACTIONS[number % len(FRACTIONS)])
        if problem is not None:
            checked.append((problem, verdicts(problem, repeats)))
            print(described(*checked[-1]), flush=True)  # shown by pytest -s
    return checked


def fraction(
    checked: list[tuple[MeasuredProblem, Counter[str]]], low: float, high: float, verdict: str
) -> tuple[float, int]:
    """Return the share of a verdict among those on problems with a missed fraction in a range, and their number."""
    counts_in_range = [counts for problem, counts in checked if low <= problem.missed_fraction <= high]
    total = sum(counts.total() for counts in counts_in_range)
    return sum(counts[verdict] for counts in counts_in_range) / max(1, total), total


def test_a_few_random_plans() -> None:
    checked = checked_problems(2, 1, 1)

    assert fraction(checked, 0.0, 0.0085, LATE)[0] == 0.0
    assert fraction(checked, 0.0145, 1.0, IN_TIME)[0] == 0.0


@pytest.mark.soak
def test_two_hundred_random_plans() -> None:
    checked = checked_problems(200, 5, 2)

    for low, high in (
        (0.0, 0.007),
        (0.007, 0.0095),
        (0.0095, 0.0100),
        (0.0100, 0.0105),
        (0.0105, 0.0145),
        (0.0145, 0.03),
        (0.03, 1.0),
    ):
        shares = {verdict: fraction(checked, low, high, verdict) for verdict in (LATE, UNCLEAR, IN_TIME)}
        print(f"{100 * low:.2f} to {100 * high:.2f} %: {shares}")
    false_alarms, tests = fraction(checked, 0.0, 0.0100, LATE)
    assert tests > 300
    assert false_alarms <= 0.05
    at_the_target, tests = fraction(checked, 0.0095, 0.0100, LATE)
    assert at_the_target <= 0.05 + 3.0 * (0.05 * 0.95 / max(1, tests)) ** 0.5
    overlooked, tests = fraction(checked, 0.0145, 1.0, IN_TIME)
    assert tests > 150
    assert overlooked <= 0.05
