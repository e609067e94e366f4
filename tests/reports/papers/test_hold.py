"""The figures "hold", on the GPUs that plans need until they hold, "overview" and "hold-robustness"."""

import gzip

import pytest
from matplotlib.colors import to_hex

from bench.api import Run
from heuristics.gpulet.elastic_partitioning import EfficientShare, ElasticPartitioning
from heuristics.gpulet.gpu_scaling import GpuScaling
from heuristics.gpulet.ideal import Ideal
from heuristics.igniter.igniter import IGniter
from instances.files import plan_to_json
from instances.suites import suite
from reports.charts.palette import GREEN, scheduler_look
from reports.measured import VARIABLE
from reports.papers.hold import BY_PAPER, EXACT, HEADROOMS, SCHEDULERS
from reports.papers.hold_robustness import CONDITIONS, TWITTER, holding_under


@pytest.fixture(scope="module")
def tested_row(make_row):
    """Return a function that makes the row of a tested plan, or, without GPUs, that of a run without a plan."""

    def make(scheduler, gpus, late, headroom=1.0, instance="igniter-12", **given):
        simulated = {"arrivals": "poisson", "workloads": [], "applications": []}
        plan_values = (
            {"gpus_used": gpus, "plan": {"gpus": []}, "value": 3.06 * gpus, "late_workloads": late} if gpus else {}
        )
        values = plan_values | {"holds": late == 0, "simulation": simulated} if gpus else {"gpus_used": None}
        return make_row(scheduler, instance, **({"headroom": headroom} | values | given))

    return make


def test_hold_has_a_curve_per_scheduler_and_notes_on_missing_plans(tested_row, draw):
    rows = [tested_row("igniter", 6 + n, 12 - 3 * n, headroom) for n, headroom in enumerate(HEADROOMS[:5])]
    rows.append(tested_row("igniter", 99, None, holds=None))  # untested, so not drawn
    rows += [tested_row("sbp", 7, 3), tested_row("sbp", None, None, 1.8), tested_row("sbp", None, None, 2.0)]
    page = draw("hold", rows)
    igniter, gpulet, _ = page.axes
    line, *marks = [line for line in igniter.lines if len(line.get_xdata())]
    assert line.get_xdata() == pytest.approx([0.0, 25.0, 50.0, 75.0, 100.0])
    assert list(line.get_ydata()) == [6, 7, 8, 9, 10]
    assert [mark.get_markerfacecolor() for mark in marks] == ["white"] * 4 + [GREEN]
    assert [text.get_text() for text in gpulet.get_legend().get_texts()] == list(BY_PAPER["gpulet"])
    notes = page.get_supxlabel().replace("\n", " ")
    assert "There is no plan of colgen under attainment on servers that drop late requests." in notes
    assert "There is no plan of colgen under attainment on servers that drop no requests." in notes
    assert "No plan with headroom: sbp at 1.8, 2." in notes
    assert "ts-hierarchy do not plan cost" in notes

    bound = {"bound": 7.5 * 3.06, "bound_certified": True}
    exact = [tested_row("colgen", 9, 0, instance="igniter-12-hold", **bound)]
    exact.append(tested_row("colgen", 99, 0, 1.2, instance="igniter-12-hold"))  # with headroom, so not the optimum
    exact.append(
        tested_row("igniter", 50, 0, instance="igniter-12-hold")
    )  # under another rule than its curve, so not drawn
    exact.append(tested_row("colgen", 12, 3, instance="igniter-12-hold-no-drop", bound=33.66, bound_certified=True))
    page = draw("hold", [*rows, *exact])
    assert list(page.axes[0].lines[0].get_ydata()) == [6, 7, 8, 9, 10]
    for ax in page.axes:
        star, dotted, plus, dashed = ax.lines[-4:]
        assert (list(star.get_ydata()), star.get_markerfacecolor()) == ([9], GREEN)
        assert dotted.get_ydata() == pytest.approx([7.5, 7.5])
        assert (list(plus.get_ydata()), plus.get_markerfacecolor()) == ([12], "white")
        assert dashed.get_ydata() == pytest.approx([11.0, 11.0])
        assert star.get_marker() != plus.get_marker()
        assert dotted.get_linestyle() != dashed.get_linestyle()
    notes = page.get_supxlabel().replace("\n", " ")
    plan_of_colgen = "The plan of colgen under attainment on servers that drop"
    assert f"{plan_of_colgen} late requests takes 9 GPUs; at least 8 are proven to be needed." in notes
    assert f"{plan_of_colgen} no requests takes 12 GPUs; at least 11 are proven to be needed." in notes


def test_the_overview_has_a_bar_for_each_plan_and_a_line_for_the_bound(tested_row, draw):
    rows = [tested_row("igniter", 6, 11), tested_row("igniter", 7, 2, 1.2), tested_row("local-search", 7, 12)]
    rows.append(tested_row("colgen", 6, 12, bound=5.5 * 3.06, bound_certified=True))
    (papers_rule,) = draw("overview", rows).axes
    assert [bar.get_width() for bar in papers_rule.patches] == [6, 7, 6]  # without the plan with headroom
    assert [text.get_text() for text in papers_rule.texts] == [
        "6 GPUs, 11 of 12 workloads late",
        "7 GPUs, 12 of 12 workloads late",
        "6 GPUs, 12 of 12 workloads late",
    ]
    assert list(papers_rule.lines[0].get_xdata()) == [6, 6]  # a bound of 5.5 GPUs

    rows.append(tested_row("igniter", 8, 0, instance="igniter-12-hold"))
    _, attaining = draw("overview", rows).axes
    (bar,) = attaining.patches
    assert to_hex(bar.get_facecolor()).upper() == GREEN
    assert [text.get_text() for text in attaining.texts] == ["8 GPUs, none of 12 workloads late"]
    assert list(attaining.lines) == []


def test_hold_draws_the_gpus_that_margins_and_attainment_cost(tested_row, draw):
    rows = [tested_row("igniter", 6, 3)]
    for gpus, margin in ((4, None), (5, 0.95)):
        rows.append(tested_row("colgen", gpus, 2, instance="margins-v100", margin=margin))
        rows.append(tested_row("colgen", gpus + 2, 0, instance="margins-v100-hold", margin=margin))
    page = draw("hold", rows)
    *papers, v100, a100 = page.axes
    assert len(papers) == len(BY_PAPER)
    plain, under_attainment = (line for line in v100.lines if len(line.get_xdata()) == 2)
    assert (list(plain.get_xdata()), list(plain.get_ydata())) == ([0, 3], [4, 5])
    assert list(under_attainment.get_ydata()) == [6, 7]
    filled = [line.get_ydata()[0] for line in v100.lines if line.get_markerfacecolor() == GREEN]
    assert filled == [6, 7]
    assert not any(len(line.get_xdata()) for line in a100.lines)
    notes = page.get_supxlabel().replace("\n", " ")
    costs = "4 GPUs under the papers' rule, 5 with margins at 95 %, 6 under attainment, 7 with both."
    assert f"margins-v100: {costs}" in notes
    assert "margins-a100:" not in notes


def test_no_scheduler_has_the_green_of_plans_that_hold():
    assert GREEN not in {
        scheduler_look(name).colour for name in [*SCHEDULERS, EXACT, "cpsat", "pwl", "minlp", "random"]
    }


def test_schedulers_left_out_of_hold_have_the_plans_of_elastic_partitioning():
    (instance, *_) = suite("igniter-12").build()
    by_rate = ElasticPartitioning(efficient=EfficientShare.RATE_PER_SHARE)
    for scheduler, equivalent in ((GpuScaling(), ElasticPartitioning()), (Ideal(), by_rate)):
        plan = scheduler.schedule(instance, Run()).plan
        assert plan is not None
        assert plan == equivalent.schedule(instance, Run()).plan


def test_hold_robustness_has_late_workloads_by_condition(make_row, draw, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("reports.papers.hold_robustness.SIMULATIONS", 1)
    (instance,) = suite("igniter-12").build()
    plan = plan_to_json(IGniter().schedule(instance, Run()).plan)
    simulated = {"arrivals": "poisson", "workloads": [], "applications": []}
    values = {
        "simulation": simulated,
        "plan": plan,
        "value": 18.36,
        "gpus_used": 6,
        "holds": False,
        "late_workloads": 12,
    }
    row = make_row("colgen", "igniter-12", headroom=1.0, **values)
    page = draw("hold-robustness", [row])
    late, missed = page.axes
    notes = page.get_supxlabel().replace("\n", " ")
    assert "Without its trace: Twitter's minutes." in notes
    assert "colgen, papers' rule: 6 GPUs." in notes
    assert len(late.patches) == len(CONDITIONS) - 1
    poisson, *_, slow, slower = (bar.get_height() for bar in missed.patches)
    assert 0.0 < poisson < slow < slower
    assert holding_under(row, TWITTER) is None
    assert 0.5 < holding_under(row, "Poisson").attainment < 0.99


def test_parts_of_a_trace_are_scaled_to_the_mean_rate_of_the_workloads(tmp_path, make_row, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("reports.papers.hold_robustness.SIMULATIONS", 2)
    (tmp_path / "traces").mkdir()
    with gzip.open(tmp_path / "traces" / "twitter_rps_per_second_7days.csv.gz", "wt") as lines:
        lines.write("rps\n" + "5\n" * 70 + "500\n" * 70)
    (instance,) = suite("igniter-12").build()
    plan = plan_to_json(IGniter().schedule(instance, Run()).plan)
    row = make_row("igniter", "igniter-12", plan=plan)
    steady, minutes = holding_under(row, "Poisson"), holding_under(row, TWITTER)
    assert minutes.requests == pytest.approx(steady.requests, rel=0.02)
