"""gpulet's workloads (arXiv'21 and ATC'22): nine models on four RTX 2080 Ti; the objective is the largest scale.

The SLOs of each version are twice the times of a batch of 32 on its own testbed. The versions therefore have different
GPU types: the arXiv version measured shorter times with an older PyTorch (Tables 3 and 4).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.instance import GpuPool, Instance, Objective, ScenarioSet
from instances.workload import Application, Workload

_GPUS = 4

ASSEMBLED_MS = {"lenet": 0.4, "bert": 1.0}
"""Times to assemble a batch of any size, constants of the published scheduler (casys-kaist/glet)."""

IMAGE_FACTOR, LARGE_IMAGE_FACTOR = 1.9, 2.5
"""Factors of the published scheduler on the times to assemble a batch of 3 x 224 x 224 and of 3 x 300 x 300 inputs."""

ATC_SLO_MS = {
    "googlenet": 66.0,
    "lenet": 5.0,
    "resnet50": 108.0,
    "ssd-mobilenet": 202.0,
    "vgg16": 142.0,
    "mnasnet": 62.0,
    "mobilenet": 64.0,
    "densenet161": 202.0,
    "bert": 22.0,
}
"""SLOs of gpulet ATC'22, Table 3."""

ARXIV_SLO_MS = {"lenet": 5.0, "googlenet": 44.0, "resnet50": 95.0, "ssd-mobilenet": 136.0, "vgg16": 130.0}
"""SLOs of gpulet arXiv'21, Table 4, in the order of Table 5."""

_ARXIV_RPS = {
    "equal": (50.0, 50.0, 50.0, 50.0, 50.0),
    "long-only": (0.0, 0.0, 100.0, 100.0, 100.0),
    "short-skew": (100.0, 100.0, 100.0, 50.0, 50.0),
}
"""Rates of the models of ``ARXIV_SLO_MS``, in their order (gpulet arXiv'21, Table 5)."""

GROUPS = (
    ("mobilenet", "bert", "mnasnet", "googlenet"),
    ("densenet161", "vgg16"),
    ("mobilenet", "resnet50", "vgg16"),
    ("ssd-mobilenet", "mnasnet", "densenet161"),
    ("lenet", "ssd-mobilenet", "mnasnet", "vgg16"),
)
"""Groups of models in gpulet ATC'22, Table 4, from small memory footprints to large ones."""

PAIRS = (("ssd-mobilenet", "bert"), ("resnet50", "vgg16"), ("googlenet", "mobilenet"), ("mnasnet", "densenet161"))
"""Pairs of models in gpulet ATC'22, Fig. 6."""

# Model of each stage of the applications, and pairs (before, after) of stages
_GAME = {**{f"lenet-{position}": "lenet" for position in range(1, 7)}, "resnet50": "resnet50"}
_TRAFFIC = {model: model for model in ("ssd-mobilenet", "googlenet", "vgg16")}
_TRAFFIC_EDGES = (("ssd-mobilenet", "googlenet"), ("ssd-mobilenet", "vgg16"))


class _StagedApplication(NamedTuple):
    """An application with an SLO for each stage.

    Attributes
    ----------
    models, slos_ms
        Model and SLO of each stage, by stage.
    edges, slo_ms
        Pairs (before, after) of stages, and SLO of the whole application.
    section, slo_source
        Section of the paper, and source of the stages' SLOs in words.
    """

    models: Mapping[str, str]
    edges: tuple[tuple[str, str], ...]
    slo_ms: float
    slos_ms: Mapping[str, float]
    section: str
    slo_source: str


def _of_models(models: Mapping[str, str], slo_ms: Mapping[str, float]) -> dict[str, float]:
    """Return for each stage the SLO of its model."""
    return {stage: slo_ms[model] for stage, model in models.items()}


_ATC, _ARXIV = "ATC '22, Sec. 5.1", "arXiv, Sec. 6.1"
_TASK_FILES = "of the authors' task files (casys-kaist/glet, scripts/createMultiModelAppConfigs.py)"
_APPLICATION_FILES = "of the authors' application files (casys-kaist/glet, resource/config)"
# SLOs of the stages in these files; the names have the application's SLO.
_ALL_108_MS, _ALL_95_MS = dict.fromkeys(_GAME, 108.0), dict.fromkeys(_GAME, 95.0)
_IN_202_MS = {"ssd-mobilenet": 90.0, "googlenet": 112.0, "vgg16": 112.0}
_IN_136_MS = {"ssd-mobilenet": 69.0, "googlenet": 67.0, "vgg16": 67.0}

_APPLICATIONS: Mapping[str, _StagedApplication] = {
    "game": _StagedApplication(_GAME, (), 108.0, _ALL_108_MS, _ATC, _TASK_FILES),
    "traffic": _StagedApplication(_TRAFFIC, _TRAFFIC_EDGES, 202.0, _IN_202_MS, _ATC, _TASK_FILES),
    "arxiv-game": _StagedApplication(_GAME, (), 95.0, _ALL_95_MS, _ARXIV, _APPLICATION_FILES),
    "arxiv-traffic": _StagedApplication(_TRAFFIC, _TRAFFIC_EDGES, 136.0, _IN_136_MS, _ARXIV, _APPLICATION_FILES),
    "game-table3": _StagedApplication(_GAME, (), 108.0, _of_models(_GAME, ATC_SLO_MS), _ATC, "of Table 3"),
    "traffic-table3": _StagedApplication(
        _TRAFFIC, _TRAFFIC_EDGES, 202.0, _of_models(_TRAFFIC, ATC_SLO_MS), _ATC, "of Table 3"
    ),
    "game-table4": _StagedApplication(_GAME, (), 95.0, _of_models(_GAME, ARXIV_SLO_MS), _ARXIV, "of Table 4"),
    "traffic-table4": _StagedApplication(
        _TRAFFIC, _TRAFFIC_EDGES, 136.0, _of_models(_TRAFFIC, ARXIV_SLO_MS), _ARXIV, "of Table 4"
    ),
}

_EQUAL_RPS = 100.0
"""Rate of each model if the paper states equal rates without a number; the objective scales the rate."""


_ATC_GPU, _ARXIV_GPU = "rtx2080ti", "rtx2080ti-arxiv"


def _instance(
    name: str, workloads: tuple[Workload, ...], source: str, gpus: int = _GPUS, gpu: str = _ATC_GPU
) -> Instance:
    """Return the instance of these workloads under the objective ``scale``."""
    return Instance(
        name=name,
        objective=Objective.SCALE,
        slo_rule=SloRule.DUTY_CYCLE,
        performance_model="gpulet",
        gpus=(GpuPool(gpu_type(gpu), gpus),),
        workloads=workloads,
        provenance=source,
    )


def scenario(number: int) -> tuple[Instance, ...]:
    """Return one of ``gpulet-scen1`` to ``gpulet-scen5``: models by memory footprint, equal rates (ATC'22, Table 4)."""
    workloads = tuple(Workload(model, model, ATC_SLO_MS[model], _EQUAL_RPS) for model in GROUPS[number - 1])
    source = (
        f"gpulet, ATC '22, Table 4, scen{number}; SLOs of Table 3; rates equal, of {_EQUAL_RPS:g} req/s times the scale"
    )
    return (_instance(f"gpulet-scen{number}", workloads, source),)


def scenario_on_eight() -> tuple[Instance, ...]:
    """Return ``gpulet-scen3-8gpu``: scenario 3 on eight GPUs, as in the paper's test of changing load (Fig. 15)."""
    (instance,) = scenario(3)
    (pool,) = instance.gpus
    source = f"{instance.provenance}; eight GPUs as in Fig. 15"
    return (replace(instance, name="gpulet-scen3-8gpu", gpus=(replace(pool, count=8),), provenance=source),)


def pairs() -> tuple[Instance, ...]:
    """Return ``gpulet-pair1`` to ``gpulet-pair4``: two models each, equal rates, on two GPUs (ATC'22, Fig. 6)."""
    source = "gpulet, ATC '22, Sec. 3.3 and Fig. 6, pair {}; SLOs of Table 3; ours: that both rates are equal"
    return tuple(
        _instance(
            f"gpulet-pair{number}",
            tuple(Workload(model, model, ATC_SLO_MS[model], _EQUAL_RPS) for model in models),
            source.format(number),
            gpus=2,
        )
        for number, models in enumerate(PAIRS, start=1)
    )


def application(name: str) -> tuple[Instance, ...]:
    """Return ``gpulet-game`` or ``gpulet-traffic``, or with the prefix ``arxiv-`` under the SLOs of arXiv'21.

    Every stage is a workload of its own (ATC'22, Sec. 5.1; arXiv'21, Sec. 6.1). The papers print no SLOs of stages. By
    default they are those of the files that the authors published: all stages of ``game`` have the application's SLO,
    and the SLOs of the two steps of ``traffic`` add up to the application's SLO. With the suffix ``-table3`` (arXiv'21:
    ``-table4``), a stage has the SLO that the table prints for its model.

    ``game`` has six LeNets and a ResNet-50 for each frame; they run in parallel. In ``traffic``, SSD-MobileNet detects
    objects, and GoogLeNet and VGG-16 then classify them. Under the SLOs of the tables, the two steps together may take
    longer than the application's SLO. Only a simulation checks the application's SLO.
    """
    stages = _APPLICATIONS[name]
    workloads = tuple(
        Workload(stage, model, stages.slos_ms[stage], _EQUAL_RPS) for stage, model in stages.models.items()
    )
    title = name.removeprefix("arxiv-").partition("-")[0]
    source = (
        f"gpulet, {stages.section}, {title}, of the models that arXiv, Sec. 6.1, names: every stage at"
        f" {_EQUAL_RPS:g} req/s times the scale under its SLO {stages.slo_source};"
        f" the end-to-end SLO of {stages.slo_ms:g} ms is simulated, not judged"
    )
    end_to_end = Application(title, tuple(stages.models), stages.edges, stages.slo_ms)
    gpu = _ARXIV_GPU if stages.section == _ARXIV else _ATC_GPU
    return (replace(_instance(f"gpulet-{name}", workloads, source, gpu=gpu), applications=(end_to_end,)),)


def by_rates(name: str) -> tuple[Instance, ...]:
    """Return ``gpulet-equal``, ``gpulet-long-only`` or ``gpulet-short-skew`` (arXiv'21, Table 5)."""
    workloads = tuple(
        Workload(model, model, slo_ms, rate_rps)
        for (model, slo_ms), rate_rps in zip(ARXIV_SLO_MS.items(), _ARXIV_RPS[name], strict=True)
        if rate_rps > 0.0
    )
    source = f"gpulet, arXiv, Table 5, {name}; SLOs of Table 4"
    return (_instance(f"gpulet-{name}", workloads, source, gpu=_ARXIV_GPU),)


def scenarios_1023() -> ScenarioSet:
    """Return all combinations of 0, 200, 400 or 600 requests/s for five models, except all 0 (arXiv'21, Sec. 3.1)."""
    rates_rps, source = (0.0, 200.0, 400.0, 600.0), "gpulet, arXiv, Sec. 3.1; SLOs of Table 4"
    return _all_rates("gpulet-1023", ARXIV_SLO_MS, rates_rps, source, _ARXIV_GPU)


def scenarios_19682() -> ScenarioSet:
    """Return all combinations of 0, 100 or 200 requests/s for nine models, except all 0 (ATC'22, Sec. 3.2)."""
    return _all_rates("gpulet-19682", ATC_SLO_MS, (0.0, 100.0, 200.0), "gpulet, ATC '22, Sec. 3.2; SLOs of Table 3")


def every_eleventh(name: str, build: Callable[[], ScenarioSet]) -> ScenarioSet:
    """Return every eleventh scenario; as 11 is coprime to 3 and 4, each model has all rates about equally often."""
    scenarios = build()
    return ScenarioSet(replace(scenarios.base, name=name), scenarios.rates_rps[::11])


def _all_rates(
    name: str, slo_ms: Mapping[str, float], rates_rps: tuple[float, ...], source: str, gpu: str = _ATC_GPU
) -> ScenarioSet:
    """Return all combinations of rates except all 0; the last model's rate changes fastest.

    Under the objective ``cost``, a scheduler only has to decide whether the pool can serve a scenario's rates.
    """
    workloads = tuple(Workload(model, model, slo, rates_rps[-1]) for model, slo in slo_ms.items())
    base = replace(_instance(name, workloads, source, gpu=gpu), objective=Objective.COST)
    return ScenarioSet(base, np.array(list(product(rates_rps, repeat=len(workloads)))[1:]))
