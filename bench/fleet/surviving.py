"""Plans that survive the failure of any one GPU: the remaining GPUs can serve all services."""

from collections import Counter
from dataclasses import dataclass, replace

from bench.fleet.solving import solved_here
from bench.judging.judge import judge
from instances import Instance, PlacedGpu, Plan


@dataclass(frozen=True, slots=True)
class Surviving:
    """A plan with one GPU without gpulets, the spare GPU.

    ``spare`` is the type of this GPU. The cost includes the spare GPU. The bound is a lower bound on this cost.
    """

    plan: Plan
    spare: str
    cost_per_hour: float
    bound_per_hour: float


def surviving(plan: Plan, instance: Instance, bound_per_hour: float, seconds: float) -> Surviving | None:
    """Add to a plan the cheapest spare GPU with which it survives any one failure; return ``None`` if there is none.

    After any failure, the remaining GPUs cost at least the bound. All GPUs therefore cost at least the bound plus the
    price of the cheapest GPU. With one GPU type, an optimal plan plus one spare GPU reaches this sum and is optimal.

    ``plan`` is feasible, and ``bound_per_hour`` a certified bound on the cost of a plan. All solves together take at
    most ``seconds``.
    """
    used = Counter(gpu.type for gpu in plan.gpus if gpu.gpulets)
    pools = [pool for pool in instance.gpus if pool.count is None or pool.count > used[pool.type.name]]
    cost = judge(plan, instance).cost_per_hour
    cheapest_per_hour = min(pool.type.price_per_hour for pool in instance.gpus)
    solve_limit_s = seconds / max(1, len(pools) * len(used))
    for pool in sorted(pools, key=lambda pool: pool.type.price_per_hour):
        spare = pool.type.name
        # If a GPU of the spare's own type fails, the spare takes its place.
        other_types = [gpu_type for gpu_type in used if gpu_type != spare]
        if all(
            _serves(instance, used + Counter([spare]) - Counter([gpu_type]), solve_limit_s) for gpu_type in other_types
        ):
            plan_with_spare = Plan(plan.instance, (*plan.gpus, PlacedGpu(spare, ())))
            return Surviving(
                plan_with_spare, spare, cost + pool.type.price_per_hour, bound_per_hour + cheapest_per_hour
            )
    return None


def _serves(instance: Instance, remaining: Counter[str], seconds: float) -> bool:
    """Return whether a plan was found on the ``remaining`` GPUs, given as numbers by type."""
    pools = tuple(replace(pool, count=remaining[pool.type.name]) for pool in instance.gpus if remaining[pool.type.name])
    plan = solved_here(replace(instance, gpus=pools), seconds, below=float("inf")).plan
    return plan is not None and judge(plan, instance).feasible
