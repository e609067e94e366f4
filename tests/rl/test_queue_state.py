import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.queue_state import serve_step


def simulated_step(queued, running_ms, arrivals, step_ms, batch, inference_ms, slo_ms):
    """Simulate the same queue request by request and batch by batch."""
    spacing_ms = step_ms / arrivals
    total = queued + arrivals
    free_ms, late, started, running = running_ms, 0, 0, running_ms - step_ms
    for n in range(1, -(-total // batch) + 1):
        full_ms = max(0.0, (n * batch - queued) * step_ms / arrivals)
        start_ms = max(free_ms, full_ms)
        free_ms = start_ms + inference_ms
        for j in range((n - 1) * batch + 1, min(n * batch, total) + 1):
            if j > queued and free_ms - (j - queued) * spacing_ms > slo_ms:
                late += 1
        if n * batch <= total and start_ms <= step_ms:
            started, running = n, free_ms - step_ms
    return late, min(total - started * batch, int(slo_ms / spacing_ms)), max(0.0, running)


def test_a_steady_queue_has_no_late_requests():
    # 100 requests in 1,000 ms, batches of 5 every 50 ms: the first of a batch waits 40 ms and is done after 60.
    assert serve_step(0, 0.0, 100, 1000.0, 5, 20.0, 60.0) == (0, 0, 20.0)


def test_the_first_request_of_every_batch_is_late():
    assert serve_step(0, 0.0, 100, 1000.0, 5, 20.0, 59.0)[0] == 20


def test_an_overloaded_queue_is_late_from_the_tenth_request():
    # A batch of 1 takes 20 ms, a request comes every 10: request j is done at 10 + 20 j, after 10 + 10 j ms.
    late, queued, running_ms = serve_step(0, 0.0, 100, 1000.0, 1, 20.0, 100.0)
    assert late == 91  # j = 10 to 100
    assert queued == 10  # of the 50 waiting requests, those of the last 100 ms
    assert running_ms == pytest.approx(10.0)  # request 50 starts at 990


def test_a_running_batch_delays_the_first_requests():
    # The running batch takes another 95 ms; requests at 10, 20, ... need 5 ms each, so the delay falls by 5 ms each.
    assert serve_step(0, 95.0, 100, 1000.0, 1, 5.0, 50.0)[0] == 8


def test_requests_without_a_deployment_are_late():
    assert serve_step(3, 7.0, 10, 1000.0, 0, 0.0, 250.0) == (10, 2, 0.0)


def test_without_arrivals_the_queue_is_served():
    assert serve_step(8, 0.0, 0, 1000.0, 4, 30.0, 50.0) == (0, 0, 0.0)


times = st.floats(0.1, 300.0)


@settings(max_examples=400)
@given(st.integers(0, 80), st.floats(0.0, 200.0), st.integers(1, 200), st.integers(1, 32), times, times)
def test_steps_agree_with_a_simulation(queued, running_ms, arrivals, batch, inference_ms, slo_ms):
    step_ms = 250.0
    late, left, running = serve_step(queued, running_ms, arrivals, step_ms, batch, inference_ms, slo_ms)
    # Requests that are late by a rounding error may count either way.
    largest_late = simulated_step(queued, running_ms, arrivals, step_ms, batch, inference_ms, slo_ms - 1e-9)[0]
    smallest_late, expected_left, expected_running = simulated_step(
        queued, running_ms, arrivals, step_ms, batch, inference_ms, slo_ms + 1e-9
    )
    assert smallest_late <= late <= largest_late
    assert running == pytest.approx(expected_running, abs=1e-6)
    assert left in (
        expected_left,
        simulated_step(queued, running_ms, arrivals, step_ms, batch, inference_ms, slo_ms)[1],
    )


@settings(max_examples=200)
@given(st.integers(0, 50), st.integers(1, 200), st.integers(1, 32), times, times, times)
def test_a_faster_batch_makes_no_request_late(queued, arrivals, batch, slower_ms, faster_ms, slo_ms):
    slower_ms, faster_ms = max(slower_ms, faster_ms), min(slower_ms, faster_ms)
    assert (
        serve_step(queued, 0.0, arrivals, 250.0, batch, faster_ms, slo_ms)[0]
        <= serve_step(queued, 0.0, arrivals, 250.0, batch, slower_ms, slo_ms)[0]
    )
