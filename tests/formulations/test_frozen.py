"""Known answers on files that carry their GPU types, so that no change of the catalogue moves them."""

import time

import pytest

from bench.api import Run, Scheduler, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from instances import GpuType, Instance
from instances.files import read_instance
from tests.frozen import FROZEN, frozen

SOLVABLE_S = 120.0
"""Many times what any of these instances takes."""


@pytest.mark.parametrize("scheduler", [ColGen(), CpSat()], ids=["colgen", "cpsat"])
@pytest.mark.parametrize(
    ("name", "optimum_rps"),
    [
        ("inss-small", 14_259.616),  # problem (1) of InSS by brute force: three workloads on two A100s
        ("icap0", 4_163.20760979613),
        ("icap2", 4_054.539358114026),
        ("icap4", 5_171.673601019666),
        ("icap6", 2_296.6376282870083),
    ],
)
def test_the_most_throughput_is_known(scheduler: Scheduler, name: str, optimum_rps: float) -> None:
    instance = frozen(name)

    outcome = scheduler.schedule(instance, Run(deadline=time.monotonic() + SOLVABLE_S))

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value == pytest.approx(optimum_rps, rel=1e-7)
    assert outcome.bound.value == pytest.approx(optimum_rps, rel=1e-7)


def test_frozen_files_read_no_type_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> GpuType:
        raise AssertionError(f"{name} was read from the catalogue")

    monkeypatch.setattr("instances.files.instance.gpu_type", refuse)
    for file in sorted(FROZEN.glob("*.json")):
        assert isinstance(read_instance(file), Instance)
