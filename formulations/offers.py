"""What an exact search chooses from: the GPU types of the pool, and groups of workloads on one GPU."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from formulations.choices import Choices, Rates, choices_on
from instances import Instance, PlacedGpu
from instances.one_gpu import Resident, fit_gpu
from instances.view import View


@dataclass(frozen=True, slots=True)
class Offer:
    """One GPU type of the pool.

    Attributes
    ----------
    pool
        Position in the instance's pool.
    view
        The instance from the GPU type.
    count
        GPUs there are; as many as workloads if there is no limit.
    choices
        Of every workload, in the order of the instance.
    """

    pool: int
    view: View
    count: int
    choices: Sequence[Choices]


@dataclass(frozen=True, slots=True)
class Group:
    """The residents of one GPU, of the type of offer number ``offer``."""

    offer: int
    residents: tuple[Resident, ...]


@dataclass
class Fits:
    """Remembers what ``fit_gpu`` said of each group."""

    offers: Sequence[Offer]
    known: dict[Group, PlacedGpu | None] = field(default_factory=dict)

    def __call__(self, group: Group) -> PlacedGpu | None:
        """Return the group at its least shares, or ``None`` if it does not fit."""
        if group not in self.known:
            self.known[group] = fit_gpu(self.offers[group.offer].view, group.residents)
        return self.known[group]


def largest_first(offers: Sequence[Offer]) -> list[int]:
    """Workload positions by the least fraction of a GPU that they need, the largest first."""

    def least(w: int) -> float:
        return min(
            (
                float(offer.choices[w].units.min()) / offer.view.tables.share_units
                for offer in offers
                if len(offer.choices[w])
            ),
            default=0.0,
        )

    return sorted(range(len(offers[0].choices)), key=lambda w: -least(w))


def offers_of(instance: Instance, rates: Sequence[Rates]) -> list[Offer]:
    """Return the GPU types that the pool has GPUs of, with the choices of every workload there."""
    offers = []
    for position, pool in enumerate(instance.gpus):
        count = len(instance.workloads) if pool.count is None else min(pool.count, len(instance.workloads))
        if count > 0:
            view = View.of(instance, pool.type)
            offers.append(Offer(position, view, count, choices_on(view, rates)))
    return offers


def unservable(instance: Instance, offers: Sequence[Offer]) -> str:
    """Say which workload no GPU serves on its own; empty if there is none."""
    for w, asked in enumerate(instance.workloads):
        if not any(len(offer.choices[w]) for offer in offers):
            return f"{asked.id}: no GPU of the pool serves {asked.model} at {asked.rate_rps:g} req/s in {asked.slo_ms:g} ms"
    return ""
