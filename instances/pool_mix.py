"""Family ``pool-mix``: workloads on a pool of any GPU types, with tight or loose SLOs and even or skewed rates."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from random import Random
from types import MappingProxyType

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.errors import FieldName, InputError, unknown_name
from instances.generate import Range, check_size
from instances.gpu import GpuType, Partition
from instances.instance import GpuPool, Instance, Objective
from instances.performance import performance_model as check_performance_model
from instances.workload import Workload

POOL_MIX = "pool-mix"
DESCRIPTION = (
    "the models that all GPU types of `pool` share; the first type serves any workload alone, the others perhaps not;"
    " `slo`, `rates`, `performance_model` and `models` vary it"
)

_COUNT = re.compile("[1-9][0-9]{0,5}")


class SloLaw(StrEnum):
    """Distribution of the SLOs, in multiples of the reference SLO of the model (``REFERENCES``).

    ``tight``: 1 to 1.5. ``loose``: 3 to 6. ``mixed``: each workload is tight or loose, equally likely.
    """

    MIXED = "mixed"
    TIGHT = "tight"
    LOOSE = "loose"


class RateLaw(StrEnum):
    """Distribution of the rates, in multiples of the reference rate of the model (``REFERENCES``).

    ``even``: uniform from 1/20 to 1/2. ``few-large``: one workload in eight from 1/2 to 1, the others from 1/50 to
    1/10. ``zipf``: from 1/50 to 1, bounded Pareto with exponent 1; the rate is inverse to the rank (Zipf's law).
    """

    EVEN = "even"
    FEW_LARGE = "few-large"
    ZIPF = "zipf"


# SLO in ms and rate in requests per second, by GPU type and model. The SLO is twice the time of a batch of 8, transfers
# included, on the whole GPU beside a neighbour without demands; the slowest performance model counts, and the SLO is
# rounded up. The rate is the largest that one GPU without neighbours serves within this SLO under every performance
# model and each of the rules half-slo, assembly and duty-cycle, rounded down to two digits. The numbers are constants,
# so that later fits of the catalogue do not change the workloads of this family.
REFERENCES: Mapping[str, Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "v100": {
            "alexnet": (4, 4600),
            "resnet50": (15, 1100),
            "vgg19": (31, 520),
            "ssd": (53, 310),
        },
        "t4": {
            "alexnet": (7, 2500),
            "resnet50": (30, 550),
            "vgg19": (64, 250),
            "ssd": (104, 150),
        },
        "a100": {
            "vgg16": (12, 1400),
            "vgg19": (16, 1300),
            "resnet50": (14, 1700),
            "resnet101": (23, 1000),
            "resnet152": (34, 820),
            "densenet121": (34, 1500),
            "densenet169": (46, 1200),
            "densenet201": (54, 930),
            "inception": (24, 2200),
            "mobilenet": (13, 3200),
        },
        "h100-sxm": {
            "vgg19": (8, 2300),
            "resnet50": (5, 3600),
            "alexnet": (2, 14000),
            "ssd": (12, 1300),
        },
        "a100-inss": {
            "resnet50": (15, 2100),
            "alexnet": (3, 8900),
            "vgg16": (11, 1500),
            "mnasnet": (10, 6100),
            "mobilenet": (7, 6600),
            "resnet18": (5, 4900),
            "vgg19": (15, 1400),
            "efficientnet": (23, 3400),
        },
        "rtx2080ti": {
            "googlenet": (20, 870),
            "lenet": (5, 12000),
            "resnet50": (37, 470),
            "ssd-mobilenet": (57, 290),
            "vgg16": (57, 350),
            "mnasnet": (16, 1100),
            "mobilenet": (16, 1100),
            "densenet161": (82, 200),
            "bert": (10, 1600),
        },
        "rtx2080ti-arxiv": {
            "lenet": (5, 12000),
            "googlenet": (15, 1100),
            "resnet50": (37, 490),
            "ssd-mobilenet": (44, 380),
            "vgg16": (57, 360),
        },
        "v100-rapp": {
            "convnext": (67, 250),
            "efficientnet": (61, 990),
            "googlenet": (51, 980),
            "inception": (47, 380),
            "lenet": (7, 53000),
            "mnasnet": (32, 1500),
            "mnasnet-wide": (32, 1300),
            "mobilenet": (25, 1600),
            "regnet": (105, 170),
            "resnet18": (22, 1800),
            "resnet50": (48, 630),
            "resnet101": (64, 340),
            "resnet152": (86, 210),
            "shufflenet-half": (24, 2300),
        },
    }
)

_LARGE = 1 / 8
"""Fraction of large workloads under ``few-large``."""


def parse_pool(text: str) -> tuple[GpuPool, ...]:
    """Return the pool that a text such as ``v100,t4:8`` describes: any number of V100s and 8 T4s.

    Raises
    ------
    InputError
        If a type is unknown, cut into MIG instances or named twice, or a count is not a whole number from 1 to 999,999.
    """
    pools: dict[str, GpuPool] = {}
    for part in text.split(","):
        name, colon, count = (piece.strip() for piece in part.partition(":"))
        if not name or (colon and not _COUNT.fullmatch(count)):
            expected = "expected TYPE or TYPE:COUNT with a count from 1 to 999,999, such as v100,t4:8"
            raise InputError(FieldName("pool"), f'"{part}" is no pool of GPUs; {expected}')
        if name in pools:
            raise InputError(FieldName("pool"), f'names "{name}" twice; expected each GPU type once')
        gpu = gpu_type(name, FieldName("pool"))
        if gpu.partition is not Partition.SHARES:
            raise InputError(FieldName("pool"), f"{name} is cut into MIG instances; expected {', '.join(REFERENCES)}")
        pools[name] = GpuPool(gpu, int(count) if colon else None)
    return tuple(pools.values())


def models_of(pool: Sequence[GpuPool], requested: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the models of a mix: the ``requested`` models, or all models that every GPU type of the pool has.

    Raises
    ------
    InputError
        If a GPU type lacks a requested model, or the types have no model in common.
    """
    for model in requested:
        for offer in pool:
            offer.type.check_model(model, FieldName("models"))
    first, *others = [offer.type for offer in pool]
    mix_models = tuple(dict.fromkeys(requested)) or tuple(
        model for model in first.models if all(model in gpu.models for gpu in others)
    )
    if not mix_models:
        types = ", ".join(offer.type.name for offer in pool)
        problem = "have no model in common" if others else "has no models"
        raise InputError(
            FieldName("pool"), f"{types} {problem}; the models of this family are those of {', '.join(REFERENCES)}"
        )
    return mix_models


def pool_mix(
    size: int,
    seed: int,
    pool: str | Sequence[GpuPool] = "v100",
    *,
    slo: str = SloLaw.MIXED,
    rates: str = RateLaw.EVEN,
    performance_model: str = "igniter",
    models: Sequence[str] = (),
    objective: Objective = Objective.COST,
    slo_rule: SloRule = SloRule.HALF_SLO,
    name: str | None = None,
) -> Instance:
    """Draw an instance of the family.

    The random numbers of each workload depend only on ``size`` and ``seed``. The workloads also depend on the first GPU
    type and the models to draw from. If all these are fixed, ``slo`` changes only the SLOs and ``rates`` only the
    rates; the other options change no workload.

    Parameters
    ----------
    size
        Number of workloads, 1 to ``MOST_WORKLOADS``; their models are drawn uniformly.
    seed
        The same seed and options give the same workloads in every version and on every platform.
    pool
        GPU types and counts, or a text for ``parse_pool``. The first type sets the reference SLOs and rates; one GPU
        of it serves any workload alone, under every performance model and the rules ``half-slo``, ``assembly`` and
        ``duty-cycle``.
    slo, rates
        Members of ``SloLaw`` and ``RateLaw``.
    models
        Models to draw from; by default all models that every GPU type of the pool has.
    name
        Name of the instance; by default it consists of the options.

    Raises
    ------
    InputError
        If an option is unknown or out of range, the pool lacks the models, or the objective needs counts of GPUs that
        the pool does not have.
    """
    check_size(size)
    check_performance_model(performance_model, FieldName("performance_model"))
    gpus = parse_pool(pool) if isinstance(pool, str) else tuple(pool)
    mix_models = models_of(gpus, models)
    if slo not in list(SloLaw):
        raise unknown_name(FieldName("slo"), "distribution of the SLOs", slo, list(SloLaw))
    if rates not in list(RateLaw):
        raise unknown_name(FieldName("rates"), "distribution of the rates", rates, list(RateLaw))
    unlimited = next((offer.type.name for offer in gpus if offer.count is None), None)
    if unlimited is not None and objective != Objective.COST:
        raise InputError(
            FieldName("pool"), f"has no count for {unlimited}; {objective} requires one, such as {unlimited}:8"
        )
    options = [
        "-".join(offer.type.name + ("" if offer.count is None else f"x{offer.count}") for offer in gpus),
        *(str(law) for law, default in ((slo, SloLaw.MIXED), (rates, RateLaw.EVEN)) if law != default),
        *([performance_model] if performance_model != "igniter" else []),
        *models,
    ]
    return Instance(
        name=name or f"{POOL_MIX}-{size}-s{seed}-{'-'.join(options)}",
        objective=objective,
        slo_rule=slo_rule,
        performance_model=performance_model,
        gpus=gpus,
        workloads=_workloads(size, seed, gpus[0].type, mix_models, SloLaw(slo), RateLaw(rates)),
        seed=seed,
        provenance=(
            f"generated: family {POOL_MIX}, {size} workloads of {', '.join(mix_models)}, seed {seed},"
            f" SLOs and rates for {gpus[0].type.name}: {slo}, {rates}"
        ),
    )


def _workloads(
    size: int, seed: int, reference: GpuType, models: Sequence[str], slo: SloLaw, rates: RateLaw
) -> tuple[Workload, ...]:
    random = Random(f"{POOL_MIX}/{size}/{seed}").random  # this sequence is the same in every version of Python
    references = REFERENCES[reference.name]
    workloads = []
    for position in range(size):
        model_draw, tight_draw, slo_draw, large_draw, rate_draw = random(), random(), random(), random(), random()
        model = models[int(model_draw * len(models))]
        slo_ms, rate_rps = references[model]
        tight = tight_draw < 0.5 if slo is SloLaw.MIXED else slo is SloLaw.TIGHT
        slo_range = Range(slo_ms, slo_ms * 3 // 2) if tight else Range(slo_ms * 3, slo_ms * 6)
        workload_rps = _rate_rps(rates, large_draw < _LARGE, rate_draw, rate_rps)
        workloads.append(Workload(f"w{position + 1}", model, float(slo_range.at(slo_draw)), float(workload_rps)))
    return tuple(workloads)


def _rate_rps(rates: RateLaw, large: bool, draw: float, reference_rps: int) -> int:
    """Return the rate at a random number ``draw`` from 0 to below 1; ``large`` matters under ``few-large`` only."""
    if rates is RateLaw.EVEN:
        return Range(reference_rps // 20, reference_rps // 2).at(draw)
    least_rps = reference_rps // 50
    if rates is RateLaw.ZIPF:
        # Inverse of the distribution function (1 - least_rps / rate) / (1 - least_rps / reference_rps)
        return int(least_rps * reference_rps / (reference_rps - draw * (reference_rps - least_rps)))
    return (Range(reference_rps // 2, reference_rps) if large else Range(least_rps, reference_rps // 10)).at(draw)
