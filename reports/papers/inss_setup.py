"""Numbers of InSS that no figure has: its experiment's setup, the agent's settings, and its baselines' plans."""

import math
from collections import Counter

from bench.ledger.row import Row
from bench.plan_simulation import Settings
from instances.catalogue import gpu_type
from reports.claim import TAKEN_FROM_PAPER, Claim, Values, query
from reports.papers.inss_agent import SECONDS
from reports.papers.inss_clusters import SMALL_CLUSTER, VARIANTS, rows_of
from reports.papers.inss_schedulers import EIGHT_MODELS
from reports.runs import MissingDataError, Runs, the_instance

_MODELS = ("alexnet", "resnet50", "vgg16", "mnasnet", "mobilenet", "efficientnet", "resnet18", "vgg19")
"""Models in the order in which Sec. 6.1 lists their SLOs."""

_CHANNELS, _VALUE_BYTES = 3, 4
"""Channels of an image, and bytes of a value (single precision)."""

_GPULET_NEEDS_AND_LABELS = ((SMALL_CLUSTER, "gpulet"), (VARIANTS, EIGHT_MODELS))
"""Runs of gpulet: with ten models, and with eight."""


def _slos_ms(_: Runs) -> Values:
    slo_ms = {workload.model: workload.slo_ms for workload in the_instance("4gpu").workloads}
    return tuple(slo_ms[model] for model in _MODELS)


def _choices(_: Runs) -> Values:
    """Return the shares of an A100 that can be allocated, and the smallest of the models' largest batches."""
    gpu = gpu_type("a100-inss")
    return gpu.share_units, min(model.max_batch for model in gpu.models.values())


def _coefficients(_: Runs) -> Values:
    """Return the number of coefficients of a model's utilisations, and of its growths."""
    model = gpu_type("a100-inss").model("resnet50")
    solo = model.profiled("a100-inss")
    return len(solo.l2) + len(solo.dram), len(model.inss or ())


@query
def _of_printed_agent(_: Runs, only_layers: bool = False) -> Values:
    """Return the settings of the agent as printed, in the order of Table 2 and Sec. 6.1.

    With ``only_layers``, return the number of layers of its networks, and the number of hidden ones among them.

    Raises
    ------
    MissingDataError
        If PyTorch is not installed.
    """
    try:
        from rl.printed import layers, printed_settings
    except ImportError:
        raise MissingDataError("no PyTorch") from None
    return layers() if only_layers else printed_settings()


def _image(_: Runs) -> Values:
    """Return the pixels in a row of an image, those in a column, and its channels; all models have the same input."""
    (input_bytes,) = {model.input_bytes for model in gpu_type("a100-inss").models.values()}
    pixels = math.isqrt(input_bytes // (_CHANNELS * _VALUE_BYTES))
    return pixels, input_bytes // (pixels * _CHANNELS * _VALUE_BYTES), _CHANNELS


def most_on_a_gpu(row: Row) -> int:
    """Return the largest number of workloads on one GPU of a run's plan; 0 without a plan."""
    return max(Counter(position for position, _ in _placed(row)).values(), default=0)


def divided_workloads(row: Row) -> int:
    """Return the number of workloads that a run's plan serves on more than one GPU."""
    return sum(count > 1 for count in Counter(workload for _, workload in _placed(row)).values())


def _placed(row: Row) -> set[tuple[int, str]]:
    """Return every pair of a GPU's position and a workload on it; none without a plan."""
    return set() if row.plan is None else {(position, slot.workload) for position, _, slot in row.plan.slots()}


def planned_workloads(row: Row) -> int:
    """Return the number of workloads that a run's plan serves; 0 without a plan."""
    return len({workload for _, workload in _placed(row)})


def _planned_by_gpulet(runs: Runs) -> Values:
    """Return the number of workloads that gpulet's plan serves, of the ten on four GPUs."""
    return (max(map(planned_workloads, rows_of(runs, SMALL_CLUSTER, "gpulet"))),)


def _largest_of_gpulet(runs: Runs) -> Values:
    return tuple(
        max(map(most_on_a_gpu, rows_of(runs, *needs_and_label))) for needs_and_label in _GPULET_NEEDS_AND_LABELS
    )


def _divided_by_gpulet(runs: Runs) -> Values:
    return tuple(
        max(map(divided_workloads, rows_of(runs, *needs_and_label))) for needs_and_label in _GPULET_NEEDS_AND_LABELS
    )


def _gpus_with_free_share_of_igniter(runs: Runs) -> Values:
    """Return the number of GPUs in use on which iGniter leaves a share, and the number of GPUs in use."""
    (row,) = rows_of(runs, SMALL_CLUSTER, "igniter")
    gpus = () if row.plan is None else row.plan.gpus
    units = the_instance(row.instance).gpus[0].type.share_units
    return sum(sum(gpulet.share_units for gpulet in gpu.gpulets) < units for gpu in gpus), len(gpus)


SETUP = (
    Claim(
        what="Sec. 6.1: SLOs of AlexNet, ResNet50, VGG16, MnasNet, MobileNet, EfficientNet, ResNet18, VGG19",
        paper=(10, 35, 65, 10, 15, 30, 15, 80),
        ours=_slos_ms,
        form=", ".join(["{:g}"] * len(_MODELS)) + " ms",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="Sec. 6.1: pixels and channels of an image",
        paper=(224, 224, 3),
        ours=_image,
        form="{} × {}, {}",
        not_comparable=TAKEN_FROM_PAPER,
        note="the paper does not print the bytes of a value, which are those of single precision here",
    ),
    Claim(
        what="Sec. 2.3 and 3.4: portions of an A100, and largest batch",
        paper=(54, 32),
        ours=_choices,
        form="{}, {}",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="Sec. 3.2: length of an experiment",
        paper="several minutes",
        ours=lambda _: (Settings().seconds, SECONDS),
        form="{:g} s; {:g} s (Fig. 11)",
        not_comparable="an input, of which the paper gives only an example",
        note="Differences has the effect of a longer time",
    ),
    Claim(
        what="Sec. 4.1: coefficients of a model's L2 and DRAM utilisation, and of its growths",
        paper=(4, 2),
        ours=_coefficients,
        form="{}, {}",
        note="the four coefficients of the transfers on a GPU are one bandwidth here",
    ),
)
"""Claims of the text about the experiment's setup and the performance model."""

SETTINGS = (
    Claim(
        what="Table 2 and Sec. 6.1: settings of the agent as printed: E, T; buffer, mini-batch; ℓ', ℓ''; τ; κ', κ''; "
        "γ; σ_1, σ_2, c; ν; neurons; ω",
        paper=(1600, 100, 100_000, 256, 1e-4, 3e-4, 1.0, 0.01, 0.005, 0.99, 0.1, 0.2, 0.5, 2, 256, 40),
        ours=_of_printed_agent(),
        form="{:,}, {}; {:,}, {}; {:g}, {:g}; {:g}; {:g}, {:g}; {:g}; {:g}, {:g}, {:g}; {}; {}; {:g}",
        not_comparable=TAKEN_FROM_PAPER,
        note="the default training has other settings, see Differences",
    ),
    Claim(
        what="Sec. 6.1: layers of the networks, and hidden layers among them",
        paper=(4, 2),
        ours=_of_printed_agent(only_layers=True),
        form="{}, {}",
        not_comparable=TAKEN_FROM_PAPER,
    ),
)
"""Claims of the text about the agent's settings."""

BASELINE_PLANS = (
    Claim(
        what="Sec. 6.3: models of the ten that gpulet serves on four GPUs",
        paper=(8,),
        ours=_planned_by_gpulet,
        form="{}",
        reason="in gpulet's own papers, models take turns in a partition, as here; with one model in a partition and "
        "two partitions on a GPU, as in InSS, four GPUs have no room for more than eight",
        note="lines on eight models are of the instance with eight",
    ),
    Claim(
        what="Sec. 6.3: most models on one GPU by gpulet: of ten models, of eight",
        paper=(2, 2),
        ours=_largest_of_gpulet,
        form="{}, {}",
        reason="in gpulet's own papers, models take turns in a partition, as here; without turns, the eight models "
        "have no plan on four GPUs, see Differences",
    ),
    Claim(
        what="Constraint (1d): models that gpulet serves on more than one GPU: of ten models, of eight",
        paper=(0, 0),
        ours=_divided_by_gpulet,
        form="{}, {}",
        reason="in gpulet's own papers, a model may have several partitions, as here; with one partition for each "
        "model, there is no plan on four GPUs, see Differences",
    ),
    Claim(
        what="Sec. 6.3: GPUs of iGniter with an unallocated share",
        paper="almost every GPU",
        ours=_gpus_with_free_share_of_igniter,
        form="{} of {}",
        supports=lambda partly_free, used: partly_free >= used - 1,
        criterion="all but one at least",
        reason="cause not found",
    ),
)
"""Claims of the text about the plans of the baselines on four GPUs."""
