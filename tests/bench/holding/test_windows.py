"""Windows of the check whether a plan holds: 300 s, the whole trace, or ten parts spread over the trace."""

import numpy as np
import pytest

from bench.holding.attainment import Spread
from bench.holding.windows import MOST_REQUESTS_OF_WHOLE_TRACES, SIMULATIONS, windows_of
from bench.simulation.arrivals import Arrivals, Process, Stream
from bench.simulation.trace import Trace


def traced(*rates_rps: float) -> Arrivals:
    return Arrivals(Process.TRACE, trace=Trace("t", np.array(rates_rps)))


def test_stationary_arrivals_are_simulated_for_300_seconds_or_those_given() -> None:
    assert [windows_of(Arrivals(), 100.0, seconds).seconds for seconds in (None, 42.0)] == [300.0, 42.0]
    assert windows_of(Arrivals(), 100.0, None).at_least(1234.5).seconds == 1234.5


def test_every_simulation_repeats_a_trace_a_whole_number_of_times() -> None:
    short, long = windows_of(traced(*[1.0] * 70), 10.0, None), windows_of(traced(*[1.0] * 1000), 10.0, None)

    assert (short.seconds, short.spread) == (350.0, Spread.WHOLE_TRACE)
    assert (long.seconds, long.spread) == (1000.0, Spread.WHOLE_TRACE)
    assert short.at_least(701.0).seconds == 770.0


def test_with_fewer_seconds_than_the_trace_ten_parts_of_it_are_simulated() -> None:
    windows = windows_of(traced(*range(1, 101)), 10.0, 5.0)
    settings = [windows.settings(number, 2.0, None) for number in range(SIMULATIONS)]

    assert windows.spread is Spread.TRACE_PARTS
    measured = [
        setting.arrivals.trace.rates_rps[2:7].tolist() for setting in settings if setting.arrivals.trace is not None
    ]
    assert measured == [[float(first + k) for k in range(1, 6)] for first in range(0, 100, 10)]


def test_a_trace_of_too_many_requests_is_covered_by_parts() -> None:
    rate_rps = MOST_REQUESTS_OF_WHOLE_TRACES / (SIMULATIONS * 1000.0)
    assert windows_of(traced(*[1.0] * 1001), rate_rps, None).seconds == 1000.0
    assert windows_of(traced(*[1.0] * 1001), rate_rps, None).spread is Spread.TRACE_PARTS
    assert windows_of(traced(*[1.0] * 999), rate_rps, None).spread is Spread.WHOLE_TRACE


@pytest.mark.parametrize("warmup_s", [2.0, 1.3, 17.0])
def test_the_measurement_begins_with_the_trace_and_has_its_mean_rate(warmup_s: float) -> None:
    """Only the first of every five seconds of the trace has requests, and that second follows the warm-up."""
    windows = windows_of(traced(5.0, 0.0, 0.0, 0.0, 0.0), 100.0, 20.0)
    settings = windows.settings(3, warmup_s, None)
    assert settings.warmup_s is not None
    begin_ms = 1000.0 * settings.warmup_s
    times_ms = Stream(settings.arrivals, 100.0, 0, "w").until(begin_ms + 20_000.0)
    times_ms = times_ms[times_ms >= begin_ms] - begin_ms

    assert np.all(times_ms % 5000.0 <= 1000.0)
    assert len(times_ms) == pytest.approx(2000, abs=200)


def test_every_second_simulation_begins_with_a_backlog() -> None:
    settings = [windows_of(Arrivals(), 10.0, None).settings(number, 5.0, False) for number in range(SIMULATIONS)]

    assert [setting.backlog for setting in settings] == [False, True] * 5
    assert len({setting.seed for setting in settings}) == SIMULATIONS
    assert {setting.intervals for setting in settings} == {10}
    assert {setting.dropping for setting in settings} == {False}
