"""Failures of a run: errors of the scheduler, the last message after an error, and deaths of processes."""

import sys
import traceback
from signal import Signals

from bench.ledger.row import Termination
from bench.runner import worker_limits
from bench.runner.messages import Message
from bench.schedulers.chain import RefusedError
from bench.task import Task

TRACEBACK_FRAMES = 8
"""Number of innermost frames of an exception in the log."""

_MEMORY_SIGNS = (
    "bad_alloc",
    "cannot allocate memory",
    "can't allocate memory",
    "out of memory",
    "failed to map segment",
    "unable to allocate",
    "memoryerror",
)
"""Parts of messages about refused memory, in lower case."""


class SkippedError(Exception):
    """Error of a scheduler that does not support the instance."""


def ended_message(error: BaseException, task: Task) -> Message:
    """Return the last message of a run that ``error`` ended."""
    out_of_memory = _is_memory_failure(error, task.memory_limit_mb)
    if out_of_memory or task.memory_limit_mb is not None:
        worker_limits.lift_memory_limit()  # the code below needs memory
    match error:
        case RefusedError():
            termination, reason = Termination.INVALID_PLAN, " ".join([str(error), *getattr(error, "__notes__", ())])
        case SkippedError():
            return {"type": "ended", "termination": Termination.SKIPPED, "reason": str(error)}
        case _ if out_of_memory:
            limit_text = "without a limit" if task.memory_limit_mb is None else f"limit {task.memory_limit_mb:g} MiB"
            termination, reason = Termination.MEMORY_LIMIT, f"{limit_text}: {one_line(error)}"
        case _:
            termination, reason = Termination.EXCEPTION, one_line(error)
    traceback.print_exception(error, limit=-TRACEBACK_FRAMES, file=sys.stderr)
    return {"type": "ended", "termination": termination, "reason": reason}


def _is_memory_failure(error: BaseException, limit_mb: float | None) -> bool:
    """Return whether memory ran out: by a ``MemoryError`` or, under a limit, by the text of another error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (limit_mb is not None and mentions_refused_memory(one_line(cause))):
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def exit_in_words(exit_code: int) -> str:
    """Return how a process with this exit code ended, such as ``died of SIGSEGV``."""
    if exit_code >= 0:
        return f"exited with status {exit_code}"
    try:
        return f"died of {Signals(-exit_code).name}"
    except ValueError:
        return f"died of signal {-exit_code}"


def mentions_refused_memory(text: str) -> bool:
    """Return whether ``text`` contains a message about refused memory, such as allocators print."""
    lowered = text.lower()
    return any(sign in lowered for sign in _MEMORY_SIGNS)


def one_line(error: BaseException) -> str:
    """Return type and message of an exception on one line."""
    return shortened("".join(traceback.format_exception_only(error)))


def shortened(text: str) -> str:
    """Return ``text`` on one line of at most 500 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 500 else line[:497] + "..."
