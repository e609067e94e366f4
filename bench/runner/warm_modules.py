"""Modules and warm kernels that every worker shares: NumPy, Numba, the file readers and the code of workers."""

import gc
import os
import warnings

# Threads of libraries do not survive the fork, so none may start before it. NumPy reads these variables on import.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import bench.runner.inspection  # noqa: F401 - also imports bench.runner.worker, the code of workers
from bench.runner.worker_limits import adopt_orphans
from instances.one_gpu import warm_kernels

warm_kernels()

adopt_orphans()
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")  # that of an adopted orphan

# The objects loaded here are never freed. The workers' garbage collectors skip frozen objects; otherwise they would
# copy their memory pages.
gc.collect()
gc.freeze()
