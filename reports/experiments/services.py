"""Language-model services: GPUs that sharing saves, and first tokens and tokens in time."""

from collections.abc import Callable
from functools import cache

from bench.plan_simulation import Settings, simulate
from bench.simulation.result import Simulated
from instances import Plan
from instances.misspecification import slowed
from reports.claim import Query, QueryTable, query
from reports.need import Need
from reports.papers.llm_sharing import METHODS, OPTIMUM, PANELS, fewest, gpus
from reports.runs import MissingDataError, Runs, the_instance

_SECONDS = 300.0
_SLOWER = 1.2
"""Factor of the suites' latency buffer."""

_TESTED = ("llm-16gpu", "llm-16gpu-hold")


def _used(runs: Runs, label: str, panel: str) -> int:
    found = {(label, row.instance): row for row in runs.rows(METHODS[label])}
    used = gpus(found, label, PANELS[panel])
    if used is None:
        raise MissingDataError("no plan")
    return used


@query
def _bound(runs: Runs, panel: str) -> str:
    found = fewest({(OPTIMUM, row.instance): row for row in runs.rows(METHODS[OPTIMUM])}, PANELS[panel])
    return "none" if found is None else f"≥ {found}"


@query
def _saved(runs: Runs, label: str, panel: str) -> str:
    return f"{100.0 * (1.0 - _used(runs, OPTIMUM, panel) / _used(runs, label, panel)):.0f} %"


def _line(words: str, of: Callable[[str, str], Query], label: str) -> tuple[str | Query, ...]:
    return words, *(of(label, panel) for panel in PANELS)


@query
def _gpus(runs: Runs, label: str, panel: str) -> str:
    return f"{_used(runs, label, panel)}"


SHARING = QueryTable(
    ("GPUs", *PANELS),
    [
        *(_line(label, _gpus, label) for label in METHODS),
        ("certified bound, shares", *(_bound(panel) for panel in PANELS)),
        *(
            _line(f"saved against {label}", _saved, label)
            for label in ("a GPU for each phase", "a GPU for each service", "colgen, eighths")
        ),
    ],
)


@cache
def _served(plan: Plan, instance: str, slower: float) -> Simulated:
    asked = the_instance(instance)
    return simulate(plan, asked, Settings(seconds=_SECONDS), slowed(asked, slower))


@query
def _in_time(runs: Runs, instance: str, slower: float, phase: str) -> str:
    """Return the least fraction of a service's requests whose first token, or whose tokens, are in time."""
    row = runs.row(Need(instance, ("colgen",)))
    if row.plan is None:
        raise MissingDataError("no plan")
    served = _served(row.plan, instance, slower).workloads
    return f"{100.0 * (1.0 - max(one.violation_rate for one in served if one.id.endswith(phase))):.1f} %"


@query
def _used_by_colgen(runs: Runs, instance: str) -> str:
    return f"{runs.row(Need(instance, ('colgen',))).gpus_used} GPUs"


def _time_lines(times: str, slower: float) -> list[tuple[str | Query, ...]]:
    phases = {"first tokens in time": "/prefill", "tokens in time": "/decode"}
    return [
        (f"{what}, {times}", *(_in_time(name, slower, phase) for name in _TESTED)) for what, phase in phases.items()
    ]


IN_TIME = QueryTable(
    ("least of all services", *(f"`{instance}`" for instance in _TESTED)),
    [
        ("plan of colgen", *(_used_by_colgen(name) for name in _TESTED)),
        *_time_lines("times as measured", 1.0),
        *_time_lines(f"all passes {_SLOWER:g} times as long", _SLOWER),
    ],
)
