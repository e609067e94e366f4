"""Labels for services and their replicas: DNS labels, unique in a deployment."""

import hashlib
import re
from collections.abc import Iterable, Sequence

DAEMON, FRONT_END = "mps-daemon", "front-end"
"""Reserved labels: the names of the containers that serve no service."""

_LONGEST_LABEL = 40
"""Largest length of a service's label before a hash and the number of a replica; a DNS label has 63 characters."""

_HASH_DIGITS = 6


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return a label for each name: lower case letters, digits and hyphens, with a letter first.

    A name that is a valid label is its own label. If the label of another name is in use or reserved, a hash of the
    name is added at its end.
    """
    used = {DAEMON, FRONT_END}
    label_of: dict[str, str] = {}
    distinct = list(dict.fromkeys(names))
    for name in sorted(distinct, key=lambda name: name != _label(name)):
        label, attempt = _label(name), name
        while label in used:
            attempt += "\0"
            ending = hashlib.sha256(attempt.encode()).hexdigest()[:_HASH_DIGITS]
            label = f"{_label(name)}-{ending}"
        used.add(label)
        label_of[name] = label
    return {name: label_of[name] for name in distinct}


def replica_names(services: Sequence[str]) -> list[str]:
    """Return a unique name for each server, given the label of its service.

    The name is the label if the service has one server, and the label with a number otherwise.
    """
    used = {DAEMON, FRONT_END, *services}
    names = []
    for label in services:
        name, number = label, 0
        while services.count(label) > 1 and name in used:
            number += 1
            name = f"{label}-{number}"
        used.add(name)
        names.append(name)
    return names


def _label(name: str) -> str:
    """Return the label of ``name`` alone. A Kubernetes service needs a letter first (RFC 1035)."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not re.match("[a-z]", cleaned):
        cleaned = f"service-{cleaned}"
    return cleaned[:_LONGEST_LABEL].strip("-")
