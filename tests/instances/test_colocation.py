"""Jobs on one GPU: against values worked out by hand and a second simulator with fixed steps, and invariants."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import Job
from instances.catalogue import gpu_type
from instances.colocation import (
    WINDOW_MS,
    WINDOWS,
    Launches,
    Sample,
    draw_launches,
    run_alone,
    run_together,
)
from instances.interference import gpu_time_beside_ms
from instances.tables import Tables, gpu_tables

V100 = gpu_type("v100")
TABLES = gpu_tables(V100, "igniter")
ROWS = {name: row for row, name in enumerate(V100.models)}
RTX = gpu_type("rtx2080ti")
HORIZON_MS = WINDOWS * WINDOW_MS
JOB = Job("j", "resnet50", (4, 8), (1.0, 3.0), (40.0, 200.0), (3.0, 1.0))


def drawn_launches(
    job: Job = JOB, largest_batch: int = 8, seed: int | None = 0, sample: Sample = Sample.TRIAL
) -> Launches:
    return draw_launches(TABLES, ROWS[job.model], job, largest_batch, seed, sample)


def launches_at(model: str, *launches: tuple[float, int]) -> Launches:
    arrivals, batches = zip(*launches, strict=True)
    return Launches(ROWS[model], np.array(arrivals), np.array(batches, dtype=np.int64))


def demands_of(*places: tuple[int, int, int]) -> np.ndarray:
    """Return the demands of launches at these (model, batch, units) on a V100."""
    return np.array([[TABLES.l2_pct[p], TABLES.dram_pct[p], TABLES.power_w[p]] for p in places]).reshape(-1, 3)


def alone_ms(model: str, batch: int, units: int = 40, tables: Tables = TABLES) -> float:
    configuration = ROWS[model], batch, units
    return gpu_time_beside_ms(tables, *configuration, demands_of(configuration), 0)


# --- Launches ---


def test_sizes_and_gaps_of_batches_follow_the_jobs_weights() -> None:
    launches = drawn_launches(replace(JOB, batches=(4, 8, 7), batch_weights=(1.0, 3.0, 0.0)))

    sizes = Counter(launches.batch.tolist())
    assert set(sizes) == {4, 8}
    assert sizes[8] / sizes[4] == pytest.approx(3.0, rel=0.15)
    gaps = Counter(np.diff(launches.arrival_ms, prepend=0.0).round(6).tolist())
    assert set(gaps) == {40.0, 200.0}
    assert gaps[40.0] / gaps[200.0] == pytest.approx(3.0, rel=0.15)
    assert launches.arrival_ms[-1] < HORIZON_MS <= launches.arrival_ms[-1] + 200.0
    assert JOB.rate_rps == pytest.approx(1000 * 7 / 80)


def test_launches_repeat_for_equal_arguments_only() -> None:
    first = drawn_launches()

    assert np.array_equal(drawn_launches().arrival_ms, first.arrival_ms)
    for other in (
        drawn_launches(seed=1),
        drawn_launches(seed=None),
        drawn_launches(sample=Sample.PROFILE),
        drawn_launches(replace(JOB, id="k")),
    ):
        assert not np.array_equal(other.arrival_ms[:50], first.arrival_ms[:50])
    assert np.array_equal(drawn_launches(replace(JOB, model="ssd")).arrival_ms, first.arrival_ms)


def test_large_batches_are_split_into_several_launches() -> None:
    whole, parts = drawn_launches(largest_batch=8), drawn_launches(largest_batch=3)

    # 8 is 3 + 3 + 2, and 4 is 3 + 1
    assert Counter(parts.batch.tolist()) == {
        3: 2 * (whole.batch == 8).sum() + (whole.batch == 4).sum(),
        2: (whole.batch == 8).sum(),
        1: (whole.batch == 4).sum(),
    }
    for arrival_ms, size in zip(whole.arrival_ms, whole.batch, strict=True):
        assert parts.batch[parts.arrival_ms == arrival_ms].sum() == size


@pytest.mark.parametrize(("sizes", "gap_ms"), [((4,), 0.0), ((2**31 - 1,), 50.0), ((1,), 1e-9)])
def test_a_job_with_far_too_much_work_keeps_the_gpu_busy(sizes: tuple[int, ...], gap_ms: float) -> None:
    launches = drawn_launches(Job("j", "ssd", sizes, (1.0,), (gap_ms,), (1.0,)), largest_batch=4)

    done = run_together(TABLES, [launches])

    assert len(launches.batch) < 10 * HORIZON_MS
    transfer_ms = TABLES.transfer_ms[ROWS["ssd"], launches.batch[0]]
    gpu_ms = alone_ms("ssd", int(launches.batch[0]))
    assert done.utilisation.mean() == pytest.approx(gpu_ms / (gpu_ms + transfer_ms), rel=1e-3)
    assert done.throughput_rps[0] == pytest.approx(1000 * launches.batch[0] / (gpu_ms + transfer_ms), rel=1e-3)


def test_a_job_whose_first_batch_is_after_the_horizon_has_no_launches() -> None:
    launches = drawn_launches(replace(JOB, interarrival_ms=(HORIZON_MS,), interarrival_weights=(1.0,)))

    assert len(launches.batch) == len(launches.arrival_ms) == 0
    assert run_together(TABLES, [launches]).served.tolist() == [0]
    assert not run_alone(TABLES, [launches]).any()


# --- Times worked out by hand ---


def test_a_single_job_takes_its_time_alone() -> None:
    upload, gpu_ms = TABLES.transfer_ms[ROWS["resnet50"], 8], alone_ms("resnet50", 8)

    done = run_together(TABLES, [launches_at("resnet50", (10.0, 8), (999.0 - upload, 8))])

    assert done.served.tolist() == [16]
    assert done.launches.tolist() == [2]
    assert done.on_gpu_ms == pytest.approx([2 * gpu_ms])
    # The second launch starts on the GPU 1 ms before the first second ends
    assert done.utilisation[0, :3] * WINDOW_MS == pytest.approx([gpu_ms + 1.0, gpu_ms - 1.0, 0.0])
    assert done.utilisation == pytest.approx(
        run_alone(TABLES, [launches_at("resnet50", (10.0, 8), (999.0 - upload, 8))])
    )


def test_batches_wait_for_earlier_ones() -> None:
    period_ms = TABLES.transfer_ms[ROWS["ssd"], 8] + alone_ms("ssd", 8)
    count = int(HORIZON_MS / period_ms)

    done = run_together(TABLES, [launches_at("ssd", *[(0.0, 8)] * (count + 5))])

    assert done.launches.tolist() == [count]


def test_two_jobs_take_turns_and_slow_each_other() -> None:
    half = ROWS["vgg19"], 8, 20
    factor = gpu_time_beside_ms(TABLES, *half, demands_of(half, half), 0) / alone_ms("vgg19", 8, 20)

    done = run_together(TABLES, [launches_at("vgg19", (5.0, 8)), launches_at("vgg19", (5.0, 8))])

    assert factor > 1.01
    assert done.on_gpu_ms == pytest.approx([2 * factor * alone_ms("vgg19", 8)] * 2)
    assert done.utilisation[:, 0] * WINDOW_MS == pytest.approx([factor * alone_ms("vgg19", 8)] * 2)


@pytest.mark.parametrize("count", [2, 3])
def test_concurrent_launches_take_the_time_of_an_equal_share(count: int) -> None:
    part = ROWS["vgg19"], 8, 40 // count
    beside_ms = gpu_time_beside_ms(TABLES, *part, demands_of(*[part] * count), 0)

    done = run_together(TABLES, [launches_at("vgg19", (5.0, 8))] * count, concurrent=True)

    assert done.on_gpu_ms == pytest.approx([beside_ms] * count)
    assert done.utilisation[:, 0] * WINDOW_MS == pytest.approx([beside_ms / count] * count)


def test_concurrent_launches_that_gain_nothing_from_share_do_not_slow_each_other() -> None:
    """A launch that takes as long on half the GPU as on the whole is not slowed by another, without contention."""
    flat = TABLES._replace(
        active_ms=np.full_like(TABLES.active_ms, 10.0),
        scheduling_ms=np.zeros(4),
        alpha_l2=np.zeros(4),
        kernels=np.zeros(4),
        max_power_w=1e6,
    )
    pair = [launches_at("vgg19", (5.0, 8)), launches_at("vgg19", (5.0, 8))]

    assert run_together(flat, pair, concurrent=True).on_gpu_ms == pytest.approx([10.0, 10.0])
    assert run_together(flat, pair).on_gpu_ms == pytest.approx([20.0, 20.0])


def test_a_later_launch_delays_the_rest_of_an_earlier_one() -> None:
    without_contention = TABLES._replace(alpha_l2=np.zeros(4), kernels=np.zeros(4), max_power_w=1e6)
    long_ms, short_ms = alone_ms("ssd", 32, 40, without_contention), alone_ms("alexnet", 1, 40, without_contention)
    upload = TABLES.transfer_ms[:, 1][ROWS["alexnet"]] - TABLES.transfer_ms[:, 32][ROWS["ssd"]]

    done = run_together(
        without_contention, [launches_at("ssd", (20.0, 32)), launches_at("alexnet", (40.0 - upload, 1))]
    )

    assert done.on_gpu_ms == pytest.approx([long_ms + short_ms, 2 * short_ms])
    assert done.utilisation[:, 0] * WINDOW_MS == pytest.approx([long_ms, short_ms])


@pytest.mark.parametrize("others", [0, 1, 2])
def test_no_launch_ends_if_the_frequency_falls_to_zero(others: int) -> None:
    hot = TABLES._replace(max_power_w=-1e5)

    done = run_together(hot, [launches_at("vgg19", (5.0, 8), (6.0, 8))] * (1 + others))

    assert not done.served.any()
    assert done.utilisation[:, 1:].sum(axis=0) == pytest.approx(np.ones(WINDOWS - 1))


def test_no_jobs_are_an_empty_gpu() -> None:
    assert run_together(TABLES, []).utilisation.shape == (0, WINDOWS)
    assert run_alone(TABLES, []).shape == (0, WINDOWS)


# --- Against a simulator with fixed steps ---


def in_steps(jobs: list[Launches], until_ms: float, step_ms: float, concurrent: bool) -> tuple[list[int], list[float]]:
    """Return the launches done and the GPU time taken by each job, from a simulation in small fixed steps."""
    done, taken = [0] * len(jobs), [0.0] * len(jobs)
    free, left = [0.0] * len(jobs), [None] * len(jobs)
    for step in range(round(until_ms / step_ms)):
        now = step * step_ms
        for i, job in enumerate(jobs):
            if left[i] is None and done[i] < len(job.batch):
                batch = job.batch[done[i]]
                if now >= max(free[i], job.arrival_ms[done[i]]) + TABLES.transfer_ms[job.model, batch]:
                    configuration = job.model, batch, 40
                    left[i] = gpu_time_beside_ms(TABLES, *configuration, demands_of(configuration), 0)
        running = [i for i in range(len(jobs)) if left[i] is not None]
        units = 40 // max(1, len(running))
        places = [(jobs[i].model, jobs[i].batch[done[i]], units) for i in running]
        for n, i in enumerate(running):
            single_ms = gpu_time_beside_ms(TABLES, *places[n], demands_of(places[n]), 0)
            beside_ms = gpu_time_beside_ms(TABLES, *places[n], demands_of(*places), n)
            whole = jobs[i].model, jobs[i].batch[done[i]], 40
            whole_ms = gpu_time_beside_ms(TABLES, *whole, demands_of(whole), 0)
            left[i] -= step_ms * (whole_ms if concurrent else single_ms / len(running)) / beside_ms
            taken[i] += step_ms / len(running)
            if left[i] <= 0.0:
                done[i], free[i], left[i] = done[i] + 1, now + step_ms, None
    return done, taken


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_event_simulator_agrees_with_fixed_steps(seed: int, concurrent: bool) -> None:
    random = np.random.default_rng(seed)
    jobs = []
    for model in random.choice(["alexnet", "resnet50", "vgg19", "ssd"], 3):
        arrivals = np.sort(random.uniform(0.0, 250.0, 6))
        jobs.append(Launches(ROWS[str(model)], arrivals, random.integers(1, 9, 6)))

    done = run_together(TABLES, jobs, concurrent)
    steps, taken = in_steps(jobs, 1000.0, 0.02, concurrent)

    assert done.launches.tolist() == steps == [6, 6, 6]
    assert done.utilisation.sum(axis=1) * WINDOW_MS == pytest.approx(taken, rel=0.02)


# --- Invariants ---


@st.composite
def groups_of_jobs(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for n in range(draw(st.integers(1, 5))):
        sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=3))
        gaps = draw(st.lists(st.floats(20.0, 5000.0), min_size=1, max_size=3))
        weights = [1.0] * len(sizes), [1.0] * len(gaps)
        jobs.append(
            Job(f"j{n}", draw(st.sampled_from(sorted(RTX.models))), tuple(sizes), weights[0], tuple(gaps), weights[1])
        )
    return jobs


@given(groups_of_jobs())
@settings(max_examples=40)
def test_work_is_neither_added_nor_lost(jobs: list[Job]) -> None:
    tables, rows = gpu_tables(RTX, "gpulet"), list(RTX.models)
    drawn_launches = [
        draw_launches(tables, rows.index(job.model), job, min(32, max(job.batches)), 0, Sample.TRIAL) for job in jobs
    ]

    done = run_together(tables, drawn_launches)
    alone_utilisation = run_alone(tables, drawn_launches)

    assert np.all(done.utilisation >= 0.0)
    assert np.all(done.utilisation.sum(axis=0) <= 1.0 + 1e-9)
    assert np.all(alone_utilisation <= 1.0 + 1e-9)
    for n, launches in enumerate(drawn_launches):
        count = done.launches[n]
        assert done.served[n] == launches.batch[:count].sum()
        assert count <= (launches.arrival_ms < HORIZON_MS).sum()
        single = run_together(tables, [launches])
        assert count <= single.launches[0]
        # A launch takes at least as much of the GPU as it does alone
        needed = (
            tables.scheduling_ms[launches.model] + tables.active_ms[launches.model, launches.batch[:count], 10]
        ).sum()
        assert done.utilisation[n].sum() * WINDOW_MS >= needed * (1.0 - 1e-9)
        assert done.on_gpu_ms[n] >= done.utilisation[n].sum() * WINDOW_MS * (1.0 - 1e-9)
    reversed_done = run_together(tables, drawn_launches[::-1])
    assert reversed_done.served[::-1].tolist() == done.served.tolist()
