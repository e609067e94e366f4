"""Page of one instance: the plans of all entrants side by side, plans and bounds over time, latencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.formatting import beaten_by, holds_attribute, holds_on, percent, seconds
from bench.ledger.bound_scope import scope_in_words
from bench.ledger.gap import CertifiedBound
from bench.ledger.refutation import upheld
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.simulation.result import VIOLATIONS_ALLOWED
from instances import InputError, SloRule
from instances.costs import whole_gpus
from instances.files import instance_to_json
from reports.page.curves import reference
from reports.page.instance_pictures import latency_picture, measured_picture, progress_picture
from reports.page.instance_results import InstanceResults, in_gpus
from reports.page.latencies import FRACTIONS, distributions, measured, simulated
from reports.page.leaderboard import outcome
from reports.page.pictures import Picture
from reports.page.plan_columns import compact_plan, gpu_columns
from reports.page.styles import model_colours

_MANY_GPUS = 24
"""Largest number of GPUs in wide columns; narrow ones show their labels on hover only."""

_MOST_PROVEN = 1000
"""Largest number of GPUs drawn as proven to be needed; a larger number is written instead."""

_VIOLATIONS_SHOWN = 20


@dataclass(frozen=True)
class InstancePage:
    """Data of an instance's template.

    Attributes
    ----------
    case
        The instance and its runs.
    cards
        The entrants' plans.
    models
        Fill of every model's slots.
    reference
        Reference of plans and bounds over time in words, if there is one.
    progress, latency, measured
        Pictures, as far as there is something to draw.
    workloads
        Ids of the workloads, jobs and applications.
    data
        Data of the table of slots and of the plan files.
    """

    case: InstanceResults
    cards: Sequence[dict[str, Any]]
    models: dict[str, str]
    reference: str | None
    progress: Picture | None
    latency: Picture | None
    measured: Picture | None
    workloads: Sequence[str]
    data: dict[str, Any]

    @cached_property
    def classes(self) -> dict[str, str]:
        """CSS classes of every model; models that share a colour get a pattern, except the first."""
        colours = list(self.models.values())
        again = [min(colours[:number].count(colour), 2) for number, colour in enumerate(colours)]
        return {
            model: f"m{number} again-{again[number]}" if again[number] else f"m{number}"
            for number, model in enumerate(self.models)
        }


def instance_page(case: InstanceResults, ledger: Ledger) -> InstancePage:
    """Return the page of ``case``, whose instance must be known."""
    assert case.instance is not None
    full = {name: upheld(ledger.rows(key=row.key), case.refuted)[0] for name, row in case.shown().items()}
    by = reference(case)
    latencies = {name: distributions(row.simulation) for name, row in full.items() if row.simulation is not None}
    timed = next((simulated(row.simulation) for row in full.values() if row.simulation is not None), [])
    return InstancePage(
        case,
        _cards(case, full),
        model_colours(dict.fromkeys(case.instance.model_of.values())),
        None if by is None else by[1],
        None if by is None else progress_picture(case, full, by),
        latency_picture(full, latencies),
        measured_picture(measured(case, full, ledger)),
        list(dict.fromkeys([*case.instance.model_of, *(name for name, _ in timed)])),
        {
            "instance": _embedded(case),
            "units": {pool.type.name: pool.type.share_units for pool in case.instance.gpus},
            "fractions": FRACTIONS,
            "simulated": timed,
            "runs": [
                {
                    "key": row.key,
                    "name": name,
                    "gpus": None if row.plan is None else compact_plan(row.plan),
                    "latencies": latencies[name]["workloads"] if name in latencies else None,
                }
                for name, row in full.items()
            ],
        },
    )


def _embedded(case: InstanceResults) -> dict[str, object] | None:
    """Return the instance in the form of plan files."""
    assert case.instance is not None
    try:
        return instance_to_json(case.instance)
    except InputError:  # no file can represent it: plans name it
        return None


def _cards(case: InstanceResults, full: dict[str, Row]) -> list[dict[str, Any]]:
    assert case.instance is not None
    bounds = {name: case.bounds[row.key] for name, row in full.items()}
    proven = {name: None if bound is None else bound.value for name, bound in bounds.items()}
    values = [*(row.value for row in full.values()), *proven.values()]
    most = max((abs(value) for value in values if value is not None), default=0.0)
    prices = {pool.type.price_per_hour for pool in case.instance.gpus}
    price = min(prices) if len(prices) == 1 and min(prices) > 0.0 else None
    cards = []
    for name, row in full.items():
        bound, drawn = bounds[name], gpu_columns(row, case.instance)
        messages = [str(detail["message"]) for detail in row.violation_details[:_VIOLATIONS_SHOWN]]
        card = {
            "name": name,
            "scheduler": row.scheduler,
            "key": row.key,
            "outcome": outcome(row),
            "held": holds_attribute(row),
            "facts": _facts(case, row, bound),
            # Value and certified bound in percent of the largest on the page.
            "meter": None if row.value is None or not most else (_of(row.value, most), _of(proven[name], most)),
            "columns": drawn,
            "narrow": len(drawn) > _MANY_GPUS,
            "full_pct": max([100.0, *(column.allocated_pct for column in drawn)]),  # height of a column
            "bound_key": None if bound is None else bound.key,
            "bound_gpus": _proven_gpus(bound.value, price) if case.minimised and bound is not None else None,
            "violations": messages,
            "more": (row.violations or 0) - len(messages),
        }
        cards.append(card)
    return cards


def _not_in_time(case: InstanceResults, row: Row) -> str:
    """Return the part of the requests not in time, with the part at which a workload counts as late."""
    if row.sim_violation_rate is None or case.instance is None:
        return "-"
    attained = case.instance.slo_rule is SloRule.ATTAINMENT
    allowed = case.instance.may_miss if attained else VIOLATIONS_ALLOWED
    return f"{percent(row.sim_violation_rate)} (allowed: {100.0 * allowed:.3g} %)"


def _proven_gpus(bound: float, price: float | None) -> int | None:
    """Return the number of GPUs of one ``price`` that a ``bound`` on their cost implies, if they can be drawn."""
    return None if price is None or bound / price > _MOST_PROVEN else whole_gpus(bound, price)


def _of(value: float | None, most: float) -> Any:
    return None if value is None else round(100.0 * abs(value) / most, 2)


def _facts(case: InstanceResults, row: Row, bound: CertifiedBound | None) -> list[tuple[str, str]]:
    sign = "≥" if case.minimised else "≤"
    facts = [
        ("Value", in_gpus(row.value, case)),
        ("Better plan", beaten_by(case.better[row.key]) if row.key in case.better else "-"),
        ("Certified bound", "-" if bound is None else f"{sign} {in_gpus(bound.value, case)}"),
        ("Bound holds for", "-" if bound is None else f"class {scope_in_words(bound.scope)}"),
        ("Gap", percent(case.gaps[row.key].gap)),
        ("GPUs", "-" if row.gpus_used is None else str(row.gpus_used)),
        ("Utilisation", percent(None if row.utilisation_pct is None else row.utilisation_pct / 100.0)),
        ("Unallocated", percent(None if row.fragments_pct is None else row.fragments_pct / 100.0)),
        ("Not in time", _not_in_time(case, row)),
        ("Holds", holds_on(row, case.instance)),
        ("Arrivals", case.arrivals.get(row.key, "-")),
        ("Decision", seconds(row.decision_s)),
    ]
    return [(name, fact) for name, fact in facts if fact != "-"]
