"""Reading and writing of instances as JSON.

In addition to the schema, the reader checks that names are known, ids are unique and lists match.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from graphlib import CycleError, TopologicalSorter
from numbers import Integral, Real
from pathlib import Path
from types import NoneType

from instances.attainment_terms import terms_mismatch
from instances.catalogue import catalogue_of, gpu_type, gpu_type_from_toml, gpu_type_names, gpu_type_to_toml, packaged
from instances.errors import InputError, unknown_name
from instances.files.models import (
    VERSION,
    ApplicationEntry,
    GpuEntry,
    InstanceFile,
    JobEntry,
    ServiceEntry,
    WorkloadEntry,
)
from instances.files.problems import Location, Problem, input_error, refuse_other_kind, validated
from instances.files.text import read_json
from instances.gpu import GpuType
from instances.grouping import grouped
from instances.instance import GpuPool, Instance, Objective, partition_mismatch, services_mismatch
from instances.mig import MIG_TABLE
from instances.performance import performance_model
from instances.services import Service, gpu_for_services, service_problem
from instances.workload import Application, Job, Workload, service_workloads

_LONGEST_SEARCH = 100
"""Largest number of known names for which an error suggests the nearest one; a search among more takes too long."""

_PLAIN = (str, int, float, bool, NoneType)
"""Types of values that JSON represents as they are."""


def read_instance(path: Path) -> Instance:
    """Return the instance in the JSON file at ``path``, or the one that a plan in this file embeds.

    Raises
    ------
    InputError
        If the file cannot be read or is not an instance; the error names the file, the field and the expected value.
    """
    data, where = read_json(path), str(path)
    if isinstance(data, dict) and "gpus" in data and isinstance(data.get("instance"), dict):
        data, where = data["instance"], f"{where}: instance"
    return instance_from_json(data, where, path.parent)


def instance_from_json(data: object, where: str = "instance", folder: Path = Path()) -> Instance:
    """Return the instance in ``data``, the parsed content of a JSON file.

    The path of the instance's own catalogue is relative to ``folder``.

    Raises
    ------
    InputError
        If ``data`` is not an instance; the error names ``where`` as the place.
    """
    refuse_other_kind(data, where, "instance")
    return build_instance(validated(InstanceFile, data, where), where, folder=folder)


def instance_to_json(instance: Instance, *, frozen: bool = False) -> dict[str, object]:
    """Return ``instance`` as JSON data, in the order of the published format, without fields at their default.

    GPU types that are not in the package are embedded; with ``frozen``, all GPU types are. Reading the result gives an
    equal instance with the same fingerprint, provided that times and rates are floats as declared.

    Raises
    ------
    InputError
        If a file cannot represent the instance: a value is out of range or of the wrong type.
    """
    data = _data(instance, frozen)
    if instance_from_json(data) != instance:
        raise InputError("instance", f'"{instance.name}" has values of the wrong type: a file would change them')
    return data


def build_instance(file: InstanceFile, where: str, base: Location = (), folder: Path = Path()) -> Instance:
    """Build the instance of a file that matches the schema.

    Errors name the location ``base`` of the instance in ``where``. The path of the instance's own catalogue is relative
    to ``folder``.

    Raises
    ------
    InputError
        If names are unknown, ids repeat or lists do not match.
    """
    own_types = _own_types(file, where, base, folder)
    problems = [((*base, *location), text) for location, text in _problems(file, own_types)]
    if problems:
        raise input_error(where, problems)
    services = [_service(entry) for entry in file.services]
    return Instance(
        name=file.name,
        objective=Objective(file.throughput_of or file.objective),
        slo_rule=file.slo_rule,
        performance_model=file.performance_model,
        gpus=tuple(GpuPool(_pool_type(entry, own_types, services), entry.count) for entry in file.gpus),
        workloads=(
            *(_workload(entry) for entry in file.workloads),
            *(
                workload
                for service, service_entry in zip(services, file.services, strict=True)
                for workload in service_workloads(service, service_entry.rate_rps)
            ),
        ),
        applications=tuple(
            Application(
                entry.id, tuple(entry.stages), tuple((before, after) for before, after in entry.edges), entry.slo_ms
            )
            for entry in file.applications
        ),
        jobs=tuple(
            Job(
                entry.id,
                entry.model,
                tuple(entry.batches),
                tuple(entry.batch_weights),
                tuple(entry.interarrival_ms),
                tuple(entry.interarrival_weights),
            )
            for entry in file.jobs
        ),
        latency_buffer=file.latency_buffer,
        attainment=file.attainment,
        arrivals=file.arrivals,
        dropping=file.dropping,
        random_routing=file.random_routing,
        seed=file.seed,
        provenance=file.provenance,
    )


def _own_types(file: InstanceFile, where: str, base: Location, folder: Path) -> Mapping[str, GpuType]:
    """Return the GPU types of the instance's own catalogue, by name."""
    catalogue = file.catalogue
    if catalogue is None:
        return {}
    if isinstance(catalogue, str):
        return catalogue_of(folder / catalogue)
    if not isinstance(catalogue, dict):
        raise input_error(where, [((*base, "catalogue"), "expected a file, a folder, or GPU types by name")])
    types = {}
    for name, entry in catalogue.items():
        location = ".".join(map(str, (*base, "catalogue", name)))
        if not isinstance(entry, dict):
            raise input_error(where, [((*base, "catalogue", name), "expected the entry of a GPU type, an object")])
        types[name] = replace(gpu_type_from_toml(entry, f"{where}: {location}"), name=name)
    return types


def _named_type(own_types: Mapping[str, GpuType], name: str) -> GpuType:
    """Return a GPU type of the instance's own catalogue, or of the shared catalogue if the own one lacks the name."""
    if name in own_types:
        return own_types[name]
    if own_types and name not in gpu_type_names():
        raise unknown_name("gpu", "GPU type", name, [*own_types, *gpu_type_names()])
    return gpu_type(name)


def _pool_type(entry: GpuEntry, own_types: Mapping[str, GpuType], services: Sequence[Service]) -> GpuType:
    """Return the GPU type of a pool, with the pool's price and the models that services add."""
    gpu = _named_type(own_types, entry.type)
    if entry.price_per_hour is not None:
        gpu = replace(gpu, price_per_hour=entry.price_per_hour)
    return gpu_for_services(gpu, services) if services else gpu


def _workload(entry: WorkloadEntry) -> Workload:
    return Workload(entry.id, entry.model, entry.slo_ms, entry.rate_rps, entry.arrivals)


def _service(entry: ServiceEntry) -> Service:
    return Service(entry.service, entry.model, entry.prompt_tokens, entry.output_tokens, entry.ttft_ms, entry.tpot_ms)


def _problems(file: InstanceFile, own_types: Mapping[str, GpuType]) -> Iterator[Problem]:
    """Yield the contradictions between the fields of a file that matches the schema."""
    yield from _objective_problems(file)
    model_refusal = None if file.performance_model == MIG_TABLE else _refusal(performance_model, file.performance_model)
    if model_refusal is not None:
        yield ("performance_model",), model_refusal
    known_types: list[GpuType] = []
    for position, gpu in enumerate(file.gpus):
        try:
            known_types.append(_named_type(own_types, gpu.type))
        except InputError as error:
            yield ("gpus", position, "type"), error.problem
    if model_refusal is None and len(known_types) == len(file.gpus):
        yield from _problem_of(partition_mismatch(known_types, file.performance_model, file.slo_rule, file.objective))
    if file.services and model_refusal is None:
        yield from _problem_of(services_mismatch(file.performance_model, file.objective))
    yield from _repetitions("services", "service", [service.service for service in file.services])
    for position, service in enumerate(file.services):
        for known_type in known_types:
            if (contradiction := service_problem(_service(service), known_type)) is not None:
                yield ("services", position, contradiction[0]), contradiction[1]
    yield from _problem_of(terms_mismatch(file, bool(file.applications)))
    yield from _repetitions("gpus", "type", [gpu.type for gpu in file.gpus])
    yield from _repetitions("workloads", "id", [workload.id for workload in file.workloads])
    yield from _model_problems("workloads", [workload.model for workload in file.workloads], known_types)
    yield from _repetitions("applications", "id", [application.id for application in file.applications])
    ids = {workload.id for workload in file.workloads}
    application_of: dict[str, str] = {}
    for position, application in enumerate(file.applications):
        yield from _application_problems(application, ids, ("applications", position))
        if application.id in ids:
            yield ("applications", position, "id"), f'"{application.id}" is also a workload; expected a name of its own'
        for stage_position, stage in enumerate(application.stages):
            if application_of.setdefault(stage, application.id) != application.id:
                other = application_of[stage]
                problem = f'"{stage}" is a stage of "{other}" already; expected a workload for each application'
                yield ("applications", position, "stages", stage_position), problem
    yield from _repetitions("jobs", "id", [job.id for job in file.jobs])
    yield from _model_problems("jobs", [job.model for job in file.jobs], known_types)
    for position, job in enumerate(file.jobs):
        yield from _weight_problems(job, ("jobs", position))


def _problem_of(mismatch: tuple[str, str] | None) -> Iterator[Problem]:
    if mismatch is not None:
        yield (mismatch[0],), mismatch[1]


def _objective_problems(file: InstanceFile) -> Iterator[Problem]:
    objective = file.objective
    if objective == "throughput" and file.throughput_of is None:
        yield ("throughput_of",), 'is missing; objective "throughput" needs "capacity" or "goodput"'
    if objective != "throughput" and file.throughput_of is not None:
        yield ("throughput_of",), f'is given, but objective "{objective}" does not use it; remove it'
    if objective == "colocation":
        if not file.jobs:
            yield ("jobs",), 'is empty; objective "colocation" needs at least one job'
    else:
        if not file.workloads and not file.services:
            yield ("workloads",), "is empty; expected at least one workload"
        if file.jobs:
            yield ("jobs",), f'has best-effort jobs, but objective "{objective}" does not use them; remove them'


def _refusal(look_up: Callable[[str], object], name: str) -> str | None:
    """Return the error of ``look_up(name)``, or ``None`` if the name is known."""
    try:
        look_up(name)
    except InputError as error:
        return error.problem
    return None


def _repetitions(entries: str, key: str, names: Sequence[str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if first.setdefault(name, position) != position:
            yield (entries, position, key), f'"{name}" is also {entries}[{first[name]}].{key}; expected each {key} once'


def _model_problems(entries: str, models: Sequence[str], known_types: Sequence[GpuType]) -> Iterator[Problem]:
    refusals = {model: [_refusal(gpu.check_model, model) for gpu in known_types] for model in set(models)}
    for position, model in enumerate(models):
        for problem in refusals[model]:
            if problem is not None:
                yield (entries, position, "model"), problem


def _application_problems(application: ApplicationEntry, workloads: set[str], at: Location) -> Iterator[Problem]:
    known_stages: set[str] = set()
    for position, stage in enumerate(application.stages):
        if stage not in workloads:
            yield (*at, "stages", position), _unknown("workload", stage, sorted(workloads))
        elif stage in known_stages:
            yield (*at, "stages", position), f'"{stage}" is a stage already; expected each workload once'
        known_stages.add(stage)
    for position, edge in enumerate(application.edges):
        for end, stage in enumerate(edge):
            if stage not in known_stages:
                yield (*at, "edges", position, end), _unknown("stage", stage, application.stages)
    try:
        TopologicalSorter(grouped((before, after) for before, after in application.edges)).prepare()
    except CycleError as error:
        yield (*at, "edges"), f'has a cycle through "{error.args[1][0]}"; expected pairs [before, after] without one'


def _unknown(kind: str, name: str, known: list[str]) -> str:
    """Return the error for an unknown name; suggest the nearest known name if there are few names."""
    if len(known) > _LONGEST_SEARCH:
        return f'unknown {kind} "{name}"; it is none of the {len(known)} known ones'
    return unknown_name("", kind, name, known).problem


def _weight_problems(job: JobEntry, at: Location) -> Iterator[Problem]:
    for weights_key, weights, values_key, values in (
        ("batch_weights", job.batch_weights, "batches", job.batches),
        ("interarrival_weights", job.interarrival_weights, "interarrival_ms", job.interarrival_ms),
    ):
        if len(weights) != len(values):
            yield (
                (*at, weights_key),
                f"has {len(weights)} numbers; expected {len(values)}, one for each of {values_key}",
            )
        elif not 0 < sum(weights) < math.inf:
            yield (*at, weights_key), f"adds up to {sum(weights)}; expected a finite sum greater than 0"


def _data(instance: Instance, frozen: bool) -> dict[str, object]:
    """Return the instance as JSON data, which ``instance_to_json`` checks by reading it."""
    by_throughput = instance.objective in (Objective.CAPACITY, Objective.GOODPUT)
    embedded_types: dict[str, object] = {}
    service_models = {workload.model for workload in instance.workloads if workload.service is not None}
    gpus: list[dict[str, object]] = []
    for pool in instance.gpus:
        gpu = pool.type
        if service_models:
            gpu = replace(gpu, models={name: dnn for name, dnn in gpu.models.items() if name not in service_models})
        entry: dict[str, object] = {"type": gpu.name, "count": pool.count}
        if frozen or not packaged(gpu):
            if not frozen and _repriced(gpu):
                entry["price_per_hour"] = gpu.price_per_hour
            else:
                embedded_types[gpu.name] = tomllib.loads(gpu_type_to_toml(gpu))
        gpus.append(entry)
    data: dict[str, object] = {
        "version": VERSION,
        "name": instance.name,
        "objective": "throughput" if by_throughput else str(instance.objective),
        "throughput_of": str(instance.objective) if by_throughput else None,
        "slo_rule": str(instance.slo_rule),
        "performance_model": instance.performance_model,
        "latency_buffer": instance.latency_buffer,
        "attainment": instance.attainment,
        "arrivals": instance.arrivals,
        "dropping": instance.dropping,
        "random_routing": instance.random_routing,
        "catalogue": embedded_types or None,
        "gpus": gpus,
        "workloads": [_workload_data(workload) for workload in instance.workloads if workload.service is None],
        "services": [_service_data(workload) for workload in instance.workloads if workload.steps],
        "applications": [asdict(application) for application in instance.applications],
        "jobs": [asdict(job) for job in instance.jobs],
        "seed": instance.seed,
        "provenance": instance.provenance,
    }
    defaults = {name: field.default for name, field in InstanceFile.model_fields.items() if name != "workloads"}
    return {name: plain(value) for name, value in data.items() if name == "workloads" or value != defaults[name]}


def _repriced(gpu: GpuType) -> bool:
    """Return whether ``gpu`` differs only in its price from the package's GPU type of this name, or not at all."""
    if gpu.name not in gpu_type_names():
        return False
    shared = gpu_type(gpu.name)
    return packaged(shared) and replace(shared, price_per_hour=gpu.price_per_hour) == gpu


def _workload_data(workload: Workload) -> dict[str, object]:
    data: dict[str, object] = {
        "id": workload.id,
        "model": workload.model,
        "slo_ms": workload.slo_ms,
        "rate_rps": workload.rate_rps,
    }
    return data if workload.arrivals is None else data | {"arrivals": workload.arrivals}


def _service_data(decode: Workload) -> dict[str, object]:
    service = decode.service
    assert service is not None
    return {
        "service": service.name,
        "model": service.model,
        "rate_rps": decode.rate_rps,
        "prompt_tokens": service.prompt_tokens,
        "output_tokens": service.output_tokens,
        "ttft_ms": service.ttft_ms,
        "tpot_ms": service.tpot_ms,
    }


def plain(value: object) -> object:
    """Return ``value`` with NumPy numbers as Python numbers, and tuples as lists, at any depth."""
    if type(value) in _PLAIN:  # true for most values, and ten times as fast as the checks below
        return value
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else value
