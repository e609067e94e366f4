"""ParvaGPU's six service mixes (SC '24): eleven models on A100s cut into MIG instances."""

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.instance import GpuPool, Instance, Objective
from instances.mig import MIG_TABLE
from instances.workload import Workload

# SLO in ms and requests per second, by model and mix, as published; None if the mix does not have the model.
_DEMANDS: dict[str, tuple[tuple[float, float] | None, ...]] = {
    "bert": ((6434, 19), (6434, 19), (4294, 46), (4294, 69), (2153, 843), (6434, 1264)),
    "densenet121": ((183, 353), (183, 353), (126, 728), (126, 1091), (69, 2228), (183, 3342)),
    "densenet169": (None, (216.5, 308), (150, 633), (150, 949), (83.5, 3507), (216.5, 5260)),
    "densenet201": (None, (168.5, 276), (119, 493), (119, 739), (69.5, 1513), (168.5, 2269)),
    "inceptionv3": ((418.5, 460), (418.5, 460), (282, 1051), (282, 1576), (145.5, 3815), (418.5, 5722)),
    "mobilenetv2": ((167, 677), (167, 677), (113, 1546), (113, 2318), (59, 5009), (167, 7513)),
    "resnet101": (None, (211.5, 393), (144, 760), (144, 1140), (76.5, 1874), (211.5, 2811)),
    "resnet152": (None, (212.5, 281), (146, 543), (146, 815), (79.5, 1340), (212.5, 2010)),
    "resnet50": ((204.5, 829), (204.5, 829), (138, 1463), (138, 2195), (71.5, 2796), (204.5, 4196)),
    "vgg16": (None, (399.5, 410), (227, 780), (227, 1169), (114.5, 1773), (399.5, 2659)),
    "vgg19": ((396.5, 354), (396.5, 354), (265, 673), (265, 1010), (133.5, 1531), (396.5, 2296)),
}
_MIXES = 6


def parvagpu() -> tuple[Instance, ...]:
    """Return ``parvagpu-1`` to ``parvagpu-6``; each workload's id is its model's name."""
    return tuple(_mix(position) for position in range(_MIXES))


def _mix(position: int) -> Instance:
    return Instance(
        name=f"parvagpu-{position + 1}",
        objective=Objective.COST,
        slo_rule=SloRule.HALF_SLO,
        performance_model=MIG_TABLE,
        gpus=(GpuPool(gpu_type("a100-mig")),),
        workloads=tuple(
            Workload(model, model, float(demand[0]), float(demand[1]))
            for model, demands in _DEMANDS.items()
            if (demand := demands[position]) is not None
        ),
        provenance=f"ParvaGPU, SC '24, service mix {position + 1} (github.com/MunQ-Lee/ParvaGPU_SC24, SLO)",
    )
