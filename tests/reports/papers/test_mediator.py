"""MediatorDNN's figures: the published example, improvements by job, and demand against capacity."""

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from matplotlib.colors import to_hex

from bench.api import Run
from bench.judging.colocation import over_capacity_pct
from bench.judging.judge import judge
from heuristics.mediator.closest import fill_closest
from heuristics.mediator.mediator import BinPacking, Horus, Mediator
from heuristics.mediator.utilisation import of_jobs
from instances.suites import suite
from instances.suites.mediator import DEVIATION, IMAGE_DNNS, STAND_INS
from instances.view import View
from reports.charts.palette import ALARM, scheduler_look
from reports.need import NothingToDrawError
from reports.papers.mediator_groups import (
    busiest_group,
    colocations,
    deviation_pct,
    first_over_pct,
    gpus_in_use,
    longest_over_pct,
    profiled_groups,
    profiled_over_pct,
)
from reports.papers.mediator_setup import COMPLEXITY, FORTY, SETUP, TABLE_III, complexity_ratios
from reports.papers.mediator_throughput import FIG8, FIG8_PAIRS, improvement_pct, job_throughputs


@pytest.fixture(scope="module")
def rows(make_row):
    """Return a row by scheduler for the first mix."""
    problem = suite("mediator-40").build()[0]
    plans = {rule.name: rule.schedule(problem, Run()).plan for rule in (Mediator(), Horus(), BinPacking())}
    return {name: make_row(name, problem.name, plan=plan) for name, plan in plans.items()}


# --- Fig. 4 ---


def test_mediators_groups_of_the_example_deviate_by_31_instead_of_40(draw):
    page = draw("mediator-fig4", [])
    deviations = {name: [deviation_pct(group) for group in groups] for name, groups in colocations().items()}
    assert {name: round(sum(deviations_pct)) for name, deviations_pct in deviations.items()} == {
        "bin-packing": 40,
        "mediator": 31,
    }
    for ax, (name, deviations_pct) in zip(page.axes, deviations.items(), strict=True):
        assert ax.get_title("left").startswith(name)
        tops = [bar.get_height() for bar in ax.patches if bar.get_y() == 60.0]
        assert tops == pytest.approx(deviations_pct)
        assert len(ax.patches) == 6


def test_bin_packing_groups_the_example_by_its_default_rule_for_jobs(monkeypatch):
    closest_calls = []

    def recorded(mean, fits):
        closest_calls.append(list(mean))
        return fill_closest(mean, fits)

    monkeypatch.setattr("heuristics.mediator.mediator.fill_closest", recorded)
    assert colocations()["bin-packing"] == [[0, 1], [2, 3]]
    assert closest_calls == [pytest.approx([0.3] * 4)]


# --- Fig. 8 ---


def test_improvement_of_jobs_is_as_worked_out_by_hand():
    assert improvement_pct({"a": 12.0, "b": 3.0, "c": 1.0}, {"a": 10.0, "b": 4.0, "c": 0.0, "d": 1.0}) == {
        "a": pytest.approx(20.0),
        "b": pytest.approx(-25.0),
    }


def test_job_throughputs_are_the_judges(rows):
    row = rows["horus"]
    plan = row.plan
    assert plan is not None
    batch = {slot.workload: slot.batch for _, _, slot in plan.slots()}
    throughputs = job_throughputs(row)
    for slot in judge(plan, suite("mediator-40").build()[0]).slots:
        assert throughputs.served[slot.workload] == slot.throughput_rps
        assert throughputs.processed[slot.workload] == pytest.approx(1000 * batch[slot.workload] / slot.t_inf_ms)
    assert len(throughputs.served) == len(throughputs.processed) == 40


def test_each_job_and_comparison_has_a_bar(rows, draw):
    page = draw("mediator-fig8", list(rows.values()))
    throughputs = {name: job_throughputs(row) for name, row in rows.items()}
    assert page.axes[0].get_title("left") == "mediator-40-s0"
    for measure, (by_job, by_mix) in enumerate(zip(page.axes[::2], page.axes[1::2], strict=True)):
        for other in ("horus", "bin-packing"):
            gains = improvement_pct(throughputs["mediator"][measure], throughputs[other][measure])
            colour = scheduler_look(other).colour.lower()
            heights = [bar.get_height() for bar in by_job.patches if to_hex(bar.get_facecolor()) == colour]
            assert heights == pytest.approx([gains[f"j{number}"] for number in range(1, 41)])
            (mean,) = (bar.get_height() for bar in by_mix.patches if to_hex(bar.get_facecolor()) == colour)
            assert mean == pytest.approx(np.mean(list(gains.values())))
            assert mean > 0


@pytest.mark.parametrize("figure", [FIG8, FIG8_PAIRS], ids=lambda figure: figure.name)
def test_both_suites_compare_the_same_throughput_with_the_papers_numbers(figure):
    """Requests per second of processing time have a verdict; requests served are lines without one."""
    gains = [claim for claim in figure.claims if claim.what.startswith("Fig. 8 (GPU): gain in a job's throughput")]
    lines = [claim for claim in figure.claims if not claim.published]

    assert [claim.paper for claim in gains] == [(21, 108), (31, 79)]
    *served, at_equal_gpus = lines
    assert len(served) == 2
    assert all("requests served per second of the whole time" in claim.what for claim in served)
    assert "as many GPUs" in at_equal_gpus.what


def test_only_schedulers_with_a_plan_are_compared(rows, make_row, draw):
    crashed = make_row("bin-packing", "mediator-40-s0", termination="crashed")
    page = draw("mediator-fig8", [rows["mediator"], rows["horus"], crashed])
    assert len(page.axes[0].patches) == 40
    assert "bin-packing (crashed) on mediator-40-s0" in page.get_supxlabel()
    with pytest.raises(NothingToDrawError, match=r"no two plans to compare\. Not run: mediator, bin-packing\."):
        draw("mediator-fig8", [rows["horus"]])


# --- Fig. 9 ---


def test_the_busiest_group_of_each_plan_is_drawn_against_the_capacity(rows, draw):
    panels = draw("mediator-fig9", list(rows.values())).axes
    over_capacity = {}
    for ax, (name, row) in zip(panels, rows.items(), strict=True):
        position, gpu, demand = busiest_group(row)
        assert ax.get_title("left").startswith(f"{name}: GPU {position + 1}, {len(gpu.gpulets)} jobs, over capacity")
        colour = scheduler_look(name).colour.lower()
        total = next(line for line in ax.lines if to_hex(line.get_color()) == colour)
        assert total.get_ydata() == pytest.approx(100 * demand.sum(axis=0))
        assert len(ax.lines) == len(gpu.gpulets) + 2
        assert ax.get_ylim()[1] >= total.get_ydata().max()
        assert ALARM.lower() in [to_hex(line.get_color()) for line in ax.lines]
        over_capacity[name] = over_capacity_pct(demand)
    assert over_capacity["mediator"] < min(over_capacity["horus"], over_capacity["bin-packing"])


def test_a_groups_demand_is_the_profile_that_schedulers_see(rows):
    """The paper's demand is that "obtained in the profiling step"."""
    problem = suite("mediator-40").build()[0]
    profiled = of_jobs(View.of(problem, problem.gpus[0].type), problem.jobs)
    position = {job.id: n for n, job in enumerate(problem.jobs)}
    for row in rows.values():
        groups = profiled_groups(row)
        for _, gpu, demand in groups:
            members = [position[slot.workload] for gpulet in gpu.gpulets for slot in gpulet.slots]
            assert demand.mean(axis=1) == pytest.approx(profiled.mean[members])
            assert demand.std(axis=1) == pytest.approx(profiled.deviation[members])
        assert profiled_over_pct(row) == fmean(over_capacity_pct(demand) for _, _, demand in groups)


def test_the_group_over_capacity_longest_is_the_drawn_one_and_the_first_is_on_the_first_gpu(rows):
    for row in rows.values():
        over_pct = [over_capacity_pct(demand) for _, _, demand in profiled_groups(row)]
        assert longest_over_pct(row) == over_capacity_pct(busiest_group(row)[2]) == max(over_pct)
        assert first_over_pct(row) == over_pct[0]


def test_gpus_in_use_are_the_busy_fractions_of_all_jobs(rows):
    problem = suite("mediator-40").build()[0]
    for row in rows.values():
        plan = row.plan
        assert plan is not None
        verdict = judge(plan, problem)
        judged_row = replace(row, gpus_used=verdict.gpus_used, utilisation_pct=verdict.utilisation_pct)
        assert gpus_in_use(judged_row) == pytest.approx(sum(slot.busy for slot in verdict.slots))


def test_without_a_plan_no_gpu_is_in_use(make_row):
    assert gpus_in_use(make_row("horus", "mediator-40-s0", termination="crashed", gpus_used=None)) is None


def test_without_a_plan_nothing_is_drawn(make_row, draw):
    with pytest.raises(NothingToDrawError, match="horus \\(crashed\\) on mediator-40-s0"):
        draw("mediator-fig9", [make_row("horus", "mediator-40-s0", termination="crashed")])


# --- Tables I to III ---


def test_the_jobs_of_tables_i_and_iii_have_their_means():
    (means,) = (claim for claim in SETUP if claim.what.startswith("Tables I and III"))
    apart_pct = means.ours(None)
    assert max(apart_pct) < 1.0
    assert {3, 10, 13} & {*TABLE_III} == set()
    assert {3, 10, 13} == {*DEVIATION}


def test_the_printed_complexity_is_twice_the_number_of_parameters_of_the_same_networks():
    (problem,) = (instance for instance in suite("mediator-40").build() if instance.name == FORTY)
    assert tuple(COMPLEXITY) == IMAGE_DNNS
    ratios = dict(zip(COMPLEXITY, complexity_ratios(problem, STAND_INS), strict=True))
    for same_network in ("Inc-V1", "Inc-V3", "MobV2-1", "ResV2-50", "ResV2-101", "ResV2-152"):
        assert ratios[same_network] == pytest.approx(1.0, abs=0.02)
