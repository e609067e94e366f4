"""Entrants of a comparison: schedulers with the parameters that distinguish their runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench.ledger.labels import in_words
from bench.ledger.row import Row
from instances.grouping import grouped

Facets = Mapping[str, str]
"""Parameters and conditions of a run in words, by topic; the seed is not among them."""


def entrants(rows: Sequence[Row], facets: Mapping[str, Facets]) -> dict[str, str]:
    """Return the name of every row's entrant by the row's key; ``facets`` are also by key.

    The name is the scheduler's. If rows of this scheduler on any one instance differ in a facet, the names of all its
    rows also state that facet, unless its text is empty: ``colgen (plan_class=split, 120 s)``. Runs that differ only
    in the seed belong to one entrant.
    """
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        for facet, value in facets[row.key].items():
            values[row.instance_hash, row.scheduler, facet].add(value)
    varying = {
        (scheduler, facet) for (_, scheduler, facet), distinct_values in values.items() if len(distinct_values) > 1
    }
    return {
        row.key: _name(
            row.scheduler,
            [
                value_text
                for facet, value_text in facets[row.key].items()
                if value_text and (row.scheduler, facet) in varying
            ],
        )
        for row in rows
    }


def newest(rows: Sequence[Row], facets: Mapping[str, Facets]) -> set[str]:
    """Return the keys of the runs that newer code has not repeated; ``rows`` are of one instance, oldest first.

    Runs of the same code never count as repetitions. Even runs with equal facets may differ, since two traces of
    arrivals may have the same name.
    """
    groups = grouped(((row.scheduler, row.seed, *facets[row.key].items()), row) for row in rows)
    return {row.key for group in groups.values() for row in group if _code(row) == _code(group[-1])}


def _code(row: Row) -> object:
    return row.provenance.get("code")


def facets_of(rows: Sequence[Row], arrivals: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the facets of rows by key; ``arrivals`` are the arrivals of the simulated plans, also by key.

    A run without a plan has no simulation. Its arrivals are taken from the runs with a plan that have the same
    scheduler and the same other facets; if their arrivals differ, the first text in the alphabet is taken.
    """
    facets = {row.key: _parameters(row) | _conditions(row) for row in rows}
    run_groups = {row.key: (row.scheduler, *facets[row.key].items()) for row in rows}
    arrivals_of_group = grouped(
        (run_groups[row.key], _arrivals(arrivals.get(row.key))) for row in rows if row.plan_class is not None
    )
    for row in rows:
        run_arrivals = _arrivals(arrivals.get(row.key))
        facets[row.key]["arrivals"] = (
            min(arrivals_of_group.get(run_groups[row.key], [""])) if row.plan_class is None else run_arrivals
        )
    return facets


def _parameters(row: Row) -> dict[str, str]:
    """Return the facets of a run's parameters; the scheduler is named if there are several, as in a chain."""
    several_schedulers = len(row.parameters) > 1
    return {
        f"{scheduler}.{name}": f"{f'{scheduler}.' if several_schedulers else ''}{name}={in_words(value)}"
        for scheduler, parameters in row.parameters.items()
        for name, value in parameters.items()
        if not isinstance(value, Mapping) and name != "started_at"  # replays have mappings and a starting time
    }


def _conditions(row: Row) -> dict[str, str]:
    """Return the facets of a run's conditions.

    A default condition has an empty text, except time limit, memory limit and threads.
    """
    return {
        "source": "" if row.source == "plan" else row.source,
        "reserve": row.reserve,
        "then": _second_objective(row),
        "truth": "" if row.truth is None else f"really {row.truth}",
        "time limit": f"{row.time_limit_s:g} s",
        "work limit": "" if row.work_limit is None else f"work limit {row.work_limit:,}",
        "memory limit": "no memory limit" if row.memory_limit_mb is None else f"{row.memory_limit_mb / 1024:g} GB",
        "threads": f"{row.threads} thread{'s' * (row.threads != 1)}",
    }


def _second_objective(row: Row) -> str:
    limit = "" if row.then_limit_s is None else f" within {row.then_limit_s:g} s"
    return row.second_objective and f"then {row.second_objective}{limit}"


def _arrivals(arrivals: str | None) -> str:
    if arrivals is None:
        return "not simulated"
    return "" if arrivals == "poisson" else f"{arrivals} arrivals"


def _name(scheduler: str, facets: Sequence[str]) -> str:
    return f"{scheduler} ({', '.join(facets)})" if facets else scheduler
