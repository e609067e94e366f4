"""Suites of the family ``pool-mix``: mixed pools, thousands of workloads, and hard instances."""

from typing import Any

from instances.budget import SloRule
from instances.instance import Instance, Objective
from instances.pool_mix import RateLaw, SloLaw, pool_mix

_Options = dict[str, Any]

# Name, size, pool and options; the seed is 0. Under objectives that serve everything, the pool is enough for a greedy
# plan.
_HETERO: tuple[tuple[str, int, str, _Options], ...] = (
    ("hetero-2-12", 12, "v100,t4", {}),
    ("hetero-2-40", 40, "v100,t4", {}),
    ("hetero-2-60-pool", 60, "v100:8,t4:20", {"rates": RateLaw.FEW_LARGE, "performance_model": "hybrid"}),
    (
        "hetero-2-30-capacity",
        30,
        "v100:6,t4:12",
        {"performance_model": "inss", "objective": Objective.CAPACITY},
    ),
    (
        "hetero-2-12-scale",
        12,
        "rtx2080ti:6,a100-inss:3",
        {"performance_model": "gpulet", "slo_rule": SloRule.DUTY_CYCLE, "objective": Objective.SCALE},
    ),
    ("hetero-3-40", 40, "a100,a100-inss,rtx2080ti", {"performance_model": "inss", "slo_rule": SloRule.ASSEMBLY}),
    ("hetero-3-80-pool", 80, "v100:8,t4:16,a100-inss:6", {}),
    ("hetero-3-80-goodput", 80, "v100:3,t4:6,a100-inss:2", {"objective": Objective.GOODPUT}),
    ("hetero-4-60", 60, "v100,t4,a100,a100-inss", {"rates": RateLaw.ZIPF, "performance_model": "hybrid"}),
    (
        "hetero-4-60-pool",
        60,
        "v100:6,t4:12,a100:3,a100-inss:4",
        {"performance_model": "inss", "slo_rule": SloRule.ASSEMBLY},
    ),
)

_LARGE: tuple[tuple[str, int, str, _Options], ...] = (
    ("large-1000", 1000, "v100", {}),
    ("large-3000", 3000, "v100,t4", {"rates": RateLaw.FEW_LARGE, "performance_model": "hybrid"}),
    ("large-10000", 10_000, "v100,t4,a100-inss", {"rates": RateLaw.ZIPF}),
)

_HARD: tuple[tuple[str, int, str, _Options], ...] = (
    ("hard-cost-30", 30, "a100", {"performance_model": "hybrid"}),
    ("hard-cost-60", 60, "v100", {"slo": SloLaw.LOOSE, "rates": RateLaw.ZIPF}),
    ("hard-capacity-16", 16, "a100-inss:4", {"performance_model": "inss", "objective": Objective.CAPACITY}),
    (
        "hard-goodput-30",
        30,
        "v100:2,t4:2",
        {"rates": RateLaw.ZIPF, "performance_model": "hybrid", "objective": Objective.GOODPUT},
    ),
    ("hard-goodput-40", 40, "a100:4", {"performance_model": "hybrid", "objective": Objective.GOODPUT}),
    (
        "hard-scale-20",
        20,
        "v100:2,t4:4",
        {"rates": RateLaw.ZIPF, "performance_model": "inss", "objective": Objective.SCALE},
    ),
    ("hard-scale-24", 24, "a100:4", {"performance_model": "hybrid", "objective": Objective.SCALE}),
)

_ALSO_HARD = ("hetero-3-80-pool", "hetero-2-30-capacity")
"""Instances of ``hetero`` that also belong to ``hard``."""


def hetero() -> tuple[Instance, ...]:
    """Return instances on two, three and four GPU types, on bounded and unbounded pools."""
    return _drawn(_HETERO)


def large() -> tuple[Instance, ...]:
    """Return instances of 1,000, 3,000 and 10,000 workloads."""
    return _drawn(_LARGE)


def hard() -> tuple[Instance, ...]:
    """Return instances of each objective that no exact method solves to proven optimality in twenty seconds."""
    return (*_drawn(_HARD), *(instance for instance in hetero() if instance.name in _ALSO_HARD))


def _drawn(settings: tuple[tuple[str, int, str, _Options], ...]) -> tuple[Instance, ...]:
    return tuple(pool_mix(size, 0, pool, name=name, **options) for name, size, pool, options in settings)
