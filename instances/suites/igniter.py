"""iGniter's instances (iGniter, Sec. 2.3 and 5): four models on V100s or T4s, under the objective ``cost``."""

from collections.abc import Sequence

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.instance import GpuPool, Instance, Objective
from instances.workload import Workload


def _igniter(name: str, demands: Sequence[tuple[str, float, float]], source: str, gpu: str = "v100") -> Instance:
    return Instance(
        name=name,
        objective=Objective.COST,
        slo_rule=SloRule.HALF_SLO,
        performance_model="igniter",
        gpus=(GpuPool(gpu_type(gpu)),),
        workloads=tuple(
            Workload(f"W{position + 1}", model, slo_ms, rate_rps)
            for position, (model, slo_ms, rate_rps) in enumerate(demands)
        ),
        provenance=source,
    )


def igniter_3() -> tuple[Instance, ...]:
    """Return the motivating example (Sec. 2.3)."""
    demands = [("alexnet", 15.0, 500.0), ("resnet50", 40.0, 400.0), ("vgg19", 60.0, 200.0)]
    return (_igniter("igniter-3", demands, "iGniter, Sec. 2.3 and Table 1"),)


_TWELVE = (
    ("alexnet", 10.0, 1200.0),
    ("alexnet", 15.0, 400.0),
    ("alexnet", 20.0, 800.0),
    ("resnet50", 20.0, 400.0),
    ("resnet50", 30.0, 600.0),
    ("resnet50", 40.0, 200.0),
    ("vgg19", 20.0, 300.0),
    ("vgg19", 30.0, 400.0),
    ("vgg19", 40.0, 200.0),
    ("ssd", 25.0, 150.0),
    ("ssd", 40.0, 50.0),
    ("ssd", 55.0, 300.0),
)


def igniter_12() -> tuple[Instance, ...]:
    """Return the twelve workloads of the evaluation (Table 3).

    The README of icloud-ecnu/igniter repeats W1, W5, W9, W10 and W11 (experiments 4 and 5).
    """
    return (_igniter("igniter-12", _TWELVE, "iGniter, Table 3, in the reading that reproduces its published plan"),)


def igniter_12_t4() -> tuple[Instance, ...]:
    """Return the twelve workloads of the evaluation on T4s (Sec. 5.3, Fig. 20)."""
    return (_igniter("igniter-12-t4", _TWELVE, "iGniter, Table 3 and Sec. 5.3, on T4s", "t4"),)
