"""Numbers of MediatorDNN that no figure has: Tables I to III, the GPU, and the length of a profile."""

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from instances.colocation import WINDOW_MS, WINDOWS
from instances.instance import Instance
from instances.memory import CONTEXT_MIB
from instances.suites.mediator import DEVIATION, GAP_AND_BATCH, IMAGE_DNNS, PAIRED_STAND_INS, STAND_INS
from instances.view import View
from reports.claim import TAKEN_FROM_PAPER, Claim, Values
from reports.runs import Runs, the_instance

FORTY, PAIRED = "mediator-40-s0", "mediator-pairs-s0"

STAND_INS_OF = {FORTY: STAND_INS, PAIRED: PAIRED_STAND_INS}
"""Stand-ins of the DNNs on the two instances: launches take turns, or run as measured in pairs."""

STAND_INS_NOTE = "Models of the catalogue stand in for some DNNs, on a V100: `bench show mediator-40-s0`."
"""Note below drawings of the jobs on the V100."""

TABLE_III = (1, 4, 8, 12, 19, 20, 24, 30, 36, 40)
"""Numbers of the jobs of Table III."""

COMPLEXITY = {
    "Inc-V1": 13.22,
    "Inc-V2": 22.34,
    "Inc-V3": 54.25,
    "Inc-V4": 91.95,
    "MobV1-1": 8.42,
    "MobV1-05": 2.64,
    "MobV1-025": 0.93,
    "MobV2-1": 6.94,
    "MobV2-14": 12.12,
    "NAS-Large": 177.12,
    "NAS-Mob": 10.51,
    "PNAS-Large": 171.77,
    "PNAS-Mob": 10.06,
    "ResV2-50": 51.01,
    "ResV2-101": 88.89,
    "ResV2-152": 120.08,
}
"""Computational complexity of the image classifiers in "Mega FLOPs" (Table II)."""

_MIB_PER_MILLION = 4e6 / 2**20
"""Memory of a million parameters in single precision."""


@cache
def view(name: str = FORTY) -> View:
    """Return the view of an instance of the jobs, which has one GPU type."""
    instance = the_instance(name)
    return View.of(instance, instance.gpus[0].type)


def _moments(values: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation of a distribution."""
    mean = float(np.average(values, weights=weights))
    return mean, math.sqrt(float(np.average((np.array(values) - mean) ** 2, weights=weights)))


def gaps_and_batches(number: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return mean and deviation of the gaps between the batches of a job, and of the batches."""
    job = the_instance(FORTY).jobs[number - 1]
    return _moments(job.interarrival_ms, job.interarrival_weights), _moments(job.batches, job.batch_weights)


def _means_apart(_: Runs) -> Values:
    """Return the largest difference of a mean gap and of a mean batch from Tables I and III, in percent."""
    apart = [
        [
            abs(moments[0] / printed - 1.0)
            for moments, printed in zip(gaps_and_batches(number), GAP_AND_BATCH[number], strict=True)
        ]
        for number in (*TABLE_III, *DEVIATION)
    ]
    return tuple(100.0 * max(column) for column in zip(*apart, strict=True))


def _deviations(_: Runs) -> Values:
    """Return the deviations of the gaps, then of the batches, of the three jobs of Table I."""
    both = [gaps_and_batches(number) for number in DEVIATION]
    return (*(gap[1] for gap, _ in both), *(batch[1] for _, batch in both))


def complexity_ratios(instance: Instance, stand_ins: Mapping[str, str]) -> list[float]:
    """Return the complexity of each image classifier's stand-in over the printed complexity of the classifier.

    The printed complexity is twice the number of parameters in millions.
    """
    models = instance.gpus[0].type.models
    millions = {name: (model.memory_base_mib - CONTEXT_MIB) / _MIB_PER_MILLION for name, model in models.items()}
    return [2.0 * millions[stand_ins[dnn]] / printed for dnn, printed in COMPLEXITY.items()]


def _complexities(_: Runs) -> Values:
    ratios = [complexity_ratios(the_instance(name), models) for name, models in STAND_INS_OF.items()]
    return tuple(function(values) for values in ratios for function in (min, max))


def _jobs(_: Runs) -> Values:
    """Return the number of image, text and video jobs."""
    jobs = the_instance(FORTY).jobs
    images = 2 * len(IMAGE_DNNS)
    texts = sum(job.model == STAND_INS["TextClassif"] for job in jobs[images:])
    return images, texts, len(jobs) - images - texts


def _requests(_: Runs) -> Values:
    """Return the mean number of requests of an image job in the simulated time: the least, the mean and the largest."""
    seconds = WINDOWS * WINDOW_MS / 1000.0
    requests = [seconds * job.rate_rps for job in the_instance(FORTY).jobs[: 2 * len(IMAGE_DNNS)]]
    return min(requests), sum(requests) / len(requests), max(requests)


def _memory(_: Runs) -> Values:
    return tuple(the_instance(name).gpus[0].type.memory_mib / 1024.0 for name in (FORTY, PAIRED))


_DEVIATIONS = tuple(deviation for column in zip(*DEVIATION.values(), strict=True) for deviation in column)

SETUP = (
    Claim(
        what="Sec. IV-A: number of image, text and video jobs",
        paper=(32, 4, 4),
        ours=_jobs,
        form="{}, {}, {}",
        not_comparable=TAKEN_FROM_PAPER,
        note="`mediator-pairs` has the image jobs alone",
    ),
    Claim(
        what="Tables I and III: largest difference of a job's mean gap and mean batch from the print",
        paper="means of thirteen jobs",
        ours=_means_apart,
        form="{:.2f} %, {:.2f} %",
        not_comparable=TAKEN_FROM_PAPER,
        note="batches are whole numbers, and gaps have one decimal",
    ),
    Claim(
        what="Table I: deviations of gaps (ms) and of batches by Inception-V3, NASNet-Large and PNASNet-Mobile",
        paper=_DEVIATIONS,
        ours=_deviations,
        form="{:.2f}, {:.2f}, {:.2f}; {:.2f}, {:.2f}, {:.2f}",
        not_comparable=TAKEN_FROM_PAPER,
        note="a job has few different gaps and batches, which vary less",
    ),
    Claim(
        what="Table II: complexity of a stand-in over that of its DNN, least and largest; `mediator-40`, then "
        "`mediator-pairs`",
        paper=f"{min(COMPLEXITY.values()):g} to {max(COMPLEXITY.values()):g} Mega FLOPs",
        ours=_complexities,
        form="{:.2f}, {:.2f}; {:.2f}, {:.2f}",
        not_comparable="no times of the other DNNs are published; what the table calls complexity is twice the number "
        "of parameters",
    ),
    Claim(
        what="Table II: images of a data set; requests of an image job in a simulation: least, mean, most",
        paper="20,000",
        ours=_requests,
        form="{:,.0f}; {:,.0f}; {:,.0f}",
        not_comparable="the paper does not state how long it runs the jobs",
    ),
    Claim(
        what="Sec. IV-A: memory of the GPU; `mediator-40` and `mediator-pairs`",
        paper="24 GB (Tesla P40)",
        ours=_memory,
        form="{:g} GiB (V100), {:g} GiB (A100)",
        not_comparable="no times on a Tesla P40 are published",
    ),
    Claim(
        what="Sec. IV-B: length of a job's profile",
        paper=(200.0,),
        ours=lambda _: (WINDOWS * WINDOW_MS / 1000.0,),
        form="{:g} s",
        not_comparable=TAKEN_FROM_PAPER,
    ),
)
"""Rows of the text and of the tables about the jobs, their DNNs and the GPU."""
