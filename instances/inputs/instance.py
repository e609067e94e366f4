"""Instance of tables of services, GPUs and measured latencies, with notes on all assumptions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from instances.attainment_terms import DEFAULT_ATTAINMENT, POISSON, burstiness
from instances.budget import SloRule
from instances.catalogue import known_gpu_type
from instances.errors import FieldName, InputError, printable
from instances.files.records import Record, read_records
from instances.gpu import GpuType
from instances.inputs.profile import OwnProfile, read_profile
from instances.inputs.tables import GPUS, SERVICES
from instances.instance import GpuPool, Instance, Objective
from instances.performance import interference_model_names, performance_model
from instances.performance.buffer import P95_SLOWDOWN, with_buffer
from instances.performance.profile_fit import MEMORY_ASSUMED, GpuFacts, fit_measurements
from instances.workload import LEAST_RATE_RPS, MOST_RATE_RPS, Workload

_UNITS = 50
"""Share units of a GPU type whose number of SMs is unknown: steps of 2 %."""

_PCIE_BYTES_PER_MS = 25e6
"""Bandwidth to the host of a GPU type outside the catalogue; transfers of unlisted models count as GPU time."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An instance from tables, under the rule ``attainment``, and one note for each assumption."""

    instance: Instance
    notes: tuple[str, ...]


def ask(
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
) -> Asked:
    """Build the instance of services on GPUs, with the objective ``cost``.

    Parameters
    ----------
    services, profile, gpus, pairs
        Tables with the columns of ``instances.inputs.tables``.
    attainment, arrivals
        Replacements for the columns of the same names.
    dropping
        Whether the servers drop requests that can no longer be in time.
    slowdown
        Slowdown by one neighbour, in place of all measured interference; by default ``P95_SLOWDOWN`` where there is no
        measured interference.
    model
        Name of the performance model.

    Raises
    ------
    InputError
        If a table is wrong, or figures are missing; the error names all that are missing.
    """
    if performance_model(model, FieldName("model")).name not in interference_model_names():
        expected = ", ".join(interference_model_names())
        raise InputError(FieldName("model"), f'is "{model}", which predicts no interference; expected {expected}')
    rows = read_records(services, "services", SERVICES, ("service",))
    offered = read_records(gpus, "gpus", GPUS, ("gpu",))
    for row in rows:
        if not LEAST_RATE_RPS <= (rate_rps := row.values["rate_rps"]) <= MOST_RATE_RPS:
            raise row.error("rate_rps", f"{rate_rps:g}; expected {LEAST_RATE_RPS:g} to {MOST_RATE_RPS:g}")
    names = [row.values["gpu"] for row in offered]
    measured = read_profile(profile, pairs, names)
    _refuse_missing(rows, offered, measured, profile)
    notes: list[str] = []
    pools = [GpuPool(_type_of(row, rows, measured, profile, notes), row.values.get("count")) for row in offered]
    pools = [GpuPool(_interfering(pool.type, measured, slowdown, model, notes), pool.count) for pool in pools]
    found = Instance(
        name=printable(services.stem),
        objective=Objective.COST,
        slo_rule=SloRule.ATTAINMENT,
        performance_model=model,
        gpus=tuple(pools),
        workloads=tuple(
            Workload(row.values["service"], row.values["model"], row.values["slo_ms"], row.values["rate_rps"])
            for row in rows
        ),
        attainment=_attainment(rows, attainment, notes),
        arrivals=_arrivals(rows, arrivals, notes),
        dropping=dropping,
        provenance=f"services of {printable(services.name)}",
    )
    return Asked(found, tuple(notes))


def _refuse_missing(
    rows: Sequence[Record], offered: Sequence[Record], measured: OwnProfile, profile: Path | None
) -> None:
    """Raise one error for all missing facts of GPU types, or one for all missing profiles of models."""
    facts, figures = [], []
    for row in offered:
        name = row.values["gpu"]
        known = known_gpu_type(name)
        if known is not None and known.mig is not None:
            raise row.error("gpu", f"{name} is cut into MIG instances; expected a GPU type divided into shares")
        if known is None:
            facts += [f"{column} of {name}" for column in ("price_per_hour", "memory_mib") if column not in row.values]
        profiled = {sample.configuration.model for sample in measured.solo.get(name, ())}
        known_models = () if known is None else known.model_names
        figures += [
            f"{model} on {name}"
            for model in dict.fromkeys(each.values["model"] for each in rows)
            if model not in profiled and model not in known_models
        ]
    if facts:
        raise offered[0].error(facts[0].split(" of ")[0], f"lacks {', '.join(facts)}: the catalogue does not know them")
    if figures:
        shown = f"{', '.join(figures[:10])}{f' and {len(figures) - 10} more' if len(figures) > 10 else ''}"
        place = ": line 1, column model"
        where = FieldName("profile", place) if profile is None else f"{printable(str(profile))}{place}"
        raise InputError(where, f"lacks rows for {shown}: the catalogue does not know them")


def _type_of(
    row: Record, services: Sequence[Record], measured: OwnProfile, profile: Path | None, notes: list[str]
) -> GpuType:
    """Return a GPU type with the figures of the services' models only; measured ones replace the catalogue's."""
    name = row.values["gpu"]
    needed = dict.fromkeys(each.values["model"] for each in services)
    gpu = known = known_gpu_type(name)
    samples = [s for s in measured.solo.get(name, ()) if s.configuration.model in needed]
    if samples:
        sms = row.values.get("sms")
        pairs = [p for p in measured.pairs.get(name, ()) if p.own.model in needed and p.other.model in needed]
        units = known.share_units if known else _UNITS if sms is None else sms // 2 if sms % 2 == 0 else sms
        facts = GpuFacts(
            name,
            units,
            row.values.get("memory_mib", known.memory_mib if known else nan),
            row.values.get("price_per_hour", known.price_per_hour if known else nan),
            known.hardware.pcie_bytes_per_ms if known else _PCIE_BYTES_PER_MS,
        )
        source = printable(profile.name) if profile is not None else ""
        try:
            fitted = fit_measurements(facts, source, samples, pairs).gpu
        except InputError as error:
            raise InputError(f"{source}: {name}: {error.where}", error.problem) from None
        assumed = [each for each, model in fitted.models.items() if model.provenance.source.endswith(MEMORY_ASSUMED)]
        if assumed:
            most = max(fitted.models[each].memory_mib(fitted.models[each].max_batch) for each in assumed)
            notes.append(
                f"memory of {', '.join(assumed)} on {name}: not measured, assumed to be that of the largest listed"
                f" model (at most {most:,.0f} MiB); the column memory_mib replaces it"
            )
        others = {each: known.models[each] for each in needed if known and each not in fitted.models}
        gpu = replace(fitted, models={**fitted.models, **others})
        if name in measured.whole:
            gpu = replace(gpu, allowed_shares=(gpu.share_units,))
            notes.append(f"{name} was measured at 100 % only: only whole GPUs are planned")
    assert gpu is not None  # a GPU type without figures was refused
    return replace(
        gpu,
        models={each: gpu.models[each] for each in needed},
        price_per_hour=row.values.get("price_per_hour", gpu.price_per_hour),
        memory_mib=row.values.get("memory_mib", gpu.memory_mib),
    )


def _interfering(gpu: GpuType, measured: OwnProfile, slowdown: float | None, model: str, notes: list[str]) -> GpuType:
    """Return the GPU type, with the buffer if a slowdown is given or a model has no measured interference."""
    own_without_pairs = gpu.name in measured.solo and not measured.pairs.get(gpu.name)
    lacking = [name for name, each in gpu.models.items() if performance_model(model).missing(gpu, each)]
    if slowdown is None and not own_without_pairs and not lacking:
        return gpu
    found = with_buffer(gpu, P95_SLOWDOWN if slowdown is None else slowdown)
    for name, each in found.models.items():
        if missing := performance_model(model).missing(found, each):
            raise InputError(FieldName("model"), f'is "{model}"; {gpu.name} has no {missing} for {name}')
    whose = "as asked" if slowdown is not None else "P95 of the catalogue's measured pairs; `pairs` replaces it"
    growth_pct = 100.0 * ((slowdown or P95_SLOWDOWN) - 1.0)
    notes.append(f"interference on {gpu.name}: a buffer, every neighbour adds {growth_pct:.0f} % ({whose})")
    return found


def _attainment(rows: Sequence[Record], given: float | None, notes: list[str]) -> float:
    if given is not None:
        return given
    stated = {row.values["service"]: row.values["attainment"] for row in rows if "attainment" in row.values}
    if len(stated) < len(rows):
        stated[""] = DEFAULT_ATTAINMENT
    strictest = max(stated, key=lambda name: stated[name])
    if len(set(stated.values())) > 1:
        notes.append(f"attainment: all services are planned for the strictest, {100.0 * stated[strictest]:g} %")
    return float(stated[strictest])


def _arrivals(rows: Sequence[Record], given: str | None, notes: list[str]) -> str:
    if given is not None:
        burstiness(given)
        return given
    stated: dict[str, float] = {}
    for row in rows:
        text = row.values.get("arrivals", POISSON)
        try:
            stated[text] = burstiness(text)
        except InputError as error:
            raise row.error("arrivals", error.problem) from None
    burstiest = max(stated, key=lambda text: stated[text])
    if len(stated) > 1:
        notes.append(f"arrivals: all services are planned for the burstiest, {burstiest}")
    return burstiest
