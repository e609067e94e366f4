"""Named suites: instances and scenario sets of the papers, and generated instances."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Generic, TypeVar

from instances import generate
from instances.errors import unknown_name
from instances.instance import Instance, ScenarioSet
from instances.suites import gpulet, igniter, inss, llm, mediator, mixes
from instances.suites.hold import hold
from instances.suites.margins import margins
from instances.suites.parvagpu import parvagpu

__all__ = ["SCENARIO_SUITES", "SUITES", "Suite", "suite"]


Built = TypeVar("Built")
"""Content of a suite: a tuple of instances, or a scenario set."""


@dataclass(frozen=True, slots=True)
class Suite(Generic[Built]):
    """Named instances, or a named scenario set; ``build`` makes them at its first call and then returns the same."""

    name: str
    description: str
    build: Callable[[], Built]

    def __post_init__(self) -> None:
        object.__setattr__(self, "build", cache(self.build))


_AS_WORKLOADS = "gpulet ATC '22, Sec. 5.1: the stages of {} as independent workloads, scale on four RTX 2080 Ti"
_SHORTER = "gpulet arXiv, Sec. 6.1: gpulet-{} under the arXiv version's shorter SLOs of stages"
_OF_THE_TABLE = "gpulet-{}, but every stage under the SLO that {} prints for its model"
"""Descriptions of suites with the stages of gpulet's two applications, ``game`` and ``traffic``."""

SUITES: Mapping[str, Suite[tuple[Instance, ...]]] = {
    suite.name: suite
    for suite in (
        Suite("igniter-3", "iGniter's motivating example: three workloads, cost on V100s", igniter.igniter_3),
        Suite("igniter-12", "iGniter's evaluation: twelve workloads, cost on V100s", igniter.igniter_12),
        Suite("igniter-12-t4", "iGniter, Fig. 20: the twelve workloads, cost on T4s", igniter.igniter_12_t4),
        Suite("4gpu", "InSS, Sec. 6: ten models on four A100s, capacity; rates ours", inss.four_gpus),
        Suite("4gpu-eight", "the first eight models of 4gpu, as many as gpulet serves in InSS", inss.eight_models),
        Suite(
            "4gpu-quadratic",
            "4gpu for planners with iGniter's performance model; InSS's is to judge them",
            inss.with_quadratic_model,
        ),
        Suite("4gpu-goodput", "the same at 2.5 times the rates, which do not fit; goodput", inss.overloaded),
        Suite(
            "4gpu-unseen",
            "a hundred draws of rates from 1 to 4 times those of 4gpu, which no agent was trained on; goodput",
            inss.unseen,
        ),
        Suite("inss-clusters", "InSS, Sec. 6.4: 8 to 64 A100s, ten models for every four, capacity", inss.larger),
        Suite(
            "64gpu",
            "four instances of 160 workloads for about 64 V100s: cost, cost on a bounded pool, capacity, goodput",
            generate.sixty_four_gpus,
        ),
        *(
            Suite(
                f"gpulet-scen{number}",
                f"gpulet ATC '22, Table 4, scenario {number}: {len(models)} models, scale on four RTX 2080 Ti",
                partial(gpulet.scenario, number),
            )
            for number, models in enumerate(gpulet.GROUPS, start=1)
        ),
        Suite(
            "gpulet-scen3-8gpu",
            "gpulet ATC '22, Fig. 15: scenario 3 on eight RTX 2080 Ti, scale",
            gpulet.scenario_on_eight,
        ),
        *(
            Suite(f"gpulet-{name}", description, partial(gpulet.application, name))
            for name, description in (
                ("game", _AS_WORKLOADS.format("game")),
                ("traffic", _AS_WORKLOADS.format("traffic")),
                ("arxiv-game", _SHORTER.format("game")),
                ("arxiv-traffic", _SHORTER.format("traffic")),
                ("game-table3", _OF_THE_TABLE.format("game", "ATC '22, Table 3,")),
                ("traffic-table3", _OF_THE_TABLE.format("traffic", "ATC '22, Table 3,")),
                ("game-table4", _OF_THE_TABLE.format("arxiv-game", "arXiv, Table 4,")),
                ("traffic-table4", _OF_THE_TABLE.format("arxiv-traffic", "arXiv, Table 4,")),
            )
        ),
        Suite(
            "gpulet-pairs",
            "gpulet ATC '22, Sec. 3.3: four pairs of models at equal rates, scale on two RTX 2080 Ti",
            gpulet.pairs,
        ),
        *(
            Suite(
                f"gpulet-{name}",
                f"gpulet arXiv, Table 5: {models}, scale on four RTX 2080 Ti",
                partial(gpulet.by_rates, name),
            )
            for name, models in (
                ("equal", "five models at equal rates"),
                ("long-only", "the three long models"),
                ("short-skew", "five models, higher rates for the short ones"),
            )
        ),
        Suite(
            "mediator-40",
            "MediatorDNN, Sec. IV: five mixes of forty best-effort jobs, colocation on V100s as RaPP measured them",
            mediator.forty_jobs,
        ),
        Suite(
            "mediator-pairs",
            "the thirty-two image jobs of mediator-40, colocation on A100s with slowdowns fitted to measured pairs",
            mediator.image_jobs_in_pairs,
        ),
        Suite("igniter-scaling", "random mixes of 10 to 1,000 workloads, for decision times", generate.igniter_scaling),
        Suite("parvagpu", "ParvaGPU's six service mixes: cost on A100s cut into MIG instances", parvagpu),
        Suite(
            "exact-scaling",
            "three random mixes of each of 5 to 160 workloads, for exact methods",
            generate.exact_scaling,
        ),
        Suite(
            "hetero",
            "ten mixes on two to four GPU types, bounded and unbounded, of every objective with SLOs: docs/suites.md",
            mixes.hetero,
        ),
        Suite("large", "mixes of 1,000, 3,000 and 10,000 workloads on one to three GPU types, cost", mixes.large),
        Suite("hard", "nine mixes that no exact method closes in twenty seconds, of every objective", mixes.hard),
        Suite("llm-4gpu", "five services of LLaMA 7B for about four A100s, cost; lengths ours", llm.four_gpus),
        Suite("llm-16gpu", "eighteen services of LLaMA 7B and 13B for about sixteen A100s, cost", llm.sixteen_gpus),
        Suite("llm-mix", "five mixes of eight services, LLaMA 7B and 13B in turn, cost on A100s", llm.mixes),
        Suite("llm-eighths", "the services of the other llm suites on A100s cut into eighths, cost", llm.eighths),
        Suite(
            "hold",
            "six instances of other suites under the rule attainment, two also for servers that drop nothing",
            hold,
        ),
        Suite(
            "margins",
            "twelve workloads on V100s and on A100s as bench profile cost draws them, also under the rule attainment",
            margins,
        ),
        Suite(
            "smoke",
            "four tiny instances: cost, capacity and goodput, for a check in seconds",
            lambda: (*igniter.igniter_3(), *generate.smoke()),
        ),
    )
}
"""Suites of instances by name."""

SCENARIO_SUITES: Mapping[str, Suite[ScenarioSet]] = {
    suite.name: suite
    for suite in (
        Suite(
            "gpulet-1023",
            "gpulet arXiv, Sec. 3.1: five models at 0, 200, 400 or 600 req/s each, on four RTX 2080 Ti",
            gpulet.scenarios_1023,
        ),
        Suite(
            "gpulet-19682",
            "gpulet ATC '22, Sec. 3.2: nine models at 0, 100 or 200 req/s each, on four RTX 2080 Ti",
            gpulet.scenarios_19682,
        ),
        Suite(
            "gpulet-93",
            "every eleventh scenario of gpulet-1023, for a first look",
            partial(gpulet.every_eleventh, "gpulet-93", gpulet.scenarios_1023),
        ),
        Suite(
            "gpulet-1790",
            "every eleventh scenario of gpulet-19682, for a first look",
            partial(gpulet.every_eleventh, "gpulet-1790", gpulet.scenarios_19682),
        ),
    )
}
"""Scenario sets by name; a scheduler is measured by the number of scenarios for which it finds a plan."""


def suite(name: str) -> Suite[tuple[Instance, ...]]:
    """Return the suite called ``name``.

    Raises
    ------
    InputError
        If there is no such suite.
    """
    if name not in SUITES:
        raise unknown_name("suite", "suite", name, list(SUITES))
    return SUITES[name]
