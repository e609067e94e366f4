"""Schedulers of InSS's figures of decision time, throughput and GPU usage, as implemented here."""

from collections.abc import Mapping
from dataclasses import replace

from bench.evaluation import SIMULATED
from reports.need import Need

TRAININGS = range(5)
"""Training seeds of the shipped policies of InSS's agent."""

PRINTED_AGENT = "ts, as printed"
LIKELIEST = "ts, likeliest decision"
BLIND_AGENT = "ts-ni"
EIGHT_MODELS = "gpulet, eight models"
"""Labels of variants of the agent and of gpulet; ``ts-ni`` (InSS-ni) is blind to interference."""

NeedsByLabel = Mapping[str, tuple[Need, ...]]
"""Needs by label; a bar or line shows their mean. The agent has a need for each training, any other label one need."""

_ELASTIC = "elastic-partitioning"
_LONG_LIMIT_S = 120.0


def agent_needs(template: Need) -> NeedsByLabel:
    """Return the needs of InSS's agent on the instances and under the conditions of ``template``."""
    return {"ts": _trainings("ts", template)}


def timed_needs(template: Need) -> NeedsByLabel:
    """Return the needs of decision times: five trainings of the agent, three repeats of each baseline."""
    return {**agent_needs(template), **baseline_needs(replace(template, seeds=(0, 1, 2)))}


def agent_variant_needs(template: Need) -> NeedsByLabel:
    """Return the needs of the agent's variants: its likeliest decision, the agent as printed, and InSS-ni."""
    printed = replace(template, schedulers=("ts",), parameters=("ts.published=true",))
    return {
        LIKELIEST: _trainings("ts", template, drawn=0),
        PRINTED_AGENT: (printed,),
        BLIND_AGENT: _trainings(BLIND_AGENT, template),
    }


def _trainings(scheduler: str, template: Need, drawn: int = 63) -> tuple[Need, ...]:
    """Return a need for each training of a learning scheduler."""
    return tuple(
        replace(template, schedulers=(scheduler,), parameters=trained(scheduler, training, drawn))
        for training in TRAININGS
    )


def trained(scheduler: str, training: int, drawn: int = 63) -> tuple[str, ...]:
    """Return the parameters of a training of a learning scheduler.

    All parameters are named: otherwise the need would also match runs of the scheduler's variants.

    Parameters
    ----------
    training
        Seed of the training.
    drawn
        Number of decisions that are drawn beside the likeliest one.
    """
    values = {"training": training, "drawn": drawn, "earlier_steps": 0, "published": "false"}
    return tuple(f"{scheduler}.{name}={value}" for name, value in values.items())


def printed_baseline_needs() -> NeedsByLabel:
    """Return the needs of InSS's baselines on four GPUs as InSS describes them.

    gpulet serves eight models. iGniter and GSLICE plan with iGniter's own performance model.
    """
    baselines = baseline_needs(Need("4gpu-eight", ()))
    with_igniters_model = baseline_needs(Need("4gpu-quadratic", (), trial=replace(SIMULATED, truth="inss")))
    return {
        EIGHT_MODELS: baselines["gpulet"],
        "gslice+, iGniter's model": with_igniters_model["gslice+"],
        "igniter, its own model": with_igniters_model["igniter"],
    }


def baseline_needs(template: Need) -> NeedsByLabel:
    """Return the needs of InSS's three baselines on the instances and under the conditions of ``template``.

    iGniter runs with ``spend_spare=false``, as in the paper.
    """
    elastic_parameters = (f"{_ELASTIC}.interference=true", f"{_ELASTIC}.second_pass=false")
    return {
        "gpulet": (replace(template, schedulers=(_ELASTIC,), parameters=elastic_parameters),),
        "gslice+": (replace(template, schedulers=("gslice+",), parameters=()),),
        "igniter": (replace(template, schedulers=("igniter",), parameters=("igniter.spend_spare=false",)),),
    }


def blind_gpulet_needs(*instances: str) -> NeedsByLabel:
    """Return the needs of gpulet without its model of interference, by instance."""
    parameters = (f"{_ELASTIC}.interference=false", f"{_ELASTIC}.second_pass=false")
    return {name: (Need(name, (_ELASTIC,), parameters=parameters),) for name in instances}


def needs_on(instances: str) -> NeedsByLabel:
    """Return the needs of the agent, the baselines and local search on ``instances``."""
    template = Need(instances, ())
    # The number of rounds ends local search before the time limit.
    search = Need(instances, ("local-search",), time_limit_s=_LONG_LIMIT_S)
    return {**agent_needs(template), **baseline_needs(template), "local-search": (search,)}


def needs_of(needs_by_label: NeedsByLabel) -> tuple[Need, ...]:
    """Return the needs of all labels in one tuple."""
    return tuple(need for needs in needs_by_label.values() for need in needs)
