"""Placeholders in deployed files: names in capitals, which the operator replaces before the files are used."""

from collections.abc import Mapping

IMAGE, CUDA_IMAGE, FRONT_END_IMAGE = "REGISTRY/SERVER:TAG", "REGISTRY/CUDA:TAG", "REGISTRY/NGINX:TAG"
COMMAND = "SERVER_COMMAND"

BACKEND, MODEL_FILE = "BACKEND", "MODEL_FILE"
"""Name of Triton's backend, and file of the model in the version folder of its repository."""

_WORDS = (IMAGE, CUDA_IMAGE, FRONT_END_IMAGE, COMMAND, BACKEND, MODEL_FILE)
_NODE, _UUID = "NODE-OF-GPU-", "UUID-OF-GPU-"
"""Beginnings of numbered placeholders. Numbers have three digits, so no placeholder is the beginning of another one."""


def node_of(gpu: int) -> str:
    """Return the placeholder for the host name of a GPU's node."""
    return f"{_NODE}{gpu:03d}"


def uuid_of(gpu: int) -> str:
    """Return the placeholder for the UUID of a GPU."""
    return f"{_UUID}{gpu:03d}"


def placeholders(files: Mapping[str, str]) -> list[str]:
    """Return the placeholders in texts by path, and in the paths."""
    names = {part for path in files for part in path.split("/")}
    words = {word.strip("\"'=,") for text in files.values() for word in text.replace("=", " ").split()} | names
    return sorted(word for word in words if word in _WORDS or word.startswith((_NODE, _UUID)))
