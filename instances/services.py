"""Language-model services: requests that one model prefills and then decodes token by token.

A service is two workloads, prefill and decode, because their passes need very different shares of a GPU. The DNN model
of each is interpolated from the measured tables of a language model at the service's token lengths, and never
extrapolated. Every gpulet has its own copy of the weights (two bytes per parameter), a CUDA context, and the keys and
values of all tokens of its requests: the prompts of a prefill batch, or the whole contexts of a decoding batch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from instances.errors import InputError, unknown_name
from instances.gpu import DnnModel, GpuType, LanguageModel, SoloProfile
from instances.memory import CONTEXT_MIB

MOST_PROMPTS = 32
"""Largest prefill batch: from a few hundred tokens on, compute is the bottleneck, and larger batches gain nothing."""


@dataclass(frozen=True, slots=True)
class Service:
    """A language-model service.

    Attributes
    ----------
    name
        Unique within its instance.
    prompt_tokens, output_tokens
        Tokens of a request's prompt, and tokens generated for it.
    ttft_ms, tpot_ms
        Largest permitted time to first token and mean time per output token.
    """

    name: str
    model: str
    prompt_tokens: int
    output_tokens: int
    ttft_ms: float
    tpot_ms: float

    @property
    def prefill_model(self) -> str:
        """Name of the DNN model of the prefill passes."""
        return f"{self.model}/prefill/{self.prompt_tokens}"

    @property
    def decode_model(self) -> str:
        """Name of the DNN model of the decoding steps."""
        return f"{self.model}/decode/{self.prompt_tokens}+{self.output_tokens}"


def service_problem(service: Service, gpu: GpuType) -> tuple[str, str] | None:
    """Return the field of a service that a GPU type cannot serve, and the problem; ``None`` if it can serve all."""
    if service.model not in gpu.language_models:
        kind = f"language model on {gpu.name}"
        return "model", unknown_name("", kind, service.model, list(gpu.language_models)).problem
    language_model = gpu.language_models[service.model]
    fewest_tokens, most_tokens = language_model.context_tokens[0], language_model.context_tokens[-1]
    if service.prompt_tokens < language_model.prompt_tokens[0]:
        return (
            "prompt_tokens",
            f"is {service.prompt_tokens}; {language_model.name} was measured from {language_model.prompt_tokens[0]} on",
        )
    context = service.prompt_tokens + service.output_tokens
    if not fewest_tokens <= context <= most_tokens:
        measured = f"{language_model.name} was measured from {fewest_tokens} to {most_tokens} tokens"
        return "output_tokens", f"make {context} with the prompt; {measured}"
    if service.tpot_ms >= service.ttft_ms:
        return "tpot_ms", f"is {service.tpot_ms:g}; expected less than ttft_ms, which includes one decoding step"
    return None


def gpu_for_services(gpu: GpuType, services: Iterable[Service]) -> GpuType:
    """Return a GPU type to which the DNN models of the services are added.

    Raises
    ------
    InputError
        If there are no figures for a service.
    """
    models: dict[str, DnnModel] = dict(gpu.models)
    for service in services:
        if (problem := service_problem(service, gpu)) is not None:
            raise InputError(f"{service.name}: {problem[0]}", problem[1])
        language_model = gpu.language_models[service.model]
        for name, build in ((service.prefill_model, _prefill), (service.decode_model, _decode)):
            if name not in models:
                models[name] = build(name, service, language_model, gpu.memory_mib)
    # Tables are cached by GPU type. Equal types may differ in the order of their models, so the models are sorted.
    return replace(gpu, models=dict(sorted(models.items())))


def _prefill(name: str, service: Service, language_model: LanguageModel, memory_mib: float) -> DnnModel:
    per_item_mib = service.prompt_tokens * language_model.cache_mib_per_token
    most_prompts = min(MOST_PROMPTS, language_model.prompt_tokens[-1] // service.prompt_tokens)
    tokens = service.prompt_tokens * np.arange(
        1, _largest_batch(language_model, per_item_mib, most_prompts, memory_mib) + 1
    )
    times = [
        np.interp(tokens, language_model.prompt_tokens, column) for column in np.array(language_model.prefill_ms).T
    ]
    return _model(name, language_model, np.array(times).T, per_item_mib)


def _decode(name: str, service: Service, language_model: LanguageModel, memory_mib: float) -> DnnModel:
    context = service.prompt_tokens + service.output_tokens
    per_item_mib = context * language_model.cache_mib_per_token
    batch = np.arange(1, _largest_batch(language_model, per_item_mib, language_model.batch[-1], memory_mib) + 1)
    by_batch = np.array(language_model.decode_ms).swapaxes(0, 1)  # [batch][context][share]
    at_context = [  # [batch][share]
        [np.interp(context, language_model.context_tokens, column) for column in rows.T] for rows in by_batch
    ]
    times = [np.interp(batch, language_model.batch, column) for column in np.array(at_context).T]
    return _model(name, language_model, np.array(times).T, per_item_mib)


def _largest_batch(language_model: LanguageModel, per_item_mib: float, limit: int, memory_mib: float) -> int:
    """Return the largest batch up to ``limit`` that fits into the memory of a GPU, at least 1."""
    free_mib = memory_mib - CONTEXT_MIB - language_model.weights_mib
    return max(1, min(limit, int(free_mib / per_item_mib)))


def _model(name: str, language_model: LanguageModel, times_ms: np.ndarray, per_item_mib: float) -> DnnModel:
    count = len(times_ms)
    grid = tuple(tuple(row) for row in times_ms.tolist())
    zeros, zero_line = (0.0,) * count, (0.0, 0.0)
    return DnnModel(
        name=name,
        max_batch=count,
        k=(0.0, 0.0, 0.0, 0.0, 0.0),
        power=zero_line,
        l2=zero_line,
        alpha_cache=0.0,
        scheduling_alone_ms=0.0,
        kernels=0,
        input_bytes=0,
        output_bytes=0,
        memory_base_mib=CONTEXT_MIB + language_model.weights_mib,
        memory_per_item_mib=per_item_mib,
        provenance=language_model.provenance,
        solo=SoloProfile(
            tuple(range(1, count + 1)), language_model.share_pct, grid, zeros, zeros, zero_line, zero_line, 1.0
        ),
    )
