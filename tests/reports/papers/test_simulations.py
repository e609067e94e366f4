"""Figures of simulated plans: violations, largest rates, and errors of the performance figures."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from matplotlib.colors import to_hex

from bench.ledger.row import Termination
from bench.max_rate import Climb, with_all_served
from instances.suites import suite
from reports.charts.online import online_run
from reports.charts.palette import ALARM, scheduler_look
from reports.papers import figure, gpulet_leads, inss_agent
from reports.papers.gpulet_leads import best_lead_served, difference, lead_of_means, mean_lead_pct
from reports.papers.gpulet_online import SETTING
from reports.papers.igniter_violations import not_in_time_pct
from reports.quantities import dropped_pct, late_pct, mean_latency_ms, requests_rps, spare_rps
from tests.reports.stated import stated


@pytest.fixture(scope="module")
def need_row(make_row):
    """Return a factory of rows that meet a figure's need, with its trial."""

    def make(need, instance, **given):
        arrivals = {"arrivals": need.trial.arrivals.label, "workloads": given.pop("workloads", []), "applications": []}
        fields = {"parameters": stated(need), "headroom": need.trial.headroom, "truth": need.trial.reality}
        return make_row(
            given.pop("scheduler", need.schedulers[0]), instance, **(fields | {"simulation": arrivals} | given)
        )

    return make


def served(workload, violation_rate, **given):
    return {"id": workload, "violation_rate": violation_rate} | given


def test_violations_by_workload_are_drawn_under_both_arrivals(need_row, draw):
    workloads = [served("W1", 0.002), served("W2", 0.25)]
    constant, poisson = figure("igniter-fig14-violations").needs
    rows = [
        need_row(constant, "igniter-12", workloads=workloads, sim_violating=1),
        need_row(poisson, "igniter-12", scheduler="ffd+", workloads=workloads[:1], sim_violating=7),
    ]
    page = draw("igniter-fig14-violations", rows)
    upper, lower = page.axes
    assert not_in_time_pct(rows[0]) == {"W1": pytest.approx(0.2), "W2": 25.0}
    assert [text.get_text() for text in upper.texts] == ["0.2", "25", "1 above; paper 0"]
    assert to_hex(upper.patches[1].get_edgecolor()).upper() == ALARM
    assert to_hex(upper.patches[0].get_edgecolor()).upper() != ALARM
    assert (upper.get_title("left"), lower.get_title("left")) == ("Constant arrivals", "Poisson arrivals")
    assert [text.get_text() for text in lower.texts] == ["0.2", "7 above"]
    assert [tick.get_text() for tick in lower.get_yticklabels()] == ["ffd+"]
    assert len(lower.patches) == 1


def climb_rows(need_row, need, instance, most):
    """Return the rows of a climb whose plans serve up to ``most`` times the rates, and the largest multiple served."""
    climb, rows = Climb(with_all_served(instance)), []
    while (multiple := climb.next) is not None:
        scaled = climb.instance.scaled(multiple)
        row = need_row(
            need,
            instance.name,
            instance_hash=scaled.fingerprint,
            plan={"gpus": []} if multiple <= most else None,
            sim_violation_rate=0.0,
        )
        rows.append(row)
        climb.rows[multiple] = row
    return rows, climb.largest_passed


def test_bars_show_climbs_and_diamonds_the_rates_of_plans(need_row, draw):
    (instance,) = suite("gpulet-scen2").build()
    sbp, greedy, *_ = (need for need in figure("gpulet-fig13").needs if not need.climb)
    rows, reached = climb_rows(need_row, sbp, instance, 3.0)
    promised = {"objective": "scale", "feasible": True}
    rows.append(need_row(sbp, "gpulet-scen2", value=6.5, sim_violation_rate=0.001, **promised))
    rows.append(need_row(greedy, "gpulet-scen2", value=5.0, sim_violation_rate=0.02, **promised))
    (ax,) = draw("gpulet-fig13", rows).axes
    assert 3.0 / 1.05 < reached <= 3.0
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([200.0 * reached])  # two models at 100 req/s
    diamonds = {round(line.get_ydata()[0]): to_hex(line.get_markerfacecolor()) for line in ax.lines}
    assert diamonds == {1300: "#000000", 1000: "#ffffff"}
    assert [text.get_text() for text in ax.get_xticklabels()] == ["scen2"]


def test_rates_served_by_pairs_are_drawn_relative_to_greedy(need_row, draw):
    """Of the partitions, the one that serves most counts."""
    instance = next(candidate for candidate in suite("gpulet-pairs").build() if candidate.name == "gpulet-pair2")
    sbp, greedy, *partitions = figure("gpulet-fig6").needs
    assert len(partitions) == 6
    reached, rows = {}, []
    for need, most in ((sbp, 3.0), (greedy, 4.0), (partitions[1], 5.0), (partitions[4], 2.0)):
        of_need, reached[need] = climb_rows(need_row, need, instance, most)
        rows += of_need
    (ax,) = draw("gpulet-fig6", rows).axes
    parts = [reached[need] / reached[greedy] for need in (sbp, greedy, partitions[1]) for _ in ("the pair", "the mean")]
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(parts)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["resnet50 +\nvgg16", "mean"]


def test_the_best_of_several_serves_the_most_on_each_instance(need_row):
    class Climbs:
        served: ClassVar = {
            "first": {"a": 2.0, "b": 1.0},
            "second": {"a": 1.0, "b": 3.0},
            "other": {"a": 1.0, "b": 2.0},
        }

        def climbs(self, need):
            return {
                name: SimpleNamespace(largest_passed=rate, instance=suite("gpulet-scen1").build()[0])
                for name, rate in self.served[need].items()
            }

    assert best_lead_served(("first", "second"), "other")(Climbs()) == pytest.approx((75.0,))


def test_a_request_of_an_application_counts_once():
    """Six LeNets and a ResNet-50 for a frame of game; three stages of traffic; four models without an application."""
    rates = [requests_rps(*suite(name).build()) for name in ("gpulet-game", "gpulet-traffic", "gpulet-scen1")]
    assert rates == [100.0, 100.0, 400.0]


def test_the_mean_lead_averages_ratios():
    served, other = {"a": 3.0, "b": 1.0}, {"a": 1.0, "b": 2.0}
    assert mean_lead_pct(served, other) == pytest.approx(75.0)
    assert mean_lead_pct(served, {"a": 1.0, "b": 0.0}) is None


def test_a_difference_of_leads_is_in_points():
    assert difference(lambda _: (106.0, 102.6))(None) == pytest.approx((3.4,))
    assert difference(lambda _: (106.0, None))(None) == (None,)


def test_the_lead_of_means_is_not_the_mean_lead(monkeypatch):
    served = {"first": {"a": 3.0, "b": 1.0}, "second": {"a": 1.0, "b": 2.0}}
    monkeypatch.setattr(gpulet_leads, "served_rps", lambda _runs, need: served[need])
    needs = {"gpulet": "first", "sbp": "second"}
    assert lead_of_means(needs, (("gpulet", "sbp"),))(None) == pytest.approx((100.0 / 3.0,))


def test_a_climb_that_has_not_ended_is_named(need_row, draw):
    (instance,) = suite("gpulet-scen2").build()
    sbp = figure("gpulet-fig13").needs[0]
    rows, _ = climb_rows(need_row, sbp, instance, 3.0)
    note = "Climbs that have not ended: sbp on gpulet-scen2."
    assert note in draw("gpulet-fig13", rows[:3]).get_supxlabel()
    crashed = replace(rows[2], termination=Termination.CRASHED, reason="it crashed")  # a crash says nothing about rates
    assert (
        "Climbs that have not ended: sbp on gpulet-scen2." in draw("gpulet-fig13", [*rows[:2], crashed]).get_supxlabel()
    )


def test_late_requests_at_the_largest_rate_or_n_are_drawn(need_row, draw):
    blind, counting = figure("gpulet-fig14").needs
    rows = [
        need_row(blind, "gpulet-scen1", value=9.0, sim_violation_rate=0.04),
        need_row(counting, "gpulet-scen1", value=8.0, sim_violation_rate=0.0),
        need_row(counting, "gpulet-scen2", value=4.0, sim_violation_rate=0.005),
    ]
    (ax,) = draw("gpulet-fig14", rows).axes
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([4.0, 0.5])
    assert [to_hex(bar.get_edgecolor()).upper() == ALARM for bar in ax.patches] == [True, False]
    assert [text.get_text() for text in ax.texts] == ["N"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["scen1\n9.00x", "scen2\n4.00x"]


def test_means_over_seeds_are_drawn_by_error_and_headroom(need_row, draw):
    rows = [
        need_row(
            need,
            "64gpu-cost",
            seed=seed,
            gpus_used=round(66 * need.trial.headroom),
            violations=8 * seed,
            sim_violation_rate=0.1 * need.trial.error,
        )
        for need, seed in product(figure("robustness").needs, (0, 1, 2))
    ]
    axes = draw("robustness", rows).axes
    assert [ax.get_title("left") for ax in axes[:3]] == ["headroom 1", "headroom 1.1", "headroom 1.25"]
    assert [ax.get_title("right") for ax in axes[:3]] == ["GPUs 66", "GPUs 73", "GPUs 82"]
    broken, late = axes[0].lines[0], axes[8].lines[0]
    assert broken.get_color() == scheduler_look("igniter").colour
    assert list(broken.get_xdata()) == list(late.get_xdata()) == [0.0, 10.0, 20.0, 30.0, 50.0]
    assert list(broken.get_ydata()) == pytest.approx([5.0] * 5)  # 0, 8 and 16 of 160
    assert list(late.get_ydata()) == pytest.approx([0.0, 1.0, 2.0, 3.0, 5.0])


def test_requests_are_spare_late_or_dropped(make_row):
    row = make_row(
        instance="4gpu", throughput_rps=120.0, sim_goodput_rps=90.0, sim_violation_rate=0.05, sim_drop_rate=0.02
    )
    assert (spare_rps(row), late_pct(row), dropped_pct(row)) == pytest.approx((30.0, 3.0, 2.0))
    blank = make_row(instance="4gpu")
    assert spare_rps(blank) is late_pct(blank) is dropped_pct(blank) is None


def test_mean_latency_weighs_workloads_by_the_requests_they_served(make_row):
    counts = {"dropped": 10, "unfinished": 0}
    served_workloads = [
        served("W2", 0.0, requests=110, mean_ms=10.0, **counts),
        served("W10", 0.0, requests=310, mean_ms=20.0, **counts),
        served("W3", 0.0, requests=310, mean_ms=99.0, **counts),
    ]
    row = make_row(instance="4gpu", simulation={"arrivals": "poisson", "workloads": served_workloads})
    assert mean_latency_ms(row, "resnet50") == pytest.approx(17.5)
    assert mean_latency_ms(row, "vgg16") == pytest.approx(99.0)
    assert mean_latency_ms(row, "alexnet") is None
    assert mean_latency_ms(make_row(instance="4gpu"), "resnet50") is None


def test_rescheduling_follows_the_load_and_a_static_plan_does_not():
    first_wave = replace(SETTING, seconds=1200.0)
    following, static = (online_run(first_wave, policy) for policy in ("reschedule", "static"))
    assert min(period.gpus_used for period in following.periods) < max(p.gpus_used for p in following.periods)
    assert len({period.gpus_used for period in static.periods}) == 1
    assert following.observation.violation_rate < 0.01 < static.observation.violation_rate


def test_the_course_of_a_load_is_drawn_under_its_command(draw):
    throughput, gpus, shares, late = (page := draw("gpulet-fig15", [])).axes
    assert throughput.get_xlim() == (0.0, 3200.0)
    following, static = gpus.lines
    assert 4 < max(following.get_ydata()) <= 8  # eight GPUs, as in the paper
    assert max(shares.lines[0].get_ydata()) <= 800.0
    assert max(static.get_ydata()) == min(static.get_ydata())
    assert max(late.lines[0].get_ydata()) < max(late.lines[1].get_ydata())
    assert SETTING.command("reschedule") in " ".join(page.get_supxlabel().split())


def test_reactive_tuning_swings_around_half_of_w10s_slo(draw):
    latency, throughput = draw("igniter-fig15", []).axes
    (tuned, planned), (tuned_rps, planned_rps) = (
        [list(step.get_data().values) for step in ax.patches] for ax in (latency, throughput)
    )
    assert planned_rps == pytest.approx([150.0] * 30, rel=0.01)
    assert max(planned) < 12.5
    assert tuned_rps[0] < 149.0  # batch 1 at 30 %
    assert min(tuned[15:]) < 12.5 < max(tuned[15:])


def test_w10_starts_at_batch_1_and_30_percent_and_its_share_is_cut(draw):
    share, batch = draw("igniter-fig16", []).axes
    (tuned_pct, planned_pct), (tuned, planned) = (
        [list(step.get_data().values) for step in ax.patches] for ax in (share, batch)
    )
    assert (len(set(planned_pct)), len(set(planned))) == (1, 1)
    assert (tuned_pct[0], tuned[0]) == (30.0, 1)
    assert min(np.diff(tuned_pct)) < 0.0 < max(np.diff(tuned_pct))
    assert all(0.0 < pct <= 100.0 for pct in tuned_pct)


def test_shadow_processes_end_the_violations(draw):
    page = draw("igniter-fig17", [])
    without_then_with_shadows = [list(step.get_data().values) for step in page.axes[0].patches]
    broken = len(without_then_with_shadows) // 2
    assert broken > 0
    for without_shadow, with_shadow in zip(
        without_then_with_shadows[:broken], without_then_with_shadows[broken:], strict=True
    ):
        assert min(without_shadow) > 1.0
        assert with_shadow[0] > 1.0
        assert max(with_shadow[1:]) <= 1.0


def test_the_load_of_four_gpus_is_between_half_the_rates_and_all_of_them():
    (instance,) = suite("4gpu").build()
    end_s = int(inss_agent.SECONDS)
    requests = inss_agent.load(instance)
    assert list(requests) == [workload.id for workload in instance.workloads]
    load_parts = []
    for workload in instance.workloads:
        times_ms = requests[workload.id].until(1000.0 * end_s)
        counts, _ = np.histogram(times_ms, bins=end_s // 10, range=(0.0, 1000.0 * end_s))
        load_parts.append(counts / 10.0 / workload.rate_rps)
    assert np.min(load_parts) == pytest.approx(0.5, abs=0.05)
    assert np.max(load_parts) == pytest.approx(1.0, abs=0.05)


def test_the_agent_serves_most_requests_while_rates_change(draw, monkeypatch):
    trainings = inss_agent.SCHEDULERS["ts"][:2]  # all of them would take a while
    monkeypatch.setattr(inss_agent, "SCHEDULERS", {**inss_agent.SCHEDULERS, "ts": trainings})
    page = draw("inss-fig11", [])
    arrived, *served = [list(step.get_data().values) for step in page.axes[0].patches]
    by_label = dict(zip(inss_agent.SCHEDULERS, served, strict=True))
    assert len(page.axes[0].collections) == 1  # the band of the agent's trainings
    assert list(by_label) == ["ts", "gpulet", "gslice+", "igniter"]
    assert sum(by_label["ts"]) > 0.99 * sum(arrived)
    for label in ("gpulet", "gslice+", "igniter"):
        assert 0.8 * sum(arrived) < sum(by_label[label]) < 0.98 * sum(arrived)
        assert f"{label} {100.0 * inss_agent.served_by(label).observation.violation_rate:.2g} %" in page.get_supxlabel()
