"""Preload of the forkserver: NumPy, Numba, the file readers and warm kernels, shared by every worker."""

import gc
import os

from bench.runner.worker_limits import SAFE_PATH_MARK

if os.environ.get("PYTHONSAFEPATH") == SAFE_PATH_MARK:
    del os.environ["PYTHONSAFEPATH"]

# No library may start threads before the fork: they would be missing in every worker. NumPy reads this when imported.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import bench.runner.inspection  # noqa: F401 - brings bench.runner.worker with it: what workers run
from instances.one_gpu import warm_kernels

warm_kernels()

# What is loaded here stays: the garbage collectors of the workers need not look at it, nor copy its pages.
gc.collect()
gc.freeze()
