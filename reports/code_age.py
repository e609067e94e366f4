"""Age of runs: whether the code of a run's schedulers is still the code of this installation."""

from collections import Counter
from collections.abc import Iterable
from functools import cache

from bench.ledger.row import Row
from bench.provenance import OWN_PACKAGES, sources_hash
from bench.schedulers.registry import FILE, entries
from bench.schedulers.sources import scheduler_hash


def is_outdated(row: Row) -> bool | None:
    """Return whether code of a run's schedulers has changed since; ``None`` if the run does not state its code."""
    targets = _targets()
    if "schedulers" not in row.provenance:
        return None
    for stage in row.provenance["schedulers"]:
        if stage["distribution"] == FILE:
            continue
        sources = stage.get("sources")
        if sources is None:
            return None
        if stage["name"] not in targets:
            return True
        target = targets[stage["name"]]
        # Whole packages are compared first: that takes milliseconds, and the code of a scheduler up to a second.
        packages = (*OWN_PACKAGES, target.partition(":")[0].partition(".")[0])
        if row.provenance.get("code") != sources_hash(packages) and scheduler_hash(target) != sources:
            return True
    return False


@cache
def _targets() -> dict[str, str]:
    return {entry.name: entry.target for entry in entries().values()}


def age_sentence(rows: Iterable[Row]) -> str:
    """Return a sentence on the runs whose schedulers have changed since, by scheduler; empty without such runs."""
    ages = [(row.scheduler, is_outdated(row)) for row in rows]
    changed = Counter(scheduler for scheduler, outdated in ages if outdated)
    unknown = sum(outdated is None for _, outdated in ages)
    runs_texts = [f"`{scheduler}` ({count:,} runs)" for scheduler, count in sorted(changed.items())]
    parts = []
    if changed:
        parts.append(f"since then the code of {', '.join(runs_texts)} has changed")
    if unknown:
        parts.append(f"{unknown:,} runs do not state their schedulers' code")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
