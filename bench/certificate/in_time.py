"""Time limit of a check, and how much weaker a bound may become to be checked in time."""

import time

from bench.certificate.failures import GivenUpError
from bench.certificate.patterns import Progress, ignore

LOOSENED = (0.0, 0.05, 0.5, 4.0, 30.0)
"""Values of ``loosened`` (see ``certificate``), to be tried one after another until a check ends in time."""


def within(limit_s: float, progress: Progress = ignore) -> Progress:
    """Return ``progress`` with a limit, after which it raises ``GivenUpError``.

    ``limit_s`` is the limit in seconds of computing of this process from now on.
    """
    deadline_s = time.process_time() + limit_s

    def limited(fraction: float) -> None:
        if time.process_time() > deadline_s:
            raise GivenUpError(f"the check takes more than {limit_s:g} s of computing")
        progress(fraction)

    return limited
