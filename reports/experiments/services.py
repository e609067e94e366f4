"""Language-model services: GPUs that sharing saves, and first tokens and tokens in time."""

from collections.abc import Callable
from functools import cache, partial

from bench.plan_simulation import Settings, simulate
from bench.simulation.result import Simulated
from instances import Plan
from instances.files import plan_from_json
from instances.misspecification import slowed
from reports.claim import Query, QueryTable
from reports.need import Need
from reports.papers.llm_sharing import METHODS, OPTIMUM, PANELS, fewest, gpus
from reports.runs import NotAtHandError, Runs, the_instance

_SECONDS = 300.0
_SLOWER = 1.2
"""Factor of the suites' latency buffer."""

_TESTED = ("llm-16gpu", "llm-16gpu-hold")


def _used(label: str, panel: str, runs: Runs) -> int:
    found = {(label, row.instance): row for row in runs.rows(METHODS[label])}
    used = gpus(found, label, PANELS[panel])
    if used is None:
        raise NotAtHandError("no plan")
    return used


def _bound(panel: str, runs: Runs) -> str:
    found = fewest({(OPTIMUM, row.instance): row for row in runs.rows(METHODS[OPTIMUM])}, PANELS[panel])
    return "none" if found is None else f"≥ {found}"


def _saved(label: str, panel: str, runs: Runs) -> str:
    return f"{100.0 * (1.0 - _used(OPTIMUM, panel, runs) / _used(label, panel, runs)):.0f} %"


def _lines(what: Callable[..., str], label: str, words: str = "") -> tuple[str | Query, ...]:
    return (words or label, *(partial(what, label, panel) for panel in PANELS))


def _gpus(label: str, panel: str, runs: Runs) -> str:
    return f"{_used(label, panel, runs)}"


SHARING = QueryTable(
    ("GPUs", *PANELS),
    [
        *(_lines(_gpus, label) for label in METHODS),
        ("certified bound, shares", *(partial(_bound, panel) for panel in PANELS)),
        *(
            _lines(_saved, label, f"saved against {label}")
            for label in ("a GPU for each phase", "a GPU for each service", "colgen, eighths")
        ),
    ],
)


@cache
def _served(plan: Plan, instance: str, slower: float) -> Simulated:
    asked = the_instance(instance)
    return simulate(plan, asked, Settings(seconds=_SECONDS), slowed(asked, slower))


def _in_time(instance: str, slower: float, phase: str, runs: Runs) -> str:
    """Return the least fraction of a service's requests whose first token, or whose tokens, are in time."""
    row = runs.row(Need(instance, ("colgen",)))
    if row.plan is None:
        raise NotAtHandError("no plan")
    served = _served(plan_from_json(row.plan), instance, slower).workloads
    return f"{100.0 * (1.0 - max(one.violation_rate for one in served if one.id.endswith(phase))):.1f} %"


def _used_by_colgen(instance: str, runs: Runs) -> str:
    return f"{runs.row(Need(instance, ('colgen',))).gpus_used} GPUs"


def _time_lines(times: str, slower: float) -> list[tuple[str | Query, ...]]:
    phases = {"first tokens in time": "/prefill", "tokens in time": "/decode"}
    return [
        (f"{what}, {times}", *(partial(_in_time, name, slower, phase) for name in _TESTED))
        for what, phase in phases.items()
    ]


IN_TIME = QueryTable(
    ("least of all services", *(f"`{instance}`" for instance in _TESTED)),
    [
        ("plan of colgen", *(partial(_used_by_colgen, name) for name in _TESTED)),
        *_time_lines("times as measured", 1.0),
        *_time_lines(f"all passes {_SLOWER:g} times as long", _SLOWER),
    ],
)
