"""InSS's clusters (Sec. 6): ten workloads on four A100s, and multiples of them, under ``capacity`` and ``goodput``."""

from dataclasses import replace
from itertools import cycle

import numpy as np

from instances.arrays import Floats
from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.instance import GpuPool, Instance, Objective
from instances.workload import Workload

# Model, SLO in ms (Sec. 6.1) and requests per second (chosen by this bench).
_DEMANDS = (
    ("alexnet", 10.0, 3000.0),
    ("resnet50", 35.0, 1200.0),
    ("vgg16", 65.0, 800.0),
    ("mnasnet", 10.0, 2000.0),
    ("mobilenet", 15.0, 2500.0),
    ("efficientnet", 30.0, 2500.0),
    ("resnet18", 15.0, 2000.0),
    ("vgg19", 80.0, 600.0),
    ("alexnet", 10.0, 2000.0),
    ("resnet50", 35.0, 1000.0),
)

_OVERLOAD = 2.5
"""Factor on the rates in ``4gpu-goodput``; with this factor, four GPUs serve at most 82 % of the requests."""

_MODELS = "InSS, Sec. 6.1: models, SLOs, GPUs; ours: rates, and that AlexNet and ResNet-50 appear twice"


def four_gpus() -> tuple[Instance, ...]:
    """Return ``4gpu``: workloads ``W1`` to ``W10`` with eight models, two of which appear twice.

    The paper states neither the models that appear twice nor the rates. Here AlexNet and ResNet-50 appear twice, and
    at the chosen rates each workload alone needs between a fifteenth and two fifths of a GPU.
    """
    return (_cluster("4gpu", Objective.CAPACITY, 4, np.ones(len(_DEMANDS)), _MODELS),)


def eight_models() -> tuple[Instance, ...]:
    """Return ``4gpu-eight``: the first eight workloads of ``4gpu``, as many models as gpulet serves in the paper."""
    (instance,) = four_gpus()
    text = f"{_MODELS}; without the two that appear a second time (Sec. 6.3: gpulet serves only 8 models)"
    return (replace(instance, name="4gpu-eight", workloads=instance.workloads[:8], provenance=text),)


def with_quadratic_model() -> tuple[Instance, ...]:
    """Return ``4gpu-quadratic``: ``4gpu`` for planners with iGniter's performance model instead of InSS's.

    iGniter and its GSLICE plan with the quadratic function that iGniter fits to the same solo times. The true
    performance model is ``inss``.
    """
    (instance,) = four_gpus()
    text = f"{_MODELS}; iGniter's performance model, fitted to the same solo times"
    return (replace(instance, name="4gpu-quadratic", performance_model="igniter", provenance=text),)


def overloaded() -> tuple[Instance, ...]:
    """Return ``4gpu-goodput``: the same workloads at rates that four GPUs cannot serve."""
    provenance = f"{_MODELS}, times {_OVERLOAD:g}"
    return (_cluster("4gpu-goodput", Objective.GOODPUT, 4, np.full(len(_DEMANDS), _OVERLOAD), provenance),)


def unseen() -> tuple[Instance, ...]:
    """Return ``4gpu-unseen-0`` to ``-99``: rates drawn from 1 to 4 times those of ``4gpu``, too high for four GPUs."""
    factors = np.random.default_rng(20261121).uniform(1.0, 4.0, (100, len(_DEMANDS)))
    return tuple(
        _cluster(
            f"4gpu-unseen-{number}",
            Objective.GOODPUT,
            4,
            row,
            f"{_MODELS}; drawn from 1 to 4 times the rates of 4gpu, seed 20261121",
        )
        for number, row in enumerate(factors)
    )


def larger() -> tuple[Instance, ...]:
    """Return ``inss-8gpu`` to ``inss-64gpu``: the ten workloads for every four GPUs, at 0.5 to 1 times their rates."""
    instances = []
    for gpus in (8, 16, 32, 64):
        random = np.random.default_rng(gpus)
        factors = random.uniform(0.5, 1.0, gpus // 4 * len(_DEMANDS))
        provenance = f"{_MODELS}; drawn from 0.5 to 1 times the rates of 4gpu, seed {gpus}"
        instances.append(_cluster(f"inss-{gpus}gpu", Objective.CAPACITY, gpus, factors, provenance))
    return tuple(instances)


def _cluster(name: str, objective: Objective, gpus: int, factors: Floats, provenance: str) -> Instance:
    """Return repetitions of the ten workloads, each at a multiple of its rate."""
    return Instance(
        name=name,
        objective=objective,
        slo_rule=SloRule.ASSEMBLY,
        performance_model="inss",
        gpus=(GpuPool(gpu_type("a100-inss"), gpus),),
        workloads=tuple(
            Workload(f"W{position + 1}", model, slo_ms, rate_rps * factor)
            for position, ((model, slo_ms, rate_rps), factor) in enumerate(
                zip(cycle(_DEMANDS), factors.tolist(), strict=False)
            )
        ),
        provenance=provenance,
    )
