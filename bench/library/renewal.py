"""Renewal of library entries that this version no longer reproduces: the same problem under a new name."""

import re
from dataclasses import replace

from bench.judging.judge import judge
from instances.library import Library, LibraryEntry


def renew(library: Library, name: str) -> LibraryEntry:
    """Remove an entry and write one with the same problem under a new name; return the new entry.

    If the judge accepts the plan, the new entry has the plan, its credit, and the value that the judge computes. The
    new entry has no bound, because the certificate names the old instance.
    """
    old_entry = library.entry(name)
    new_entry = LibraryEntry(replace(old_entry.instance, name=next_name(name)))
    if old_entry.plan is not None:
        plan = replace(old_entry.plan, instance=new_entry.instance.name)
        verdict = judge(plan, new_entry.instance)
        if verdict.feasible:
            new_entry = replace(new_entry, plan=plan, value=verdict.value, plan_credit=old_entry.plan_credit)
    library.replace(name, new_entry)
    return new_entry


def next_name(name: str) -> str:
    """Return the name of the next version of an entry: ``cost-t4-4``, ``cost-t4-4-v2``, ``cost-t4-4-v3``."""
    match = re.fullmatch(r"(.+)-v(\d+)", name)
    return f"{name}-v2" if match is None else f"{match[1]}-v{int(match[2]) + 1}"
