"""Progress during runs: the estimated time left, and the number of runs at once."""

from collections.abc import Callable
from typing import Any

import pytest

from bench import planning
from bench.cli.views.progress import Progress
from bench.ledger.row import Row
from bench.planning import fitting_jobs


def test_the_time_left_is_estimated_from_each_schedulers_own_runs(
    make_task: Callable[..., Any], make_row: Callable[..., Row]
) -> None:
    tasks = [make_task(name, seed=seed) for name in ("Base", "Honest") for seed in range(3)]
    progress = Progress(tasks, jobs=2)
    assert progress.eta_s() is None
    progress.skipped(tasks[1], make_row(wall_s=99.0))
    assert progress.eta_s() is None
    progress.finished(tasks[0], make_row(wall_s=2.0))
    progress.finished(tasks[3], make_row(wall_s=10.0))
    assert progress.eta_s() == pytest.approx((2.0 + 2 * 10.0) / 2)
    assert progress.reused == 1


@pytest.mark.parametrize(
    ("jobs", "threads", "expected", "note"),
    [
        (None, 1, 4, ""),
        (None, 3, 1, ""),
        (2, 2, 2, ""),
        (3, 2, 2, "`jobs` 3: reduced to 2, since 4 cores fit no more runs of `threads` 2"),
        (None, 5, 1, "`threads` 5: this machine has only 4 cores, so measured times are too long"),
    ],
)
def test_runs_do_not_share_cores(
    jobs: int | None, threads: int, expected: int, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 4)
    assert fitting_jobs(jobs, threads) == (expected, note)
