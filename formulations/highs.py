"""HiGHS solvers without output, with the threads of a run."""

from typing import Any

import highspy

MOST_NODES = 2**31 - 1
"""Largest node limit that HiGHS accepts."""


def reset_threads() -> None:
    """Drop the thread pool that HiGHS keeps between solvers, because its number of threads is fixed."""
    highspy.Highs.resetGlobalScheduler(True)


def new_highs(threads: int, **options: object) -> Any:
    """Return an empty solver with these options of HiGHS; another number of threads needs ``reset_threads`` first."""
    solver = highspy.Highs()
    for name, value in ({"output_flag": False, "threads": threads} | options).items():
        solver.setOptionValue(name, value)
    return solver
