"""Who competes: a scheduler, together with whatever tells its runs on one instance apart besides the seed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from json import dumps

from bench.ledger.row import Row


def entrants(rows: Sequence[Row]) -> dict[str, str]:
    """Return the name of the entrant behind every row, by key.

    It is the scheduler's name and, where an instance has rows of this scheduler that differ in a parameter or in how
    they were tried, what these are: ``colgen (plan_class=split, 120 s)``. Runs that differ in the seed alone are one
    entrant's.
    """
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    told = {row.key: facets(row) for row in rows}
    for row in rows:
        for facet, value in told[row.key].items():
            values[row.instance_hash, row.scheduler, facet].add(value)
    varying = {(scheduler, facet) for (_, scheduler, facet), found in values.items() if len(found) > 1}
    return {
        row.key: _name(
            row.scheduler, [words for facet, words in told[row.key].items() if (row.scheduler, facet) in varying]
        )
        for row in rows
    }


def facets(row: Row) -> Mapping[str, str]:
    """Return in words all that can tell two runs of a scheduler on an instance apart, besides the seed, by topic."""
    several = len(row.parameters) > 1
    found = {
        f"{scheduler}.{name}": f"{f'{scheduler}.' if several else ''}{name}={_value(value)}"
        for scheduler, parameters in row.parameters.items()
        for name, value in parameters.items()
        if not isinstance(value, Mapping) and name != "started_at"  # of replays
    }
    found["source"] = "as planned" if row.source == "plan" else row.source
    found["headroom"] = f"headroom {row.headroom:g}" if row.headroom is not None else "headroom 1"
    found["truth"] = f"really {row.truth}" if row.truth is not None else "as planned"
    found["time limit"] = f"{row.time_limit_s:g} s"
    found["threads"] = f"{row.threads} thread{'s' * (row.threads != 1)}"
    return found


def _name(scheduler: str, told: Sequence[str]) -> str:
    return f"{scheduler} ({', '.join(told)})" if told else scheduler


def _value(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)
