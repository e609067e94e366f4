"""Plans and bounds over time, and where proofs stop."""

import pytest

from reports.papers.optimum import (
    best_bound,
    curves,
    errors_pct,
    gaps_by_pieces_pct,
    median_gap_pct,
    rows_by_pieces,
    solved_pct,
)


def point(t_s, value=None, bound=None):
    return {"t_s": t_s, "value": value, "feasible": value is not None, "bound": bound, "bound_certified": True}


def test_plans_fall_and_bounds_rise_towards_the_reference(make_row):
    # A GPU costs 3.06 dollars: bounds of 1.5 and 2.5 GPUs mean 2 and 3 whole ones.
    history = [point(0.1, value=15.3), point(0.2, bound=4.59), point(0.5, bound=7.65), point(2.0, value=9.18)]
    row = make_row("colgen", "64gpu-cost", objective="cost", value=9.18, feasible=True, trajectory=history)
    plans, bounds = curves(row, 9.18)
    assert [t for t, _ in plans] == [0.1, 2.0]
    assert [v for _, v in plans] == pytest.approx([100 * (5 / 3 - 1), 0.0])
    assert [v for _, v in bounds] == pytest.approx([100 * (2 / 3 - 1), 0.0], abs=1e-9)


def test_a_worse_later_point_changes_nothing(make_row):
    history = [point(0.1, value=80.0), point(0.3, value=60.0), point(0.4, bound=100.0), point(0.6, bound=120.0)]
    row = make_row("colgen", "64gpu-goodput", objective="throughput", feasible=True, value=80.0, trajectory=history)
    plans, bounds = curves(row, 100.0)
    assert plans == [(0.1, pytest.approx(20.0)), (0.3, pytest.approx(20.0))]
    assert bounds == [(0.4, pytest.approx(0.0)), (0.6, pytest.approx(0.0))]


def test_the_reference_is_the_best_certified_bound_or_else_the_best_plan(make_row):
    bound = {"bound": 4.59, "bound_certified": True}
    guess = {"bound": 12.0, "bound_certified": False}
    cost = {"instance": "64gpu-cost", "objective": "cost", "value": 9.18, "feasible": True}
    assert best_bound([make_row(**cost, **bound), make_row(**cost, **guess)], True) == pytest.approx(6.12)
    assert best_bound([make_row(**cost)], True) == 9.18
    assert best_bound([], True) is None


def test_gap_draws_plan_and_bound_of_exact_methods_and_a_mark_for_others(make_row, draw):
    history = [point(0.1, value=15.3), point(0.2, bound=7.65)]
    fields = {"instance": "64gpu-cost", "objective": "cost", "value": 15.3, "feasible": True}
    rows = [
        make_row("igniter", **fields, decision_s=0.01, trajectory=[]),
        make_row("colgen", **fields, bound=7.65, bound_certified=True, trajectory=history),
    ]
    (axes,) = (ax for ax in draw("exact-gap", rows).axes if ax.get_visible() and ax.axison)
    _guide, mark, plans, bounds = axes.lines
    assert list(mark.get_xdata()) == [0.01]
    assert (plans.get_linestyle(), bounds.get_linestyle()) == ("-", ":")
    assert [*plans.get_ydata()] == pytest.approx([66.7, 66.7], abs=0.1)  # 5 GPUs, 3 proven to be needed
    assert [*bounds.get_ydata()] == [0.0, 0.0]
    assert len(axes.collections) == 1
    assert axes.get_ylabel() == "Worse than the best bound (%)"
    assert axes.get_xlabel() == "Decision time (s)"


def test_the_solved_share_and_the_gap_are_drawn_by_size(make_row, draw):
    def row(size, seed, status, gpus, bound):
        return make_row(
            "cpsat",
            f"exact-{size}-s{seed}",
            status=status,
            objective="cost",
            value=gpus * 3.06,
            feasible=True,
            bound=bound * 3.06,
            bound_certified=True,
        )

    rows = [row(5, 0, "optimal", 2, 1.5), row(5, 1, "feasible", 4, 2.5), row(10, 0, "feasible", 4, 2.0)]
    assert solved_pct(rows) == {5: 50.0, 10: 0.0}
    # 2 of 2 GPUs, 3 of 4, and 2 of 4: gaps 0, 25 and 50 percent
    assert median_gap_pct(rows) == {5: pytest.approx(12.5), 10: pytest.approx(50.0)}
    solved, gap = draw("exact-scaling", rows).axes
    assert solved.get_ylabel() == "Proven optimal (%)"
    assert (gap.get_ylabel(), gap.get_xlabel()) == ("Median gap (%)", "Number of workloads")


def test_the_error_and_the_gap_are_drawn_by_pieces(make_row, draw):
    def row(pieces, certified, value, bound, error):
        return make_row(
            "pwl",
            "igniter-12",
            parameters={"pwl": {"pieces": pieces, "certified": certified}},
            objective="cost",
            value=value * 3.06,
            feasible=True,
            bound=bound * 3.06,
            bound_certified=certified,
            statistics={
                f"pwl_error_{which}_{name}": error for which in ("max", "mean") for name in ("k_act", "ability")
            },
        )

    superseded = row(1, False, 8, 5.5, 0.9)
    rows = [superseded, row(1, False, 8, 7.5, 0.5), row(2, False, 8, 6.0, 0.1), row(1, True, 8, 3.5, 2.0)]
    by_pieces = rows_by_pieces([*rows, make_row("pwl", "igniter-3", feasible=True, value=3.06)])

    assert by_pieces[1, False] == [rows[1]]
    assert errors_pct(by_pieces, "pwl_error_max_k_act") == {1: pytest.approx(50.0), 2: pytest.approx(10.0)}
    # 8, 6 and 4 whole GPUs of 8
    assert gaps_by_pieces_pct(by_pieces, False) == {1: pytest.approx(0.0), 2: pytest.approx(25.0)}
    assert gaps_by_pieces_pct(by_pieces, True) == {1: pytest.approx(50.0)}
    error, gap = draw("pwl-error", rows).axes
    assert (error.get_ylabel(), error.get_yscale()) == ("Relative error (%)", "log")
    assert (gap.get_ylabel(), gap.get_xlabel()) == ("Gap (%)", "Pieces along each axis")
