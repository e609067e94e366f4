"""Figures of the papers' motivation, against the papers and values worked out by hand."""

import numpy as np
import pytest

from heuristics.mediator.utilisation import Utilisation
from instances.catalogue import gpu_type
from instances.interference import gpu_time_beside_ms
from instances.tables import gpu_tables
from reports.papers import (
    gpulet_models,
    gpulet_online,
    igniter_contention,
    igniter_model,
    igniter_plans,
    igniter_slowdown,
    inss_model,
    mediator_contention,
    mediator_jobs,
)

V100 = gpu_type("v100")


# --- iGniter ---


@pytest.mark.parametrize("performance", igniter_slowdown.PERFORMANCE_MODELS)
@pytest.mark.parametrize("model", igniter_contention.MODELS)
def test_every_additional_copy_slows_all_of_them(performance, model):
    for batch in igniter_slowdown.BATCHES:
        slowdown = igniter_slowdown.copies_slowdown(performance, model, batch)
        assert slowdown[0] == 1.0
        assert (np.diff(slowdown) > 0.0).all()


def test_each_workload_adds_a_delay_in_proportion_to_the_kernels():
    steps = {model: np.diff(igniter_contention.scheduling_ms(model))[1:] for model in igniter_contention.MODELS}
    for model, of_model in steps.items():
        assert of_model == pytest.approx(V100.hardware.alpha_sch * V100.model(model).kernels)
    assert steps["resnet50"][0] == pytest.approx(4.0 * steps["alexnet"][0])


def test_the_frequency_falls_from_the_copy_that_reaches_the_cap():
    power, frequency = igniter_contention.power_w("vgg19"), igniter_contention.frequency_mhz("vgg19")
    assert power == pytest.approx(53.5 + (power[0] - 53.5) * np.arange(1, 6))
    assert (frequency == 1530.0).tolist() == [True, True, True, False, False]
    assert frequency[4] == pytest.approx(1530.0 + V100.hardware.alpha_f * (power[4] - 300.0))


def test_the_active_time_grows_with_the_others_use_of_the_cache():
    active, others = igniter_contention.active_ms("resnet50"), igniter_contention.l2_pct_of_others("resnet50")
    assert others[0] == 0.0
    assert active / active[0] - 1.0 == pytest.approx(V100.model("resnet50").alpha_cache * others)


def test_a_neighbours_larger_batch_slows_at_least_as_much():
    for neighbour in igniter_slowdown.NEIGHBOURS:
        for performance in ("igniter", "gpulet", "hybrid"):
            slowdown = igniter_slowdown.neighbour_slowdown(performance, neighbour)
            assert 1.0 < slowdown[0] <= slowdown[-1] < 1.2
            assert (np.diff(slowdown) >= 0.0).all()


def test_a_neighbours_larger_batches_demand_more():
    for neighbour in igniter_slowdown.NEIGHBOURS:
        l2_pct, power_w = igniter_slowdown.neighbour_demands(neighbour)
        assert (np.diff(l2_pct) > 0.0).all()
        assert (np.diff(power_w) > 0.0).all()
    # Sec. 2.2: AlexNet in batches of 32 takes 18.4 % of the L2 cache
    l2_pct, _power_w = igniter_slowdown.neighbour_demands("alexnet")
    assert l2_pct[-1] == pytest.approx(18.4, rel=0.1)


def test_printed_plans_are_late_where_a_full_batch_takes_longer_to_arrive_than_the_slo():
    # AlexNet, SLO 15 ms: 17 / 500 s and 22 / 500 s. ResNet-50, SLO 40 ms: 17 / 400 s. VGG-19, SLO 60 ms: 5 / 200 s.
    assert igniter_plans.printed_plans_if_full(None) == ("A", "A, R", "none")


def test_equation_11_is_close_to_the_profiled_grid():
    for batch in igniter_model.BATCHES:
        assert igniter_model.relative_error(batch) < 0.15
    assert igniter_model.relative_error(32) < 0.02


# --- InSS ---


def test_sixty_percent_are_enough_for_resnet50():
    times_ms = dict(zip(inss_model.SHARES_PCT, inss_model.alone_ms("resnet50", inss_model.BATCH), strict=True))
    assert times_ms[30.0] > 1.2 * times_ms[60.0]
    assert times_ms[60.0] < 1.02 * times_ms[100.0]


def test_the_growths_of_two_neighbours_add_up():
    both = inss_model.growth_pct("both, 30 % each")
    assert both == pytest.approx(inss_model.growth_pct("alexnet 30 %") + inss_model.growth_pct("vgg16 30 %"))
    assert (inss_model.growth_pct("vgg16 60 %") > inss_model.growth_pct("vgg16 30 %")).all()


# --- gpulet ---


def test_large_batches_gain_more_from_a_larger_share():
    for model in gpulet_models.MODELS:
        assert gpulet_models.fifth_gpu_ratio(model, 32) > 2.0
        assert gpulet_models.fifth_gpu_ratio(model, 32) > gpulet_models.fifth_gpu_ratio(model, 1)


@pytest.mark.parametrize("scenarios", ["gpulet-1023", "gpulet-19682"])
def test_the_least_share_for_a_rate_serves_it_and_the_next_smaller_does_not(scenarios):
    for partition in gpulet_models.partitions(scenarios).values():
        served = dict(zip(partition.share_pct, partition.rate_rps, strict=True))
        assert partition.efficient_pct in served
        for rate, required in partition.required_pct.items():
            smaller = [share for share in served if share < required]
            assert served[required] >= rate or required == 100.0
            assert not smaller or served[max(smaller)] < rate


@pytest.mark.parametrize("scenarios", ["gpulet-1023", "gpulet-19682"])
def test_half_a_gpu_serves_about_half_the_rate_or_more(scenarios):
    assert all(0.45 < part < 0.8 for part in gpulet_models.half_gpu_ratios(scenarios).values())


def test_partitions_serve_more_than_turns():
    by_turns, partitioned = (gpulet_online.late_pct(scheme) for scheme in gpulet_online.SCHEMES)
    assert (np.diff(by_turns["lenet"]) > 0.0).all()
    assert (np.array(by_turns["lenet"]) > np.array(partitioned["lenet"])).all()
    assert max(partitioned["lenet"]) < 2.0 < partitioned["vgg16"][-1]
    assert gpulet_online.largest_rate_rps("by turns") == 0.0 < gpulet_online.largest_rate_rps("MPS (20:80)")


def test_readings_of_mps_without_partitions_enclose_mps_20_80():
    """Half a GPU serves VGG-16 worse than four fifths of it, and a whole GPU better."""
    halves, alone = (gpulet_online.late_pct(reading)["vgg16"][-1] for reading in gpulet_online.WITHOUT_PARTITIONS)
    assert halves > gpulet_online.late_pct("MPS (20:80)")["vgg16"][-1] > alone


# --- MediatorDNN ---


def test_two_busy_jobs_take_twice_as_long_by_turns():
    for other in mediator_contention.OTHER_DNNS:
        assert mediator_contention.growth_pct(other) == pytest.approx((100.0, 100.0), abs=15.0)


def test_two_busy_jobs_are_as_slow_as_the_model_predicts():
    """The model's prediction: each stand-in alone on an A100, and on half of it beside the other."""
    instance = next(name for name in mediator_contention.STAND_INS_OF if "pairs" in name)
    gpu = gpu_type("a100")
    tables = gpu_tables(gpu, "hybrid")
    half, whole = tables.share_units // 2, tables.share_units
    for other in mediator_contention.OTHER_DNNS:
        models = [
            list(gpu.models).index(mediator_contention.STAND_INS_OF[instance][dnn])
            for dnn in (mediator_contention.FIRST_DNN, other)
        ]
        demands = np.array([[tables.l2_pct[m, 1, half], tables.dram_pct[m, 1, half], 0.0] for m in models])
        expected = [
            100.0 * (gpu_time_beside_ms(tables, m, 1, half, demands, row) / tables.active_ms[m, 1, whole] - 1.0)
            for row, m in enumerate(models)
        ]
        # During transfers of one job, the other has the GPU to itself
        assert mediator_contention.growth_pct(other, instance) == pytest.approx(expected, abs=2.0)


def test_inception_v3_fluctuates_least_where_the_stand_ins_time_grows_with_the_batch():
    """As in the paper on the CPU; on the V100, the stand-in for PNASNet-Mobile takes as long at every batch."""
    by_turns, in_pairs = (
        [mediator_jobs.job_utilisation(instance).deviation_pct[number - 1] for number in mediator_jobs.FLUCTUATING]
        for instance in mediator_contention.STAND_INS_OF
    )
    assert in_pairs[0] == min(in_pairs)
    assert by_turns[2] == min(by_turns)


def test_utilisation_over_time_has_the_profiles_mean_and_deviation():
    utilisation = mediator_jobs.job_utilisation()
    for number in mediator_jobs.FLUCTUATING:
        over_time = mediator_jobs.over_time_pct(number)
        assert utilisation.mean_pct[number - 1] == pytest.approx(over_time.mean())
        assert utilisation.deviation_pct[number - 1] == pytest.approx(over_time.std())


def test_the_largest_ratio_of_metrics_skips_zeros(monkeypatch):
    """A metric that is 0 for a job, such as an unknown power, does not count."""
    metrics = np.array([[1.0, 30.0, 0.0], [4.0, 10.0, 0.0], [2.0, 20.0, 5.0]])
    monkeypatch.setattr(mediator_jobs, "of_jobs", lambda *_: Utilisation(np.ones(3), np.ones(3), metrics))
    assert mediator_jobs.largest_metric_ratio() == 4.0


def test_the_largest_ratio_of_deviations_is_among_similar_means():
    utilisation = mediator_jobs.JobUtilisation(np.array([10.0, 10.4, 20.0]), np.array([1.0, 3.0, 9.0]))
    assert mediator_jobs.deviation_ratio(utilisation) == pytest.approx(3.0)
    assert mediator_jobs.deviation_ratio(utilisation, tolerance=0.5) == pytest.approx(9.0)
