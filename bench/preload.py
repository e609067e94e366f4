"""What the forkserver loads once, so that every worker starts with it: NumPy, Numba, the file border, warm kernels.

Imported by name in the forkserver; importing it elsewhere changes how that process handles Ctrl-C.
"""

import gc
import os
import signal

SAFE_PATH_MARK = "bench.preload"
"""Value of ``PYTHONSAFEPATH`` that is meant for the forkserver alone (see ``bench.isolation``)."""

if os.environ.get("PYTHONSAFEPATH") == SAFE_PATH_MARK:
    del os.environ["PYTHONSAFEPATH"]

# A Ctrl-C in the terminal reaches this process too, also while it is still importing: the bench decides what it means.
signal.signal(signal.SIGINT, signal.SIG_IGN)

# No library may start threads before the fork: they would be missing in every worker.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import bench.worker  # noqa: E402 - reads the environment set above
import instances.files  # noqa: E402, F401 - workers write plans through it
from instances.one_gpu import warm_kernels  # noqa: E402

warm_kernels()

# What is loaded here stays: the garbage collectors of the workers need not look at it, nor copy its pages.
gc.collect()
gc.freeze()
