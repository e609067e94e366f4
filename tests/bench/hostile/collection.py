"""All hostile schedulers by name, and how the row of each must end."""

import re
from importlib import import_module

from hostile.base import Hostile
from hostile.imports import ENDS as IMPORTS

KINDS = ("claims", "crashes", "imports", "messages", "outcomes", "resources", "survivors", "times")
_CLASSES = {
    name: (kind, scheduler)
    for kind in KINDS
    for name, scheduler in vars(import_module(f"hostile.{kind}")).items()
    if isinstance(scheduler, type) and issubclass(scheduler, Hostile) and scheduler is not Hostile
}
# The module ``imports`` has no class to find: the import of each of its schedulers is the attack.
KIND = {name: kind for name, (kind, _) in _CLASSES.items()} | dict.fromkeys(IMPORTS, "imports")
"""Module of each scheduler, without the prefix ``hostile.``."""


def variant(name: str, how: str) -> str:
    """Return NAME:HOW, or NAME of a scheduler without variants."""
    return f"{name}:{how}" if how else name


ENDS = {
    variant(name, how): end for name, (_, scheduler) in _CLASSES.items() for how, end in scheduler.ENDS.items()
} | IMPORTS
"""Termination and reason of each variant of each scheduler."""

REFUTED = {variant(name, how) for name, (_, scheduler) in _CLASSES.items() for how in scheduler.REFUTED}
"""Variants whose claim must be refuted by an honest row."""


def is_expected(variant: str, termination: str, reason: str) -> bool:
    """Whether a row of a variant ended as it must."""
    end, text = ENDS[variant]
    pattern = ".*".join(re.escape(part) for part in text.split("..."))
    return termination == end and re.fullmatch(pattern, reason, re.DOTALL) is not None
