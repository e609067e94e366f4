"""iGniter's Fig. 21: decision time and memory against the number of workloads."""

from reports.papers.igniter_scaling import PAPER_TIME_MS, SizePoint, points

NAME = "igniter-fig21"
SIZES = (10, 50, 1000)


def line(ax, scheduler):
    (matching,) = (line for line in ax.lines if line.get_label() == scheduler)
    return list(map(tuple, matching.get_xydata()))


def hollow(ax):
    return [tuple(line_.get_xydata()[0]) for line_ in ax.lines if line_.get_markerfacecolor() == "white"]


def test_curves_are_medians_in_ms_with_a_band_over_the_seeds(make_row, draw):
    rows = [
        make_row(instance=f"igniter-mix-{size}-s0", seed=seed, decision_s=size * seconds, peak_memory_mb=90.0 + size)
        for size in SIZES
        for seed, seconds in enumerate((0.004, 0.001, 0.002))
    ]
    time, memory = draw(NAME, rows).axes
    assert line(time, "igniter") == [(10.0, 20.0), (50.0, 100.0), (1000.0, 2000.0)]
    (band,) = time.collections
    ends = {tuple(map(float, corner)) for corner in band.get_paths()[0].vertices.round(6)}
    assert {(size, size * factor) for size in SIZES for factor in (1.0, 4.0)} <= ends
    assert line(memory, "igniter") == [(10.0, 100.0), (50.0, 140.0), (1000.0, 1090.0)]
    assert len(memory.collections) == 1  # the paper's arrow only: all seeds took the same memory


def test_both_scales_are_logarithmic_with_units_and_plain_numbers(make_row, draw):
    rows = [make_row(instance="igniter-mix-50-s0", decision_s=0.01, peak_memory_mb=94.0)]
    time, memory = draw(NAME, rows).axes
    assert {ax.get_yscale() for ax in (time, memory)} == {time.get_xscale()} == {"log"}
    assert (time.get_ylabel(), memory.get_ylabel()) == ("Decision time (ms)", "Peak memory (MiB)")
    assert memory.get_xlabel() == "Number of workloads"
    low, high = memory.get_xlim()
    shown = [text.get_text() for text in memory.get_xticklabels() if low <= text.get_position()[0] <= high]
    assert shown == ["10", "20", "50", "100", "200", "500", "1,000"]
    assert time.get_ylim() == (2.0, 10000.0)
    assert memory.get_ylim() == (30.0, 200.0)


def test_the_papers_values_are_stars_labelled_as_of_another_machine(make_row, draw):
    page = draw(NAME, [make_row(instance="igniter-mix-50-s0", decision_s=0.01)])
    time, memory = page.axes
    stars = [tuple(point) for mark in time.lines if mark.get_marker() == "*" for point in mark.get_xydata()]
    assert stars == list(PAPER_TIME_MS.items()) == [(12, 3.64), (1000, 4610.0)]
    assert {tuple(p) for mark in memory.lines if mark.get_marker() == "*" for p in mark.get_xydata()} == {
        (12, 53.17),
        (1000, 55.0),
    }
    assert "the paper, another machine" in [text.get_text() for text in page.legends[0].get_texts()]


def test_runs_at_their_time_limit_are_hollow(make_row, draw):
    rows = [
        make_row("cpsat", f"igniter-mix-{size}-s0", decision_s=seconds, termination=termination)
        for size, seconds, termination in ((10, 0.5, "finished"), (50, 9.9, "finished"), (100, 11.0, "wall_limit"))
    ]
    page = draw(NAME, rows)
    assert page.axes[0].get_ylim()[1] == 20000.0  # high enough for the mark at 11,000 ms
    assert hollow(page.axes[0]) == [(50.0, 9900.0), (100.0, 11000.0)]
    assert "used up its time limit" in [text.get_text() for text in page.legends[0].get_texts()]


def test_failed_runs_are_noted_and_not_drawn(make_row, draw):
    rows = [
        make_row(instance="igniter-mix-10-s0", decision_s=0.01),
        make_row(instance="igniter-mix-50-s0", decision_s=0.02, termination="crashed"),
        make_row(instance="igniter-mix-1000-s0", termination="memory_limit"),
    ]
    page = draw(NAME, rows)
    assert line(page.axes[0], "igniter") == [(10.0, 10.0)]
    note = " ".join(page.get_supxlabel().split())
    assert "igniter (crashed) on igniter-mix-50-s0" in note
    assert "igniter (memory limit) on igniter-mix-1000-s0" in note


def test_a_single_size_is_a_line_over_the_range_of_seeds(make_row, draw):
    rows = [make_row(instance="igniter-mix-10-s0", seed=seed, decision_s=0.01 * (1 + seed)) for seed in (0, 1)]
    (range_line,) = draw(NAME, rows).axes[0].collections
    assert range_line.get_segments()[0].tolist() == [[10.0, 10.0], [10.0, 20.0]]


def test_unknown_values_are_no_points(make_row):
    rows = [
        make_row(instance="igniter-mix-20-s0", decision_s=1.0, peak_memory_mb=95.0),
        make_row(instance="igniter-mix-20-s0", seed=1, decision_s=10.0, peak_memory_mb=97.0),
        make_row(instance="igniter-mix-10-s0", decision_s=1.0),
    ]
    assert points(rows, lambda row: row.peak_memory_mb) == [SizePoint(20, 95.0, 96.0, 97.0, True)]
