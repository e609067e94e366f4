"""Language-model services: requests that one model prefills and then decodes token by token.

A service is two workloads, prefill and decode, because their passes need very different shares of a GPU. Their DNN
models follow from the measured tables of a language model by interpolation at the service's lengths; nothing is
extrapolated. Every gpulet holds its own copy of the weights (two bytes per parameter), a CUDA context, and the keys and
values of all tokens of the requests in it: the prompts of a prefill batch, or the whole contexts of a decoding batch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from instances.errors import InputError, unknown_name
from instances.gpu import DnnModel, GpuType, LanguageModel, SoloProfile
from instances.memory import CONTEXT_MIB

MOST_PROMPTS = 32
"""Largest prefill batch: from a few hundred tokens on, compute is the limit, and larger batches gain nothing."""


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
        """Name of the DNN model of its prefill passes."""
        return f"{self.model}/prefill/{self.prompt_tokens}"

    @property
    def decode_model(self) -> str:
        """Name of the DNN model of its decoding steps."""
        return f"{self.model}/decode/{self.prompt_tokens}+{self.output_tokens}"


def service_problem(service: Service, gpu: GpuType) -> tuple[str, str] | None:
    """Return the field that keeps a service from a GPU type and the problem with it; ``None`` if there is none."""
    if service.model not in gpu.language_models:
        kind = f"language model on {gpu.name}"
        return "model", unknown_name("", kind, service.model, list(gpu.language_models)).problem
    known = gpu.language_models[service.model]
    least, most = known.context_tokens[0], known.context_tokens[-1]
    if service.prompt_tokens < known.prompt_tokens[0]:
        return (
            "prompt_tokens",
            f"is {service.prompt_tokens}; {known.name} was measured from {known.prompt_tokens[0]} on",
        )
    context = service.prompt_tokens + service.output_tokens
    if not least <= context <= most:
        problem = f"make {context} with the prompt; {known.name} was measured from {least} to {most} tokens"
        return "output_tokens", problem
    if service.tpot_ms >= service.ttft_ms:
        return "tpot_ms", f"is {service.tpot_ms:g}; expected less than ttft_ms, which includes one decoding step"
    return None


def gpu_for_services(gpu: GpuType, services: Iterable[Service]) -> GpuType:
    """Return a GPU type with the DNN models of the services, and no others.

    Raises
    ------
    InputError
        If there are no figures for a service.
    """
    models: dict[str, DnnModel] = {}
    for service in services:
        if (problem := service_problem(service, gpu)) is not None:
            raise InputError(f"{service.name}: {problem[0]}", problem[1])
        known = gpu.language_models[service.model]
        for name, build in ((service.prefill_model, _prefill), (service.decode_model, _decode)):
            if name not in models:
                models[name] = build(name, service, known, gpu.memory_mib)
    # Tables are cached by GPU type, and equal types may differ in the order of their models: sort it.
    return replace(gpu, models=dict(sorted(models.items())))


def _prefill(name: str, service: Service, known: LanguageModel, memory_mib: float) -> DnnModel:
    per_item_mib = service.prompt_tokens * known.cache_mib_per_token
    top = min(MOST_PROMPTS, known.prompt_tokens[-1] // service.prompt_tokens)
    tokens = service.prompt_tokens * np.arange(1, _most(known, per_item_mib, top, memory_mib) + 1)
    times = [np.interp(tokens, known.prompt_tokens, column) for column in np.array(known.prefill_ms).T]
    return _model(name, known, np.array(times).T, per_item_mib)


def _decode(name: str, service: Service, known: LanguageModel, memory_mib: float) -> DnnModel:
    context = service.prompt_tokens + service.output_tokens
    per_item_mib = context * known.cache_mib_per_token
    batch = np.arange(1, _most(known, per_item_mib, known.batch[-1], memory_mib) + 1)
    grid = np.array(known.decode_ms)
    at_context = [
        [np.interp(context, known.context_tokens, column) for column in rows.T] for rows in grid.swapaxes(0, 1)
    ]
    times = [np.interp(batch, known.batch, column) for column in np.array(at_context).T]
    return _model(name, known, np.array(times).T, per_item_mib)


def _most(known: LanguageModel, per_item_mib: float, top: int, memory_mib: float) -> int:
    """Return the largest batch up to ``top`` that fits into the memory of a GPU, at least 1."""
    free_mib = memory_mib - CONTEXT_MIB - known.weights_mib
    return max(1, min(top, int(free_mib / per_item_mib)))


def _model(name: str, known: LanguageModel, times_ms: np.ndarray, per_item_mib: float) -> DnnModel:
    count, none = len(times_ms), (0.0, 0.0)
    grid = tuple(tuple(row) for row in times_ms.tolist())
    zeros = (0.0,) * count
    return DnnModel(
        name=name,
        max_batch=count,
        k=(0.0, 0.0, 0.0, 0.0, 0.0),
        power=none,
        l2=none,
        alpha_cache=0.0,
        scheduling_alone_ms=0.0,
        kernels=0,
        input_bytes=0,
        output_bytes=0,
        memory_base_mib=CONTEXT_MIB + known.weights_mib,
        memory_per_item_mib=per_item_mib,
        provenance=known.provenance,
        solo=SoloProfile(tuple(range(1, count + 1)), known.share_pct, grid, zeros, zeros, none, none, 1.0),
    )
