"""Packing problem in the arrays of the compiled search: GPU types, and the configurations of the items on them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import kernel
from instances.configurations import Configurations
from instances.tables import Tables
from instances.view import View


class PackingProblem(NamedTuple):
    """GPU types of a pool, and items to place on them, each at one of the steps of its rate.

    Attributes
    ----------
    tables
        Fields of ``Tables``, each with the GPU type as an additional first axis. See ``tables_of``.
    permitted_count
        Number of permitted shares of each type.
    price, limit
        Price of a GPU of each type in dollars per hour, and the number of GPUs that may be in use.
    configurations
        Configurations of all types, each at the least share that it needs alone on a GPU. A choice is a type, an item
        and a step; choices are numbered by type, then item, then step from the highest. ``configurations.first`` is by
        choice, and the configurations of a choice are in the order of their units.
    items, steps
        Number of items, and of steps of a rate: 1 if every item needs its full rate.
    weight
        Loss if an item is not served; if it is served at step s of n, the loss is the fraction ``1 - s / n`` of this.
        Shape (items,).
    priority
        Items of higher priority are placed first; 0 for items that no GPU serves. Shape (items,).
    apart
        Whether items of one workload must be on different GPUs.
    """

    tables: Any
    permitted_count: Ints
    price: Floats
    limit: Ints
    configurations: Configurations
    items: int
    steps: int
    weight: Floats
    priority: Floats
    apart: bool

    @classmethod
    def of(
        cls,
        views: Sequence[View],
        limits: Sequence[int],
        configurations: Sequence[Configurations],
        weight: Floats,
        priority: Floats,
        apart: bool = False,
    ) -> "PackingProblem":
        """Join the configurations of the same items on several GPU types; ``steps`` is the highest step of all."""
        steps = max((int(of_type.step.max(initial=1)) for of_type in configurations), default=1)
        return cls(
            stacked([view.tables for view in views]),
            np.array([len(view.tables.permitted) for view in views], dtype=np.int64),
            np.array([view.gpu.price_per_hour for view in views], dtype=np.float64),
            np.array(limits, dtype=np.int64),
            _by_choice(configurations, steps),
            len(weight),
            steps,
            weight,
            priority,
            apart,
        )


def stacked(tables: Sequence[Tables]) -> Any:
    """Return tables in which each field has the GPU type as an additional first axis, padded to a common shape."""
    infinite = ("active_ms", "transfer_ms", "exposed_ms", "memory_mib")
    fields: dict[str, Any] = {}
    for name in Tables._fields:
        columns = [np.asarray(getattr(of_type, name)) for of_type in tables]
        shape = np.max([column.shape for column in columns], axis=0).astype(np.int64)
        joined = np.full((len(columns), *shape), np.inf if name in infinite else 0, dtype=columns[0].dtype)
        for gpu_type, column in enumerate(columns):
            filled: tuple[Any, ...] = (gpu_type, *(slice(length) for length in column.shape))
            joined[filled] = column
        fields[name] = joined
    return Tables(**fields)


def _by_choice(configurations: Sequence[Configurations], steps: int) -> Configurations:
    """Join the configurations of all types; ``first`` is by type, item and step from the highest."""
    firsts, columns, width = [], [], max(of_type.budget_ms.shape[1] for of_type in configurations)
    offset = 0
    for of_type in configurations:
        choice = of_type.item * steps + (steps - of_type.step)
        firsts.append(offset + np.searchsorted(choice, np.arange(of_type.item_count * steps)))
        offset += of_type.size
        budget_ms = np.full((of_type.size, width), -np.inf)
        budget_ms[:, : of_type.budget_ms.shape[1]] = of_type.budget_ms
        columns.append((*of_type[1:-1], budget_ms))
    joined = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Configurations(np.concatenate([*firsts, [offset]]), *joined)


@kernel
def tables_of(problem: PackingProblem, gpu_type: int) -> Tables:
    """Return the tables of one GPU type."""
    stack = problem.tables
    return Tables(
        stack.active_ms[gpu_type],
        stack.l2_pct[gpu_type],
        stack.dram_pct[gpu_type],
        stack.power_w[gpu_type],
        stack.company[gpu_type],
        stack.transfer_ms[gpu_type],
        stack.exposed_ms[gpu_type],
        stack.memory_mib[gpu_type],
        stack.scheduling_ms[gpu_type],
        stack.kernels[gpu_type],
        stack.alpha_l2[gpu_type],
        stack.alpha_dram[gpu_type],
        stack.max_batch[gpu_type],
        stack.next_share[gpu_type],
        stack.permitted[gpu_type, : problem.permitted_count[gpu_type]],
        stack.share_units[gpu_type],
        stack.memory_limit_mib[gpu_type],
        stack.alpha_sch[gpu_type],
        stack.beta_sch[gpu_type],
        stack.idle_power_w[gpu_type],
        stack.max_power_w[gpu_type],
        stack.throttle_per_w[gpu_type],
        stack.pairwise[gpu_type],
        stack.falling[gpu_type],
        stack.most_residents[gpu_type],
    )


@kernel
def choice_of(problem: PackingProblem, gpu_type: int, item: int, step: int) -> int:
    """Return the number of the choice of an item at a step on a GPU type."""
    return (gpu_type * problem.items + item) * problem.steps + problem.steps - step
