"""Input of an exact search: the GPU types of the pool and the configurations of every workload on them."""

from collections.abc import Sequence
from dataclasses import dataclass

from formulations.rates import Rates
from formulations.sized_choices import SizedChoices, choices_on
from instances import Instance, PlacedGpu, Plan
from instances.one_gpu import Resident, fit_gpu
from instances.view import View


@dataclass(frozen=True, slots=True)
class Offer:
    """One GPU type of the pool and the configurations of the workloads on it.

    Attributes
    ----------
    view
        The instance as seen from the GPU type.
    count
        Number of GPUs; the number of workloads if the pool has no limit.
    choices
        Configurations of every workload, in the order of the instance.
    """

    view: View
    count: int
    choices: Sequence[SizedChoices]

    def least_fraction(self, workload: int) -> float:
        """Return the least fraction of a GPU that the workload needs; infinity if no such GPU serves it."""
        units = self.choices[workload].units
        return int(units.min()) / self.view.tables.share_units if len(units) else float("inf")


@dataclass(frozen=True, slots=True)
class Group:
    """The residents of one GPU, of the type of offer number ``offer``."""

    offer: int
    residents: tuple[Resident, ...]


TOO_FEW = "the pool has too few GPUs to serve all workloads"
"""Reason for infeasibility when each workload alone fits on some GPU."""

WHOLE = "each whole on one GPU"
"""Addition to that reason when the search covers no plans that split workloads."""


class Problem:
    """An instance with the configurations of its workloads.

    Parameters
    ----------
    instance
        The instance to solve.
    rates
        Rates that each workload may be planned for.

    Attributes
    ----------
    offers
        GPU types of which the pool has at least one GPU.
    """

    def __init__(self, instance: Instance, rates: Sequence[Rates]) -> None:
        self.instance = instance
        self.rates = rates
        self.offers: list[Offer] = []
        for pool in instance.gpus:
            count = len(rates) if pool.count is None else min(pool.count, len(rates))
            if count > 0:
                view = View.of(instance, pool.type)
                self.offers.append(Offer(view, count, choices_on(view, rates)))
        self._placed: dict[Group, PlacedGpu | None] = {}

    def least_fraction(self, workload: int) -> float:
        """Return the least fraction of any GPU that the workload needs; infinity if no GPU serves it."""
        return min((offer.least_fraction(workload) for offer in self.offers), default=float("inf"))

    def largest_first(self) -> list[int]:
        """Return the workload positions by decreasing fraction of a GPU that they need."""
        return sorted(range(len(self.rates)), key=lambda w: -self.least_fraction(w))

    def unservable(self) -> str:
        """Name the first workload that no GPU serves even alone; return an empty string if there is none."""
        for w, asked in enumerate(self.instance.workloads):
            if self.least_fraction(w) == float("inf"):
                asks = f"{self.rates[w].rate_rps.min():g} req/s of {asked.model} within {asked.slo_ms:g} ms"
                return f"{asked.id}: no GPU of the pool alone serves {asks}, and plans here split no workload"
        return ""

    def fits(self, group: Group) -> PlacedGpu | None:
        """Return a GPU with the group at its least shares, or ``None`` if the one-GPU kernel finds it infeasible."""
        if group not in self._placed:
            self._placed[group] = fit_gpu(self.offers[group.offer].view, group.residents)
        return self._placed[group]

    def plan(self, groups: Sequence[Group]) -> Plan:
        """Return the plan of feasible groups."""
        return Plan(self.instance.name, tuple(gpu for gpu in map(self.fits, groups) if gpu is not None))

    def serves_all(self, groups: Sequence[Group]) -> bool:
        """Return whether ``groups`` contain every workload."""
        return sum(len(group.residents) for group in groups) == len(self.rates)
