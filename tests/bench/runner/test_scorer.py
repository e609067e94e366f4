"""The process that judges: whatever happens to it, the bench gets an answer for every piece of work."""

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
    found: list[object] = []
    for function, *arguments in work:
        process.submit(function, *arguments, done=found.append, failed=found.append)
    while process:
        wait(process.sources, max(0.0, process.due - time.monotonic()))
        process.process_result()
    assert process.due == math.inf
    return found


def test_work_is_done_in_its_order(process: Scorer) -> None:
    assert answers(process, (len, "four"), (divmod, 7, 2)) == [4, (3, 1)]
    assert answers(process, (abs, -1)) == [1]


def test_what_goes_wrong_costs_one_piece_of_work(process: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "LIMIT_S", 0.5)
    found = answers(process, (divmod, 1, 0), (os._exit, 3), (abs, -1), (time.sleep, 60.0), (abs, -2))
    assert str(found[0]).startswith("ZeroDivisionError")
    assert found[1:] == ["its process ended with exit code 3", 1, "took more than 0.5 s", 2]


def test_memory_is_limited(process: Scorer) -> None:
    (found,) = answers(process, (bytes, scorer.MEMORY_LIMIT_MB * 2**20))
    assert str(found).startswith("MemoryError")


def test_an_idle_process_serves_the_next_runs() -> None:
    start_forkserver()
    processes = []
    for _ in range(2):
        watchdog = Watchdog()
        with scorer.borrowed_scorer(watchdog) as process:
            processes += answers(process, (os.getpid,))
        watchdog.close()
    assert processes[0] == processes[1] != os.getpid()


def test_a_process_that_does_not_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    start_forkserver()
    watchdog = Watchdog()
    monkeypatch.setattr(scorer, "_serve", print)
    broken = Scorer(watchdog)
    with pytest.raises(InputError, match=r"^judge: does not start: its process ended with exit code 0"):
        answers(broken, (abs, -1))
    broken.end()
    watchdog.close()
