"""Registry of the online policies."""

from collections.abc import Callable, Mapping

from bench.online.planner import Planner
from bench.online.policy import OnlinePolicy, Static
from bench.online.reactive import Reactive
from bench.online.reschedule import Reschedule
from bench.online.shadow_policy import Shadow
from instances import Instance

POLICIES: Mapping[str, Callable[[Instance, Planner, float], OnlinePolicy]] = {
    "static": lambda _instance, _planner, _weight: Static(),
    "reschedule": lambda instance, planner, weight: Reschedule(planner, instance, weight),
    "shadow": lambda instance, _planner, _weight: Shadow(instance),
    "reactive": lambda instance, _planner, _weight: Reactive(instance),
}
"""Constructor of each policy; it takes the instance, the planner and the weight of the last period."""
