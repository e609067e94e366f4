"""Batching time: a part of the inference time that depends on neither the share nor the neighbours."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import GpuPool, GpuType, InputError, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type_from_toml, gpu_type_to_toml
from instances.files import instance_from_json, instance_to_json
from instances.measurements import Configuration
from instances.performance import interference_model_names, performance_model
from instances.performance.validation import latencies_ms
from instances.tables import gpu_tables
from tests.instances.profiles import PROFILED, SOLO

BATCHING_MS = (0.5, 1.25, 2.0, 6.0)
"""Times for the batches of ``SOLO``: 1, 2, 4 and 8."""


def with_batching(gpu: GpuType, batching_ms: tuple[float, ...] = BATCHING_MS) -> GpuType:
    """Return ``gpu`` with these batching times for every profiled model."""
    models = {
        name: model if model.solo is None else replace(model, solo=replace(model.solo, batching_ms=batching_ms))
        for name, model in gpu.models.items()
    }
    return replace(gpu, models=models)


WITH_BATCHING = with_batching(PROFILED)
CONFIGURATIONS = st.builds(
    Configuration, st.sampled_from(["small", "large"]), st.integers(1, 8), st.sampled_from([10.0, 20.0, 35.0, 50.0])
)


@pytest.mark.parametrize("name", interference_model_names())
def test_only_the_transfers_of_the_tables_change(name: str) -> None:
    plain_tables, tables_with_batching = gpu_tables(PROFILED, name), gpu_tables(WITH_BATCHING, name)
    batching_ms = np.interp(np.arange(1, 9), SOLO.batch, BATCHING_MS)  # 3 and 5 to 7 lie between the profiled batches

    changed = {
        field
        for field, before, after in zip(plain_tables._fields, plain_tables, tables_with_batching, strict=True)
        if not np.array_equal(before, after)
    }

    overlaps = performance_model(name).loading_overlaps
    assert changed == ({"transfer_ms"} if overlaps else {"transfer_ms", "exposed_ms"})
    for field in changed:
        added_ms = getattr(tables_with_batching, field)[:, 1:] - getattr(plain_tables, field)[:, 1:]
        assert added_ms == pytest.approx(np.tile(batching_ms, (2, 1)))


@given(group=st.lists(CONFIGURATIONS, min_size=1, max_size=2), name=st.sampled_from(interference_model_names()))
def test_the_share_and_the_neighbours_do_not_change_the_batching_time(group: list[Configuration], name: str) -> None:
    (without_ms,), (with_ms,) = latencies_ms(PROFILED, name, [group]), latencies_ms(WITH_BATCHING, name, [group])

    batching_ms = [float(np.interp(configuration.batch, SOLO.batch, BATCHING_MS)) for configuration in group]
    assert with_ms - without_ms == pytest.approx(np.array(batching_ms))


# --- Files ---


def instance_on(gpu: GpuType) -> Instance:
    workloads = (Workload("w", "small", 40.0, 50.0),)
    return Instance("one", Objective.COST, SloRule.HALF_SLO, "gpulet", (GpuPool(gpu, None),), workloads)


def test_files_state_batching_times_only_if_there_are_any() -> None:
    text, plain_text = gpu_type_to_toml(WITH_BATCHING), gpu_type_to_toml(PROFILED)

    assert "batching_ms = [0.5, 1.25, 2.0, 6.0]" in text
    assert "batching_ms" not in plain_text
    assert gpu_type_from_toml(tomllib.loads(text), "test") == WITH_BATCHING
    assert instance_from_json(instance_to_json(instance_on(WITH_BATCHING))) == instance_on(WITH_BATCHING)


def test_the_fingerprint_depends_on_batching_times() -> None:
    fingerprints = {
        instance_on(gpu).fingerprint
        for gpu in (PROFILED, WITH_BATCHING, with_batching(PROFILED, (0.5, 1.25, 2.0, 7.0)))
    }

    assert len(fingerprints) == 3
    assert instance_on(with_batching(PROFILED, ())).fingerprint == instance_on(PROFILED).fingerprint


@pytest.mark.parametrize("times", [[0.5], [0.5, 1.0, 2.0, "long"]])
def test_batching_times_are_one_number_for_each_batch(times: list[object]) -> None:
    entry = tomllib.loads(gpu_type_to_toml(WITH_BATCHING))
    entry["models"]["small"]["solo"]["batching_ms"] = times

    with pytest.raises(InputError, match=r"batching_ms.*expected a list of 4 finite numbers"):
        gpu_type_from_toml(entry, "test")
