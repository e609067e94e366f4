"""Problem of an exact search: the GPU types of the pool, and groups of workloads on one GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from formulations.rates import Rates
from formulations.sized_choices import SizedChoices, choices_on
from instances import Instance, PlacedGpu, Plan
from instances.one_gpu import Resident, fit_gpu
from instances.view import View


@dataclass(frozen=True, slots=True)
class Offer:
    """One GPU type of the pool.

    Attributes
    ----------
    view
        The instance from the GPU type.
    count
        GPUs there are; as many as workloads if there is no limit.
    choices
        Of every workload, in the order of the instance.
    """

    view: View
    count: int
    choices: Sequence[SizedChoices]

    def least_fraction(self, workload: int) -> float:
        """Least part of a GPU that the workload needs; infinite where no such GPU serves it."""
        units = self.choices[workload].units
        return int(units.min()) / self.view.tables.share_units if len(units) else float("inf")


@dataclass(frozen=True, slots=True)
class Group:
    """The residents of one GPU, of the type of offer number ``offer``."""

    offer: int
    residents: tuple[Resident, ...]


TOO_FEW = "the pool has too few GPUs to serve all workloads"
"""Why there is no plan where every workload alone would fit."""

WHOLE = "each whole on one GPU"
"""What is added where plans that split workloads were not looked for."""


class Problem:
    """An instance as choices.

    Parameters
    ----------
    instance
        What is to be solved.
    rates
        What each workload may be planned for.

    Attributes
    ----------
    offers
        The GPU types that the pool has any GPU of.
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
        """Least part of any GPU that the workload needs; infinite where none serves it."""
        return min((offer.least_fraction(workload) for offer in self.offers), default=float("inf"))

    def largest_first(self) -> list[int]:
        """Workload positions by the part of a GPU that they need."""
        return sorted(range(len(self.rates)), key=lambda w: -self.least_fraction(w))

    def unservable(self) -> str:
        """Say which workload no GPU serves on its own; empty if there is none."""
        for w, asked in enumerate(self.instance.workloads):
            if self.least_fraction(w) == float("inf"):
                asks = f"{self.rates[w].rate_rps.min():g} req/s of {asked.model} within {asked.slo_ms:g} ms"
                return f"{asked.id}: no GPU of the pool alone serves {asks}, and plans here split no workload"
        return ""

    def fits(self, group: Group) -> PlacedGpu | None:
        """Return the group at its least shares, or ``None`` if the one-GPU kernel says that it does not fit."""
        if group not in self._placed:
            self._placed[group] = fit_gpu(self.offers[group.offer].view, group.residents)
        return self._placed[group]

    def plan(self, groups: Sequence[Group]) -> Plan:
        """Return the plan of groups that fit."""
        return Plan(self.instance.name, tuple(gpu for gpu in map(self.fits, groups) if gpu is not None))

    def serves_all(self, groups: Sequence[Group]) -> bool:
        """Whether no workload is left out of ``groups``."""
        return sum(len(group.residents) for group in groups) == len(self.rates)
