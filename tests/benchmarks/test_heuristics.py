"""Benchmarks of the papers' schedulers at 4, 16 and 64 GPUs; ``make bench`` prints the tables."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.api import Run, Scheduler, Status
from heuristics.baselines.local_search import LocalSearch
from heuristics.baselines.random_fit import RandomFit
from heuristics.baselines.ruin_recreate import RuinRecreate
from heuristics.gpulet.best_fit import GreedyBestFit, GuidedSelfTuning
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning, Variant
from heuristics.gpulet.gpu_scaling import GpuScaling
from heuristics.gpulet.ideal import Ideal
from heuristics.gpulet.sbp import SquishyBinPacking
from heuristics.igniter.gpu_lets_plus import GpuLetsPlus
from heuristics.igniter.gslice_plus import GslicePlus
from heuristics.igniter.igniter import FfdPlus, FfdPlusPlus, IGniter
from heuristics.mediator.mediator import BinPacking, Horus, Mediator
from instances import Instance
from instances.generate import generate
from tests.heuristics import glet
from tests.soak import first

GPUS = [4, 16, 64]
FAMILY = {4: generate("heavy-mix", 10, 0), 16: generate("heavy-mix", 40, 0), 64: generate("heavy-mix", 160, 0)}
"""Instances by the approximate number of V100s that they need."""

RATES_PER_GPU_RPS = (735.0, 175.0, 73.5, 45.5)
"""Rates of gpulet's four models for each GPU, at which every scheduler finds a plan."""


def by_name(scheduler: Scheduler) -> str:
    variant = getattr(scheduler, "variant", "")
    return f"{scheduler.name} {variant}".strip()


def decide(benchmark: BenchmarkFixture, scheduler: Scheduler, problem: Instance) -> None:
    scheduler.warm(problem.objective)  # type: ignore[attr-defined]

    outcome = benchmark(scheduler.schedule, problem, Run())

    assert outcome.status is Status.FEASIBLE


@pytest.mark.parametrize("gpus", first(2, GPUS))
@pytest.mark.parametrize(
    "scheduler",
    [
        IGniter(),
        FfdPlus(),
        FfdPlusPlus(),
        GpuLetsPlus(),
        GslicePlus(),
        ElasticPartitioning(),
        GreedyBestFit(),
        GuidedSelfTuning(),
        SquishyBinPacking(),
        Ideal(),
        GpuScaling(),
        Mediator(),
        Horus(),
        BinPacking(),
        RandomFit(),
        LocalSearch(rounds=0),
        RuinRecreate(rounds=0),
    ],
    ids=by_name,
)
def test_workloads_in_proportion_to_gpus(benchmark: BenchmarkFixture, scheduler: Scheduler, gpus: int) -> None:
    benchmark.group = f"{gpus} GPUs, {len(FAMILY[gpus].workloads)} workloads"
    decide(benchmark, scheduler, FAMILY[gpus])


@pytest.mark.parametrize("gpus", first(2, GPUS))
@pytest.mark.parametrize(
    "scheduler",
    [
        ElasticPartitioning(Variant.ATC22),
        ElasticPartitioning(Variant.ARXIV),
        GreedyBestFit(),
        GuidedSelfTuning(),
        SquishyBinPacking(),
        Ideal(),
        GpuScaling(),
    ],
    ids=by_name,
)
def test_four_models_at_rates_in_proportion_to_gpus(
    benchmark: BenchmarkFixture, scheduler: Scheduler, gpus: int
) -> None:
    benchmark.group = f"{gpus} GPUs, 4 models"
    decide(benchmark, scheduler, glet.serving([rate * gpus for rate in RATES_PER_GPU_RPS], gpus))
