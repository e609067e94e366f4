"""Rows of language models in the table of services, and the GPU types that serve them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from instances.catalogue import known_gpu_type
from instances.files.records import Record
from instances.gpu import GpuType, LanguageModel
from instances.memory import CONTEXT_MIB
from instances.services import Service, gpu_for_services, service_problem

COLUMNS = ("prompt_tokens", "output_tokens", "ttft_ms", "tpot_ms")
"""Columns that only rows of language models have."""

BUFFER = 1.2
"""Factor on the latencies of instances with language models: their interference was not measured."""

ONE_GPU = "replicas on several GPUs (tensor parallel) are not planned"


def is_language_model(row: Record) -> bool:
    """Return whether a row of the table of services has one of the columns of language models."""
    return any(column in row.values for column in COLUMNS)


def check_columns(rows: Sequence[Record], gpu_names: Iterable[str]) -> None:
    """Check that rows of language models have all of ``COLUMNS`` and no ``slo_ms``, and other rows an ``slo_ms``.

    Raises
    ------
    InputError
        If a row has too few columns or too many.
    """
    types = [gpu for gpu in map(known_gpu_type, gpu_names) if gpu is not None]
    for row in rows:
        model = row.values["model"]
        missing = [column for column in COLUMNS if column not in row.values]
        if is_language_model(row) and missing:
            raise row.error(missing[0], f"is empty; the row of a language model has {', '.join(COLUMNS)}")
        if is_language_model(row) and "slo_ms" in row.values:
            raise row.error("slo_ms", "is given; the SLO of a language model is ttft_ms and tpot_ms")
        if missing and any(model in gpu.language_models for gpu in types) and not _profiled(model, types):
            raise row.error(missing[0], f"is empty; {model} is a language model, whose row has {', '.join(COLUMNS)}")
        if missing and "slo_ms" not in row.values:
            raise row.error("slo_ms", "is empty; expected the latency objective of a request, milliseconds")


def _profiled(model: str, types: Sequence[GpuType]) -> bool:
    return any(model in gpu.models for gpu in types)


def service_of(row: Record) -> Service:
    """Return the language-model service of a row."""
    values = row.values
    return Service(
        values["service"],
        values["model"],
        int(values["prompt_tokens"]),
        int(values["output_tokens"]),
        values["ttft_ms"],
        values["tpot_ms"],
    )


def with_language_models(gpu: GpuType, row_of: dict[Service, Record]) -> GpuType:
    """Return a GPU type to which the DNN models of the services are added.

    Raises
    ------
    InputError
        If the type has no figures for a service, or a service needs more than one GPU for a replica.
    """
    catalogued = known_gpu_type(gpu.name)
    language_models = {} if catalogued is None else catalogued.language_models
    gpu = replace(gpu, language_models=language_models)
    for service, row in row_of.items():
        if (problem := service_problem(service, gpu)) is not None:
            remark = f"; {ONE_GPU}" if problem[0] == "model" else ""
            raise row.error(problem[0], problem[1] + remark)
        least_mib = least_memory_mib(service, language_models[service.model])
        if least_mib > gpu.memory_mib:
            needs = f"{service.model} needs {least_mib:,.0f} MiB for weights and the cache of one request"
            raise row.error("model", f"{needs}, and {gpu.name} has {gpu.memory_mib:,.0f} MiB; {ONE_GPU}")
    return gpu_for_services(gpu, row_of)


def least_memory_mib(service: Service, language_model: LanguageModel) -> float:
    """Return the memory of a process that decodes one request of a service, with weights and CUDA context."""
    context = service.prompt_tokens + service.output_tokens
    return CONTEXT_MIB + language_model.weights_mib + context * language_model.cache_mib_per_token


def memory_notes(gpu: GpuType, services: Iterable[Service]) -> list[str]:
    """Return the memory that each language model takes, in words."""
    language_models = [gpu.language_models[name] for name in dict.fromkeys(service.model for service in services)]
    return [
        f"memory of {model.name}: {model.weights_mib + CONTEXT_MIB:,.0f} MiB of weights and CUDA context in every"
        f" process, {model.cache_mib_per_token:.3g} MiB of KV cache per token"
        for model in language_models
    ]
