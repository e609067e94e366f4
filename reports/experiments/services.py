"""Tables of language-model services: GPUs that sharing saves, and first tokens and tokens in time."""

from collections.abc import Callable
from functools import cache

from bench.plan_simulation import Settings, simulate
from bench.simulation.result import Simulated
from instances import Plan
from instances.misspecification import slowed
from reports.claim import Query, QueryTable, query
from reports.need import Need
from reports.papers.llm_sharing import METHODS, OPTIMUM, PANELS, bound_gpus, gpus
from reports.runs import MissingDataError, Runs, the_instance

_SECONDS = 300.0
"""Duration of a simulation."""

_TIME_FACTOR = 1.2
"""Factor on all GPU times, equal to the latency buffer of the suites."""

_INSTANCES = ("llm-16gpu", "llm-16gpu-hold")


def _gpus_used(runs: Runs, label: str, panel: str) -> int:
    row_of = {(label, row.instance): row for row in runs.rows(METHODS[label])}
    gpus_used = gpus(row_of, label, PANELS[panel])
    if gpus_used is None:
        raise MissingDataError("no plan")
    return gpus_used


@query
def _bound(runs: Runs, panel: str) -> str:
    fewest_gpus = bound_gpus({(OPTIMUM, row.instance): row for row in runs.rows(METHODS[OPTIMUM])}, PANELS[panel])
    return "none" if fewest_gpus is None else f"≥ {fewest_gpus}"


@query
def _saved_text(runs: Runs, label: str, panel: str) -> str:
    return f"{100.0 * (1.0 - _gpus_used(runs, OPTIMUM, panel) / _gpus_used(runs, label, panel)):.0f} %"


def _line(line_label: str, make_query: Callable[[str, str], Query], method: str) -> tuple[str | Query, ...]:
    return line_label, *(make_query(method, panel) for panel in PANELS)


@query
def _gpus_text(runs: Runs, label: str, panel: str) -> str:
    return f"{_gpus_used(runs, label, panel)}"


SHARING = QueryTable(
    ("GPUs", *PANELS),
    [
        *(_line(label, _gpus_text, label) for label in METHODS),
        ("certified bound, shares", *(_bound(panel) for panel in PANELS)),
        *(
            _line(f"saved against {label}", _saved_text, label)
            for label in ("a GPU for each phase", "a GPU for each service", "colgen, eighths")
        ),
    ],
)


@cache
def _simulated(plan: Plan, instance: str, time_factor: float) -> Simulated:
    planned_instance = the_instance(instance)
    return simulate(plan, planned_instance, Settings(seconds=_SECONDS), slowed(planned_instance, time_factor))


@query
def _in_time(runs: Runs, instance: str, time_factor: float, phase: str) -> str:
    """Return the smallest percentage of a service's requests in time, by first token or by tokens.

    ``phase`` is the suffix of the workloads: ``/prefill`` for first tokens, ``/decode`` for tokens.
    """
    row = runs.row(Need(instance, ("colgen",)))
    if row.plan is None:
        raise MissingDataError("no plan")
    workloads = _simulated(row.plan, instance, time_factor).workloads
    return (
        f"{100.0 * (1.0 - max(workload.violation_rate for workload in workloads if workload.id.endswith(phase))):.1f} %"
    )


@query
def _used_by_colgen(runs: Runs, instance: str) -> str:
    return f"{runs.row(Need(instance, ('colgen',))).gpus_used} GPUs"


def _time_lines(times_text: str, time_factor: float) -> list[tuple[str | Query, ...]]:
    phases = {"first tokens in time": "/prefill", "tokens in time": "/decode"}
    return [
        (f"{quantity_text}, {times_text}", *(_in_time(name, time_factor, phase) for name in _INSTANCES))
        for quantity_text, phase in phases.items()
    ]


IN_TIME = QueryTable(
    ("least of all services", *(f"`{instance}`" for instance in _INSTANCES)),
    [
        ("plan of colgen", *(_used_by_colgen(name) for name in _INSTANCES)),
        *_time_lines("times as measured", 1.0),
        *_time_lines(f"all passes {_TIME_FACTOR:g} times as long", _TIME_FACTOR),
    ],
)
