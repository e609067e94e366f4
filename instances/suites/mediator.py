"""MediatorDNN's forty best-effort jobs (Sec. IV-A), with the DNN, batches and gaps of each.

``mediator-40`` has all jobs, on times that RaPP measured on a V100 for most of the DNNs; jobs take turns.
``mediator-pairs`` has the thirty-two image jobs on an A100, some of whose CNNs were measured in pairs; jobs run at the
same time, with the slowdowns that a fit to these pairs predicts.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from math import log, sqrt
from random import Random
from statistics import NormalDist
from typing import Any

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.instance import GpuPool, Instance, Objective
from instances.workload import Job

SEEDS = range(5)

IMAGE_DNNS = (
    "Inc-V1",
    "Inc-V2",
    "Inc-V3",
    "Inc-V4",
    "MobV1-1",
    "MobV1-05",
    "MobV1-025",
    "MobV2-1",
    "MobV2-14",
    "NAS-Large",
    "NAS-Mob",
    "PNAS-Large",
    "PNAS-Mob",
    "ResV2-50",
    "ResV2-101",
    "ResV2-152",
)
"""DNNs of Table II. Each DNN runs with both data sets: as jobs 1 to 16 and as jobs 17 to 32, by Table III."""

DNNS = (*IMAGE_DNNS, *IMAGE_DNNS, *("TextClassif",) * 4, *("DeepVS",) * 4)
"""DNNs of jobs 1 to 40."""

STAND_INS: Mapping[str, str] = {
    "Inc-V1": "googlenet",
    "Inc-V2": "resnet18",
    "Inc-V3": "inception",
    "Inc-V4": "resnet101",
    "MobV1-1": "mnasnet",
    "MobV1-05": "shufflenet-half",
    "MobV1-025": "shufflenet-half",
    "MobV2-1": "mobilenet",
    "MobV2-14": "mnasnet-wide",
    "NAS-Large": "convnext",
    "NAS-Mob": "efficientnet",
    "PNAS-Large": "regnet",
    "PNAS-Mob": "efficientnet",
    "ResV2-50": "resnet50",
    "ResV2-101": "resnet101",
    "ResV2-152": "resnet152",
    "TextClassif": "lenet",
    "DeepVS": "googlenet",
}
"""Models of ``v100-rapp`` for the paper's DNNs; the paper's GPU is a Tesla P40.

GoogLeNet, Inception-V3 and MobileNetV2 are the paper's networks; the ResNets are their first versions. Any other image
classifier is replaced by the model with the nearest number of parameters, by ratio; the "complexity" in Table II is
twice this number in millions. The paper states no number for TextClassif and DeepVS. The smallest CNN stands
in for TextClassif. GoogLeNet, the model of YOLO's network, stands in for DeepVS, which detects objects in frames.
"""

PAIRED_STAND_INS: Mapping[str, str] = {
    "Inc-V1": "densenet121",
    "Inc-V2": "densenet169",
    "Inc-V3": "inception",
    "Inc-V4": "resnet101",
    "MobV1-1": "mobilenet",
    "MobV1-05": "mobilenet",
    "MobV1-025": "mobilenet",
    "MobV2-1": "mobilenet",
    "MobV2-14": "densenet121",
    "NAS-Large": "resnet152",
    "NAS-Mob": "mobilenet",
    "PNAS-Large": "resnet152",
    "PNAS-Mob": "mobilenet",
    "ResV2-50": "resnet50",
    "ResV2-101": "resnet101",
    "ResV2-152": "resnet152",
}
"""Models of ``a100`` for the paper's image classifiers, by the same rule.

Slowdowns beside others were measured for VGG-19, DenseNet-121 and ResNet-50 only. Inception-V3 and MobileNet were
measured as neighbours only. Models without measured slowdowns have the average slowdown of the three
(``instances.performance.company_fit``).
"""

GAP_AND_BATCH: Mapping[int, tuple[float, float]] = {
    1: (168.0, 17.0),
    3: (206.85, 31.52),
    4: (299.0, 39.0),
    8: (295.0, 28.0),
    10: (382.89, 23.08),
    12: (111.0, 36.0),
    13: (195.02, 13.23),
    19: (459.0, 6.0),
    20: (439.0, 11.0),
    24: (357.0, 1.0),
    30: (202.0, 32.0),
    **dict.fromkeys(range(33, 37), (64.0, 512.0)),
    **dict.fromkeys(range(37, 41), (299.0, 4.0)),
}
"""Mean gap between batches in ms, and mean batch, of the jobs that the paper describes.

The sources are Table III and, for jobs 3, 10 and 13, Table I, whose three rows name DNNs instead of job numbers.
The paper describes one text job, 36, and one video job, 40; the other text and video jobs are like these."""

DEVIATION: Mapping[int, tuple[float, float]] = {3: (14.47, 2.03), 10: (19.66, 14.05), 13: (13.93, 14.82)}
"""Standard deviations of gap and batch, of the jobs in Table I."""

_GAPS_MS = (111.0, 459.0)
_BATCHES = (1.0, 39.0)
"""Ranges of the mean gap and the mean batch of the image jobs in Table III."""

_GAP_VARIATION = (0.05, 0.07)
_BATCH_VARIATION = (0.06, 1.12)
"""Ranges of the coefficients of variation of gap and batch in Table I."""

_GAP_POINTS, _BATCH_POINTS = 8, 32
"""Number of equally likely values that stand for the distribution of a job's gaps, and of its batches."""


def forty_jobs() -> tuple[Instance, ...]:
    """Return ``mediator-40-s0`` to ``-s4``: the paper's jobs; numbers that the paper omits are drawn with the seed."""
    return tuple(_mix("mediator-40", seed, "v100-rapp", "gpulet", STAND_INS) for seed in SEEDS)


def image_jobs_in_pairs() -> tuple[Instance, ...]:
    """Return ``mediator-pairs-s0`` to ``-s4``: the image jobs of ``mediator-40``, with slowdowns fitted to pairs."""
    return tuple(_mix("mediator-pairs", seed, "a100", "hybrid", PAIRED_STAND_INS) for seed in SEEDS)


def _mix(name: str, seed: int, gpu: str, performance_model: str, stand_ins: Mapping[str, str]) -> Instance:
    jobs = _jobs(seed, stand_ins)
    return Instance(
        name=f"{name}-s{seed}",
        objective=Objective.COLOCATION,
        slo_rule=SloRule.HALF_SLO,  # of no effect: jobs have no SLO
        performance_model=performance_model,
        gpus=(GpuPool(gpu_type(gpu)),),
        workloads=(),
        jobs=jobs,
        seed=seed,
        provenance=f"MediatorDNN, Sec. IV-A: DNNs of Table II, batches and gaps of Tables I and III for "
        f"{_stated(len(jobs))} of {len(jobs)} jobs; the others' drawn from what these tables span (seed {seed}); "
        f"played: {', '.join(f'{dnn} by {model}' for dnn, model in stand_ins.items())}",
    )


def _stated(count: int) -> int:
    """Return for how many of the first ``count`` jobs the paper states means, among them one text and one video job."""
    stated_jobs = set(GAP_AND_BATCH) - {33, 34, 35, 37, 38, 39}
    return sum(number <= count for number in stated_jobs)


def _jobs(seed: int, stand_ins: Mapping[str, str]) -> tuple[Job, ...]:
    """Return the jobs whose DNNs have a stand-in."""
    random = Random(f"mediator-40/{seed}")
    jobs = []
    for number, dnn in enumerate(DNNS, start=1):
        # Every job draws all four numbers, so that stated numbers of one job do not change the draws of the others.
        drawn_means = [low + (high - low) * random.random() for low, high in (_GAPS_MS, _BATCHES)]
        variations = [low + (high - low) * random.random() for low, high in (_GAP_VARIATION, _BATCH_VARIATION)]
        means = GAP_AND_BATCH.get(number, drawn_means)
        gap_deviation, batch_deviation = DEVIATION.get(
            number, [mean * variation for mean, variation in zip(means, variations, strict=True)]
        )
        gaps = Counter(round(gap_ms, 1) for gap_ms in log_normal(means[0], gap_deviation, _GAP_POINTS))
        batches = Counter(max(1, round(size)) for size in log_normal(means[1], batch_deviation, _BATCH_POINTS))
        if means[1] == 1.0:  # the least batch is 1, so every batch is one request
            batches = Counter({1: 1})
        if dnn in stand_ins:
            weights = _weights(batches), _weights(gaps)
            jobs.append(Job(f"j{number}", stand_ins[dnn], tuple(batches), weights[0], tuple(gaps), weights[1]))
    return tuple(jobs)


def _weights(counts: Counter[Any]) -> tuple[float, ...]:
    return tuple(map(float, counts.values()))


def log_normal(mean: float, deviation: float, points: int) -> list[float]:
    """Return ``points`` equally likely values of a log-normal distribution: the means of equally likely ranges."""
    sigma = sqrt(log(1.0 + (deviation / mean) ** 2))
    normal = NormalDist()
    # Fraction of the mean that values below each quantile contribute
    below = [0.0, *(normal.cdf(normal.inv_cdf(i / points) - sigma) for i in range(1, points)), 1.0]
    return [mean * points * (high - low) for low, high in pairwise(below)]
