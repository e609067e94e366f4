"""Pictures of plans: a bar per GPU, a segment per slot, and marked violations."""

import pytest
from matplotlib.colors import to_hex

from bench.api import Run
from bench.judging.judge import judge
from heuristics.igniter.igniter import FfdPlus, IGniter
from instances.files import plan_to_json
from instances.suites import suite
from reports.charts.palette import ALARM, ALARM_HATCH, model_colour

NAME = "igniter-fig14"


def segments(ax):
    """Return the bars of slots; bars of free shares are white."""
    return [bar for bar in ax.patches if to_hex(bar.get_facecolor()) != "#ffffff"]


def label(ax, bar):
    """Return the text in the middle of a bar."""
    middle = (bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2)
    (text,) = (text.get_text() for text in ax.texts if text.get_position() == pytest.approx(middle))
    return text


def test_segments_have_the_lengths_of_their_shares(make_row, two_gpus, draw):
    (ax,) = draw(NAME, [make_row(plan=two_gpus)]).axes
    drawn = {label(ax, bar): (round(bar.get_y() + 0.4), bar.get_x(), bar.get_width()) for bar in segments(ax)}
    assert drawn == {"W12\nb8": (0, 0.0, 92.5), "W8\nb6": (1, 0.0, 75.0), "W6\nb4": (1, 75.0, 15.0)}
    free = [bar for bar in ax.patches if bar not in segments(ax)]
    assert [bar.get_width() for bar in free] == [100.0, 100.0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["GPU1", "GPU2"]
    assert ax.get_xlabel() == "Share of the GPU (%)"
    assert ax.get_xlim() == (0.0, 100.0)


def test_models_have_their_colours_and_a_legend(make_row, two_gpus, draw):
    page = draw(NAME, [make_row(plan=two_gpus)])
    (ax,) = page.axes
    colours = {label(ax, bar).split()[0]: to_hex(bar.get_facecolor()).upper() for bar in segments(ax)}
    assert colours == {"W12": model_colour("ssd"), "W8": model_colour("vgg19"), "W6": model_colour("resnet50")}
    legend = [text.get_text() for text in page.legends[0].get_texts()]
    assert legend[:5] == ["alexnet", "resnet50", "vgg19", "ssd", "free"]
    assert "violation" not in legend


def test_violations_are_hatched_with_a_red_edge(make_row, two_gpus, draw):
    details = [{"kind": "latency", "gpu": 1, "workload": "W8"}]
    page = draw(NAME, [make_row(plan=two_gpus, violations=1, violation_details=details)])
    (ax,) = page.axes
    marked = {label(ax, bar): bar for bar in segments(ax) if bar.get_hatch() == ALARM_HATCH}
    assert list(marked) == ["W8\nb6"]
    assert to_hex(marked["W8\nb6"].get_edgecolor()).upper() == ALARM
    assert ax.get_title("right") == "2 GPUs, $6.12/h, 1 violation"
    assert "violation" in [text.get_text() for text in page.legends[0].get_texts()]


def test_igniters_and_ffds_plans_have_the_published_numbers_of_gpus_and_violations(make_row, draw):
    (instance,) = suite("igniter-12").build()
    rows = []
    for scheduler in (IGniter(), FfdPlus()):
        plan = scheduler.schedule(instance, Run()).plan
        verdict = judge(plan, instance)
        details = verdict.to_json()["violations"]
        figures = {"gpus_used": verdict.gpus_used, "cost_per_hour": verdict.cost_per_hour}
        rows.append(
            make_row(
                scheduler.name,
                plan=plan_to_json(plan),
                violations=len(details),
                violation_details=details,
                **figures,
            )
        )
    igniter, ffd = draw(NAME, rows).axes
    assert (igniter.get_title("left"), ffd.get_title("left")) == ("igniter", "ffd+")
    assert igniter.get_title("right") == "6 GPUs, $18.36/h, 0 violations"
    assert ffd.get_title("right") == "5 GPUs, $15.30/h, 9 violations"
    for ax, marked in ((igniter, 0), (ffd, 9)):
        assert len(segments(ax)) == 12
        assert len({label(ax, bar) for bar in segments(ax)}) == 12
        assert sum(bar.get_hatch() is not None for bar in segments(ax)) == marked


def test_labels_stay_inside_their_segments(make_row, make_plan, draw):
    narrow = make_plan([(1, ("W10", 16)), (2, ("W11", 16)), (3, ("W2", 3)), (34, ("W12", 8))])
    (ax,) = draw(NAME, [make_row(plan=narrow)]).axes
    assert [label(ax, bar).split()[0] for bar in segments(ax)] == ["W10", "W11", "W2", "W12"]
    texts = {text.get_position()[0]: text for text in ax.texts}
    for bar in segments(ax):
        text = texts[bar.get_x() + bar.get_width() / 2].get_window_extent()
        segment = bar.get_window_extent()
        assert text.width <= segment.width
        assert text.height <= segment.height


def test_slots_that_take_turns_divide_the_thickness(make_row, make_plan, draw):
    shared = make_plan([(20, ("W5", 4), ("W6", 8))])
    (ax,) = draw(NAME, [make_row(plan=shared)]).axes
    first, second = segments(ax)
    assert (label(ax, first).split(), label(ax, second).split()) == (["W5", "b4"], ["W6", "b8"])
    assert (first.get_height(), second.get_height()) == pytest.approx((0.4, 0.4))
    assert first.get_y() + first.get_height() == pytest.approx(second.get_y())


def test_shares_above_100_percent_extend_the_axis(make_row, make_plan, draw):
    crowded = make_plan([(30, ("W8", 6)), (20, ("W5", 9))])
    (ax,) = draw(NAME, [make_row(plan=crowded)]).axes
    assert ax.get_xlim() == (0.0, 125.0)


def test_a_plan_without_gpus_is_an_empty_panel(make_row, make_plan, draw):
    (ax,) = draw(NAME, [make_row(plan=make_plan(), gpus_used=0, cost_per_hour=0.0)]).axes
    assert segments(ax) == []
    assert ax.get_title("right") == "0 GPUs, $0.00/h, 0 violations"


def test_panels_have_the_order_of_the_paper_with_others_last(make_row, two_gpus, draw):
    names = ["zeta", "cpsat", "ffd+", "igniter"]
    page = draw(NAME, [make_row(name, plan=two_gpus) for name in names] + [make_row("ffd++", termination="crashed")])
    assert [ax.get_title("left") for ax in page.axes] == ["igniter", "ffd+", "cpsat", "zeta"]
    assert page.get_supxlabel() == "Without a result: ffd++ (crashed) on igniter-12."
    lowest = [bool(ax.get_xlabel()) for ax in page.axes]
    assert lowest == [False, False, True, True]


def test_violations_without_details_are_counted_in_a_note(make_row, two_gpus, draw):
    details = [{"kind": "latency", "gpu": 0, "workload": "W12"}]
    note = draw(NAME, [make_row(plan=two_gpus, violations=3, violation_details=details)]).get_supxlabel()
    assert "igniter: 2 more violations are not marked." in note
