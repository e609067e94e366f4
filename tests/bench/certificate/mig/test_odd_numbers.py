"""Certificates of MIG instances with odd prices, rates, SLOs, counts and sizes: each is answered in one line."""

import warnings
from collections import Counter
from fractions import Fraction
from random import Random

import pytest

from bench.api import Outcome, Run
from bench.certificate.certificate import NO_PLAN_EXISTS
from bench.certificate.checking import check
from bench.judging.judge import judge
from formulations.mig import Mig
from instances import GpuPool, GpuType, Instance, MigConfiguration, MigProfile, MigSlice, Objective, SloRule, Workload
from instances.gpu import ISOLATED
from instances.mig import MIG_TABLE
from tests.bench.certificate.mig.made import proven, said
from tests.bench.certificate.mutations import Data
from tests.bench.certificate.odd_claims import answers
from tests.formulations.tiny_mig import BLOCKED, FOURTHS, SLICES, tiny_gpu, tiny_instance
from tests.instances.reference import INVENTED
from tests.soak import first

PRICES = (0.30000000000000004, 1.01, 1e-9, 1e12, 4.1, 1e200, 5e-324, 0.1, 1 / 3, 2.0**-40, 1e-300, 7.0)
RATES = (1e-200, 1e-9, 0.1 + 0.2, 1 / 3, 20.0, 97.3, 250.00000000000003, 1e5, 1e15, 1e200)
LATENCIES_MS = (1e-3, 10.000000000000002, 25.0, 1e5, 1e300)
COUNTS = (None, None, 1, 2, 1000, 2**31 - 1)
MANY_STARTS = (MigSlice(1, 1, tuple(range(9))), MigSlice(2, 2, tuple(range(8))), MigSlice(3, 5, (0, 4)))


def odd_instance(random: Random) -> Instance:
    models = ("m0", "m1")
    pools = []
    for number in range(random.randint(1, 3)):
        slices = random.choice((SLICES, FOURTHS, BLOCKED, MANY_STARTS))
        profile = {
            model: tuple(
                MigConfiguration(
                    size.units,
                    1,
                    random.randint(1, 3),
                    random.choice(RATES[2:7] if random.random() < 0.9 else RATES[2:9]),
                    random.choice(LATENCIES_MS[:3] if random.random() < 0.9 else LATENCIES_MS),
                )
                for size in slices
            )
            for model in models
        }
        price = random.choice(PRICES)
        gpu = GpuType(f"g{number}", 4, 1000.0, price, ISOLATED, {}, INVENTED, mig=MigProfile(slices, profile))
        pools.append(GpuPool(gpu, random.choice(COUNTS)))
    workloads = tuple(
        Workload(
            f"w{n}", random.choice(models), random.choice((20.000000000000004, 50.0, 1e4)), random.choice(RATES[:7])
        )
        for n in range(random.choice((1, 2, 3, 12)))
    )
    buffer = random.choice((1.0, 1.0, 1.1))
    return Instance("odd", Objective.COST, SloRule.HALF_SLO, MIG_TABLE, tuple(pools), workloads, latency_buffer=buffer)


def assert_true(sentence: str, data: Data, instance: Instance, outcome: Outcome) -> None:
    """Assert that a proven claim does not contradict the plan that the run found."""
    if sentence.startswith("proven") and outcome.plan is not None and judge(outcome.plan, instance).feasible:
        assert data["claim"]["bound"] != NO_PLAN_EXISTS, sentence
        assert Fraction(data["claim"]["bound"]) <= Fraction(repr(judge(outcome.plan, instance).value)) * (
            1 + Fraction(1, 10**12)
        ), sentence


def sentences(seed: int) -> list[str]:
    """Return the answers for one odd instance: those of its own certificate and of a changed one."""
    random = Random(seed)
    instance = odd_instance(random)
    outcome = Mig().schedule(instance, Run(work_limit=20))
    plan = outcome.plan if outcome.plan is not None and judge(outcome.plan, instance).feasible else None
    return answers(
        instance, outcome, plan, random, lambda sentence, data: assert_true(sentence, data, instance, outcome)
    )


@pytest.mark.parametrize("begin", first(2, range(0, 80, 20)))
def test_odd_certificates_are_answered_in_one_line(begin: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answered = [sentence for seed in range(begin, begin + 20) for sentence in sentences(seed)]

    assert not any("\n" in sentence for sentence in answered)
    kinds = Counter(sentence.partition(":")[0] for sentence in answered)
    assert set(kinds) <= {"proven", "not proven", "given up"}
    assert kinds["proven"] >= 10
    assert kinds["not proven"] >= 5


@pytest.mark.soak
def test_400_odd_certificates_are_answered_in_one_line() -> None:
    answered = [sentence for seed in range(80, 480) for sentence in sentences(seed)]

    assert not any("\n" in sentence for sentence in answered)


@pytest.mark.parametrize("rate", [1e-200, 1e-9, 1e199])
def test_the_smallest_and_largest_rates_are_exact(rate: float) -> None:
    """Three MIG instances serve the workload, two do not."""
    gpu = tiny_gpu("tiny", 1.0, [[0.0, 0.0, rate]])
    instance = tiny_instance([GpuPool(gpu)], [rate * 3.0])

    assert said(proven(instance)) == "proven: 3 GPUs, no split plan has fewer"


def test_rates_that_are_not_finite_are_given_up() -> None:
    gpu = tiny_gpu("tiny", 1.0, [[0.0, 0.0, 1.7976931348623157e308]])
    data = {**proven(tiny_instance([GpuPool(tiny_gpu("tiny", 1.0, [[0.0, 0.0, 5.0]]))], [4.0])), "plan": None}
    rows = data["instance"]["catalogue"]["tiny"]["mig"]["models"]["m0"]
    rows[0][3] = gpu.mig.models["m0"][0].throughput_rps if gpu.mig else 0.0

    assert said(data) == "given up: the rate of m0 on a MIG instance is not finite"


def test_large_arrays_of_rates_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    data = proven(tiny_instance([GpuPool(tiny_gpu("tiny", 1.0, [[1.0, 2.0, 3.0]]))], [4.0]))
    monkeypatch.setattr("bench.certificate.failures.MOST_NUMBERS", 100)

    verdict = check(data, "proof")

    assert verdict.given_up
    assert verdict.sentence.startswith("given up: the rates of MIG instances would take 256 numbers in memory")
