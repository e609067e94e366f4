"""Renewal of library entries that a new version no longer computes as they state: the same instance, a new name."""

import re
from dataclasses import replace

from bench.judging.judge import judge
from instances.library import Library, LibraryEntry


def renew(library: Library, name: str) -> LibraryEntry:
    """Remove an entry and write one with the same problem under a new name; return the new entry.

    The plan and its credit stay if the judge accepts the plan, with the value of today. The bound does not: its
    certificate names the old instance.
    """
    old = library.entry(name)
    new = LibraryEntry(replace(old.instance, name=next_name(name)))
    if old.plan is not None:
        plan = replace(old.plan, instance=new.instance.name)
        verdict = judge(plan, new.instance)
        if verdict.feasible:
            new = replace(new, plan=plan, value=verdict.value, plan_credit=old.plan_credit)
    library.replace(name, new)
    return new


def next_name(name: str) -> str:
    """Return the name of the next version of an entry: ``cost-t4-4``, ``cost-t4-4-v2``, ``cost-t4-4-v3``."""
    found = re.fullmatch(r"(.+)-v(\d+)", name)
    return f"{name}-v2" if found is None else f"{found[1]}-v{int(found[2]) + 1}"
