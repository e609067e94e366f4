"""The models inss, gpulet and hybrid: points worked out by hand, monotonicity, and agreement with the kernels."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import GpuPool, InputError, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type, gpu_type_names
from instances.interference import gpu_time_beside_ms, gpu_time_ms, gpu_times_ms
from instances.least_shares import least_shares, premises_satisfied
from instances.measurements import Configuration
from instances.performance import performance_model, performance_model_names
from instances.performance.gpulet import tabulated_ms
from instances.performance.inss import locally_weighted, regressed_ms
from instances.performance.model import alone_ms
from instances.performance.validation import check_known, latencies_ms
from instances.tables import gpu_tables
from tests.instances.profiles import COMPANY, PROFILED, SOLO
from tests.instances.reference import TOY

SHARED = [gpu for gpu in map(gpu_type, gpu_type_names()) if gpu.mig is None and gpu.models]
SMALL_MODEL = PROFILED.models["small"]


def array_of(value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(value)


# --- Times alone ---


@pytest.mark.parametrize("curve", [alone_ms, tabulated_ms])
def test_curves_match_the_table_at_its_points(curve: object) -> None:
    assert callable(curve)
    for (i, batch), (j, share) in product(enumerate(SOLO.batch), enumerate(SOLO.share_pct)):
        assert float(curve(SOLO, array_of(batch), array_of(share))) == pytest.approx(SOLO.gpu_ms[i][j], rel=1e-12)


def test_between_points_times_are_geometric_in_batch_and_share() -> None:
    # batch 4 at 70.71 % is, in logarithms, halfway between 50 % (8 ms) and 100 % (4 ms)
    assert float(alone_ms(SOLO, array_of(4.0), array_of(np.sqrt(5000.0)))) == pytest.approx(np.sqrt(32.0))


def test_gpulets_table_is_linear_in_the_batch() -> None:
    assert float(tabulated_ms(SOLO, array_of(6.0), array_of(50.0))) == pytest.approx(12.0)


def test_between_shares_every_batch_follows_the_curve_of_the_largest() -> None:
    # The largest batch takes 16 ms at 50 % and 8 ms at 100 %, in proportion: 10 ms at 80 %, three quarters of the way.
    assert float(tabulated_ms(SOLO, array_of(4.0), array_of(80.0))) == pytest.approx(8.0 - 0.75 * 4.0)
    assert float(tabulated_ms(SOLO, array_of(1.0), array_of(80.0))) == pytest.approx(2.0)


def test_below_the_table_small_batches_become_bound_by_their_work() -> None:
    flat = replace(SOLO, gpu_ms=((5.0, 5.0, 5.0), *SOLO.gpu_ms[1:]))

    for curve in (alone_ms, tabulated_ms, regressed_ms):
        # 40 ms for 8 items at 20 % means 50 ms for one item at 2 %
        assert float(curve(flat, array_of(1.0), array_of(2.0))) == pytest.approx(50.0, rel=0.3)
        assert float(curve(flat, array_of(1.0), array_of(2.0))) >= 50.0


def test_a_local_plane_is_recovered_exactly() -> None:
    points = np.array(list(product([0.0, 1.0, 2.0, 3.0], [0.0, 2.0, 5.0])))
    queries = np.array([[0.5, 1.0], [2.5, 4.9], [0.0, 0.0]])

    fitted = locally_weighted(points, 3.0 + 2.0 * points[:, 0] - points[:, 1], queries, 0.6)

    assert fitted == pytest.approx(3.0 + 2.0 * queries[:, 0] - queries[:, 1], abs=1e-6)


def test_regression_ignores_distant_points() -> None:
    points = np.array(list(product(range(6), range(6))), dtype=float)
    values = np.where(points[:, 0] > 3, 100.0, 1.0)

    assert locally_weighted(points, values, np.array([[0.5, 0.5]]), 0.15) == pytest.approx([1.0], abs=1e-6)


# --- Company ---


def test_times_of_inss_grow_with_the_sums_of_the_others() -> None:
    tables = gpu_tables(PROFILED, "inss")

    alone = gpu_time_ms(tables, 0, 4, 5, 1, 0.0, 0.0, 0.0)
    beside = gpu_time_ms(tables, 0, 4, 5, 3, 10.0, 20.0, 500.0)

    assert beside / alone == pytest.approx(1.0 + 0.01 * 10.0 + 0.02 * 20.0)  # Sec. 4.1; neither power nor delays count
    ability = 4000.0 / tables.active_ms[0, 4, 5]
    assert tables.l2_pct[0, 4, 5] == pytest.approx(0.02 * ability + 2.0)
    assert tables.dram_pct[0, 4, 5] == pytest.approx(0.04 * ability + 1.0)


def test_gpulets_factor_is_as_worked_out_by_hand() -> None:
    # 50 % each, batch 4 beside batch 8: L2 15 and 15 %, DRAM 25 and 30 %
    both = [Configuration("small", 4, 50.0), Configuration("large", 8, 50.0)]
    (times,) = latencies_ms(PROFILED, "gpulet", [both])

    factor = 0.1 * 0.15 + 0.5 * 0.15 + 0.2 * 0.25 + 0.4 * 0.30 + 0.9
    transfer_ms = 4 * 0.15
    assert times[0] == pytest.approx(8.0 * factor + transfer_ms)


def test_gpulets_factor_is_never_below_1() -> None:
    helpful = replace(PROFILED, name="helpful", pair=replace(PROFILED.pair, constant=0.2))
    (times,) = latencies_ms(helpful, "gpulet", [[Configuration("small", 1, 50.0), Configuration("small", 1, 50.0)]])

    assert times[0] == pytest.approx(2.0 + 0.15)


def test_growths_of_pairs_add_up_and_none_is_negative() -> None:
    quiet = replace(PROFILED, name="quiet", pair=replace(PROFILED.pair, constant=0.8))
    own, light, heavy = (
        Configuration("small", 4, 20.0),
        Configuration("small", 1, 20.0),
        Configuration("large", 8, 60.0),
    )
    pairs = latencies_ms(quiet, "gpulet", [[own, light], [own, heavy]])
    (three,) = latencies_ms(quiet, "gpulet", [[own, light, heavy]])

    transfer_ms = 4 * 0.15
    growths_ms = [times[0] - transfer_ms - 20.0 for times in pairs]
    assert growths_ms[0] == pytest.approx(0.0, abs=1e-12)  # clipped
    assert growths_ms[1] > 0.0
    assert three[0] == pytest.approx(
        20.0 + growths_ms[1] + transfer_ms
    )  # one factor of the summed utilisations would be larger


def test_hybrid_applies_the_factor_of_company_and_adds_the_sums() -> None:
    tables = gpu_tables(PROFILED, "hybrid")

    alone = gpu_time_ms(tables, 0, 1, 5, 1, 0.0, 0.0, 0.0)
    beside = gpu_time_ms(tables, 0, 1, 5, 2, 10.0, 20.0, 0.0)

    assert alone == pytest.approx(2.0)
    delay_ms = 10 * 0.01  # equation 6 for two residents
    assert beside == pytest.approx(2.0 * (4.0 / 2.0 + 0.002 * 10.0 + 0.003 * 20.0) + delay_ms)


def test_hybrids_time_in_company_is_at_least_the_time_alone() -> None:
    tables = gpu_tables(PROFILED, "hybrid")

    assert np.all(tables.company[:, 1:, 1:] >= 1.0)


@pytest.mark.parametrize("model_name", performance_model_names())
def test_the_judges_times_are_the_schedulers(model_name: str) -> None:
    tables = gpu_tables(PROFILED, model_name)
    model, batch, units = np.array([0, 1, 0]), np.array([2, 4, 8]), np.array([3, 2, 4])
    for count in (1, 2, 3):
        times = np.empty(count)
        gpu_times_ms(tables, model, batch, units, count, times)
        configurations = list(zip(model[:count], batch[:count], units[:count], strict=True))
        demands = np.array([[tables.l2_pct[p], tables.dram_pct[p], tables.power_w[p]] for p in configurations])
        for i, configuration in enumerate(configurations):
            assert gpu_time_beside_ms(tables, *configuration, demands, i) == pytest.approx(times[i], rel=1e-12)


def test_a_model_of_pairs_admits_no_three_on_a_gpu() -> None:
    units = np.zeros(3, dtype=np.int64)
    model, batch, budget = np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.int64), np.full((3, 1), 1e6)

    assert not least_shares(gpu_tables(PROFILED, "gpulet"), model, batch, budget, units)
    assert least_shares(gpu_tables(PROFILED, "gpulet"), model[:2], batch[:2], budget[:2], units[:2])
    assert least_shares(gpu_tables(PROFILED, "inss"), model, batch, budget, units)


# --- The catalogue ---


@pytest.mark.parametrize("model_name", performance_model_names())
@pytest.mark.parametrize("gpu", SHARED, ids=lambda gpu: gpu.name)
def test_exact_methods_can_use_every_model_on_every_entry(gpu: object, model_name: str) -> None:
    tables = gpu_tables(gpu, model_name)  # type: ignore[arg-type]

    assert premises_satisfied(tables)


@given(st.sampled_from(SHARED), st.data())
def test_times_never_rise_with_the_share_nor_fall_with_the_batch(gpu: object, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(list(gpu.models.values())))  # type: ignore[attr-defined]
    batch = data.draw(st.integers(1, model.max_batch - 1))
    low, high = sorted(data.draw(st.tuples(st.floats(2.0, 100.0), st.floats(2.0, 100.0))))

    for curve in (alone_ms, tabulated_ms):
        times = [
            float(curve(model.solo, array_of(b), array_of(s)))
            for b, s in ((batch, low), (batch, high), (batch + 1, low))
        ]
        assert times[1] <= times[0] * (1 + 1e-12)
        assert times[2] >= times[0] * (1 - 1e-12)


def test_lines_that_cross_below_the_profiled_shares_keep_the_order_of_the_batches() -> None:
    solo = gpu_type("h100-sxm").models["alexnet"].solo
    assert solo is not None
    times = [float(alone_ms(solo, array_of(batch), array_of(2.0))) for batch in range(1, 33)]
    assert times == sorted(times)


def test_performance_models_without_figures_are_refused() -> None:
    workloads = (Workload("w", "small", 50.0, 10.0),)
    for model_name, missing in (("inss", "solo times and InSS growths"), ("gpulet", "solo times and a pair factor")):
        with pytest.raises(
            InputError, match=f'mix: performance_model: is "{model_name}"; toy has no {missing} for small'
        ):
            Instance("mix", Objective.COST, SloRule.HALF_SLO, model_name, (GpuPool(TOY),), workloads)


@pytest.mark.parametrize("model_name", ["inss", "gpulet", "hybrid"])
def test_missing_figures_are_named(model_name: str) -> None:
    with pytest.raises(InputError, match="which"):
        performance_model(model_name).demand(TOY, TOY.models["small"], array_of(1.0), array_of(50.0))


def test_predictions_need_known_models_and_batches() -> None:
    with pytest.raises(InputError, match=r'pairs\.csv: unknown model on profiled "smal"; did you mean "small"\?'):
        check_known(PROFILED, [Configuration("smal", 1, 20.0)], "pairs.csv")
    with pytest.raises(InputError, match=r"small b9 20 %: figures on profiled exist up to batch 8"):
        check_known(PROFILED, [Configuration("small", 9, 20.0)], "pairs.csv")


def test_times_in_company_are_at_least_those_alone() -> None:
    assert np.all(np.array(COMPANY.gpu_ms) >= SOLO.times_ms)
    for gpu in SHARED:
        for model in gpu.models.values():
            assert model.solo is not None
            assert model.company is not None
            assert np.all(np.array(model.company.gpu_ms) >= model.solo.times_ms), (gpu.name, model.name)
