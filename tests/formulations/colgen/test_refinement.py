"""Loop that halves boxes: its order, its limits and the boxes that it leaves open. Boxes are intervals here."""

from collections.abc import Callable

from formulations.colgen.refinement import refine

Interval = tuple[float, float]

NARROW = 1.0
"""Width at which an interval is settled."""


def refined(
    intervals: list[Interval],
    open_intervals: list[Interval] | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    most_halved: float = 100.0,
    at_once: int = 1,
    depth_first: bool = False,
) -> tuple[list[list[Interval]], list[Interval]]:
    """Return the lists of intervals that were examined together, and the intervals left open.

    The bound of an interval is its upper end.
    """
    examined: list[list[Interval]] = []

    def examine(part: list[Interval]) -> list[Interval]:
        examined.append(part)
        return [(low, high) for low, high in part if high - low > NARROW]

    def halve(interval: Interval) -> list[Interval]:
        low, high = interval
        return [(low, (low + high) / 2.0), ((low + high) / 2.0, high)]

    left = refine(
        intervals,
        open_intervals or [],
        lambda interval: interval[1],
        examine,
        halve,
        goes_on,
        most_halved,
        at_once,
        depth_first,
    )
    return examined, left


def test_boxes_are_halved_once_all_are_examined_largest_bound_first() -> None:
    examined, left = refined([(0.0, 2.0), (4.0, 8.0)])
    assert [box for (box,) in examined] == [
        (0.0, 2.0),
        (4.0, 8.0),
        (4.0, 6.0),
        (6.0, 8.0),
        (6.0, 7.0),
        (7.0, 8.0),
        (4.0, 5.0),
        (5.0, 6.0),
        (0.0, 1.0),
        (1.0, 2.0),
    ]
    assert left == []


def test_halves_come_before_other_boxes_if_depth_comes_first() -> None:
    examined, _ = refined([(0.0, 2.0), (4.0, 6.0)], depth_first=True)
    assert [box for (box,) in examined] == [(0.0, 2.0), (0.0, 1.0), (1.0, 2.0), (4.0, 6.0), (4.0, 5.0), (5.0, 6.0)]


def test_boxes_are_examined_together_in_parts() -> None:
    examined, _ = refined([(0.0, 2.0), (2.0, 3.0), (3.0, 4.0)], at_once=2, depth_first=True)
    assert examined == [[(0.0, 2.0), (2.0, 3.0)], [(0.0, 1.0), (1.0, 2.0)], [(3.0, 4.0)]]


def test_boxes_beyond_the_limit_stay_open_for_a_later_call() -> None:
    _, left = refined([(0.0, 2.0), (4.0, 8.0)], most_halved=1)
    assert sorted(left) == [(0.0, 2.0), (4.0, 6.0), (6.0, 8.0)]
    examined, left = refined([], left)
    assert [box for (box,) in examined][:2] == [(6.0, 7.0), (7.0, 8.0)]
    assert left == []


def test_no_box_is_halved_when_the_time_is_over_but_all_are_examined() -> None:
    examined, left = refined([(0.0, 2.0), (4.0, 8.0)], goes_on=lambda: False)
    assert [box for (box,) in examined] == [(0.0, 2.0), (4.0, 8.0)]
    assert sorted(left) == [(0.0, 2.0), (4.0, 8.0)]
