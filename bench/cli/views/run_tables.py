"""Tables of runs on instances, and of runs on scenario sets, which have counts of scenarios instead of a value."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from bench.cli.terminal import draws_unicode, listed, one_line
from bench.cli.views.tables import coloured, mark, table
from bench.evaluation import UNCHECKED
from bench.formatting import (
    HOLDS_MEANS,
    ON_PAPER,
    ON_PAPER_MEANS,
    holding,
    holds,
    in_words,
    labels,
    objective_of,
    pct,
    percent,
    result,
    seconds,
    short,
    worth,
)
from bench.ledger.gap import Gap
from bench.ledger.row import JsonObject, Row


def run_tables(rows: Sequence["Row"], gaps: Mapping[str, "Gap"], seeds: bool = False) -> list[Table | str]:
    """Return a table of runs on instances and a table of runs on scenario sets, each only if it has rows."""
    singles = [row for row in rows if row.scenarios is None]
    sets = [row for row in rows if row.scenarios is not None]
    tables: list[Table | str] = []
    if singles or not sets:
        tables.append(_run_table(singles, gaps, seeds))
    if singles and sets:
        tables.append("")
    if sets:
        tables.append(_set_table(sets, seeds))
    legend = [HOLDS_MEANS, ON_PAPER_MEANS] if any(row.feasible and holding(row) is False for row in singles) else []
    return [*tables, *legend, *_why_unchecked(singles), *_why_no_plan(singles), *refuted_claims(rows, gaps)]


def refuted_claims(rows: Sequence[Row], gaps: Mapping[str, Gap]) -> list[str]:
    """Return a line for every run whose claim a feasible plan in the ledger refutes."""
    return [one_line(str(gap.refuted)) for row in rows if (gap := gaps[row.key]).refuted is not None]


def _run_table(rows: Sequence["Row"], gaps: Mapping[str, "Gap"], seeds: bool = False) -> Table:
    """Return a table of runs grouped by instance, with a column of seeds if ``seeds`` is true.

    If a scheduler runs with several parameters, they are part of its name: ``colgen[plan_class=split]``.

    If a run has the objective ``colocation``, a column shows its third score: the time over capacity.
    """
    scored = any(row.over_capacity_pct is not None for row in rows)
    simulated = any(row.sim_violation_rate is not None for row in rows)
    tried = [_tried(row) for row in rows]
    differently = len(set(tried)) > 1
    columns = [
        "instance",
        "scheduler",
        *([">seed"] if seeds else []),
        *(["tried"] if differently else []),
        "status",
        ">value",
        ">GPUs",
        *([">over capacity"] if scored else []),
        ">bound",
        ">gap",
        ">decision",
        ">judged",
        *([">not in time"] if simulated else []),
        "holds",
        "run",
    ]
    names = labels(rows)
    cells = [
        [
            row.instance,
            names[row.key],
            *([row.seed] if seeds else []),
            *([how] if differently else []),
            result(row) if gaps[row.key].refuted is None else f"{result(row)}, refuted",
            worth(row.value, objective_of(row)),
            row.gpus_used,
            *([pct(row.over_capacity_pct)] if scored else []),
            bound_cell(row, gaps[row.key]),
            percent(gaps[row.key].gap),
            seconds(row.decision_s),
            judged(row, row.feasible, row.violations),
            *([percent(row.sim_violation_rate)] if simulated else []),
            coloured(holds(row), holding(row)),
            short(row),
        ]
        for row, how in zip(rows, tried, strict=True)
    ]
    return table(columns, cells, [row.instance_hash for row in rows])


def best_tables(leaders: Sequence[Row], gaps: Mapping[str, Gap], arrivals: Mapping[str, str]) -> list[Table | str]:
    """Return the best run and the best heuristic's run on each instance, and an explanation of the columns.

    A heuristic is a scheduler that proves a bound in none of the runs.

    Parameters
    ----------
    leaders
        Runs on instances, sorted by instance and then best first.
    gaps, arrivals
        Gaps, and arrivals of the simulations, by key.
    """
    proving = {row.scheduler for row in leaders if row.bound is not None}
    by_instance: dict[str, list[Row]] = {}
    for row in leaders:
        if row.feasible and row.scenarios is None:
            by_instance.setdefault(row.instance_hash, []).append(row)
    chosen = []
    for rows in by_instance.values():
        heuristic = next((row for row in rows if row.scheduler not in proving), None)
        chosen.append(("best" if heuristic is not rows[0] else "best, a heuristic", rows[0]))
        if heuristic is not None and heuristic is not rows[0]:
            chosen.append(("best heuristic", heuristic))
    cells = [
        [
            row.instance,
            place,
            row.scheduler,
            worth(row.value, objective_of(row)),
            row.gpus_used,
            percent(gaps[row.key].gap),
            arrivals.get(row.key),
            percent(row.sim_violation_rate),
            coloured(holds(row), holding(row)),
        ]
        for place, row in chosen
    ]
    columns = ["instance", "", "scheduler", ">value", ">GPUs", ">gap", "arrivals", ">not in time", "holds"]
    return [
        table(columns, cells, [row.instance_hash for _, row in chosen]),
        "",
        "gap: distance from the best certified bound, which no plan of the same class can beat; 0.0 %: proven optimal"
        " in its class",
        "heuristic: a scheduler that proves no bound",
        HOLDS_MEANS,
    ]


def judged(row: Row, feasible: bool | None, violations: int | None = None) -> Text:
    """Return the judge's verdict on a plan of a run: green only if the plan is known to hold."""
    if feasible is None:
        return Text("-")
    kept = holding(row)
    told = ON_PAPER if feasible and kept is False else mark(feasible)
    number = "" if violations is None else f"{violations} "
    return Text.assemble(number, (told, "red" if not feasible else "green" if kept else ""))


def _tried(row: Row) -> str:
    """Return the headroom and the true performance model of a run as text, or ``as planned`` by default."""
    headroom = "" if row.headroom in (None, 1.0) else f"headroom {row.headroom:g}"
    return ", ".join(filter(None, (headroom, f"really {row.truth}" if row.truth else ""))) or "as planned"


def _why_unchecked(rows: Sequence["Row"]) -> list[str]:
    """Return a line for every run whose plan should have been tested and was not."""
    return [one_line(f"{row.instance}, {row.scheduler}: {row.reason}") for row in rows if UNCHECKED in row.reason]


def _why_no_plan(rows: Sequence["Row"]) -> list[str]:
    """Return a line for every reason why runs have no plan; failed runs are reported elsewhere."""
    instances: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.value is None and row.reason and not row.failed and row.termination != "skipped":
            instances.setdefault((row.scheduler, row.reason), []).append(row.instance)
    return [
        one_line(f"{scheduler} has no plan for {listed(list(dict.fromkeys(names)))}: {reason}")
        for (scheduler, reason), names in instances.items()
    ]


def _set_table(rows: Sequence["Row"], seeds: bool) -> Table:
    columns = ["scenario set", "scheduler", "parameters", *([">seed"] if seeds else []), "ended"]
    columns += [">scenarios", ">schedulable", ">judged", ">decisions", ">median", ">longest", "run"]
    cells = [
        [
            row.instance,
            row.scheduler,
            parameters_in_words(row),
            *([row.seed] if seeds else []),
            str(row.termination),
            *_counts(row, row.scenarios or {}),
            short(row),
        ]
        for row in rows
    ]
    return table(columns, cells, [row.instance_hash for row in rows])


def set_in_words(found: JsonObject) -> list[str]:
    """Return the counts of a scenario set as text."""
    return [
        f"{found['accepted']:,} of {found['decided']:,} schedulable",
        f"{found['served']:,} of these keep their SLOs",
    ]


def parameters_in_words(row: Row) -> str:
    """Return the parameters of all schedulers of a run: ``variant=atc22, interference=false``."""
    values = {name: value for each in row.parameters.values() for name, value in each.items()}
    return ", ".join(f"{name}={in_words(value)}" for name, value in values.items())


def _counts(row: Row, found: JsonObject) -> list[str]:
    """Return the numbers of decided, schedulable and feasible scenarios, and the decision times, as cells."""
    decided, count = found["decided"], found["count"]
    return [
        f"{decided:,}" if decided == count else f"{decided:,} of {count:,}",
        f"{found['accepted']:,}",
        f"{found['served']:,} {mark(row.feasible)}",
        seconds(row.decision_s),
        seconds(found["decision_median_s"]),
        seconds(found["decision_max_s"]),
    ]


def bound_cell(row: Row, gap: Gap) -> str:
    """Return a row's bound as text, as whole GPUs can cost it, marked ``(model)`` if it is not certified."""
    if gap.bound is None or gap.refuted is not None:
        return "-" if row.bound is None else "refuted"
    minimised = row.objective == "cost"
    signs = ("≥", "≤") if draws_unicode() else (">=", "<=")
    model = "" if row.bound_certified else " (model)"
    return f"{signs[0] if minimised else signs[1]} {worth(gap.bound, objective_of(row)).split()[0]}{model}"


def row_json(row: Row, gaps: Mapping[str, "Gap"]) -> dict[str, object]:
    """Return a row as JSON data, with its gaps."""
    gap = gaps[row.key]
    refuted = None if gap.refuted is None else str(gap.refuted)
    return row.to_json() | {"gap": gap.gap, "own_gap": gap.own_gap, "refuted": refuted}
