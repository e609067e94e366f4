"""Held-out instances of the challenge (docs/challenge.md), drawn from a seed that is published after the call.

The set has two instances of each family of the library: a small and a large one. The seed decides their sizes and their
workloads. Their GPU types have the coefficients that the library keeps, so later changes of the catalogue change no
instance.
"""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from instances.instance import Instance, Objective
from instances.library.collection import LIBRARY
from instances.library.drawing import GPUS_PER_WORKLOAD, SETTINGS, gpus_of_each_type, mix_of_family

SIZES = {"small": (12, 40), "large": (60, 240)}
"""Smallest and largest number of workloads of the two instances of a family."""

_ENTRY_WITH_TYPES = "cost-{setting}-24"
"""Entry of the library from which the GPU types of a setting are taken."""


def held_out(seed: str) -> list[Instance]:
    """Return the instances that belong to a seed, which is any text."""
    return [
        _held_out(seed, objective, setting, kind)
        for objective in (Objective.COST, *GPUS_PER_WORKLOAD)
        for setting in SETTINGS
        for kind in SIZES
    ]


def _held_out(seed: str, objective: Objective, setting: str, kind: str) -> Instance:
    digest = sha256(f"{seed}/{objective}/{setting}/{kind}".encode()).digest()
    smallest, largest = SIZES[kind]
    size = smallest + int.from_bytes(digest[:4], "big") % (largest - smallest + 1)
    count = gpus_of_each_type(setting, objective, size)
    entry = LIBRARY.instance(LIBRARY.current(_ENTRY_WITH_TYPES.format(setting=setting)))
    pool = [replace(offer, count=count) for offer in entry.gpus]
    name = f"held-out-{objective}-{setting}-{size}"
    return mix_of_family(setting, objective, size, int.from_bytes(digest[4:8], "big"), pool, name)


def commitment(seed: str, instances: Iterable[Instance]) -> str:
    """Return the SHA-256 that commits to a seed and its instances before the seed is published.

    The hashed text has the seed in its first line, and a line with the name and the fingerprint of each instance.
    """
    lines = [seed, *(f"{instance.name} {instance.fingerprint}" for instance in instances)]
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
