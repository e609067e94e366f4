"""Streams of requests: their statistics by process, and pieces that add up to the whole stream."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulation.arrivals import Arrivals, Process, Stream, parse_arrivals
from bench.simulation.trace import Trace
from instances import InputError

DAY = Trace("day", np.array([5.0, 0.0, 20.0, 80.0, 40.0, 1.0]))
EVERY_KIND = [
    Arrivals(Process.CONSTANT),
    Arrivals(Process.POISSON),
    Arrivals(Process.GAMMA, 3.0),
    Arrivals(Process.GAMMA, 0.4),
    Arrivals(Process.TRACE, trace=DAY),
]


def times_ms(arrivals: Arrivals, rate_rps: float, seconds: float, seed: int = 0, name: str = "w") -> np.ndarray:
    return Stream(arrivals, rate_rps, seed, name).until(1000.0 * seconds)


def test_constant_arrivals_begin_at_0_and_are_equally_spaced() -> None:
    assert times_ms(Arrivals(Process.CONSTANT), 250.0, 0.02).tolist() == [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]


@pytest.mark.parametrize("arrivals", EVERY_KIND, ids=lambda arrivals: arrivals.label)
def test_the_mean_rate_is_the_given_one(arrivals: Arrivals) -> None:
    assert len(times_ms(arrivals, 400.0, 600.0)) == pytest.approx(240_000, rel=0.02)


@pytest.mark.parametrize(
    ("arrivals", "variation"),
    [(Arrivals(Process.POISSON), 1.0), *((Arrivals(Process.GAMMA, cv), cv) for cv in (0.2, 1.0, 3.0))],
    ids=lambda value: getattr(value, "label", ""),
)
def test_gaps_have_the_coefficient_of_variation_of_the_process(arrivals: Arrivals, variation: float) -> None:
    gaps = np.diff(times_ms(arrivals, 100.0, 5000.0))

    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.03)
    assert np.corrcoef(gaps[:-1], gaps[1:])[0, 1] == pytest.approx(0.0, abs=0.01)


def test_the_variance_of_poisson_counts_is_their_mean() -> None:
    counts = np.bincount((times_ms(Arrivals(), 50.0, 4000.0) // 1000).astype(int), minlength=4000)

    assert counts.var() == pytest.approx(50.0, rel=0.08)


def test_a_trace_sets_the_rate_of_each_second() -> None:
    many = [times_ms(Arrivals(Process.TRACE, trace=DAY), 100.0, 5.999, seed) for seed in range(100)]
    counts = np.bincount((np.concatenate(many) // 1000).astype(int), minlength=6) / 100

    expected = DAY.rates_rps * 100.0 / DAY.rates_rps.mean()
    assert counts[1] == 0.0
    assert counts == pytest.approx(expected, rel=0.05, abs=0.5)


@given(
    cuts=st.lists(st.floats(0.0, 5000.0), max_size=8).map(sorted),
    arrivals=st.sampled_from(EVERY_KIND),
    rate_rps=st.floats(1.0, 500.0),
)
def test_pieces_of_a_stream_add_up_to_the_whole(cuts: list[float], arrivals: Arrivals, rate_rps: float) -> None:
    whole, stream = times_ms(arrivals, rate_rps, 5.0, 7), Stream(arrivals, rate_rps, 7, "w")

    pieces = [stream.until(cut) for cut in [*cuts, 5000.0]]

    assert np.array_equal(np.concatenate(pieces), whole)
    for low, high, piece in zip([-1.0, *cuts], [*cuts, 5000.0], pieces, strict=True):
        assert np.all((piece > low) & (piece <= high))
    assert np.all(np.diff(whole) >= 0.0)


@pytest.mark.parametrize("arrivals", EVERY_KIND[1:], ids=lambda arrivals: arrivals.label)
def test_streams_depend_on_seed_and_name(arrivals: Arrivals) -> None:
    first = times_ms(arrivals, 100.0, 10.0)

    assert np.array_equal(times_ms(arrivals, 100.0, 10.0), first)
    for other in (times_ms(arrivals, 100.0, 10.0, seed=1), times_ms(arrivals, 100.0, 10.0, name="v")):
        assert not np.array_equal(other[:50], first[:50])


def test_streams_of_two_workloads_are_independent() -> None:
    counts = [
        np.bincount((times_ms(Arrivals(), 50.0, 3999.5, name=name) // 1000).astype(int), minlength=4000)
        for name in ("a", "b")
    ]

    assert np.corrcoef(*counts)[0, 1] == pytest.approx(0.0, abs=0.05)


def test_a_faster_stream_has_the_same_gaps_scaled() -> None:
    """Therefore, scaling all rates does not change the order of requests."""
    slow, fast = times_ms(Arrivals(), 100.0, 10.0), times_ms(Arrivals(), 200.0, 5.0)

    assert fast * 2.0 == pytest.approx(slow)


def test_a_label_parses_to_the_same_arrivals() -> None:
    for arrivals in EVERY_KIND[:-1]:
        assert parse_arrivals(arrivals.label).label == arrivals.label
    assert parse_arrivals("gamma") == Arrivals(Process.GAMMA, 3.0)


def test_the_identity_of_a_trace_is_its_content(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("1\n2\n")
    first = parse_arrivals(str(path))
    path.write_text("1\n3\n")
    second = parse_arrivals(str(path))

    assert first.label == second.label == "rates.csv"
    assert first.identity != second.identity


@pytest.mark.parametrize("text", ["", "poison", "poisson:2", "constant:", "gamma:x", "none.csv", "a/b"])
def test_unknown_arrivals_are_refused(text: str) -> None:
    if text == "constant:":
        assert parse_arrivals(text).process is Process.CONSTANT  # an empty parameter is accepted
        return
    with pytest.raises(InputError, match=r"^arrivals"):
        parse_arrivals(text)


@pytest.mark.parametrize("burstiness", [0.0, -1.0, 1e-9, 1e9, float("nan"), float("inf")])
def test_a_burstiness_that_no_stream_can_have_is_refused(burstiness: float) -> None:
    with pytest.raises(InputError, match=r"burstiness .* expected a number from 0.01 to 100"):
        Arrivals(Process.GAMMA, burstiness)


def test_the_burstiest_stream_has_requests() -> None:
    assert len(times_ms(Arrivals(Process.GAMMA, 100.0), 100.0, 60.0)) > 0


def test_a_trace_is_needed_for_its_process_only() -> None:
    for arguments in ((Process.TRACE, 3.0, None), (Process.POISSON, 3.0, DAY)):
        with pytest.raises(InputError, match="expected a trace for the process"):
            Arrivals(*arguments)
