"""Rates that change over time: the built-in waves, and traces from files."""

from pathlib import Path

import numpy as np
import pytest

from bench.online.load import WAVES_S, read_rate_traces, streams, waves
from bench.simulation.trace import Trace
from instances import InputError, Instance
from instances.suites import SUITES


@pytest.fixture
def instance() -> Instance:
    return SUITES["gpulet-scen3"].build()[0]


def test_each_workload_has_two_waves_and_the_second_is_higher(instance: Instance) -> None:
    rates = np.array([trace.rates_rps for trace in waves(instance).values()])

    assert rates.shape == (3, WAVES_S)
    first, second = rates[:, :1400].argmax(axis=1), 1400 + rates[:, 1400:].argmax(axis=1)
    assert first.tolist() == [599, 649, 699]
    assert second.tolist() == [2149, 2199, 2249]
    low, middle, high = rates[0, 0], rates[0, 600], rates[0, 2150]
    assert (middle / low, high / low) == pytest.approx((4.0, 6.0), rel=1e-4)
    assert rates[:, 1390].tolist() == pytest.approx([low] * 3, rel=1e-4)


@pytest.mark.parametrize("seconds", [40.0, 100.0, 3200.0])
def test_the_mean_over_the_run_is_the_rate_of_the_workload(instance: Instance, seconds: float) -> None:
    """The trace of 50 s is cut for shorter runs and repeated for longer ones."""
    rising = {workload.id: Trace("rising", np.arange(50.0)) for workload in instance.workloads}

    for name, stream in streams(rising, instance, seconds, 0).items():
        count = len(stream.until(1000.0 * seconds))
        expected = seconds * 100.0
        assert abs(count - expected) < 5.0 * expected**0.5, name


def test_streams_are_independent_and_repeat_with_the_seed(instance: Instance) -> None:
    def drawn(seed: int) -> list[list[float]]:
        return [list(s.until(5000.0)) for s in streams(waves(instance), instance, 3200.0, seed).values()]

    assert drawn(1) == drawn(1)
    first, other, _ = drawn(1)
    assert first != other
    assert drawn(2)[0] != first


def test_a_trace_may_be_for_all_workloads_or_for_one(instance: Instance, tmp_path: Path) -> None:
    all_of_them, vgg16_only = tmp_path / "all.csv", tmp_path / "a=b.csv"
    all_of_them.write_text("rps\n1\n2\n")
    vgg16_only.write_text("3\n")

    traces = read_rate_traces([str(all_of_them), f"vgg16={vgg16_only}"], instance)

    assert {name: trace.rates_rps.tolist() for name, trace in traces.items()} == {
        "mobilenet": [1.0, 2.0],
        "resnet50": [1.0, 2.0],
        "vgg16": [3.0],
    }
    assert {trace.name for trace in read_rate_traces([str(vgg16_only)], instance).values()} == {"a=b.csv"}


@pytest.mark.parametrize(
    ("lines", "where"),
    [("1\n-2\n", "line 2"), ("1\nnan\n", "line 2"), ("rps\n1\nmany\n", "line 3"), ("", "no rate above 0")],
)
def test_bad_traces_are_refused_with_the_line(instance: Instance, tmp_path: Path, lines: str, where: str) -> None:
    (tmp_path / "bad.csv").write_text(lines)

    with pytest.raises(InputError, match=where):
        read_rate_traces([str(tmp_path / "bad.csv")], instance)


def test_unknown_workloads_and_workloads_without_a_trace_are_refused(instance: Instance, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("1\n")

    with pytest.raises(InputError, match='did you mean "vgg16"'):
        read_rate_traces([f"vgg61={tmp_path / 'one.csv'}"], instance)
    with pytest.raises(InputError, match="mobilenet has no trace"):
        read_rate_traces([f"vgg16={tmp_path / 'one.csv'}"], instance)
