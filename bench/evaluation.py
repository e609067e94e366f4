"""Trial of a plan: headroom in planning, and the true or a distorted performance model in judging."""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from bench.simulation.arrivals import Arrivals
from instances import InputError, Instance, Plan
from instances.misspecification import misspecified


@dataclass(frozen=True, slots=True)
class Trial:
    """The conditions of a run besides its limits.

    Attributes
    ----------
    headroom
        The scheduler plans as if every latency were this many times as long.
    truth
        Performance model by which the GPUs really behave, and by which the plan is judged and simulated; ``None`` for
        the instance's.
    error
        Every figure of the GPUs is really off by up to this fraction, drawn with the seed of the run.
    arrivals
        Under which the plan is simulated; ``None`` for no simulation.
    seconds
        Simulated time that is measured.
    """

    headroom: float = 1.0
    truth: str | None = None
    error: float = 0.0
    arrivals: Arrivals | None = None
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if not 0.0 < self.headroom < math.inf:
            raise InputError("--headroom", f"{self.headroom:g}; expected a finite factor greater than 0")

    @property
    def as_planned(self) -> bool:
        """Whether the plan is made for the instance as it is, and judged by it."""
        return self.headroom == 1.0 and self.truth is None and self.error == 0.0

    @property
    def identity(self) -> dict[str, Any]:
        """All that can change a row, as JSON values."""
        arrivals = None if self.arrivals is None else self.arrivals.identity
        return {
            "headroom": self.headroom,
            "truth": self.truth,
            "error": self.error,
            "arrivals": arrivals,
            "seconds": None if arrivals is None else self.seconds,
        }

    @property
    def options(self) -> str:
        """How ``bench run`` is asked for it, without what needs not be said: `` --headroom 1.1 --error 0.2``."""
        said = [
            ("--simulate", "off" if self.arrivals is None else "on", "on"),
            ("--arrivals", "poisson" if self.arrivals is None else self.arrivals.label, "poisson"),
            ("--headroom", f"{self.headroom:g}", "1"),
            ("--truth", self.truth, None),
            ("--error", f"{self.error:g}", "0"),
        ]
        return "".join(f" {option} {value}" for option, value, default in said if value != default)

    @property
    def reality(self) -> str | None:
        """What is really different, in words; ``None`` if nothing is."""
        error = f"figures off by up to {100.0 * self.error:g} %" if self.error else ""
        return ", ".join(filter(None, (self.truth, error))) or None

    def planned(self, instance: Instance) -> Instance:
        """Return the instance that the scheduler sees."""
        if self.headroom == 1.0:
            return instance
        return replace(instance, latency_buffer=instance.latency_buffer * self.headroom)

    def real(self, instance: Instance, seed: int) -> Instance:
        """Return the instance by which a plan is judged."""
        return instance if self.reality is None else misspecified(instance, self.truth, self.error, seed)

    def simulated(
        self, plan: Plan, instance: Instance, truth: Instance, seed: int
    ) -> Generator[float, None, dict[str, Any] | None]:
        """Simulate a plan in the world of ``truth``, pausing now and then to say what part is done.

        Returns what was found as JSON values, ``None`` where nothing is simulated.
        """
        from bench.plan_simulation import Settings, no_simulation, simulation

        if self.arrivals is None or no_simulation(plan, instance) is not None:
            return None
        settings = Settings(self.arrivals, self.seconds, seed=seed)
        found = yield from simulation(plan, instance, settings, truth)
        return {"arrivals": self.arrivals.label, **found.to_json(histograms=True)}


SIMULATED = Trial(arrivals=Arrivals())
"""How runs are tried unless something else is asked for."""
