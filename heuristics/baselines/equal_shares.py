"""Baselines that share GPUs as clusters do today: whole GPUs, equal MPS shares, or equal time slices."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run, Status
from heuristics.baselines.placement import greedy_placement, warm_placement
from heuristics.packing import UnservableError, cheapest
from instances import DnnModel, Gpulet, GpuType, Instance, Objective, PlacedGpu, Plan
from instances.gpu import Company, PairFactor
from instances.grouping import grouped
from instances.performance import performance_model

MOST_REPLICAS = 10
"""Largest number of replicas that is tried if the option ``replicas`` is 0."""

OBJECTIVES = frozenset({Objective.COST, Objective.CAPACITY})


@dataclass(frozen=True, slots=True)
class WholeGpu:
    """One workload per GPU: no sharing.

    Each workload takes the cheapest free GPU that serves it. A workload that no GPU serves is divided into equal parts.

    Attributes
    ----------
    by_service
        Whether every language-model service has GPUs of its own, which its prefill and decode workloads share.
    """

    name: ClassVar[str] = "whole-gpu"
    objectives: ClassVar[frozenset[Objective]] = OBJECTIVES

    by_service: bool = False

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_placement()

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the plan with one workload, or one service, on each GPU."""
        if self.by_service and instance.services:
            return _each_service_apart(instance, run)
        return _cheapest(instance, run, [1])


@dataclass(frozen=True, slots=True)
class Replicated:
    """Base of the schedulers that cut every GPU into the same number of equal parts.

    The NVIDIA device plugin calls such a part a replica of the GPU.

    Attributes
    ----------
    replicas
        Replicas of a GPU; 0 tries 2 to ``MOST_REPLICAS`` and takes the cheapest plan, under ``capacity`` too.
    """

    objectives: ClassVar[frozenset[Objective]] = OBJECTIVES

    replicas: int = 0

    def __post_init__(self) -> None:
        if not (self.replicas == 0 or 1 <= self.replicas <= 100):
            raise ValueError(f"replicas is {self.replicas}; expected 1 to 100, or 0 to try several")

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_placement()

    def replica_counts(self) -> Iterable[int]:
        """Return the numbers of replicas to try."""
        return [self.replicas] if self.replicas else range(2, MOST_REPLICAS + 1)


@dataclass(frozen=True, slots=True)
class EqualShares(Replicated):
    """Equal MPS shares: every GPU is cut into the same number of replicas, each for a workload or a part of one.

    The NVIDIA device plugin offers MPS in this form. Workloads are placed largest first, each where all residents of
    the GPU stay within their latency budgets.
    """

    name: ClassVar[str] = "equal-shares"

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the cheapest plan of equal shares."""
        return _cheapest(instance, run, self.replica_counts())


@dataclass(frozen=True, slots=True)
class TimeSlicing(Replicated):
    """Time slices: the processes on a GPU take turns on the whole GPU, as without MPS.

    Each of n processes is planned as if it had 1/n of the GPU's time: its batches take n times their active time on the
    GPU alone, without interference. In the plan, the slots of a whole GPU take turns. SLO rules for random arrivals do
    not permit turns.
    """

    name: ClassVar[str] = "time-slicing"
    own_model: ClassVar[bool] = True  # time slices in place of the instance's performance model
    no_services: ClassVar[str] = "decoding cannot take turns"

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the cheapest plan of equal time."""
        sliced = replace(instance, gpus=tuple(replace(pool, type=_in_time_slices(pool.type)) for pool in instance.gpus))
        outcome = _cheapest(sliced, run, self.replica_counts())
        if outcome.plan is None:
            return outcome
        types = {pool.type.name: pool.type for pool in instance.gpus}
        gpus = tuple(_in_turns(gpu, types[gpu.type], instance) for gpu in outcome.plan.gpus)
        return replace(outcome, plan=Plan(instance.name, gpus))


def _each_service_apart(instance: Instance, run: Run) -> Outcome:
    """Return a plan in which every service, and every workload outside services, has GPUs of its own."""
    gpus: list[PlacedGpu] = []
    for members in grouped((workload.service or workload.id, workload) for workload in instance.workloads).values():
        service_instance = replace(instance, workloads=tuple(members))
        outcome = _cheapest(service_instance, run, [1], divided=lambda gpu, _: gpu)
        if outcome.plan is None:
            return outcome
        gpus += outcome.plan.gpus
    for pool in instance.gpus:
        if pool.count is not None and sum(gpu.type == pool.type.name for gpu in gpus) > pool.count:
            return Outcome(
                Status.UNKNOWN,
                reason=f"the pool has too few GPUs of type {pool.type.name} to give every service its own",
            )
    return Outcome(Status.FEASIBLE, Plan(instance.name, tuple(gpus)))


def _divided(gpu: GpuType, parts: int) -> GpuType | None:
    """Return the GPU type with ``1 / parts`` (rounded down) as its only share; ``None`` if that is not permitted."""
    units = gpu.share_units // parts
    if units < 1 or (gpu.allowed_shares is not None and units not in gpu.allowed_shares):
        return None
    return replace(gpu, allowed_shares=(units,))


def _cheapest(
    instance: Instance,
    run: Run,
    part_counts: Iterable[int],
    divided: Callable[[GpuType, int], GpuType | None] = _divided,
) -> Outcome:
    """Return the cheapest of the greedy plans, one for each number of equal parts in ``part_counts``.

    ``divided`` returns a GPU type with the shares that slots may have at a number of parts, or ``None`` if there are
    none.
    """
    plans: list[Plan] = []
    reason = ""
    for parts in part_counts:
        if run.remaining_s <= 0.0:
            reason = reason or "the time was over before a plan was found"
            break
        pools = [(pool, gpu) for pool in instance.gpus if (gpu := divided(pool.type, parts)) is not None]
        if not pools:
            continue
        divided_instance = replace(instance, gpus=tuple(replace(pool, type=gpu) for pool, gpu in pools))
        try:
            placement = greedy_placement(divided_instance, np.random.default_rng(run.seed))
        except UnservableError as unservable:
            reason = str(unservable)
            continue
        if len(placement.waiting):
            reason = placement.shortage()
        else:
            plans.append(Plan(instance.name, placement.gpus()))
    return cheapest(plans, instance, reason or "no GPU type of the pool permits these equal shares")


def _in_time_slices(gpu: GpuType) -> GpuType:
    """Return a GPU type on which times are inversely proportional to the share, without interference."""
    hardware = replace(gpu.hardware, alpha_f=0.0, alpha_sch=0.0, beta_sch=0.0)
    models = {name: _sliced(model) for name, model in gpu.models.items()}
    return replace(gpu, hardware=hardware, models=models, pair=PairFactor(0.0, 0.0, 0.0, 0.0, 1.0))


def _sliced(model: DnnModel) -> DnnModel:
    """Return the model with times that are inversely proportional to the share, and without interference."""
    k1, k2, k3, k4, k5 = model.k
    # The new time is that of iGniter's equation 11 at 100 % of the GPU, times 100 / share.
    full_share_factor = 100.0 / (100.0 + k4)
    changed = replace(
        model,
        k=(k1 * full_share_factor, k2 * full_share_factor, k3 * full_share_factor + 100.0 * k5, 0.0, 0.0),
        alpha_cache=0.0,
        kernels=0,
        inss=(0.0, 0.0),
    )
    if model.solo is None:
        return changed
    solo = model.solo
    times = tuple(tuple(row[-1] * 100.0 / share for share in solo.share_pct) for row in solo.gpu_ms)
    return replace(changed, solo=replace(solo, gpu_ms=times), company=Company(times, 0.0, 0.0))


def _in_turns(placed: PlacedGpu, gpu: GpuType, instance: Instance) -> PlacedGpu:
    """Return the GPU with one gpulet, in which all its slots take turns, each once per duty cycle."""
    slots = tuple(slot for gpulet in placed.gpulets for slot in gpulet.slots)
    if len(slots) == 1:
        return PlacedGpu(gpu.name, (Gpulet(gpu.share_units, slots),))
    performance = performance_model(instance.performance_model)
    models = [gpu.model(instance.model_of[slot.workload]) for slot in slots]
    cycle_ms = math.fsum(
        float(performance.demand(gpu, model, np.array(float(slot.batch)), np.array(100.0)).active_ms)
        for model, slot in zip(models, slots, strict=True)
    )
    return PlacedGpu(gpu.name, (Gpulet(gpu.share_units, slots, cycle_ms),))
