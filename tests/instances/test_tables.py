"""The dense tables: every entry is the performance model's, and unsupported entries cannot be chosen."""

from dataclasses import replace

import numpy as np
import pytest

from instances import DnnModel, InputError
from instances.catalogue import gpu_type
from instances.tables import gpu_tables
from instances.tolerance import widened
from tests.instances import reference
from tests.instances.reference import LARGE, SMALL, TOY

V100 = gpu_type("v100")
V100_TABLES = gpu_tables(V100, "igniter")
# LARGE has batches up to 3, SMALL up to 8
UNEVEN = replace(TOY, name="uneven", models={"small": SMALL, "large": replace(LARGE, max_batch=3)})


@pytest.mark.parametrize("name", sorted(V100.models))
def test_every_entry_is_the_models(name: str) -> None:
    model, row = V100.models[name], list(V100.models).index(name)
    batches, units = range(1, model.max_batch + 1), range(1, V100.share_units + 1)

    for values, reference_of in (
        (V100_TABLES.active_ms, reference.active_ms),
        (V100_TABLES.l2_pct, reference.l2_pct),
        (V100_TABLES.power_w, reference.power_w),
    ):
        expected = [[reference_of(model, b, V100.share_pct(u)) for u in units] for b in batches]
        np.testing.assert_allclose(values[row, 1:, 1:], expected, rtol=1e-13, atol=1e-11)
    for b in batches:
        load_ms, feedback_ms = reference.transfers_ms(V100, model, b)
        assert V100_TABLES.transfer_ms[row, b] == pytest.approx(load_ms + feedback_ms, rel=1e-14)
        assert V100_TABLES.exposed_ms[row, b] == pytest.approx(feedback_ms, rel=1e-14)
        assert V100_TABLES.memory_mib[row, b] == pytest.approx(model.memory_mib(b), rel=1e-13)


def test_rows_follow_the_order_of_the_models() -> None:
    expected = [(m.scheduling_alone_ms, m.kernels, m.alpha_cache, m.max_batch) for m in V100.models.values()]

    columns = (V100_TABLES.scheduling_ms, V100_TABLES.kernels, V100_TABLES.alpha_l2, V100_TABLES.max_batch)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


def test_scalars_are_the_hardwares() -> None:
    tables, hardware = V100_TABLES, V100.hardware

    assert (tables.share_units, tables.memory_limit_mib) == (V100.share_units, widened(V100.memory_mib))
    assert (tables.alpha_sch, tables.beta_sch) == (hardware.alpha_sch, hardware.beta_sch)
    assert (tables.idle_power_w, tables.max_power_w) == (hardware.idle_power_w, hardware.max_power_w)
    assert tables.throttle_per_w == hardware.alpha_f / hardware.max_frequency_mhz


def test_batch_and_share_zero_take_infinite_time_and_demand_nothing() -> None:
    for entries in (np.s_[:, 0, :], np.s_[:, :, 0]):
        assert np.all(np.isinf(V100_TABLES.active_ms[entries]))
        for demand in (V100_TABLES.l2_pct, V100_TABLES.dram_pct, V100_TABLES.power_w):
            assert np.all(demand[entries] == 0.0)


def test_batches_that_a_model_does_not_support_are_impossible() -> None:
    tables = gpu_tables(UNEVEN, "igniter")

    assert tables.max_batch.tolist() == [8, 3]
    for values in (tables.active_ms, tables.transfer_ms, tables.exposed_ms, tables.memory_mib):
        assert np.all(np.isinf(values[1, 4:]))
        assert np.all(np.isfinite(values[1, 1:4, 1:] if values.ndim == 3 else values[1, 1:4]))
        assert np.all(np.isfinite(values[0, 1:, 1:] if values.ndim == 3 else values[0, 1:]))


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (None, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ((2, 4, 5, 8), [2, 2, 4, 4, 5, 8, 8, 8, 11, 11, 11]),
        ((10,), [10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 11]),
        ((8, 2, 5, 4), [2, 2, 4, 4, 5, 8, 8, 8, 11, 11, 11]),
    ],
    ids=["every unit", "gaps", "whole GPU only", "in any order"],
)
def test_next_share_is_the_next_larger_permitted_one(allowed: tuple[int, ...] | None, expected: list[int]) -> None:
    gpu = replace(TOY, name=f"toy {allowed}", allowed_shares=allowed)

    assert gpu_tables(gpu, "igniter").next_share.tolist() == expected


def test_equal_gpus_share_their_tables() -> None:
    assert gpu_tables(replace(V100), "igniter") is gpu_tables(V100, "igniter")


def test_a_gpu_that_differs_in_one_coefficient_has_separate_tables() -> None:
    faster: DnnModel = replace(SMALL, k=(0.0, 20.0, 0.0, 0.0, 1.0))

    assert gpu_tables(TOY, "igniter").active_ms[0, 1, 4] == 2.0
    assert gpu_tables(replace(TOY, models={"small": faster}), "igniter").active_ms[0, 1, 4] == 1.5


def test_an_unknown_performance_model_is_named() -> None:
    with pytest.raises(InputError, match='unknown performance model "igniter2"'):
        gpu_tables(V100, "igniter2")
