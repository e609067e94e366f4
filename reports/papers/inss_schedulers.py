"""Schedulers of InSS's figures of decision time, throughput and GPU usage, as implemented here."""

from collections.abc import Mapping
from dataclasses import replace

from reports.need import Need

TRAININGS = range(5)
"""Training seeds of the shipped policies of InSS's agent."""

NeedsByLabel = Mapping[str, tuple[Need, ...]]
"""Needs by label; a bar or line shows their mean. The agent has a need for each training, any other label one need."""

_ELASTIC = "elastic-partitioning"
_LONG_LIMIT_S = 120.0


def agent_needs(runs: Need) -> NeedsByLabel:
    """Return the needs of InSS's agent on the instances and under the conditions of ``runs``."""
    parameters = (f"ts.training={training}" for training in TRAININGS)
    return {"ts": tuple(replace(runs, schedulers=("ts",), parameters=(parameter,)) for parameter in parameters)}


def baseline_needs(runs: Need) -> NeedsByLabel:
    """Return the needs of InSS's three baselines on the instances and under the conditions of ``runs``.

    iGniter runs with ``spend_spare=false``, as in the paper.
    """
    elastic_parameters = (f"{_ELASTIC}.interference=true", f"{_ELASTIC}.second_pass=false")
    return {
        "gpulet": (replace(runs, schedulers=(_ELASTIC,), parameters=elastic_parameters),),
        "gslice+": (replace(runs, schedulers=("gslice+",), parameters=()),),
        "igniter": (replace(runs, schedulers=("igniter",), parameters=("igniter.spend_spare=false",)),),
    }


def needs_on(instances: str) -> NeedsByLabel:
    """Return the needs of the agent, the baselines and local search on ``instances``."""
    runs = Need(instances, ())
    # The number of rounds ends local search before the time limit.
    search = Need(instances, ("local-search",), time_limit_s=_LONG_LIMIT_S)
    return {**agent_needs(runs), **baseline_needs(runs), "local-search": (search,)}


def needs_of(needs_by_label: NeedsByLabel) -> tuple[Need, ...]:
    """Return the needs of all labels in one tuple."""
    return tuple(need for needs in needs_by_label.values() for need in needs)
