"""The schedulers in InSS's figures of decision time, throughput and GPU usage, as we have them."""

from collections.abc import Mapping
from dataclasses import replace

from reports.figure import Need

TRAININGS = range(5)
"""Seeds that InSS's agent was trained with for the policies that come with the project."""

Compared = Mapping[str, tuple[Need, ...]]
"""By label the runs that its bar or line is the mean of: of the agent one for each training, otherwise a single one."""

_ELASTIC = "elastic-partitioning"
_GENEROUS_S = 120.0


def agent(runs: Need) -> Compared:
    """Return InSS's own agent on the instances of ``runs``, whose schedulers and parameters do not matter."""
    trained = (f"ts.training={training}" for training in TRAININGS)
    return {"ts": tuple(replace(runs, schedulers=("ts",), parameters=(one,)) for one in trained)}


def baselines(runs: Need) -> Compared:
    """Return InSS's three baselines likewise.

    iGniter leaves free what its rule leaves free, as the paper's does.
    """
    printed, sparing = (
        (f"{_ELASTIC}.interference=true", f"{_ELASTIC}.second_pass=false"),
        "igniter.spend_spare=false",
    )
    return {
        "gpulet": (replace(runs, schedulers=(_ELASTIC,), parameters=printed),),
        "gslice+": (replace(runs, schedulers=("gslice+",), parameters=()),),
        "igniter": (replace(runs, schedulers=("igniter",), parameters=(sparing,)),),
    }


def compared(instances: str) -> Compared:
    """Return all of them on ``instances``, and local search."""
    searched = Need(instances, ("local-search",))
    in_peace = replace(searched, time_limit_s=_GENEROUS_S)  # its rounds end it
    return {**agent(searched), **baselines(searched), "local-search": (in_peace,)}


def needs_of(everyone: Compared) -> tuple[Need, ...]:
    """Return their runs."""
    return tuple(need for needs in everyone.values() for need in needs)
