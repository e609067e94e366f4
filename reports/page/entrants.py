"""Who competes: a scheduler, together with whatever tells its runs on one instance apart besides the seed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.labels import in_words
from bench.ledger.row import Row

Facets = Mapping[str, str]
"""What tells a run from others of its scheduler besides the seed, in words, by topic."""


def entrants(rows: Sequence[Row], facets: Mapping[str, Facets]) -> dict[str, str]:
    """Return the name of the entrant behind every row, by key; so are the ``facets`` of each.

    It is the scheduler's name and, where some instance has rows of this scheduler that differ in a parameter or in how
    they were tried, what these are: ``colgen (plan_class=split, 120 s)``. Runs that differ in the seed alone are one
    entrant's.
    """
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        for facet, value in facets[row.key].items():
            values[row.instance_hash, row.scheduler, facet].add(value)
    varying = {(scheduler, facet) for (_, scheduler, facet), found in values.items() if len(found) > 1}
    return {
        row.key: _name(
            row.scheduler,
            [words for facet, words in facets[row.key].items() if words and (row.scheduler, facet) in varying],
        )
        for row in rows
    }


def newest(rows: Sequence[Row], facets: Mapping[str, Facets]) -> set[str]:
    """Return the keys of the rows of an instance, oldest first, that newer code has not made again.

    What differs in nothing that is told, but was made by the same code, is no repetition: two traces may have one name.
    """
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.scheduler, row.seed, *facets[row.key].items()].append(row)
    return {row.key for group in groups.values() for row in group if _code(row) == _code(group[-1])}


def _code(row: Row) -> object:
    return row.provenance.get("code")


def facets_of(rows: Sequence[Row], arrivals: Mapping[str, str]) -> dict[str, Facets]:
    """Return the facets of rows by key; so is under which ``arrivals`` plans were simulated, of those that were.

    What goes without saying has no words. A run without a plan, of which nothing was simulated, is taken for one that
    would have been tried as the others are from which it differs in nothing else.
    """
    others = {row.key: _parameters(row) | _conditions(row) for row in rows}
    places = {key: tuple(found.items()) for key, found in others.items()}
    tried: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for row in rows:
        if row.plan_class is not None:
            tried[row.scheduler, places[row.key]].add(_arrivals(arrivals.get(row.key)))
    return {
        row.key: others[row.key]
        | {
            "arrivals": min(tried[row.scheduler, places[row.key]], default="")
            if row.plan_class is None
            else _arrivals(arrivals.get(row.key))
        }
        for row in rows
    }


def _parameters(row: Row) -> dict[str, str]:
    several = len(row.parameters) > 1
    return {
        f"{scheduler}.{name}": f"{f'{scheduler}.' if several else ''}{name}={in_words(value)}"
        for scheduler, parameters in row.parameters.items()
        for name, value in parameters.items()
        if not isinstance(value, Mapping) and name != "started_at"  # of replays
    }


def _conditions(row: Row) -> dict[str, str]:
    memory = "no memory limit" if row.memory_limit_mb is None else f"{row.memory_limit_mb / 1024:g} GB"
    return {
        "source": "" if row.source == "plan" else row.source,
        "headroom": "" if row.headroom in (None, 1.0) else f"headroom {row.headroom:g}",
        "truth": "" if row.truth is None else f"really {row.truth}",
        "time limit": f"{row.time_limit_s:g} s",
        "memory limit": memory,
        "threads": f"{row.threads} thread{'s' * (row.threads != 1)}",
    }


def _arrivals(arrivals: str | None) -> str:
    return "not simulated" if arrivals is None else "" if arrivals == "poisson" else f"{arrivals} arrivals"


def _name(scheduler: str, told: Sequence[str]) -> str:
    return f"{scheduler} ({', '.join(told)})" if told else scheduler
