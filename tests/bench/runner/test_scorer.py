"""The scorer, a process that judges plans: each piece of work has an answer, whatever happens to the process."""

import math
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait

import pytest

from bench.runner import scorer
from bench.runner.forkserver import start_forkserver
from bench.runner.scorer import Scorer
from bench.runner.watchdog import Watchdog
from instances import InputError


@pytest.fixture
def process() -> Iterator[Scorer]:
    start_forkserver()
    watchdog = Watchdog()
    started = Scorer(watchdog)
    yield started
    started.release()
    started.end()
    watchdog.close()


def answers(process: Scorer, *work: tuple[Callable[..., object], ...]) -> list[object]:
    results: list[object] = []
    for function, *arguments in work:
        process.submit(function, *arguments, done=results.append, failed=results.append)
    while process:
        wait(process.sources, max(0.0, process.due - time.monotonic()))
        process.process_result()
    assert process.due == math.inf
    return results


def test_work_is_done_in_order(process: Scorer) -> None:
    assert answers(process, (len, "four"), (divmod, 7, 2)) == [4, (3, 1)]
    assert answers(process, (abs, -1)) == [1]


def test_a_failure_affects_one_piece_of_work(process: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "LIMIT_S", 0.5)
    results = answers(process, (divmod, 1, 0), (os._exit, 3), (abs, -1), (time.sleep, 60.0), (abs, -2))
    assert str(results[0]).startswith("ZeroDivisionError")
    assert results[1:] == ["its process ended with exit code 3", 1, "took more than 0.5 s", 2]


def test_the_scorers_memory_is_limited(process: Scorer) -> None:
    (result,) = answers(process, (bytes, scorer.MEMORY_LIMIT_MB * 2**20))
    assert str(result).startswith("MemoryError")


def test_an_idle_scorer_is_reused() -> None:
    start_forkserver()
    processes = []
    for _ in range(2):
        watchdog = Watchdog()
        with scorer.borrowed_scorer(watchdog) as process:
            processes += answers(process, (os.getpid,))
        watchdog.close()
    assert processes[0] == processes[1] != os.getpid()


def test_a_scorer_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    start_forkserver()
    watchdog = Watchdog()
    monkeypatch.setattr(scorer, "_serve", print)
    broken = Scorer(watchdog)
    with pytest.raises(InputError, match=r"^judge: does not start: its process ended with exit code 0"):
        answers(broken, (abs, -1))
    broken.end()
    watchdog.close()
