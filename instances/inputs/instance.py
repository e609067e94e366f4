"""Instance built from tables of services, GPUs and measured latencies, with notes on all assumptions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path

from instances.attainment_terms import DEFAULT_ATTAINMENT, POISSON, burstiness
from instances.budget import SloRule
from instances.catalogue import gpu_type, known_gpu_type
from instances.errors import FieldName, InputError, printable
from instances.files.records import Record, read_records
from instances.gpu import GpuType
from instances.inputs.interference import DEFAULT_LEVEL, PlannedInterference, planned_interference, with_next_pairs
from instances.inputs.language_models import (
    BUFFER,
    check_columns,
    is_language_model,
    memory_notes,
    service_of,
    with_language_models,
)
from instances.inputs.profile import OwnProfile, read_profile
from instances.inputs.tables import GPUS, SERVICES
from instances.instance import GpuPool, Instance, Objective
from instances.measurements import PairSample
from instances.memory import MEMORY_ASSUMED
from instances.mig import MIG_TABLE
from instances.model_error.choice import Pair
from instances.performance import interference_model_names, performance_model
from instances.performance.profile_fit import GpuFacts, fit_measurements
from instances.performance.table import TABLE
from instances.workload import LEAST_RATE_RPS, MOST_RATE_RPS, Workload, service_workloads

_UNITS = 50
"""Share units of a GPU type whose number of SMs is unknown: steps of 2 %."""

_PCIE_BYTES_PER_MS = 25e6
"""Assumed bandwidth to the host of a GPU type outside the catalogue. Transfers of models that ``instances.memory`` does
not list count as GPU time."""


@dataclass(frozen=True, slots=True)
class TabulatedInstance:
    """An instance from tables, under the rule ``attainment``, and one note for each assumption.

    Attributes
    ----------
    weight, priority
        Values of the columns of the same names, by service; they matter if the GPUs do not suffice. Services without a
        value are left out.
    instead
        The same instance with smaller margins or guesses. The keys say which, such as ``without the margin``.
    guessed
        Whether the interference on some GPU type is a guess.
    next_pairs
        Pairs to measure next, by GPU type, the most informative first.
    """

    instance: Instance
    notes: tuple[str, ...]
    weight: Mapping[str, float] = field(default_factory=dict)
    priority: Mapping[str, int] = field(default_factory=dict)
    instead: Mapping[str, Instance] = field(default_factory=dict)
    guessed: bool = False
    next_pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)


def instance_from_tables(
    services: Path,
    profile: Path | None,
    gpus: Path,
    *,
    pairs: Path | None = None,
    attainment: float | None = None,
    arrivals: str | None = None,
    dropping: bool = True,
    slowdown: float | None = None,
    model: str = "hybrid",
    margin: float = DEFAULT_LEVEL,
) -> TabulatedInstance:
    """Build the instance of services on GPUs, with the objective ``cost``.

    Parameters
    ----------
    services, profile, gpus, pairs
        Tables with the columns of ``instances.inputs.tables``.
    attainment, arrivals
        Values that replace the columns of the same names.
    dropping
        Whether the servers drop requests that can no longer be in time.
    slowdown
        Slowdown by one neighbour, which replaces all measured interference.
    model
        Name of the performance model.
    margin
        Level of the margins on times beside others; 0 for none. See ``instances.inputs.interference``.

    Raises
    ------
    InputError
        If a table is wrong, or prices, memory sizes or profiles are missing; the error names all that are missing.
    """
    if performance_model(model, FieldName("model")).name not in interference_model_names():
        expected = ", ".join(interference_model_names())
        raise InputError(FieldName("model"), f'is "{model}", which predicts no interference; expected {expected}')
    service_rows = read_records(services, "services", SERVICES, ("service",))
    gpu_rows = read_records(gpus, "gpus", GPUS, ("gpu",))
    for row in service_rows:
        if not LEAST_RATE_RPS <= (rate_rps := row.values["rate_rps"]) <= MOST_RATE_RPS:
            raise row.error("rate_rps", f"{rate_rps:g}; expected {LEAST_RATE_RPS:g} to {MOST_RATE_RPS:g}")
    names = [row.values["gpu"] for row in gpu_rows]
    measured = read_profile(profile, pairs, names)
    check_columns(service_rows, names)
    language_rows = {service_of(row): row for row in service_rows if is_language_model(row)}
    other_rows = [row for row in service_rows if not is_language_model(row)]
    _refuse_missing(other_rows, gpu_rows, measured, profile)
    notes: list[str] = []
    planned: list[PlannedInterference] = []
    rule, buffer = SloRule.ATTAINMENT, 1.0
    if any(_is_mig(row) for row in gpu_rows):
        if language_rows:
            first_row = next(iter(language_rows.values()))
            raise first_row.error("prompt_tokens", "is given; language models are not planned on MIG instances")
        rule, model = SloRule.HALF_SLO, MIG_TABLE
        types = [_type_on_mig(row, other_rows, measured) for row in gpu_rows]
        notes.append("MIG instances are isolated: no interference; each has batches of at most half of the SLO")
    elif language_rows:
        model, buffer = TABLE, BUFFER if slowdown is None else slowdown
        types = [_type_of(row, other_rows, measured, profile, notes) for row in gpu_rows]
        types = [with_language_models(gpu, language_rows) for gpu in types]
        origin = "assumed, not measured" if slowdown is None else "as asked"
        notes.append(f"interference: every predicted latency is multiplied by {buffer:g} ({origin})")
        notes += memory_notes(types[0], language_rows)
        notes.append(
            "every language-model service has processes for prefill and for decoding; your server hands the KV cache"
            " from one to the other, and this time is not planned"
        )
    else:
        types = [_type_of(row, other_rows, measured, profile, notes) for row in gpu_rows]
        planned = [
            with_next_pairs(
                planned_interference(
                    gpu,
                    _pairs_of(measured, gpu),
                    measured_alone=gpu.name in measured.solo,
                    slowdown=slowdown,
                    model=model,
                    level=margin,
                ),
                _pairs_of(measured, gpu),
                margin,
            )
            for gpu in types
        ]
        notes += [interference.note for interference in planned if interference.note]
        types = [interference.gpu for interference in planned]
    planned_attainment = _attainment(service_rows, attainment, notes)
    planned_arrivals = _arrivals(service_rows, arrivals, notes)
    if rule is SloRule.HALF_SLO:
        _refuse_other_terms(planned_attainment, planned_arrivals)
    instance = Instance(
        name=printable(services.stem),
        objective=Objective.COST,
        slo_rule=rule,
        performance_model=model,
        gpus=tuple(GpuPool(gpu, row.values.get("count")) for gpu, row in zip(types, gpu_rows, strict=True)),
        workloads=_workloads(service_rows),
        latency_buffer=buffer,
        attainment=planned_attainment,
        arrivals=planned_arrivals,
        dropping=dropping,
        provenance=f"services of {printable(services.name)}",
    )
    weight, priority = (
        {row.values["service"]: row.values[column] for row in service_rows if column in row.values}
        for column in ("weight", "priority")
    )
    guessed = any(interference.guessed for interference in planned)
    next_pairs = {interference.gpu.name: interference.next_pairs for interference in planned if interference.next_pairs}
    return TabulatedInstance(instance, tuple(notes), weight, priority, _instead(instance, planned), guessed, next_pairs)


def _instead(instance: Instance, planned: Sequence[PlannedInterference]) -> dict[str, Instance]:
    """Return ``TabulatedInstance.instead``; a GPU type that has no alternative under a key does not change."""
    names = dict.fromkeys(name for interference in planned for name in interference.instead)
    return {
        name: replace(
            instance,
            gpus=tuple(
                replace(pool, type=interference.instead.get(name, interference.gpu))
                for pool, interference in zip(instance.gpus, planned, strict=True)
            ),
        )
        for name in names
    }


def _pairs_of(measured: OwnProfile, gpu: GpuType) -> list[PairSample]:
    """Return the measured pairs of the models of a GPU type."""
    pairs = measured.pairs.get(gpu.name, ())
    return [pair for pair in pairs if pair.own.model in gpu.models and pair.other.model in gpu.models]


def _is_mig(row: Record) -> bool:
    catalogued = known_gpu_type(row.values["gpu"])
    return catalogued is not None and catalogued.mig is not None


def _type_on_mig(row: Record, services: Sequence[Record], measured: OwnProfile) -> GpuType:
    """Return a GPU type cut into MIG instances, with the services' models only.

    Raises
    ------
    InputError
        If the GPU is not cut into MIG instances, or a table has values that plans on MIG instances do not use.
    """
    name = row.values["gpu"]
    if not _is_mig(row):
        raise row.error("gpu", f"{name} is not cut into MIG instances as others are; plan for them one by one")
    if measured.solo.get(name) or measured.pairs.get(name):
        raise row.error("gpu", f"{name} has a table of measured MIG instances; leave out its rows of the profile")
    for column in ("memory_mib", "sms"):
        if column in row.values:
            raise row.error(column, f"{name} has measured MIG instances; leave it empty")
    gpu = gpu_type(name)
    assert gpu.mig is not None
    needed_models = dict.fromkeys(service.values["model"] for service in services)
    mig = replace(gpu.mig, models={model: gpu.mig.models[model] for model in needed_models})
    return replace(gpu, mig=mig, price_per_hour=row.values.get("price_per_hour", gpu.price_per_hour))


def _refuse_other_terms(attainment: float, arrivals: str) -> None:
    """Raise an error unless the attainment and the arrivals are the only ones that plans on MIG instances support."""
    if attainment != DEFAULT_ATTAINMENT:
        problem = f"is {attainment}; plans on MIG instances are made for {DEFAULT_ATTAINMENT} only"
        raise InputError(FieldName("attainment"), problem)
    if arrivals != POISSON:
        raise InputError(FieldName("arrivals"), f"is {arrivals}; plans on MIG instances are made for {POISSON} only")


def _workloads(rows: Sequence[Record]) -> tuple[Workload, ...]:
    """Return the workloads of the rows; those of language models come last, as in instance files."""
    workloads = [
        Workload(row.values["service"], row.values["model"], row.values["slo_ms"], row.values["rate_rps"])
        for row in rows
        if not is_language_model(row)
    ]
    for row in filter(is_language_model, rows):
        workloads += service_workloads(service_of(row), row.values["rate_rps"])
    return tuple(workloads)


def _refuse_missing(
    service_rows: Sequence[Record], gpu_rows: Sequence[Record], measured: OwnProfile, profile: Path | None
) -> None:
    """Raise one error for all missing facts of GPU types, or one for all missing profiles of models."""
    facts, profiles = [], []
    for row in gpu_rows:
        name = row.values["gpu"]
        catalogued = known_gpu_type(name)
        if catalogued is None:
            facts += [f"{column} of {name}" for column in ("price_per_hour", "memory_mib") if column not in row.values]
        profiled = {sample.configuration.model for sample in measured.solo.get(name, ())}
        catalogued_models = () if catalogued is None else catalogued.model_names
        profiles += [
            f"{model} on {name}"
            for model in dict.fromkeys(service.values["model"] for service in service_rows)
            if model not in profiled and model not in catalogued_models
        ]
    if facts:
        raise gpu_rows[0].error(
            facts[0].split(" of ")[0], f"lacks {', '.join(facts)}: the catalogue does not know them"
        )
    if profiles:
        listed = f"{', '.join(profiles[:10])}{f' and {len(profiles) - 10} more' if len(profiles) > 10 else ''}"
        place = ": line 1, column model"
        where = FieldName("profile", place) if profile is None else f"{printable(str(profile))}{place}"
        raise InputError(where, f"lacks rows for {listed}: the catalogue does not know them")


def _type_of(
    row: Record, services: Sequence[Record], measured: OwnProfile, profile: Path | None, notes: list[str]
) -> GpuType:
    """Return a GPU type with the services' models only; the user's measurements replace the catalogue's models."""
    name = row.values["gpu"]
    needed_models = dict.fromkeys(service.values["model"] for service in services)
    gpu = catalogued = known_gpu_type(name)
    samples = [sample for sample in measured.solo.get(name, ()) if sample.configuration.model in needed_models]
    if samples:
        sms = row.values.get("sms")
        pairs = [
            pair
            for pair in measured.pairs.get(name, ())
            if pair.own.model in needed_models and pair.other.model in needed_models
        ]
        units = _share_units(sms) if catalogued is None else catalogued.share_units
        facts = GpuFacts(
            name,
            units,
            row.values.get("memory_mib", catalogued.memory_mib if catalogued else nan),
            row.values.get("price_per_hour", catalogued.price_per_hour if catalogued else nan),
            catalogued.hardware.pcie_bytes_per_ms if catalogued else _PCIE_BYTES_PER_MS,
        )
        source = printable(profile.name) if profile is not None else ""
        try:
            fitted = fit_measurements(facts, source, samples, pairs).gpu
        except InputError as error:
            raise InputError(f"{source}: {name}: {error.where}", error.problem) from None
        assumed = [
            model_name
            for model_name, model in fitted.models.items()
            if model.provenance.source.endswith(MEMORY_ASSUMED)
        ]
        if assumed:
            largest_mib = max(model.memory_mib(model.max_batch) for model in map(fitted.models.__getitem__, assumed))
            notes.append(
                f"memory of {', '.join(assumed)} on {name}: not measured, assumed to be that of the largest listed"
                f" model (at most {largest_mib:,.0f} MiB); the column memory_mib replaces it"
            )
        catalogued_models = {
            model: catalogued.models[model] for model in needed_models if catalogued and model not in fitted.models
        }
        gpu = replace(fitted, models={**fitted.models, **catalogued_models})
        if name in measured.whole:
            gpu = replace(gpu, allowed_shares=(gpu.share_units,))
            notes.append(f"{name} was measured at 100 % only: only whole GPUs are planned")
        without_batch_1 = [
            f"{model_name} (as batch {batch})"
            for (gpu_name, model_name), batch in measured.without_batch_1.items()
            if gpu_name == name
        ]
        if without_batch_1:
            more = f" and {len(without_batch_1) - 5} more" if len(without_batch_1) > 5 else ""
            listed = f"{', '.join(without_batch_1[:5])}{more}"
            notes.append(f"batch 1 on {name} was not measured, assumed to last as long as a larger one: {listed}")
    assert gpu is not None  # _refuse_missing refused a GPU type without figures
    return replace(
        gpu,
        models={model: gpu.models[model] for model in needed_models},
        price_per_hour=row.values.get("price_per_hour", gpu.price_per_hour),
        memory_mib=row.values.get("memory_mib", gpu.memory_mib),
    )


def _share_units(sms: int | None) -> int:
    """Return the share units of a GPU with this number of SMs: units of two SMs, or of one if the number is odd."""
    if sms is None:
        return _UNITS
    return sms // 2 if sms % 2 == 0 else sms


def _attainment(rows: Sequence[Record], replacement: float | None, notes: list[str]) -> float:
    """Return ``replacement``, or the strictest attainment of the rows; note if the rows differ."""
    if replacement is not None:
        return replacement
    by_service = {row.values["service"]: row.values["attainment"] for row in rows if "attainment" in row.values}
    if len(by_service) < len(rows):
        by_service[""] = DEFAULT_ATTAINMENT
    strictest = max(by_service, key=lambda name: by_service[name])
    if len(set(by_service.values())) > 1:
        notes.append(f"attainment: all services are planned for the strictest, {100.0 * by_service[strictest]:g} %")
    return float(by_service[strictest])


def _arrivals(rows: Sequence[Record], replacement: str | None, notes: list[str]) -> str:
    """Return ``replacement``, or the burstiest arrivals of the rows; note if the rows differ."""
    if replacement is not None:
        burstiness(replacement)
        return replacement
    cv_of: dict[str, float] = {}
    for row in rows:
        text = row.values.get("arrivals", POISSON)
        try:
            cv_of[text] = burstiness(text)
        except InputError as error:
            raise row.error("arrivals", error.problem) from None
    burstiest = max(cv_of, key=lambda text: cv_of[text])
    if len(cv_of) > 1:
        notes.append(f"arrivals: all services are planned for the burstiest, {burstiest}")
    return burstiest
