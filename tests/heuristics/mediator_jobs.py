"""Best-effort jobs for tests of MediatorDNN."""

from instances import Job
from instances.catalogue import gpu_type


def jobs(count: int) -> tuple[Job, ...]:
    names = sorted(gpu_type("v100").models)
    return tuple(
        Job(f"j{n}", names[n % len(names)], (1, 4, 8 + n), (1.0, 2.0, 1.0), (40.0 + 10 * n, 200.0), (3.0, 1.0))
        for n in range(count)
    )
