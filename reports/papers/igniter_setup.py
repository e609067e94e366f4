"""Inputs of iGniter's experiments that no figure has: SLOs and rates (Table 3 and Sec. 2.3), and sizes of models."""

from collections.abc import Sequence

from instances.catalogue import gpu_type
from instances.memory import CONTEXT_MIB
from instances.workload import Workload
from reports.claim import TAKEN_FROM_PAPER, Claim, Values, query
from reports.runs import Runs, the_instance

NINTH = "W9"
"""The workload whose rate in the authors' README is not that of Table 3: App3 of VGG-19."""

FIRST_TEN = tuple(f"W{number}" for number in range(1, 11))
"""Workloads whose SLO is in Table 3, or in Sec. 5.3 for W10."""


def _slos_and_rates(workloads: Sequence[Workload]) -> tuple[str, str]:
    """Return the SLOs in ms and the rates in requests per second, in words."""
    return (
        ", ".join(f"{workload.slo_ms:g}" for workload in workloads),
        ", ".join(f"{workload.rate_rps:g}" for workload in workloads),
    )


@query
def _slos_and_rates_of_ten(_: Runs, without_rate: str) -> Values:
    """Return the SLOs of the first ten workloads, and their rates without that of ``without_rate``."""
    workloads = [workload for workload in the_instance("igniter-12").workloads if workload.id in FIRST_TEN]
    slos_ms, _rates = _slos_and_rates(workloads)
    _slos, rates_rps = _slos_and_rates([workload for workload in workloads if workload.id != without_rate])
    return slos_ms, rates_rps


@query
def _rate_rps(_: Runs, name: str) -> Values:
    return tuple(workload.rate_rps for workload in the_instance("igniter-12").workloads if workload.id == name)


def _slos_and_rates_of_three(_: Runs) -> Values:
    return _slos_and_rates(the_instance("igniter-3").workloads)


_MODELS = ("alexnet", "resnet50", "vgg19", "ssd")
"""Models of Table 3, in its order."""


def _parameters(_: Runs) -> Values:
    """Return the millions of parameters from which the memory of the models is computed, at four bytes each."""
    models = [gpu_type("v100").model(name) for name in _MODELS]
    return tuple((model.memory_base_mib - CONTEXT_MIB) * 2**20 / 4e6 for model in models)


SETUP = (
    Claim(
        what=f"Table 3: rate of {NINTH}, App3 of VGG-19",
        paper=(300.0,),
        ours=_rate_rps(NINTH),
        form="{:g} req/s",
        reason=f"the authors' README has another rate; with the printed one, {NINTH} has other shares by igniter and "
        "gpu-lets+ than Fig. 18 prints, see docs/deviations.md",
    ),
    Claim(
        what="Table 3 and Sec. 5.3: SLOs of W1 to W10, and their rates without W9",
        paper=("10, 15, 20, 20, 30, 40, 20, 30, 40, 25", "1200, 400, 800, 400, 600, 200, 300, 400, 150"),
        ours=_slos_and_rates_of_ten(NINTH),
        form="{} ms; {} req/s",
        not_comparable=TAKEN_FROM_PAPER,
        note="those of W11 and W12 are in docs/deviations.md",
    ),
    Claim(
        what="Sec. 2.3: SLOs and rates of the three workloads of Table 1",
        paper=("15, 40, 60", "500, 400, 200"),
        ours=_slos_and_rates_of_three,
        form="{} ms; {} req/s",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="Table 3: GFLOPs of AlexNet, ResNet-50, VGG-19 and SSD",
        paper="0.77, 4.14, 19.77, 62.82",
        ours=lambda _: ("not used",),
        not_comparable="nothing is computed from operations: times are fitted to the authors' published profile",
    ),
    Claim(
        what="Table 3: parameters of AlexNet, ResNet-50, VGG-19 and SSD, in MB",
        paper=(61.10, 25.56, 143.67, 26.29),
        ours=_parameters,
        form="{:.1f}, {:.1f}, {:.1f}, {:.1f}",
        not_comparable="taken from the paper, as millions of parameters, for the memory of the models",
    ),
)
"""Claims of the text and of Table 3 about the workloads and their models."""
