"""Modules and warm kernels that every worker shares: NumPy, Numba, the file readers and the code of workers."""

import gc
import os
import warnings

# Threads of libraries do not survive a fork, so none may start here. NumPy reads these variables on import.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import bench.runner.inspection  # noqa: F401 - also imports bench.runner.worker, the code of workers
from bench.runner.worker_limits import adopt_orphans
from instances.one_gpu import warm_kernels

warm_kernels()

adopt_orphans()
warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")  # the pid of an adopted orphan

# The objects loaded here are never freed. The garbage collectors of the workers skip frozen objects; otherwise the
# collectors would write to the shared memory pages, and so copy them.
gc.collect()
gc.freeze()
