"""Settings of a replay."""

from dataclasses import dataclass, field

from bench.simulation.arrivals import Arrivals
from bench.simulation.settings import Settings


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """Settings of a replay: the settings of a simulation that apply to real servers, all with fixed defaults.

    Attributes
    ----------
    seconds, warmup_s
        Measured time, and time before it.
    seed
        Seed of the arrivals.
    dropping
        Whether requests that can no longer meet their SLO are dropped when their batch starts.
    """

    arrivals: Arrivals = field(default_factory=Arrivals)
    seconds: float = 30.0
    warmup_s: float = 5.0
    seed: int = 0
    dropping: bool = True

    def __post_init__(self) -> None:
        _ = self.simulation  # the constructor of ``Settings`` refuses values out of range

    @property
    def simulation(self) -> Settings:
        """Settings of the simulation with the same requests."""
        return Settings(self.arrivals, self.seconds, self.warmup_s, self.seed, dropping=self.dropping)
