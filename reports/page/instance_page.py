"""Page of one instance: plans of all entrants side by side, plans and bounds over time, and latencies."""

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
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from instances import InputError, SloRule
from instances.costs import whole_gpus
from instances.files import instance_to_json
from reports.page.curves import reference
from reports.page.instance_pictures import latency_picture, measured_picture, progress_picture
from reports.page.instance_results import InstanceResults, in_gpus
from reports.page.latencies import FRACTIONS, distributions, ids_and_slos_ms, measured_points
from reports.page.leaderboard import outcome
from reports.page.pictures import Picture
from reports.page.plan_columns import compact_plan, gpu_columns
from reports.page.styles import model_classes, model_colours

_MAX_WIDE_GPUS = 24
"""Largest number of GPUs in wide columns; narrow columns show their labels on hover only."""

_MAX_PROVEN_DRAWN = 1000
"""Largest proven number of necessary GPUs that is drawn; a larger number is written instead."""

_VIOLATIONS_SHOWN = 20
"""Largest number of violations whose messages are shown for a plan."""


@dataclass(frozen=True)
class InstancePage:
    """Data of an instance's template.

    Attributes
    ----------
    instance_results
        The instance and its runs.
    cards
        The entrants' plans.
    models
        Fill of every model's slots.
    reference
        Name of the value with which plans and bounds over time are compared; ``None`` without such a value.
    progress, latency, measured
        Pictures; ``None`` if there is nothing to draw.
    workloads
        Identifiers of the workloads, jobs and applications.
    data
        Data of the table of slots and of the plan files.
    """

    instance_results: InstanceResults
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
        """CSS classes of every model."""
        return model_classes(self.models)


def instance_page(instance_results: InstanceResults, ledger: Ledger) -> InstancePage:
    """Return the page of ``instance_results``, whose instance must be known."""
    assert instance_results.instance is not None
    row_of = {
        name: upheld(ledger.rows(key=row.key), instance_results.refuted)[0]
        for name, row in instance_results.shown().items()
    }
    reference_and_name = reference(instance_results)
    latencies = {name: distributions(row.simulation) for name, row in row_of.items() if row.simulation is not None}
    simulated_slos = next(
        (ids_and_slos_ms(row.simulation) for row in row_of.values() if row.simulation is not None), []
    )
    return InstancePage(
        instance_results,
        _cards(instance_results, row_of),
        model_colours(dict.fromkeys(instance_results.instance.model_of.values())),
        None if reference_and_name is None else reference_and_name[1],
        None if reference_and_name is None else progress_picture(instance_results, row_of, reference_and_name),
        latency_picture(row_of, latencies),
        measured_picture(measured_points(instance_results, row_of, ledger)),
        list(dict.fromkeys([*instance_results.instance.model_of, *(name for name, _ in simulated_slos)])),
        {
            "instance": _embedded(instance_results),
            "units": {pool.type.name: pool.type.share_units for pool in instance_results.instance.gpus},
            "fractions": FRACTIONS,
            "simulated": simulated_slos,
            "runs": [
                {
                    "key": row.key,
                    "name": name,
                    "gpus": None if row.plan is None else compact_plan(row.plan),
                    "latencies": latencies[name]["workloads"] if name in latencies else None,
                }
                for name, row in row_of.items()
            ],
        },
    )


def _embedded(instance_results: InstanceResults) -> dict[str, object] | None:
    """Return the instance in the form of plan files."""
    assert instance_results.instance is not None
    try:
        return instance_to_json(instance_results.instance)
    except InputError:  # no file can represent the instance, so plan files have only its name
        return None


def _cards(instance_results: InstanceResults, row_of: dict[str, Row]) -> list[dict[str, Any]]:
    """Return the data of each entrant's card: its plan, facts and violations; ``row_of`` has the entrants' runs."""
    assert instance_results.instance is not None
    bounds = {name: instance_results.bounds[row.key] for name, row in row_of.items()}
    bound_values = {name: None if bound is None else bound.value for name, bound in bounds.items()}
    values = [*(row.value for row in row_of.values()), *bound_values.values()]
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    prices = {pool.type.price_per_hour for pool in instance_results.instance.gpus}
    price = min(prices) if len(prices) == 1 and min(prices) > 0.0 else None
    cards = []
    for name, row in row_of.items():
        bound, columns = bounds[name], gpu_columns(row, instance_results.instance)
        messages = [str(detail["message"]) for detail in row.violation_details[:_VIOLATIONS_SHOWN]]
        card = {
            "name": name,
            "scheduler": row.scheduler,
            "key": row.key,
            "outcome": outcome(row),
            "held": holds_attribute(row),
            "facts": _facts(instance_results, row, bound),
            # Value and certified bound, in percent of the largest value or bound on the page.
            "meter": None
            if row.value is None or not largest
            else (_percent_of(row.value, largest), _percent_of(bound_values[name], largest)),
            "columns": columns,
            "narrow": len(columns) > _MAX_WIDE_GPUS,
            "full_pct": max([100.0, *(column.allocated_pct for column in columns)]),  # height of a column
            "bound_key": None if bound is None else bound.key,
            "bound_gpus": _proven_gpus(bound.value, price)
            if instance_results.minimised and bound is not None
            else None,
            "violations": messages,
            "more": (row.violations or 0) - len(messages),
        }
        cards.append(card)
    return cards


def _not_in_time(instance_results: InstanceResults, row: Row) -> str:
    """Return the fraction of requests not in time, and the largest fraction at which a workload is not late."""
    if row.sim_violation_rate is None or instance_results.instance is None:
        return "-"
    plans_attainment = instance_results.instance.slo_rule is SloRule.ATTAINMENT
    allowed = instance_results.instance.may_miss if plans_attainment else VIOLATIONS_ALLOWED
    return f"{percent(row.sim_violation_rate)} (allowed: {100.0 * allowed:.3g} %)"


def _proven_gpus(bound: float, price: float | None) -> int | None:
    """Return the number of GPUs that a ``bound`` on cost proves; ``None`` if it cannot be drawn.

    ``price`` is the price of each GPU, or ``None`` if prices differ.
    """
    return None if price is None or bound / price > _MAX_PROVEN_DRAWN else whole_gpus(bound, price)


def _percent_of(value: float | None, largest: float) -> Any:
    return None if value is None else round(100.0 * abs(value) / largest, 2)


def _facts(instance_results: InstanceResults, row: Row, bound: CertifiedBound | None) -> list[tuple[str, str]]:
    """Return names and values of the known facts about a run, in words."""
    sign = "≥" if instance_results.minimised else "≤"
    facts = [
        ("Value", in_gpus(row.value, instance_results)),
        ("Better plan", beaten_by(instance_results.better[row.key]) if row.key in instance_results.better else "-"),
        ("Certified bound", "-" if bound is None else f"{sign} {in_gpus(bound.value, instance_results)}"),
        ("Bound holds for", "-" if bound is None else f"class {scope_in_words(bound.scope)}"),
        ("Gap", percent(instance_results.gaps[row.key].gap)),
        ("GPUs", "-" if row.gpus_used is None else str(row.gpus_used)),
        ("Utilisation", percent(None if row.utilisation_pct is None else row.utilisation_pct / 100.0)),
        ("Unallocated", percent(None if row.fragments_pct is None else row.fragments_pct / 100.0)),
        ("Least slack", percent(row.least_slack)),
        ("Not in time", _not_in_time(instance_results, row)),
        ("Holds", holds_on(row, instance_results.instance)),
        ("Arrivals", instance_results.arrivals.get(row.key, "-")),
        ("Decision", seconds(row.decision_s)),
    ]
    return [(name, fact) for name, fact in facts if fact != "-"]
