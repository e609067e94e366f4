"""Plans that survive the failure of any one GPU: after it, the GPUs left can serve all services."""

from collections import Counter
from dataclasses import dataclass, replace

from bench.fleet.solving import solved_here
from bench.judging.judge import judge
from instances import Instance, PlacedGpu, Plan


@dataclass(frozen=True, slots=True)
class Surviving:
    """A plan with a GPU without gpulets as the spare.

    ``spare`` is its GPU type. The cost is that of all GPUs with the spare, and the bound a lower bound on this cost.
    """

    plan: Plan
    spare: str
    cost_per_hour: float
    bound_per_hour: float


def surviving(plan: Plan, instance: Instance, bound_per_hour: float, seconds: float) -> Surviving | None:
    """Add to a plan the cheapest spare GPU with which it survives any one failure; return ``None`` if there is none.

    After any failure, the GPUs left cost at least the bound, so all GPUs cost at least the bound plus the cheapest
    GPU. With one GPU type, an optimal plan with one spare GPU is therefore optimal, too.

    ``plan`` is feasible, and ``bound_per_hour`` a certified bound on the cost of a plan. All solves together take at
    most ``seconds``.
    """
    used = Counter(gpu.type for gpu in plan.gpus if gpu.gpulets)
    pools = [pool for pool in instance.gpus if pool.count is None or pool.count > used[pool.type.name]]
    cost = judge(plan, instance).cost_per_hour
    least = min(pool.type.price_per_hour for pool in instance.gpus)
    each_s = seconds / max(1, len(pools) * len(used))
    for pool in sorted(pools, key=lambda pool: pool.type.price_per_hour):
        spare = pool.type.name
        others = [kind for kind in used if kind != spare]
        if all(_serves(instance, used + Counter([spare]) - Counter([kind]), each_s) for kind in others):
            whole = Plan(plan.instance, (*plan.gpus, PlacedGpu(spare, ())))
            return Surviving(whole, spare, cost + pool.type.price_per_hour, bound_per_hour + least)
    return None


def _serves(instance: Instance, left: Counter[str], seconds: float) -> bool:
    """Return whether a plan was found on the GPUs that are left."""
    pools = tuple(replace(pool, count=left[pool.type.name]) for pool in instance.gpus if left[pool.type.name])
    found = solved_here(replace(instance, gpus=pools), seconds, below=float("inf")).plan
    return found is not None and judge(found, instance).feasible
