"""Small instances on a V100 in units of 12.5 %, so that brute force stays quick, and their pricers."""

from dataclasses import replace

from formulations.colgen.spatial.pricer import Pricer
from instances import GpuPool, Instance, Objective
from instances.catalogue import gpu_type
from instances.configurations import rates_of
from instances.generate import generate
from instances.view import View
from instances.workload_classes import identical_workloads
from tests.formulations.exhaustive import small_batches

V100 = gpu_type("v100")
COARSE = small_batches(replace(V100, name="coarse", share_units=8), 8)


def small(seed: int, size: int, *pools: GpuPool) -> Instance:
    """Return an instance of ``size`` workloads under ``cost``, on ``pools`` or on any number of ``COARSE`` GPUs."""
    return replace(generate("igniter-mix", size, seed, Objective.COST), gpus=pools or (GpuPool(COARSE),))


def pricer_of(instance: Instance) -> Pricer:
    """Return a pricer of the first GPU type."""
    order, copy_of, _ = identical_workloads(instance)
    rates = [rates_of(instance, w) for w in range(len(order))]
    return Pricer(View.of(instance, instance.gpus[0].type), 0, order, copy_of, rates)
