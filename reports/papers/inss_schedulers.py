"""Schedulers of InSS's figures of decision time, throughput and GPU usage, as implemented here."""

from collections.abc import Mapping
from dataclasses import replace

from reports.need import Need

TRAININGS = range(5)
"""Training seeds of the shipped policies of InSS's agent."""

Compared = Mapping[str, tuple[Need, ...]]
"""Needs by label; a bar or line is their mean: for the agent one need per training, otherwise a single one."""

_ELASTIC = "elastic-partitioning"
_GENEROUS_S = 120.0


def agent(runs: Need) -> Compared:
    """Return the needs of InSS's own agent like ``runs``, whose schedulers and parameters are ignored."""
    trained = (f"ts.training={training}" for training in TRAININGS)
    return {"ts": tuple(replace(runs, schedulers=("ts",), parameters=(one,)) for one in trained)}


def baselines(runs: Need) -> Compared:
    """Return the needs of InSS's three baselines like ``runs``, whose schedulers and parameters are ignored.

    iGniter runs with ``spend_spare=false``, as in the paper.
    """
    printed, sparing = ((f"{_ELASTIC}.interference=true", f"{_ELASTIC}.second_pass=false"), "igniter.spend_spare=false")
    return {
        "gpulet": (replace(runs, schedulers=(_ELASTIC,), parameters=printed),),
        "gslice+": (replace(runs, schedulers=("gslice+",), parameters=()),),
        "igniter": (replace(runs, schedulers=("igniter",), parameters=(sparing,)),),
    }


def compared(instances: str) -> Compared:
    """Return the needs of the agent, the baselines and local search on ``instances``."""
    runs = Need(instances, ())
    search = Need(instances, ("local-search",), time_limit_s=_GENEROUS_S)  # it ends before, after its rounds
    return {**agent(runs), **baselines(runs), "local-search": (search,)}


def needs_of(everyone: Compared) -> tuple[Need, ...]:
    """Return all needs in one tuple."""
    return tuple(need for needs in everyone.values() for need in needs)
