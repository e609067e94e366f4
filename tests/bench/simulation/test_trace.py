"""Rate traces: files that are read, errors with their line, and times of requests."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulation import trace
from bench.simulation.trace import Trace, read_rate_trace
from instances import InputError


def write_trace(folder: Path, content: bytes, name: str = "rates.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


# --- Reading ---


@pytest.mark.parametrize("name", ["rates.csv", "rates.csv.gz"])
@pytest.mark.parametrize(
    ("content", "rates"),
    [
        pytest.param(b"1\n2.5\n0\n", [1.0, 2.5, 0.0], id="numbers"),
        pytest.param(b"requests\n1\n2\n", [1.0, 2.0], id="a heading"),
        pytest.param(b"1\n\n  2 \n", [1.0, 2.0], id="blanks"),
        pytest.param(b"1\r\n2\r\n", [1.0, 2.0], id="lines as on Windows"),
        pytest.param(b"\xef\xbb\xbf3\n2\n", [3.0, 2.0], id="a byte order mark"),
        pytest.param(b"1e2\n3", [100.0, 3.0], id="no end to the last line"),
    ],
)
def test_a_trace_has_one_number_per_line(tmp_path: Path, content: bytes, rates: list[float], name: str) -> None:
    trace_ = read_rate_trace(write_trace(tmp_path, content, name))

    assert trace_.name == name
    assert trace_.rates_rps.tolist() == rates


@pytest.mark.parametrize("name", ["rates.csv", "rates.csv.gz"])
@pytest.mark.parametrize(
    ("content", "where", "problem"),
    [
        pytest.param(b"1\n-2\n", ": line 2", "-2 req/s; expected a number from 0 to 1,000,000,000", id="negative"),
        pytest.param(b"1\n2\nnan\n", ": line 3", "nan req/s; expected a number from 0 to 1,000,000,000", id="NaN"),
        pytest.param(b"inf\n", ": line 1", "inf req/s; expected a number from 0 to 1,000,000,000", id="infinite"),
        pytest.param(
            b"1\n1e999\n", ": line 2", "1e999 req/s; expected a number from 0 to 1,000,000,000", id="overflow"
        ),
        pytest.param(
            b"1e308\n1e308\n", ": line 1", "1e308 req/s; expected a number from 0 to", id="beyond any service"
        ),
        pytest.param(b"rate\n1\nmany\n", ": line 3", '"many" is not a number of requests per second', id="text"),
        pytest.param(b"t,rate\n0,5\n", ": line 2", '"0,5" is not a number of requests per second', id="two columns"),
        pytest.param(b"\n\nrate\n", ": line 3", '"rate" is not a number of requests per second', id="a late heading"),
        pytest.param(b"", "", "holds no rate above 0", id="empty"),
        pytest.param(b"rate\n", "", "holds no rate above 0", id="only a heading"),
        pytest.param(b"0\n0\n0\n", "", "holds no rate above 0", id="all zero"),
        pytest.param(b"1\n" + b"9" * 500 + b"\n", ": line 2", "is too long", id="a line too long"),
        pytest.param(bytes(range(256)) * 40, ": line ", "", id="binary junk"),
    ],
)
def test_wrong_traces_are_refused_with_the_line(
    tmp_path: Path, content: bytes, where: str, problem: str, name: str
) -> None:
    path = write_trace(tmp_path, content, name)

    with pytest.raises(InputError) as refusal:
        read_rate_trace(path)

    assert refusal.value.where.startswith(f"{path}{where}")
    assert refusal.value.problem.startswith(problem)


@pytest.mark.parametrize("part", [1, 10, 30, 60])
def test_a_truncated_archive_is_refused(tmp_path: Path, part: int) -> None:
    whole = gzip.compress("\n".join(str(k * k % 977) for k in range(1, 200)).encode())
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(whole[: len(whole) * part // 100])

    with pytest.raises(InputError, match="cannot be read"):
        read_rate_trace(path)


@pytest.mark.parametrize("content", [b"1\n2\n", b"\x1f\x8bnot really", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03junk"])
def test_files_that_are_not_compressed_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rates.csv.gz"
    path.write_bytes(content)

    with pytest.raises(InputError, match="cannot be read"):
        read_rate_trace(path)


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(InputError, match="cannot be read"):
            read_rate_trace(path)


def test_a_trace_with_too_many_lines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_SECONDS", 5)
    assert len(read_rate_trace(write_trace(tmp_path, b"1\n" * 5)).rates_rps) == 5

    with pytest.raises(InputError, match="line 6: is too long"):
        read_rate_trace(write_trace(tmp_path, b"1\n" * 6))


def test_the_fingerprint_depends_on_the_rates_alone(tmp_path: Path) -> None:
    plain, packed = (read_rate_trace(write_trace(tmp_path, b"1\n2\n", name)) for name in ("a.csv", "b.csv.gz"))

    assert plain.fingerprint == packed.fingerprint
    assert plain.fingerprint != Trace("a", np.array([1.0, 3.0])).fingerprint


# --- Times of requests ---


def test_times_follow_the_rates() -> None:
    """Rates 1 and 3 have mean 2; scaled to mean 20, the seconds have 10 and 30 requests, again and again."""
    ups = Trace("ups", np.array([1.0, 3.0]))

    times_ms = ups.times_ms(np.arange(80) + 0.5, 20.0)

    assert np.bincount((times_ms // 1000).astype(int)).tolist() == [10, 30, 10, 30]
    assert times_ms[:10] == pytest.approx(100.0 * np.arange(10) + 50.0)
    assert times_ms[40:] == pytest.approx(times_ms[:40] + 2000.0)


@given(
    rates=st.lists(st.one_of(st.just(0.0), st.floats(0.1, 1e4)), min_size=1, max_size=40).filter(any),
    mean_rps=st.floats(0.5, 1e4),
)
def test_the_mean_rate_is_right_and_no_request_arrives_at_rate_zero(rates: list[float], mean_rps: float) -> None:
    given_rates = np.array(rates)
    total = mean_rps * len(rates)
    units = np.linspace(0.0, 3.0 * total, 998)[1:-1]  # without the ends of rounds

    times_ms = Trace("any", given_rates).times_ms(units, mean_rps)

    assert np.all(np.diff(times_ms) >= -1e-6)
    # A third of the requests in each round
    rounds = times_ms / (1000.0 * len(rates))
    assert np.all(rounds <= np.ceil(units / total) + 1e-9)
    assert np.all(rounds >= np.floor(units / total) - 1e-9)
    inside = times_ms / 1000.0 % 1.0
    second = (times_ms // 1000.0).astype(int) % len(rates)
    well_inside = (inside > 1e-6) & (inside < 1.0 - 1e-6)
    assert np.all(given_rates[second[well_inside]] > 0.0)


def test_a_part_of_a_trace_is_a_trace() -> None:
    whole = Trace("whole", np.array([0.0, 0.0, 4.0, 2.0, 0.0]))

    part = whole.part(2, 2)

    assert part.rates_rps.tolist() == [4.0, 2.0]
    assert part.name == "whole[2:4]"
    assert part.fingerprint != whole.fingerprint
    for first_s, seconds in ((0, 2), (4, 1), (5, 10), (99, 1), (2, 0)):
        with pytest.raises(InputError, match=f"whole: holds no requests in the {seconds} s from second {first_s} on"):
            whole.part(first_s, seconds)
