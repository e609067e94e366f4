"""iGniter's Fig. 19, the GPU of workload W2, and Fig. 20, the plan on T4s."""

from reports.charts.palette import ALARM_HATCH
from reports.charts.plan_bars import pieces_on_gpu_of
from reports.placement import Piece


def test_only_the_gpu_of_the_second_workload_is_drawn(make_row, make_plan, draw):
    plan = make_plan([(37, ("W12", 8))], [(30, ("W8", 6)), (6, ("W2", 4))])
    (ax,) = draw("igniter-fig19", [make_row("ffd+", plan=plan), make_row("igniter", plan=plan)]).axes
    assert [bar.get_width() for bar in ax.patches] == [75.0, 15.0] * 2
    assert [text.get_text() for text in ax.get_yticklabels()] == ["ffd+", "igniter"]
    assert "GPU2, 15 %; in the paper GPU6, 7.5 %" in [text.get_text() for text in ax.texts]


def test_violations_are_hatched(make_row, make_plan, draw):
    plan = make_plan([(3, ("W2", 4)), (37, ("W12", 8))])
    details = [{"kind": "latency", "gpu": 0, "workload": "W2"}]
    (ax,) = draw("igniter-fig19", [make_row("ffd+", plan=plan, violations=1, violation_details=details)]).axes
    assert [bar.get_hatch() for bar in ax.patches] == [ALARM_HATCH, None]


def test_a_workload_without_a_slot_has_no_gpu():
    piece = Piece(0, 0.0, 50.0, 0, 1, "W1", "alexnet", 4, False)
    assert pieces_on_gpu_of([piece], "W2") == []
    assert pieces_on_gpu_of([piece, Piece(0, 50.0, 50.0, 0, 1, "W2", "alexnet", 4, False)], "W2")[0] is piece


def test_the_plan_on_t4s_is_igniters(make_row, make_plan, draw):
    t4 = make_plan([(37, ("W12", 8))], [(20, ("W2", 4))])
    for gpu in t4["gpus"]:
        gpu["type"] = "t4"
    page = draw(
        "igniter-fig20",
        [make_row("igniter", "igniter-12-t4", plan=t4), make_row("another", "igniter-12-t4", plan=t4)],
    )
    (ax,) = page.axes
    assert ax.get_title(loc="left") == "igniter"
    assert [text.get_text() for text in ax.get_yticklabels()] == ["GPU1", "GPU2"]
    drawn = sorted(bar.get_width() for bar in ax.patches)
    assert drawn == [50.0, 92.5, 100.0, 100.0]  # two GPUs, two pieces
