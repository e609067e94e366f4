"""The schedulers in InSS's figures of decision time and GPU usage, as we have them."""

from reports.figure import Need

_ELASTIC = "elastic-partitioning"


def baselines(instances: str, quick: str | None = None) -> dict[str, Need]:
    """Return by label what is compared on ``instances``: InSS's three baselines, and local search.

    iGniter leaves free what its rule leaves free, as the paper's does.
    """
    return {
        "gpulet": Need(instances, (_ELASTIC,), quick=quick, parameters=(f"{_ELASTIC}.interference=true",)),
        "gslice+": Need(instances, ("gslice+",), quick=quick),
        "igniter": Need(instances, ("igniter",), quick=quick, parameters=("igniter.spend_spare=false",)),
        "local-search": Need(instances, ("local-search",), quick=quick),
    }


def with_agent() -> dict[str, Need]:
    """Return the same on ``4gpu``, with InSS's own agent: the suite that its shipped policy is for."""
    return {"ts": Need("4gpu", ("ts",)), **baselines("4gpu")}
