"""Second process that compiles the kernels of a plan while the first one begins to plan.

Two processes never compile the same kernel: one waits until the other has compiled it.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bench.plan_simulation import warm_simulation
from bench.schedulers.registry import entries, load
from instances import Objective


@contextmanager
def compiling_ahead() -> Iterator[None]:
    """Compile kernels in a second process, which ends with the context at the latest."""
    process = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", __name__],  # a folder of the user may be named like one of ours
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends the first process, and this context ends the second one
    )
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5.0)


def _compile() -> None:
    # The kernels of pricing and of the simulation come first: the first process compiles other kernels before it needs
    # them.
    registered = entries()
    schedulers: list[Any] = [
        load(registered[name].target, registered[name].version)() for name in ("colgen", "ruin-recreate")
    ]
    colgen, ruin_recreate = schedulers
    colgen.warm_pricing()
    warm_simulation()
    colgen.warm(Objective.COST)
    ruin_recreate.warm(Objective.COST)


if __name__ == "__main__":
    _compile()
