"""Numbers restated from published measurements, with their sources, for figures of readers without the data."""

from collections.abc import Mapping

import numpy as np

from instances.arrays import Floats
from instances.measurements import Configuration, PairSample

SOURCES: Mapping[str, str] = {
    "v100": "github.com/icloud-ecnu/igniter (TensorRT on AWS p3.2xlarge)",
    "a100": "github.com/0909wlgur/Gpulet (A100 80 GB)",
}

# fmt: off
_OVERHEAD_PCT: Mapping[str, tuple[float, ...]] = {
    "v100": (1.3, 3.5, 4.4, 5.4, 5.9, 6.4, 6.9, 7.5, 7.9, 8.6, 9.0, 9.5, 9.9, 10.6, 11.6, 12.4, 13.6, 14.7, 15.8,
             17.5, 23.5),
    "a100": (0.0, 1.9, 3.6, 5.1, 6.3, 8.4, 10.9, 13.8, 18.5, 27.9, 31.2, 33.6, 36.7, 40.4, 42.9, 45.4, 48.0, 52.8,
             73.2, 92.7, 246.3),
}
# fmt: on
"""Slowdown of measured pairs over the catalogue's solo times, in percent: quantiles in steps of 5 %."""

_PAIR_LATENCIES: tuple[tuple[tuple[str, int, float], tuple[str, int, float], float, float], ...] = (
    (("vgg19", 4, 40.0), ("ssd", 4, 60.0), 19.262, 0.133),
    (("vgg19", 4, 60.0), ("ssd", 4, 40.0), 13.519, 0.119),
    (("vgg19", 4, 80.0), ("ssd", 4, 20.0), 10.094, 0.076),
    (("ssd", 4, 20.0), ("vgg19", 4, 80.0), 54.706, 0.177),
    (("ssd", 4, 40.0), ("vgg19", 4, 60.0), 29.696, 0.183),
    (("ssd", 4, 60.0), ("vgg19", 4, 40.0), 20.549, 0.149),
    (("alexnet", 2, 50.0), ("resnet50", 2, 50.0), 1.380, 0.031),
    (("alexnet", 16, 50.0), ("resnet50", 16, 50.0), 5.188, 0.246),
    (("resnet50", 2, 50.0), ("alexnet", 2, 50.0), 4.565, 0.046),
    (("resnet50", 16, 50.0), ("alexnet", 16, 50.0), 23.367, 0.457),
)
"""Configuration, its neighbour on the same V100, and mean and standard deviation of the configuration's latency in ms.

A configuration is (model, batch, share in percent).
"""


def restated_pairs() -> list[PairSample]:
    """Return the restated latencies of pairs on the V100."""
    return [
        PairSample(Configuration(*configuration), Configuration(*neighbour), mean_ms, std_ms)
        for configuration, neighbour, mean_ms, std_ms in _PAIR_LATENCIES
    ]


def restated_overheads(gpu: str) -> Floats:
    """Return 201 slowdowns as fractions; their distribution is the restated distribution of a GPU type."""
    quantiles = np.array(_OVERHEAD_PCT[gpu]) / 100.0
    return np.interp(np.linspace(0.0, 1.0, 201), np.linspace(0.0, 1.0, len(quantiles)), quantiles)


def restated_note(*gpus: str) -> str:
    """Return the note on restated measurements with their sources."""
    sources = ", ".join(f"{gpu.upper()}: {SOURCES[gpu]}" for gpu in gpus)
    return f"Measurements are restated from published ones. {sources}."
