"""Interference of a user's GPU types in plans: measured, taken from the catalogue, or guessed; with margins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from instances.catalogue import known_gpu_type
from instances.errors import FieldName, InputError
from instances.gpu import GpuType
from instances.margin import MODEL, LevelMargins
from instances.measurements import Configuration, PairSample
from instances.model_error.calibration import LEVELS, calibrated_type
from instances.model_error.choice import Pair, all_pairs, next_pairs
from instances.model_error.margins import fewest_ratios
from instances.performance import performance_model
from instances.performance.buffer import MEDIAN_SLOWDOWN, P95_SLOWDOWN, with_buffer
from instances.performance.margins import level_margins, with_floor, with_margins
from instances.performance.transfer import with_known_interference

DEFAULT_LEVEL = 0.95
"""Level of the margins of plans by default."""

LATENCIES_OF_PAIR = 2
"""Number of latencies that a measured pair has: one of each model."""

WITHOUT_MARGIN = "without the margin"
"""Key in ``PlannedInterference.instead`` for the type without its margins."""


@dataclass(frozen=True, slots=True)
class PlannedInterference:
    """A GPU type with the interference that plans assume.

    Attributes
    ----------
    gpu
        The type; its times include margins and guesses.
    note
        The assumption in words; empty if there is none.
    instead
        The type with smaller margins or guesses, by a key that says which; empty if there are no margins or guesses.
    guessed
        Whether no measurement of this type supports the interference.
    next_pairs
        Pairs to measure next, the most informative first; empty if ``instead`` is empty.
    """

    gpu: GpuType
    note: str = ""
    instead: Mapping[str, GpuType] = field(default_factory=dict)
    guessed: bool = False
    next_pairs: Sequence[Pair] = ()


def with_next_pairs(planned: PlannedInterference, pairs: Sequence[PairSample], level: float) -> PlannedInterference:
    """Add as many pairs to measure next as the type has models, and at least those that replace a guess.

    The user's ``pairs`` count as measured already. If there are none, the models and batches of the catalogue's margins
    count as measured. A guess is replaced by as many pairs as a margin at ``level`` needs.
    """
    models = {name: model.solo.batch for name, model in planned.gpu.models.items() if model.solo is not None}
    if not planned.instead or not models:
        return planned
    measured = [(pair.own, pair.other) for pair in pairs]
    catalogued = known_gpu_type(planned.gpu.name)
    if not pairs and not planned.guessed and catalogued is not None and catalogued.margins:
        by_batch = catalogued.margins[0].by_batch
        halves = [Configuration(model, batch, 50.0) for model, batches in by_batch.items() for batch in batches]
        measured = [(half, half) for half in halves]
    count = len(models)
    if planned.guessed:
        calibrated_level = next((known for known in LEVELS if known >= level), LEVELS[-1])
        count = max(count, ceil((fewest_ratios(calibrated_level) - len(pairs)) / LATENCIES_OF_PAIR))
    return replace(planned, next_pairs=next_pairs(all_pairs(models), count, measured))


def planned_interference(
    gpu: GpuType, pairs: Sequence[PairSample], *, measured_alone: bool, slowdown: float | None, model: str, level: float
) -> PlannedInterference:
    """Return a GPU type with its interference and margins.

    Parameters
    ----------
    gpu
        GPU type with the figures of the services' models only.
    pairs
        The user's measured pairs on this type, to which the interference of ``gpu`` is fitted if there are any.
    measured_alone
        Whether times alone of ``gpu`` are the user's.
    slowdown
        Slowdown by one neighbour, which replaces measurements, guesses and margins; ``None`` to use these.
    model
        Performance model. Only the hybrid model has margins.
    level
        Level of the margins; 0 for none.

    Raises
    ------
    InputError
        If the level or the slowdown is out of range, or the performance model lacks figures.
    """
    if level != 0.0:
        level_margins(gpu, level)  # refuses a level out of range
    if slowdown is not None:
        return _buffered(gpu, slowdown, model, "as asked")
    catalogued = known_gpu_type(gpu.name)
    if measured_alone and not pairs:
        if catalogued is None or not catalogued.margins or model != MODEL:
            return _guessed(gpu, model)
        return _with_catalogue_margins(with_known_interference(gpu, catalogued, MEDIAN_SLOWDOWN), level)
    if any(performance_model(model).missing(gpu, dnn) for dnn in gpu.models.values()):
        return _guessed(gpu, model)
    if level == 0.0:
        return PlannedInterference(gpu)
    if model != MODEL:
        return PlannedInterference(gpu, f"interference on {gpu.name}: no margin, which only the model {MODEL} has")
    if not pairs:
        return _with_catalogue_margins(gpu, level)
    if (calibrated := calibrated_type(gpu, pairs, level)) is not None:
        best, margins = calibrated
        return PlannedInterference(
            with_margins(best, margins), _margin_note(best, margins, "your"), {WITHOUT_MARGIN: gpu}
        )
    growth_pct = 100.0 * (P95_SLOWDOWN - 1.0)
    note = (
        f"interference on {gpu.name}: {len(pairs)} measured latencies are too few for a margin that covers"
        f" {100.0 * level:g} %; a guess, every service takes at least {growth_pct:.0f} % longer beside others"
    )
    return PlannedInterference(with_floor(gpu, P95_SLOWDOWN), note, {WITHOUT_MARGIN: gpu}, guessed=True)


def _with_catalogue_margins(gpu: GpuType, level: float) -> PlannedInterference:
    """Return a type that has the catalogue's interference, with the catalogue's margins at a level."""
    if level == 0.0:
        return PlannedInterference(gpu)
    if (margins := level_margins(gpu, level)) is None:
        known = ", ".join(f"{100.0 * of_level.level:g} %" for of_level in gpu.margins)
        problem = f"margins at {known} are known" if known else f"{gpu.provenance.kind} figures, and no margin is known"
        return PlannedInterference(gpu, f"interference on {gpu.name}: no margin ({problem})")
    return PlannedInterference(
        with_margins(gpu, margins), _margin_note(gpu, margins, "the catalogue's"), {WITHOUT_MARGIN: gpu}
    )


def _margin_note(gpu: GpuType, margins: LevelMargins, whose: str) -> str:
    """Return the margins of the models of a type in words."""
    covered = f"cover {100.0 * margins.level:g} % of {whose} {margins.rows:,} measured latencies"
    measured = []
    for name in gpu.models:
        if name in margins.by_batch:
            factors = [margin.factor for margin in margins.by_batch[name].values()]
            growths = dict.fromkeys((_growth(min(factors)), _growth(max(factors))))
            measured.append(f"{name} {' to '.join(growths)}")
    parts = [f"interference on {gpu.name}: margins on times beside others {covered}"]
    parts += [f"({', '.join(measured)})"] if measured else []
    if unmeasured := [name for name in gpu.models if name not in margins.by_batch]:
        parts[-1] += ";"
        parts.append(
            f"{', '.join(unmeasured)}: no such row, so {_growth(margins.flat)} on the time alone, as other models on"
            f" {gpu.name}; this may be too small"
        )
    return " ".join(parts)


def _growth(factor: float) -> str:
    return f"+{100.0 * (factor - 1.0):.0f} %"


def _guessed(gpu: GpuType, model: str) -> PlannedInterference:
    """Return a type without known interference, on which every neighbour adds a guessed slowdown."""
    guess = _buffered(gpu, P95_SLOWDOWN, model, "a guess: P95 of the catalogue's measured pairs; `pairs` replaces it")
    instead = {f"at {100.0 * (smaller - 1.0):.0f} %": with_buffer(gpu, smaller) for smaller in (MEDIAN_SLOWDOWN, 1.0)}
    return PlannedInterference(guess.gpu, guess.note, instead, guessed=True)


def _buffered(gpu: GpuType, slowdown: float, model: str, origin: str) -> PlannedInterference:
    """Return a type on which every neighbour adds the slowdown."""
    buffered = with_buffer(gpu, slowdown)
    for name, dnn in buffered.models.items():
        if missing := performance_model(model).missing(buffered, dnn):
            raise InputError(FieldName("model"), f'is "{model}"; {gpu.name} has no {missing} for {name}')
    note = f"interference on {gpu.name}: a buffer, every neighbour adds {100.0 * (slowdown - 1.0):.0f} % ({origin})"
    return PlannedInterference(buffered, note)
