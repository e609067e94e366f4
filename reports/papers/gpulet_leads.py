"""Queries on the largest rates of gpulet's schedulers: rates, and leads over other schedulers."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from reports.claim import Values, query
from reports.need import Need
from reports.quantities import requests_rps
from reports.runs import Runs, the_instance

Quantity = TypeVar("Quantity")


def served_rps(runs: Runs, *needs: Need) -> dict[str, float]:
    """Return the largest rate served in time by instance; of several needs, that of the best one on the instance."""
    rates: dict[str, float] = {}
    for need in needs:
        for name, climb in runs.climbs(need).items():
            rates[name] = max(rates.get(name, 0.0), climb.largest_passed * requests_rps(climb.instance))
    return rates


def planned_scales(runs: Runs, need: Need) -> dict[str, float]:
    """Return the largest planned multiple of the rates by instance, whether or not the judge accepts the plan."""
    return {row.instance: row.value or 0.0 for row in runs.rows(need)}


def mean_lead_pct(rates: Mapping[str, float], other_rates: Mapping[str, float]) -> float | None:
    """Return the mean lead over another scheduler in percent; ``None`` if the other serves nothing on an instance."""
    if not all(other_rates.values()):
        return None
    return 100.0 * (fmean(rates[name] / other for name, other in other_rates.items()) - 1.0)


@query
def lead_served(runs: Runs, needs: Mapping[str, Need], pairs: Sequence[tuple[str, str]]) -> Values:
    """Return the mean lead in rates served in time, in percent, for each pair of a scheduler and another one."""
    return _leads_of_pairs(lambda label: served_rps(runs, needs[label]), mean_lead_pct, pairs)


@query
def best_lead_served(runs: Runs, needs: Sequence[Need], other: Need) -> Values:
    """Return the mean lead in rates served in time, in percent, of several needs over another one.

    On each instance, the best of the several needs counts.
    """
    return (mean_lead_pct(served_rps(runs, *needs), served_rps(runs, other)),)


@query
def lead_planned(runs: Runs, needs: Mapping[str, Need], pairs: Sequence[tuple[str, str]]) -> Values:
    """Return the mean lead in planned rates, in percent, for each pair of a scheduler and another one."""
    return _leads_of_pairs(lambda label: planned_scales(runs, needs[label]), mean_lead_pct, pairs)


@query
def lead_of_means(runs: Runs, needs: Mapping[str, Need], pairs: Sequence[tuple[str, str]]) -> Values:
    """Return the lead of the mean rate served in time over another scheduler's mean rate, in percent, for each pair."""

    def lead_pct(mean_rps: float, other_rps: float) -> float:
        return 100.0 * (mean_rps / other_rps - 1.0)

    return _leads_of_pairs(lambda label: fmean(served_rps(runs, needs[label]).values()), lead_pct, pairs)


def _leads_of_pairs(
    quantity_of: Callable[[str], Quantity],
    lead_pct: Callable[[Quantity, Quantity], float | None],
    pairs: Sequence[tuple[str, str]],
) -> Values:
    """Return the lead for each pair of labels; the quantity of a label is computed once."""
    values = {label: quantity_of(label) for label in dict.fromkeys(label for pair in pairs for label in pair)}
    return tuple(lead_pct(values[label], values[other]) for label, other in pairs)


def difference(leads: Callable[[Runs], Values]) -> Callable[[Runs], Values]:
    """Return the query for the first of two leads minus the second, in points; ``None`` if one of them is unknown."""

    def points(runs: Runs) -> Values:
        first, second = leads(runs)
        return (None if first is None or second is None else first - second,)

    return points


@query
def mean_served(runs: Runs, needs: Mapping[str, Need], labels: Sequence[str]) -> Values:
    """Return the mean rate served in time, in requests per second, by each scheduler."""
    return tuple(fmean(served_rps(runs, needs[label]).values()) for label in labels)


@query
def served_on(runs: Runs, needs: Mapping[str, Need], labels: Sequence[str], instance: str) -> Values:
    """Return the rate served in time on an instance, in requests per second, by each scheduler."""
    return tuple(served_rps(runs, needs[label])[instance] for label in labels)


@query
def saving_pct(runs: Runs, needs: Mapping[str, Need], instance: str) -> Values:
    """Return the saving of gpulet+int on an instance by the papers' formula, one minus the ratio of the rates."""
    sbp_rps, gpulet_rps = (served_rps(runs, needs[label])[instance] for label in ("sbp", "gpulet+int"))
    return (100.0 * (1.0 - sbp_rps / gpulet_rps) if gpulet_rps else None,)


@query
def relative_to_gpulet(runs: Runs, needs: Mapping[str, Need], label: str, instance: str) -> Values:
    """Return the rate that a scheduler serves in time, relative to that of gpulet+int."""
    other_rps, gpulet_rps = (served_rps(runs, needs[name])[instance] for name in (label, "gpulet+int"))
    return (other_rps / gpulet_rps if gpulet_rps else None,)


@query
def largest_share_pct(runs: Runs, need: Need, instance: str, workload: str) -> Values:
    """Return the largest share of a workload in a scheduler's plan for its largest rate, in percent of a GPU."""
    plan = next(row.plan for row in runs.rows(need) if row.instance == instance)
    gpu = the_instance(instance).gpus[0].type
    shares = [gpulet.share_units for _, gpulet, slot in plan.slots() if slot.workload == workload] if plan else []
    return (gpu.share_pct(max(shares)) if shares else None,)
