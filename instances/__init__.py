"""Problem data: instances, plans, GPU catalogue, performance models, latency budgets, generators and suites."""

from instances.budget import SloRule
from instances.errors import InputError
from instances.gpu import DnnModel, GpuType, Hardware, Partition, Provenance
from instances.instance import (
    GOODPUT_STEP,
    PART_STEPS,
    SCALE_STEP,
    GpuPool,
    Instance,
    Objective,
    ScenarioSet,
)
from instances.mig import MigConfiguration, MigProfile, MigSlice
from instances.plan import Gpulet, PlacedGpu, Plan, PlanClass, Slot, spatial_gpu
from instances.workload import Application, Job, Workload

__all__ = [
    "GOODPUT_STEP",
    "PART_STEPS",
    "SCALE_STEP",
    "Application",
    "DnnModel",
    "GpuPool",
    "GpuType",
    "Gpulet",
    "Hardware",
    "InputError",
    "Instance",
    "Job",
    "MigConfiguration",
    "MigProfile",
    "MigSlice",
    "Objective",
    "Partition",
    "PlacedGpu",
    "Plan",
    "PlanClass",
    "Provenance",
    "ScenarioSet",
    "SloRule",
    "Slot",
    "Workload",
    "spatial_gpu",
]
