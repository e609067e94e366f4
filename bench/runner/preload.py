"""Preload of the forkserver: it loads the modules of every worker, and writes an exception to a log for the bench."""

import os
import traceback
from contextlib import suppress
from pathlib import Path
from textwrap import shorten

from bench.runner.worker_limits import LOG_VARIABLE, SAFE_PATH_MARK

if os.environ.get("PYTHONSAFEPATH") == SAFE_PATH_MARK:
    del os.environ["PYTHONSAFEPATH"]
_LOG = Path(os.environ.pop(LOG_VARIABLE))

try:
    import bench.runner.warm_modules  # noqa: F401
except BaseException as error:  # noqa: BLE001 - the bench reports the exception
    # multiprocessing would ignore an ImportError, and would print the traceback of another exception in every attempt.
    reason = shorten(f"{type(error).__name__}: {error}", 500, placeholder=" ...")
    with suppress(OSError):
        unfinished = _LOG.with_suffix(".part")
        unfinished.write_text(f"{reason}\n\n{traceback.format_exc()}", encoding="utf-8", errors="backslashreplace")
        unfinished.rename(_LOG)
    raise SystemExit(1) from None
