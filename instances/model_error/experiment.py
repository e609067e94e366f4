"""Experiment on measured cells: what plans by a performance model cost, and which margin makes them safe.

The cells are divided at random, within each pair of models, into three parts: performance models are fitted to the
first, margins are calibrated by plans on the second, and plans on the third are compared with the optimum there. A
margin multiplies every planned latency of a workload that shares its GPU.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.errors import FieldName, InputError, unknown_name
from instances.files.light_profile import LightProfile
from instances.gpu import GpuType
from instances.grouping import grouped
from instances.measurements import SoloSample
from instances.model_error.cells import MeasuredCell, alone_by_cell_ms, alone_ms
from instances.model_error.pairing import MOST_WORKLOADS, Demands, Options, Score, draw_demands, score
from instances.performance import interference_model_names
from instances.performance.buffer import P95_SLOWDOWN
from instances.performance.company_fit import FEWEST_SAMPLES
from instances.performance.profile_fit import GpuFacts, fit_interference, fit_measurements
from instances.performance.validation import latencies_ms

MEASURED, NO_INTERFERENCE = "measured", "no interference"
"""Names of the two plans without a performance model: by the measured latencies, and by the latencies alone."""

STEP = 1.02
"""Ratio of a margin to the next smaller one."""

MOST_STEPS = 105
"""Number of steps from 1 to the largest margin that is tried, about 8."""

PARTS = 3
"""Parts of the cells: for fits, for the calibration of margins, and for the comparison."""

Fit = Callable[[Sequence[MeasuredCell]], GpuType]
"""Function that fits all performance models to cells."""


LEFT_OUT: Mapping[str, Callable[[MeasuredCell, int], object]] = {
    "cell": lambda cell, side_index: None,
    "pair": lambda cell, side_index: cell.models,
    "model": lambda cell, side_index: cell.sides[side_index].model,
}
"""Functions of a cell and one of its sides: the pair of models, or the model, whose cells the fit that predicts this
side leaves out; ``None`` for no further cells. Cells that are not for fits are always left out."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Settings of the experiment.

    Attributes
    ----------
    instances, workloads
        Number of instances for the calibration, and as many for the comparison; number of workloads of each.
    most_slack
        Largest slack of latency and rate with which a workload is drawn; the least is 1.02.
    level
        Fraction of violations that a calibrated margin permits.
    controlled
        Whether the margin is calibrated by conformal risk control. Instances that are drawn like those of the
        calibration then have at most ``level`` violations on average, and not only the instances of the calibration.
    slack
        Whether cells and pairs with the most slack are chosen among plans with equally many GPUs.
    margins
        Further margins with which every model plans, besides no margin and the calibrated margin.
    left_out
        What fits leave out, one after another; see ``ModelCost``.
    seeds
        Seeds of the partition and of the workloads; results are means over the seeds.
    """

    instances: int = 200
    workloads: int = 12
    most_slack: float = 1.6
    level: float = 0.01
    controlled: bool = False
    slack: bool = False
    margins: Sequence[float] = ()
    left_out: Sequence[str] = ("cell", "pair", "model")
    seeds: Sequence[int] = tuple(range(5))

    def __post_init__(self) -> None:
        for field, value, least, most in (
            ("instances", self.instances, 1, 100_000),
            ("workloads", self.workloads, 2, MOST_WORKLOADS),
            ("most_slack", self.most_slack, 1.02, 100.0),
            ("level", self.level, 0.0, 1.0),
        ):
            if not least <= value <= most:
                raise InputError(FieldName(field), f"is {value:g}; expected a number from {least:g} to {most:g}")
        if self.controlled and self.level * (self.instances + 1) < 1.0:
            least = 1.0 / (self.instances + 1)
            problem = f"is {self.level:g}; {self.instances} instances can control {least:.3g} or more"
            raise InputError(FieldName("level"), problem)
        if any(name not in LEFT_OUT for name in self.left_out):
            raise InputError(FieldName("left_out"), f"expected some of {', '.join(LEFT_OUT)}")
        if not self.seeds:
            raise InputError(FieldName("seeds"), "is empty; expected at least one seed")


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean over the seeds with its standard error, which is ``None`` for a single seed."""

    value: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Return mean and standard error of the values of the seeds."""
        return cls(fmean(values), stdev(values) / len(values) ** 0.5 if len(values) > 1 else None)


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Results of plans by one performance model.

    Attributes
    ----------
    model
        Performance model, ``measured`` or ``no interference``.
    left_out
        What the fit has not seen of a cell that it predicts: the ``cell``, its ``pair`` of models, or the ``model`` of
        the predicted side; empty without a fit. Pairs and models are left out only if enough other cells remain.
    level
        Fraction of violations for which the margin was calibrated; ``None`` for a margin that is given.
    margin, gpus, violations, regret
        Margin; GPUs of an instance; fraction of late workloads; GPUs beyond the measured optimum, relative to it.
    """

    model: str
    left_out: str
    level: float | None
    margin: Mean
    gpus: Mean
    violations: Mean
    regret: Mean


def fit_beside(facts: GpuFacts, source: str, solo: Sequence[SoloSample], light: LightProfile | None) -> Fit:
    """Return the function that fits the performance models of a GPU type to cells.

    The times of workloads alone are fitted to ``solo`` and ``light`` once; ``source`` names the measurements.
    """
    unfitted = fit_measurements(facts, source, solo, [], light).gpu
    return lambda seen: fit_interference(unfitted, [sample for cell in seen for sample in cell.samples], light)


def model_cost(
    cells: Sequence[MeasuredCell],
    solo: Sequence[SoloSample],
    fit: Fit,
    setting: Experiment,
    models: Sequence[str] | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[ModelCost]:
    """Return the results of every performance model, with and without a margin, and of the measured optimum.

    Parameters
    ----------
    models
        Performance models; ``None`` means all that predict interference.
    report
        Called with the number of finished seeds and the number of all seeds.

    Raises
    ------
    InputError
        If a performance model is unknown, or if there are too few cells for a fit.
    """
    names = interference_model_names() if models is None else models
    for name in names:
        if name not in interference_model_names():
            raise unknown_name(FieldName("models"), "performance model", name, interference_model_names())
    results: dict[_Plans, list[tuple[float, Score, float]]] = {}  # margin, score and regret by seed
    for done, seed in enumerate(setting.seeds):
        report(done, len(setting.seeds))
        for plans, margin, plan_score, optimum_gpus in _results(cells, solo, fit, setting, names, seed):
            results.setdefault(plans, []).append((margin, plan_score, plan_score.gpus / optimum_gpus - 1.0))
    report(len(setting.seeds), len(setting.seeds))
    return [
        ModelCost(
            plans.model,
            plans.left_out,
            setting.level if plans.margin is None else None,
            Mean.of([margin for margin, _, _ in by_seed]),
            Mean.of([plan_score.gpus for _, plan_score, _ in by_seed]),
            Mean.of([plan_score.violations for _, plan_score, _ in by_seed]),
            Mean.of([regret for _, _, regret in by_seed]),
        )
        for plans, by_seed in results.items()
    ]


class _Plans(NamedTuple):
    """Kind of plans, whose results are averaged over the seeds; ``margin`` is ``None`` if it is calibrated."""

    model: str
    left_out: str
    margin: float | None


@dataclass(frozen=True, slots=True)
class _Trials:
    """Cells of one part and random workloads, for which plans can be made."""

    options: Options
    demands: Demands
    measured_ms: Floats
    slack: bool

    def score(self, by_cell_ms: Floats, margin: float = 1.0) -> Score:
        """Return the score of plans by the predicted latencies ``by_cell_ms``, shape (cells, 2), times ``margin``."""
        planned_ms = margin * self.options.latencies_ms(by_cell_ms)
        return score(self.options, self.demands, planned_ms, self.measured_ms, self.slack)


def _results(
    cells: Sequence[MeasuredCell],
    solo: Sequence[SoloSample],
    fit: Fit,
    setting: Experiment,
    names: Sequence[str],
    seed: int,
) -> Iterator[tuple[_Plans, float, Score, float]]:
    """Yield the plans of one seed with their margin, their score, and the GPUs of the measured optimum."""
    parts = _parts(cells, seed)
    alone = alone_ms(solo)
    models = sorted({side.model for cell in cells for side in cell.sides})
    measured_ms = np.array([cell.latency_ms for cell in cells])

    def trials(part: int) -> _Trials:
        positions = np.random.default_rng((seed, part)).permutation(np.flatnonzero(parts == part))
        options = Options.of(cells, positions, models)
        configurations = sorted({side for i in positions for side in cells[i].sides}, key=str)
        demands = draw_demands(
            1_000 * seed + part, setting.instances, setting.workloads, configurations, alone, models, setting.most_slack
        )
        return _Trials(options, demands, options.latencies_ms(measured_ms), setting.slack)

    calibration, comparison = trials(1), trials(2)
    optimum = comparison.score(measured_ms)
    yield _Plans(MEASURED, "", 1.0), 1.0, optimum, optimum.gpus

    predictions = {(NO_INTERFERENCE, ""): alone_by_cell_ms(cells, solo)}
    for left_out in setting.left_out:
        if folds := _folds(cells, parts == 0, left_out):
            predicted_ms = _predicted_ms(cells, folds, fit, names)
            predictions |= {(name, left_out): predicted_ms[name] for name in names}
    for (name, left_out), by_cell_ms in predictions.items():
        assumed = (P95_SLOWDOWN,) if name == NO_INTERFERENCE else ()
        for margin in dict.fromkeys((1.0, *assumed, *setting.margins)):
            yield _Plans(name, left_out, margin), margin, comparison.score(by_cell_ms, margin), optimum.gpus
        margin = _calibrated(calibration, by_cell_ms, setting)
        yield _Plans(name, left_out, None), margin, comparison.score(by_cell_ms, margin), optimum.gpus


def _parts(cells: Sequence[MeasuredCell], seed: int) -> Ints:
    """Return the part of each cell, 0 for fits; every pair of models has about equally many cells in each part."""
    random = np.random.default_rng(seed)
    parts = np.empty(len(cells), dtype=np.int64)
    for positions in grouped((cell.models, i) for i, cell in enumerate(cells)).values():
        parts[random.permutation(positions)] = np.arange(len(positions)) % PARTS
    return parts


def _folds(cells: Sequence[MeasuredCell], for_fits: Flags, left_out: str) -> list[tuple[list[MeasuredCell], Ints]]:
    """Return the cells of each fit, and the sides that it predicts: cell and side, shape (sides, 2).

    If some fit would have too few cells, return no fits. Under ``cell``, this is an error.
    """
    key_of = LEFT_OUT[left_out]
    sides = grouped(
        (key_of(cell, side_index), (i, side_index)) for i, cell in enumerate(cells) for side_index in (0, 1)
    )
    usable = [cell for cell, is_usable in zip(cells, for_fits, strict=True) if is_usable]
    folds = [
        ([cell for cell in usable if key is None or key not in (cell.models, *cell.models)], np.array(predicted_sides))
        for key, predicted_sides in sides.items()
    ]
    fewest = min(len(seen) for seen, _ in folds)
    if 2 * fewest >= FEWEST_SAMPLES:
        return folds
    if left_out == "cell":
        problem = f"has {fewest} cells for a fit, a third of all; expected {FEWEST_SAMPLES // 2}"
        raise InputError("pairs", problem)
    return []


def _predicted_ms(
    cells: Sequence[MeasuredCell], folds: Sequence[tuple[list[MeasuredCell], Ints]], fit: Fit, names: Sequence[str]
) -> dict[str, Floats]:
    """Return the predictions of each performance model for both sides of every cell, shape (cells, 2)."""
    predicted_ms = {name: np.empty((len(cells), 2)) for name in names}
    for seen, predicted_sides in folds:
        gpu = fit(seen)
        for name, by_cell_ms in predicted_ms.items():
            times_ms = latencies_ms(gpu, name, [cells[i].sides for i in predicted_sides[:, 0]])
            by_cell_ms[predicted_sides[:, 0], predicted_sides[:, 1]] = [
                cell_ms[side_index] for cell_ms, side_index in zip(times_ms, predicted_sides[:, 1], strict=True)
            ]
    return predicted_ms


def _calibrated(trials: _Trials, by_cell_ms: Floats, setting: Experiment) -> float:
    """Return a margin whose plans have at most ``level`` violations; plans with the next smaller margin have more.

    Return the largest margin if no margin is safe.

    Under risk control, one more instance with nothing but violations is counted (Angelopoulos et al., Conformal Risk
    Control, ICLR 2024, equation 4, with a largest loss of 1).
    """
    extra_instances = 1.0 if setting.controlled else 0.0

    def is_safe(step: int) -> bool:
        late = setting.instances * trials.score(by_cell_ms, STEP**step).violations
        return (late + extra_instances) / (setting.instances + extra_instances) <= setting.level

    # Violations hardly ever grow with the margin, so the steps are bisected.
    return STEP ** bisect_left(range(MOST_STEPS), True, key=is_safe)
