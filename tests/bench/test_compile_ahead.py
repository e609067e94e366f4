"""Second process that compiles the kernels of a plan."""

import subprocess

import pytest

from bench import compile_ahead
from bench.plan_simulation import warm_simulation


def test_the_second_process_ends_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[call-overload]
            started.append(self)

    monkeypatch.setattr(compile_ahead.subprocess, "Popen", Recorded)
    with compile_ahead.compiling_ahead():
        assert started[0].poll() is None
    assert started[0].poll() is not None

    with pytest.raises(KeyboardInterrupt), compile_ahead.compiling_ahead():
        raise KeyboardInterrupt
    assert started[1].poll() is not None


def test_the_second_process_runs_the_schedulers_and_the_simulation() -> None:
    warm_simulation.cache_clear()
    compile_ahead._compile()

    assert warm_simulation.cache_info().currsize == 1
