"""Complete tables of schedulers and instances: the runs behind statistics over all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.labels import labels
from bench.ledger.row import Row
from reports.figure import Need, NothingToDrawError
from reports.selection import instances_of, nothing_to_draw
from reports.statistics.best_known import achieved, best_known
from reports.variants import tried_like

_ENDING = Need(
    "exact-scaling,64gpu",
    ("random", "ffd++", "mediator", "igniter"),
    quick="exact-5-s0,exact-5-s1,exact-5-s2,exact-10-s0",
)
_GENEROUS_S = 300.0
NEEDS = (
    _ENDING,
    replace(_ENDING, schedulers=("local-search",), time_limit_s=_GENEROUS_S),
    replace(_ENDING, schedulers=("cpsat",), time_limit_s=_GENEROUS_S, work_limit=2),
    replace(_ENDING, schedulers=("colgen",), time_limit_s=_GENEROUS_S, work_limit=2_000_000),
)
"""Needs of all figures over complete tables: schedulers that end by themselves, and others with ten seconds' work."""


@dataclass(frozen=True, slots=True)
class Contest:
    """A complete table: every contestant ran on every instance.

    Attributes
    ----------
    runs
        Runs by contestant and instance fingerprint, in the order of the needs and of the suites: one per seed.
    best
        The best known value of each instance, by fingerprint; ``None`` without a feasible plan. Runs outside the table
        count here, too.
    notes
        Notes on the runs that are left out.
    """

    runs: "Mapping[str, Mapping[str, Sequence[Row]]]"
    best: Mapping[str, float | None]
    notes: Sequence[str]


def contest(figure: str, rows: Sequence[Row]) -> Contest:
    """Return the largest complete table of the rows on the contest's instances.

    Of equal runs the latest counts. Runs of one scheduler with several parameters are several contestants. A skipped
    run, whose scheduler does not solve such instances, is a hole; a failed run is a result, the worst one. Contestants
    are added in descending order of their instances, as long as contestants times instances grows.

    Raises
    ------
    NothingToDrawError
        If there is no run (the error names the command), or none with a feasible plan. ``figure`` is the name in the
        error.
    """
    known = {instance.fingerprint: name for name, instance in instances_of(NEEDS).items()}
    own = [
        row
        for row in rows
        if row.instance_hash in known and row.termination != "skipped" and tried_like(row, NEEDS[0].trial)
    ]
    if not own:
        raise nothing_to_draw(figure, NEEDS)
    names = labels(own)
    latest = {(names[row.key], row.instance_hash, row.seed): row for row in own}
    runs: dict[str, dict[str, list[Row]]] = {}
    for (name, instance, _), row in latest.items():
        runs.setdefault(name, {}).setdefault(instance, []).append(row)

    order = sorted(runs, key=lambda name: (-len(runs[name]), place(name), name))
    tables = [
        (order[:count], set.intersection(*(set(runs[name]) for name in order[:count])))
        for count in range(1, len(order) + 1)
    ]
    chosen, instances = max(tables, key=lambda table: len(table[0]) * len(table[1]))
    shown = [instance for instance in known if instance in instances]
    best = {instance: best_known(row for row in own if row.instance_hash == instance) for instance in shown}
    if all(value is None for value in best.values()):
        raise NothingToDrawError(figure, "no run has a feasible plan")
    notes = [f"{len(shown)} instances: {', '.join(known[instance] for instance in shown)}."]
    if len(chosen) < len(order):
        notes.append(f"Not run on all of these: {', '.join(name for name in order if name not in chosen)}.")
    return Contest(
        {name: {at: runs[name][at] for at in shown} for name in sorted(chosen, key=lambda name: (place(name), name))},
        best,
        notes,
    )


def place(contestant: str) -> int:
    """Return the position of a contestant's scheduler in the needs; others come last."""
    schedulers = [scheduler for need in NEEDS for scheduler in need.schedulers]
    name = contestant.partition("[")[0]
    return schedulers.index(name) if name in schedulers else len(schedulers)


def failures(found: Contest) -> list[str]:
    """Return notes on runs without a feasible plan, which count as the worst."""
    counts = {
        name: sum(achieved(row) is None for rows in by_instance.values() for row in rows)
        for name, by_instance in found.runs.items()
    }
    told = [f"{name} {count}" for name, count in counts.items() if count]
    return [f"Runs without a feasible plan, with a gap of 100 %: {', '.join(told)}."] if told else []


def too_few(figure: str, contestants: int, instances: int) -> NothingToDrawError:
    """Return the error for a table that is too small."""
    return NothingToDrawError(
        figure,
        f"{contestants} schedulers on {instances} instances; at least two of each are needed: `{NEEDS[0].command}`",
    )
