"""Language-model services on A100s: LLaMA 7B and 13B, prompt and output together at most 512 tokens.

Every service has requests of one length. Prompts have 64 to 320 tokens and outputs 32 to 192, multiples of 16, all
equally likely. The largest time to first token is 0.3, 0.5 or 1 s, and the largest time per output token is 25, 40 or
60 ms; both are 1.5 times as long for 13B. Rates are log-uniform, from 3 to 24 requests per second for 7B and half of
that for 13B. A service that needs more than one GPU for a phase is drawn again, so that plans need not split it.
Interference was not measured: predicted latencies are multiplied by 1.2 before they are tested.
"""

from collections.abc import Sequence
from random import Random

import numpy as np

from instances.catalogue import gpu_type
from instances.instance import GpuPool, Instance, instance_of_services
from instances.services import Service
from instances.view import View

BUFFER = 1.2
"""Factor on predicted latencies in place of unmeasured interference."""

SHARES, EIGHTHS = "a100-llm", "a100-eighths"
"""GPU types: the A100 with shares of any size, and the A100 cut into eighths."""

_SMALL, _LARGE = "llama-7b", "llama-13b"
# Seed, number of services, and models
_SIZES: dict[str, tuple[int, int, Sequence[str]]] = {
    "llm-4gpu": (0, 5, (_SMALL,)),
    "llm-16gpu": (0, 18, (_SMALL, _LARGE)),
}
_MIXES: dict[str, tuple[int, int, Sequence[str]]] = {
    f"llm-mix-{seed}": (seed, 8, (_SMALL, _LARGE)) for seed in range(1, 6)
}

_PROVENANCE = "ours, drawn by instances/suites/llm.py; no interference measured, latencies multiplied by 1.2"


def four_gpus() -> tuple[Instance, ...]:
    """Return services of 7B for about four GPUs."""
    return (_drawn("llm-4gpu", *_SIZES["llm-4gpu"]),)


def sixteen_gpus() -> tuple[Instance, ...]:
    """Return services of 7B and 13B for about sixteen GPUs."""
    return (_drawn("llm-16gpu", *_SIZES["llm-16gpu"]),)


def mixes() -> tuple[Instance, ...]:
    """Return five mixes of eight services, 7B and 13B in turn."""
    return tuple(_drawn(name, *size) for name, size in _MIXES.items())


def eighths() -> tuple[Instance, ...]:
    """Return the services of the other suites on GPUs that are cut into eighths."""
    return tuple(_drawn(name, *size, gpu=EIGHTHS, suffix="-eighths") for name, size in (_SIZES | _MIXES).items())


def _drawn(name: str, seed: int, size: int, models: Sequence[str], gpu: str = SHARES, suffix: str = "") -> Instance:
    """Draw services of the models in turn; the same name and seed give the same services on every GPU type."""
    random = Random(f"{name} {seed}")
    services: list[tuple[Service, float]] = []
    while len(services) < size:
        model = models[len(services) % len(models)]
        slo_factor = 1.0 if model == _SMALL else 1.5
        prompt, output = random.randrange(64, 321, 16), random.randrange(32, 193, 16)
        ttft_ms, tpot_ms = random.choice((300.0, 500.0, 1000.0)), random.choice((25.0, 40.0, 60.0))
        service = Service(f"s{len(services) + 1}", model, prompt, output, slo_factor * ttft_ms, slo_factor * tpot_ms)
        rate_rps = round(8.0 ** random.random() * 3.0 / (1.0 if model == _SMALL else 2.0), 1)
        if _one_gpu_serves(service, rate_rps):
            services.append((service, rate_rps))
    return _instance(name + suffix, services, gpu, seed)


def _instance(name: str, services: Sequence[tuple[Service, float]], gpu: str, seed: int) -> Instance:
    pool = [GpuPool(gpu_type(gpu))]
    return instance_of_services(name, services, pool, latency_buffer=BUFFER, seed=seed, provenance=_PROVENANCE)


def _one_gpu_serves(service: Service, rate_rps: float) -> bool:
    """Return whether one GPU can serve each phase at some batch."""
    alone = _instance("alone", [(service, rate_rps)], SHARES, 0)
    view = View.of(alone, alone.gpus[0].type)
    all_units = view.tables.share_units
    for workload in range(2):
        batch = np.arange(1, int(view.tables.max_batch[view.model[workload]]) + 1)
        if not np.any(view.tables.active_ms[view.model[workload], batch, all_units] <= view.budget_ms(workload, batch)):
            return False
    return True
