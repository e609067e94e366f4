"""Known answers on instance files that contain their GPU types, so that no change of the catalogue affects them."""

import time

import numpy as np
import pytest

from bench.api import Run, Scheduler, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.cpsat import CpSat
from instances import GpuType, Instance
from instances.files import read_instance
from instances.tables import gpu_tables
from tests.frozen import FROZEN, frozen, frozen_type

SOLVABLE_S = 120.0
"""Time limit of a run: many times what any of these instances takes."""


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
def test_the_known_largest_throughput_is_proven(scheduler: Scheduler, name: str, optimum_rps: float) -> None:
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


@pytest.mark.parametrize(
    ("name", "digest"),
    [("4gpu", "6af7e54a7837abb5"), ("gpulet-scen2", "e6f8e241f0182892"), ("hetero-2-12", "6767a4b20937378b")],
)
def test_files_without_batching_times_keep_the_digest_from_before_batching_times_existed(
    name: str, digest: str
) -> None:
    assert frozen(name).fingerprint.startswith(digest)


@pytest.mark.parametrize(("model", "sum_ms"), [("gpulet", 200_411.19017643458), ("inss", 200_792.85862641883)])
def test_a_missing_batching_time_is_zero(model: str, sum_ms: float) -> None:
    """The sums over all models, batches and shares were recorded before batching times existed."""
    tables = gpu_tables(frozen_type("rtx2080ti"), model)

    assert np.sum(tables.active_ms[:, 1:33, 1:11]) == pytest.approx(sum_ms, rel=1e-9)
    assert np.sum(tables.transfer_ms[:, 1:33]) == pytest.approx(287.8332864, rel=1e-9)
