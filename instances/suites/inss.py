"""InSS's small cluster (Sec. 6): ten models on four A100s, most throughput."""

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.instance import GpuPool, Instance, Objective
from instances.workload import Workload

# Model, SLO in ms (Sec. 6.1) and requests per second (ours).
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


def four_gpus() -> tuple[Instance, ...]:
    """Return ``4gpu``: workloads ``W1`` to ``W10``, the eight models and two of them again.

    The paper leaves two things open, which are decided here: the models that appear twice are AlexNet and ResNet-50,
    and the rates are such that alone and at its least share a workload takes a tenth to two fifths of a GPU.
    """
    instance = Instance(
        name="4gpu",
        objective=Objective.CAPACITY,
        slo_rule=SloRule.ASSEMBLY,
        performance_model="inss",
        gpus=(GpuPool(gpu_type("a100-inss"), 4),),
        workloads=tuple(
            Workload(f"W{position + 1}", model, slo_ms, rate_rps)
            for position, (model, slo_ms, rate_rps) in enumerate(_DEMANDS)
        ),
        provenance="InSS, Sec. 6.1: models, SLOs, GPUs; ours: rates, and that AlexNet and ResNet-50 appear twice",
    )
    return (instance,)
