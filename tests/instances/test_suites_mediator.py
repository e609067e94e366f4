"""MediatorDNN's forty jobs: the figures of the paper's tables, and the models that stand in for its DNNs."""

from dataclasses import replace
from itertools import pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import Job, Objective
from instances.catalogue import gpu_type
from instances.files import instance_from_json, instance_to_json
from instances.memory import CONTEXT_MIB, memory_mib
from instances.suites import suite
from instances.suites.mediator import (
    DEVIATION,
    DNNS,
    GAP_AND_BATCH,
    IMAGE_DNNS,
    PAIRED_STAND_INS,
    STAND_INS,
    log_normal,
)

MIXES = suite("mediator-40").build()
PAIRS = suite("mediator-pairs").build()
BY_MIX = [{int(job.id.removeprefix("j")): job for job in mix.jobs} for mix in MIXES]

# "Computational complexity" of Table II
COMPLEXITY = {
    "Inc-V1": 13.22,
    "Inc-V2": 22.34,
    "Inc-V3": 54.25,
    "Inc-V4": 91.95,
    "MobV1-1": 8.42,
    "MobV1-05": 2.64,
    "MobV1-025": 0.93,
    "MobV2-1": 6.94,
    "MobV2-14": 12.12,
    "NAS-Large": 177.12,
    "NAS-Mob": 10.51,
    "PNAS-Large": 171.77,
    "PNAS-Mob": 10.06,
    "ResV2-50": 51.01,
    "ResV2-101": 88.89,
    "ResV2-152": 120.08,
}
NOT_CLASSIFIERS = ("lenet",)


def parameters_millions(model: str) -> float:
    return (memory_mib(model)[0] - CONTEXT_MIB) * 2**20 / 4e6


def spread(values: tuple[float, ...], weights: tuple[float, ...]) -> float:
    mean = np.average(values, weights=weights)
    return float(np.sqrt(np.average((np.array(values) - mean) ** 2, weights=weights)))


def test_there_are_five_mixes_of_forty_jobs() -> None:
    assert [mix.name for mix in MIXES] == [f"mediator-40-s{seed}" for seed in range(5)]
    for mix in MIXES:
        assert mix.objective is Objective.COLOCATION
        assert [job.id for job in mix.jobs] == [f"j{number}" for number in range(1, 41)]
        assert mix.workloads == ()
    assert len({mix.jobs for mix in MIXES}) == 5


@pytest.mark.parametrize(
    ("number", "dnn"),
    [
        (1, "Inc-V1"),
        (4, "Inc-V4"),
        (8, "MobV2-1"),
        (12, "PNAS-Large"),
        (19, "Inc-V3"),
        (20, "Inc-V4"),
        (24, "MobV2-1"),
        (30, "ResV2-50"),
        (36, "TextClassif"),
        (40, "DeepVS"),
    ],
)
def test_jobs_are_numbered_as_in_table_3(number: int, dnn: str) -> None:
    assert DNNS[number - 1] == dnn
    assert all(mix[number].model == STAND_INS[dnn] for mix in BY_MIX)


@pytest.mark.parametrize("number", sorted(GAP_AND_BATCH))
def test_means_are_those_of_the_tables(number: int) -> None:
    gap_ms, batch = GAP_AND_BATCH[number]
    for mix in BY_MIX:
        assert mix[number].mean_gap_ms == pytest.approx(gap_ms, abs=0.1)
        assert mix[number].mean_batch == pytest.approx(batch, rel=0.03)


@pytest.mark.parametrize("number", sorted(DEVIATION))
def test_deviations_are_those_of_table_1(number: int) -> None:
    gap_ms, batch = DEVIATION[number]
    job = BY_MIX[0][number]

    assert spread(job.interarrival_ms, job.interarrival_weights) == pytest.approx(gap_ms, rel=0.05)
    assert spread(job.batches, job.batch_weights) == pytest.approx(batch, rel=0.08)


def test_unpublished_values_are_within_the_ranges_of_the_tables() -> None:
    for mix in BY_MIX:
        for number in set(range(1, 41)) - set(GAP_AND_BATCH):
            job = mix[number]
            assert 111 <= job.mean_gap_ms <= 459
            assert 1 <= job.mean_batch <= 40
            assert 0.04 <= spread(job.interarrival_ms, job.interarrival_weights) / job.mean_gap_ms <= 0.07
    assert len({mix[2].mean_gap_ms for mix in BY_MIX}) == 5


def test_complexity_is_twice_the_number_of_parameters() -> None:
    catalogue_models = {"Inc-V1": "googlenet", "Inc-V3": "inception", "MobV2-1": "mobilenet", "ResV2-50": "resnet50"}
    for dnn, model in catalogue_models.items():
        assert COMPLEXITY[dnn] == pytest.approx(2 * parameters_millions(model), rel=0.015)


@pytest.mark.parametrize(("gpu", "stand_ins"), [("v100-rapp", STAND_INS), ("a100", PAIRED_STAND_INS)])
def test_the_stand_in_of_an_image_classifier_is_the_nearest_in_size(
    gpu: str, stand_ins: dict[str, str], subtests: pytest.Subtests
) -> None:
    classifiers = set(gpu_type(gpu).models) - set(NOT_CLASSIFIERS)
    for dnn in IMAGE_DNNS:
        with subtests.test(dnn):
            nearest = min(classifiers, key=lambda model: abs(log(2 * parameters_millions(model) / COMPLEXITY[dnn])))

            assert stand_ins[dnn] == nearest


def test_pairs_are_the_image_jobs_with_other_models() -> None:
    assert [mix.name for mix in PAIRS] == [f"mediator-pairs-s{seed}" for seed in range(5)]
    for mix, pairs in zip(MIXES, PAIRS, strict=True):
        assert pairs.performance_model == "hybrid"
        assert len(pairs.jobs) == 32
        for job, other, dnn in zip(mix.jobs, pairs.jobs, DNNS, strict=False):
            assert replace(other, model=job.model) == job
            assert other.model == PAIRED_STAND_INS[dnn]
        assert "11 of 32 jobs" in pairs.provenance


def test_the_provenance_lists_the_stand_ins() -> None:
    for mix in MIXES:
        assert all(f"{dnn} by {model}" in mix.provenance for dnn, model in STAND_INS.items())
        assert "13 of 40 jobs" in mix.provenance


def test_a_mix_round_trips_through_its_file() -> None:
    for mix in MIXES:
        assert instance_from_json(instance_to_json(mix)).fingerprint == mix.fingerprint


@given(st.floats(0.1, 1000.0), st.floats(0.0, 1.5), st.integers(1, 64))
def test_log_normal_has_the_mean_and_at_most_the_deviation(mean: float, variation: float, points: int) -> None:
    values = log_normal(mean, variation * mean, points)

    assert len(values) == points
    assert sum(values) / points == pytest.approx(mean, rel=1e-6)
    assert all(0.0 < low <= high * (1 + 1e-9) for low, high in pairwise(values))
    assert np.std(values) <= variation * mean * (1 + 1e-6) + 1e-9


def test_rates_of_jobs_are_batches_per_gap() -> None:
    job = Job("j", "lenet", (2, 6), (1.0, 3.0), (10.0, 30.0), (1.0, 1.0))

    assert (job.mean_batch, job.mean_gap_ms, job.rate_rps) == (5.0, 20.0, 250.0)
    assert Job("j", "lenet", (2,), (1.0,), (0.0,), (1.0,)).rate_rps == float("inf")
