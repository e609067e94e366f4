"""Faults of installed solvers: releases that are known to be bad, and wrong answers to nonlinear problems."""

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.api import Run, Scheduler, Status
from bench.doctor import Finding, Level
from bench.judging.judge import judge
from bench.provenance import distribution_version
from bench.schedulers.registry import entries, load
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.errors import InputError

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KnownBad:
    """Releases of a distribution that must not be used.

    Attributes
    ----------
    first, fixed_in
        First bad release, and the release that fixes it, if there is one.
    trouble
        Description of the fault.
    install
        Requirement to install instead.
    conflicts_with
        Other distribution without which the fault does not occur, or an empty text.
    wrong_answers
        Whether results are wrong; otherwise runs fail, and their rows report the failure.
    """

    distribution: str
    first: Version
    fixed_in: Version | None
    trouble: str
    install: str
    conflicts_with: str = ""
    wrong_answers: bool = False

    def covers(self, version: str) -> bool:
        """Return whether ``version`` is one of these releases."""
        release = release_numbers(version)
        return self.first <= release and (self.fixed_in is None or release < self.fixed_in)


_WRONG_OPTIMA = "reports wrong optima of mixed-integer programs (presolve)"
_CLASH = "cannot be loaded together with ortools: both contain a libhighs.so.1"

KNOWN_BAD = (
    KnownBad("highspy", (1, 14), (1, 14, 1), _WRONG_OPTIMA, "highspy==1.13.1", wrong_answers=True),
    KnownBad("highspy", (1, 15), None, _CLASH, "highspy==1.13.1", conflicts_with="ortools"),
)


def release_numbers(version: str) -> Version:
    """Return the release numbers of a version without trailing zeros: ``(1, 14)`` for ``1.14.0rc1``."""
    match = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in match.group().split(".")] if match else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def installed_known_bad() -> list[tuple[KnownBad, str]]:
    """Return the bad releases that are installed, with their versions."""
    releases = []
    for release in KNOWN_BAD:
        version = distribution_version(release.distribution)
        applies = not release.conflicts_with or distribution_version(release.conflicts_with) is not None
        if version is not None and applies and release.covers(version):
            releases.append((release, version))
    return releases


def refuse_wrong_answers() -> None:
    """Refuse to fill a ledger while a solver with wrong results is installed.

    The judge checks every plan but cannot check bounds, and one wrong bound makes the gaps of all schedulers wrong.

    Raises
    ------
    InputError
        If such a solver is installed; the message names the solver and its replacement.
    """
    for release, version in installed_known_bad():
        if release.wrong_answers:
            problem = f'{release.trouble}; install another version: pip install "{release.install}"'
            raise InputError(f"{release.distribution} {version}", problem)


LIMIT_S = 20.0
"""Time limit per instance; an idle core takes one or two seconds."""

AGREEMENT = 1e-6
"""Relative difference up to which two values are equal."""


@dataclass(frozen=True, slots=True)
class KnownOptimum:
    """A small instance on V100s with a known optimum, proven by exact methods without a floating-point relaxation.

    Attributes
    ----------
    gpus
        Number of GPUs, or ``None`` for an unlimited pool.
    workloads
        DNN model, SLO (ms) and rate (requests per second) of each workload.
    optimum
        Optimum in dollars per hour or requests per second.
    """

    name: str
    objective: Objective
    gpus: int | None
    workloads: tuple[tuple[str, float, float], ...]
    optimum: float

    def instance(self) -> Instance:
        """Return the instance."""
        workloads = tuple(Workload(f"w{number}", *figures) for number, figures in enumerate(self.workloads, 1))
        pools = (GpuPool(gpu_type("v100"), self.gpus),)
        return Instance(self.name, self.objective, SloRule.HALF_SLO, "igniter", pools, workloads)


KNOWN_OPTIMA = (
    KnownOptimum(
        "power28",
        Objective.COST,
        None,
        (
            ("resnet50", 26.446, 688.8564829174222),
            ("resnet50", 31.761, 172.85111628181966),
            ("ssd", 37.36, 42.434395485561524),
            ("vgg19", 66.693, 62.92017245280703),
            ("ssd", 26.588, 161.5160926784428),
            ("ssd", 39.651, 94.77494611956085),
        ),
        6.12,
    ),
    KnownOptimum(
        "power24",
        Objective.COST,
        None,
        (
            ("ssd", 40.826, 91.03429555959376),
            ("vgg19", 57.633, 374.5908035592189),
            ("vgg19", 21.986, 122.81624875209377),
            ("vgg19", 35.093, 189.6103100528438),
            ("vgg19", 28.125, 141.58665298771876),
        ),
        6.12,
    ),
    KnownOptimum(
        "good4",
        Objective.GOODPUT,
        1,
        (("vgg19", 41.633, 272.316), ("vgg19", 14.514, 159.454), ("alexnet", 9.802, 635.031), ("ssd", 28.291, 56.688)),
        1023.624,
    ),
)
"""Instances for which SCIP 10.0, given the equations as printed in the paper, calls a worse plan optimal."""


def nonlinear_answers() -> list[Finding]:
    """Solve instances with known optima by ``minlp``, with its own equations and with the equations as printed."""
    if distribution_version("pyscipopt") is None:
        return []  # ``installed_versions`` reports that SCIP is missing
    minlp: Callable[..., Scheduler] = load(entries()["minlp"].target)
    own_equations = {problem.name: _answer(minlp(), problem) for problem in KNOWN_OPTIMA}
    printed_equations = {problem.name: _answer(minlp(as_printed=True), problem) for problem in KNOWN_OPTIMA}
    advice = ""
    if any(answer.startswith("wrong") for answer in own_equations.values()):
        advice = 'pip install "gpushare-bench" in a fresh environment; until then minlp misses better plans'
    elif any(answer != "right" for answer in own_equations.values()):
        advice = "try again: the first run compiles kernels, and other programs take time, too"
    return [
        Finding("minlp", Level.WARNING if advice else Level.OK, _listed(own_equations), advice),
        Finding("minlp.as_printed", Level.OK, _listed(printed_equations)),
    ]


def _listed(answers: dict[str, str]) -> str:
    return "; ".join(f"{name}: {answer}" for name, answer in answers.items())


def _answer(scheduler: Scheduler, problem: KnownOptimum) -> str:
    """Return a few words on whether the outcome of a scheduler agrees with the known optimum."""
    instance = problem.instance()
    outcome = scheduler.schedule(instance, Run(deadline=time.monotonic() + LIMIT_S))
    if outcome.status is Status.OPTIMAL:
        value = math.nan if outcome.plan is None else judge(outcome.plan, instance).value
        return "right" if math.isclose(value, problem.optimum, rel_tol=AGREEMENT) else _wrong(value, problem)
    if outcome.bound is not None:
        excess = outcome.bound.value - problem.optimum
        if (excess if instance.objective.minimised else -excess) > AGREEMENT * problem.optimum:
            return _wrong(outcome.bound.value, problem)
    if outcome.status is Status.INFEASIBLE:
        return f"wrong, no plan instead of {problem.optimum:g}"
    return f"not finished in {LIMIT_S:g} s"


def _wrong(value: float, problem: KnownOptimum) -> str:
    return f"wrong, {value:g} instead of {problem.optimum:g}"
