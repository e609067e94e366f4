"""Tables of runs on instances, and of runs on scenario sets, with counts of scenarios instead of a value."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from rich.text import Text

from bench.cli.terminal import draws_unicode, listed, one_line
from bench.cli.views.tables import Fitted, coloured, mark
from bench.evaluation import NOT_JUDGED, UNCHECKED
from bench.formatting import (
    HOLDS_MEANS,
    NOT_IN_TIME_MEANS,
    ON_PAPER,
    ON_PAPER_MEANS,
    UNPROVEN_MEANS,
    holds,
    objective_of,
    percent,
    result,
    seconds,
    short_key,
    with_percent_sign,
    worth,
    worth_of_bound,
)
from bench.ledger.gap import Gap
from bench.ledger.labels import in_words, labels
from bench.ledger.refutation import TOLERANCE, by_instance
from bench.ledger.row import JsonObject, Row
from instances.grouping import grouped

OMITTED_FIRST = (
    "not in time",
    "least slack",
    "bound",
    "GPUs",
    "status",
    "over capacity",
    "decision",
    "tried",
    "seeds",
    "judged",
)
"""Columns of runs that a narrow terminal omits, in this order."""


def run_tables(
    rows: Sequence[Row],
    gaps: Mapping[str, Gap],
    each_seed: bool = False,
    runs_of_seeds: Mapping[str, Sequence[Row]] | None = None,
) -> list[Fitted | str]:
    """Return a table of runs on instances and a table of runs on scenario sets, each only if it has rows.

    Every row has a line. ``runs_of_seeds`` has the runs of all seeds by the key of the best run; the line of that run
    then shows their spread. ``gaps`` has the gaps of all these runs by key. ``each_seed`` adds a column with the seed.
    """
    singles = [row for row in rows if row.scenarios is None]
    sets = [row for row in rows if row.scenarios is not None]
    tables: list[Fitted | str] = []
    if singles or not sets:
        tables.append(_run_table(singles, gaps, each_seed, runs_of_seeds or {}))
    if singles and sets:
        tables.append("")
    if sets:
        tables.append(_scenario_set_table(sets, each_seed))
    legend = [HOLDS_MEANS] if any(row.holds is not None for row in singles) else []
    legend += [ON_PAPER_MEANS] if any(row.feasible and row.holds is False for row in singles) else []
    if any(row.sim_violation_rate is not None for row in singles):
        legend.append(NOT_IN_TIME_MEANS)
    if any(row.bound is not None and not row.bound_certified for row in singles):
        legend.append(UNPROVEN_MEANS)
    if any(row.feasible and gaps[row.key].gap is None for row in singles) and any(
        gaps[row.key].best for row in singles
    ):
        legend.append("gap -: no certified bound covers the plan, for example because it splits workloads")
    unchecked = [
        one_line(f"{row.instance}, {row.scheduler}: {row.reason}")
        for row in singles
        if UNCHECKED in row.reason or NOT_JUDGED in row.reason
    ]
    return [*tables, *legend, *unchecked, *_why_no_plan(singles), *refuted_claims(rows, gaps)]


def by_seeds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group runs that differ only in their seed.

    Return the latest run of each seed, by the key of the best run of the group.
    """
    groups: dict[tuple[object, ...], dict[int, Row]] = {}
    for row in rows:
        limits = row.time_limit_s, row.work_limit, row.memory_limit_mb, row.threads, row.then_limit_s
        conditions = str(row.parameters), row.reserve, row.truth, row.second_objective, row.source, *limits
        groups.setdefault((row.instance_hash, row.scheduler, *conditions), {})[row.seed] = row
    return {min(seeds.values(), key=rank).key: list(seeds.values()) for seeds in groups.values()}


def rank(row: Row) -> tuple[bool, bool, float, bool, float]:
    """Return the sort key of a run on its instance.

    It begins with feasibility, presence of a plan and value. Of equal ones, a run that was tested for holding comes
    first, then the faster one.
    """
    value = row.value if row.value is not None else 0.0
    time_s = row.decision_s if row.decision_s is not None else float("inf")
    worth_first = value if row.objective == "cost" else -value
    return not row.feasible, row.value is None, worth_first, row.holds is None, time_s


def refuted_claims(rows: Sequence[Row], gaps: Mapping[str, Gap]) -> list[str]:
    """Return a line for every run whose claim a feasible plan in the ledger refutes."""
    return [one_line(str(gap.refuted)) for row in rows if (gap := gaps[row.key]).refuted is not None]


def _run_table(
    rows: Sequence[Row], gaps: Mapping[str, Gap], each_seed: bool, runs_of_seeds: Mapping[str, Sequence[Row]]
) -> Fitted:
    """Return a table of runs grouped by instance, with a column of seeds if ``each_seed`` is true.

    Names include the parameters in which runs of a scheduler differ, such as ``colgen[plan_class=split]``.
    """
    groups = [runs_of_seeds.get(row.key, [row]) for row in rows]
    with_seed_counts = any(len(group) > 1 for group in groups)
    with_over_capacity = any(row.over_capacity_pct is not None for row in rows)
    with_slack = any(row.least_slack is not None for row in rows)
    with_simulation = any(row.sim_violation_rate is not None for row in rows)
    conditions = [_conditions(row) for row in rows]
    with_conditions = len(set(conditions)) > 1
    columns = [
        "instance",
        "scheduler",
        *[">seed"] * each_seed,
        *[">seeds"] * with_seed_counts,
        *["tried"] * with_conditions,
    ]
    columns += [
        "status",
        ">value",
        ">GPUs",
        *[">over capacity"] * with_over_capacity,
        *[">least slack"] * with_slack,
        ">bound",
        ">gap",
        ">decision",
        ">judged",
    ]
    columns += [*[">not in time"] * with_simulation, "=holds", "=run"]
    names = labels(rows)
    cells = [
        [
            row.instance,
            names[row.key],
            *([row.seed] if each_seed else []),
            *([len(group)] if with_seed_counts else []),
            *([condition] if with_conditions else []),
            _shared([result(run) if gaps[run.key].refuted is None else f"{result(run)}, refuted" for run in group]),
            spread([run.value for run in group], partial(worth, objective=objective_of(row))),
            spread([run.gpus_used for run in group], lambda gpus: "-" if gpus is None else f"{gpus:g}"),
            *([with_percent_sign(row.over_capacity_pct)] if with_over_capacity else []),
            *([spread([run.least_slack for run in group], percent)] if with_slack else []),
            bound_cell(row, gaps[row.key]),
            spread([gaps[run.key].gap for run in group], percent),
            seconds(_median([run.decision_s for run in group])),
            judged(*_worst(group)),
            *([spread([run.sim_violation_rate for run in group], percent)] if with_simulation else []),
            _holds_text(group),
            short_key(row),
        ]
        for row, condition, group in zip(rows, conditions, groups, strict=True)
    ]
    return Fitted(columns, cells, [row.instance_hash for row in rows], OMITTED_FIRST)


def spread(values: Sequence[float | None], as_text: Callable[[float | None], str]) -> str:
    """Return the smallest and the largest value as text, or one text if both are equal.

    A dash marks runs without a value.
    """
    present = [value for value in values if value is not None]
    if not present:
        return as_text(None)
    low, high = as_text(min(present)), as_text(max(present))
    text = low if low == high else f"{low.split()[0]}–{high}"
    return text if len(present) == len(values) else f"{text}, -"


def _shared(texts: Sequence[str]) -> str:
    """Return the text that all runs share, or each text with its number of runs."""
    counts = Counter(texts)
    return texts[0] if len(counts) == 1 else ", ".join(f"{text} ×{count}" for text, count in counts.most_common())


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None


def _worst(group: Sequence[Row]) -> tuple[Row, bool | None, int | None]:
    """Return the worst run, its verdict and its violations.

    An infeasible plan with the most violations is worst, then a run without a plan.
    """
    row = max(group, key=lambda run: (run.feasible is False, run.feasible is None, run.violations or 0))
    return row, row.feasible, row.violations


def _holds_text(group: Sequence[Row]) -> Text:
    """Return whether the plans of all seeds hold, how many do not, or how many constraints the worst one breaks."""
    if broken := max((row.violations or 0 for row in group if row.feasible is False), default=0):
        return coloured(f"breaks {broken}", False)
    texts, verdicts = {holds(row) for row in group}, [row.holds for row in group]
    failing = verdicts.count(False)
    words = f"{failing} of {len(group)} do not" if failing else f"{verdicts.count(True)} of {len(group)} hold"
    all_hold = None if None in verdicts else True
    if failing:
        all_hold = False
    return coloured(texts.pop() if len(texts) == 1 else words, all_hold)


def best_tables(leaders: Sequence[Row], gaps: Mapping[str, Gap], arrivals: Mapping[str, str]) -> list[Fitted | str]:
    """Return the best run and the best heuristic's run on each instance, and an explanation of the columns.

    A heuristic is a scheduler without a bound in any run. ``leaders`` are sorted by instance, then best first.
    ``gaps`` and ``arrivals`` (those of the simulations) are by key.
    """
    schedulers_with_bound = {row.scheduler for row in leaders if row.bound is not None}
    chosen = []
    for rows in by_instance(row for row in leaders if row.feasible and row.scenarios is None).values():
        heuristic = next((row for row in rows if row.scheduler not in schedulers_with_bound), None)
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
            coloured(holds(row), row.holds),
        ]
        for place, row in chosen
    ]
    columns = ["instance", "", "scheduler", ">value", ">GPUs", ">gap", "arrivals", ">not in time", "holds"]
    return [
        Fitted(columns, cells, [row.instance_hash for _, row in chosen], ("arrivals", "not in time", "GPUs")),
        "",
        "gap: distance from the best certified bound, which no plan of the same class can beat; 0.0 %: proven optimal"
        " in its class",
        "heuristic: a scheduler that proves no bound",
        HOLDS_MEANS,
        NOT_IN_TIME_MEANS,
    ]


def best_in_sentences(leaders: Sequence[Row], gaps: Mapping[str, Gap]) -> list[str]:
    """Return three sentences for each instance: its best scheduler, the gap, and whether the plan holds.

    For the parameters, see ``best_tables``.
    """
    lines = []
    for rows in by_instance(row for row in leaders if row.feasible and row.scenarios is None).values():
        best = rows[0]
        gap = gaps[best.key].gap
        distance = "No bound is known" if gap is None else f"It is {percent(gap)} from the best bound"
        if gap is not None and gap < TOLERANCE:
            distance = "It is proven optimal in its class"
        tested = "It was not tested whether it holds"
        if best.sim_violation_rate is not None:
            tested += f"; {percent(best.sim_violation_rate)} of the requests are late"
        if best.holds is not None:
            tested = f"It {'holds' if best.holds else 'does not hold'} under random arrivals"
        plan = f"{best.scheduler} has the best plan, {worth(best.value, objective_of(best))}"
        lines.append(one_line(f"{best.instance}: {plan}. {distance}. {tested}."))
    return lines


def judged(row: Row, feasible: bool | None, violations: int | None = None) -> Text:
    """Return the judge's verdict on a plan of a run, in green only if the plan is known to hold."""
    if feasible is None:
        return Text("-")
    verdict = ON_PAPER if feasible and row.holds is False else mark(feasible)
    number = "" if violations is None else f"{violations} "
    good_colour = "green" if row.holds else ""
    return Text.assemble(number, (verdict, good_colour if feasible else "red"))


def _conditions(row: Row) -> str:
    """Return headroom, margin, true performance model and second objective of a run, or ``as planned`` by default."""
    then = row.second_objective and f"then {row.second_objective}"
    return ", ".join(filter(None, (row.reserve, f"really {row.truth}" if row.truth else "", then))) or "as planned"


def _why_no_plan(rows: Sequence[Row]) -> list[str]:
    """Return a line for every reason why runs that did not fail have no plan."""
    instances = grouped(
        ((row.scheduler, row.reason), row.instance)
        for row in rows
        if row.plan_class is None and row.reason and not row.failed and row.termination != "skipped"
    )
    return [
        one_line(f"{scheduler} has no plan for {listed(list(dict.fromkeys(names)))}: {reason}")
        for (scheduler, reason), names in instances.items()
    ]


def _scenario_set_table(rows: Sequence[Row], each_seed: bool) -> Fitted:
    columns = ["scenario set", "scheduler", "parameters", *([">seed"] if each_seed else []), "ended"]
    columns += [">scenarios", ">schedulable", ">judged", ">decisions", ">median", ">longest", "=run"]
    cells = [
        [
            row.instance,
            row.scheduler,
            _parameters(row),
            *([row.seed] if each_seed else []),
            str(row.termination),
            f"{counts['decided']:,}" + (f" of {counts['count']:,}" if counts["decided"] < counts["count"] else ""),
            f"{counts['accepted']:,}",
            f"{counts['served']:,} {mark(row.feasible)}",
            seconds(row.decision_s),
            seconds(counts["decision_median_s"]),
            seconds(counts["decision_max_s"]),
            short_key(row),
        ]
        for row in rows
        if (counts := row.scenarios) is not None
    ]
    return Fitted(columns, cells, [row.instance_hash for row in rows], ("longest", "ended", "decisions", "parameters"))


def scenarios_in_words(counts: JsonObject) -> list[str]:
    """Return the counts of a scenario set in words."""
    schedulable = f"{counts['accepted']:,} of {counts['decided']:,} schedulable"
    return [schedulable, f"{counts['served']:,} of these keep their SLOs"]


def _parameters(row: Row) -> str:
    """Return the parameters of all schedulers of a run: ``variant=atc22, interference=false``."""
    values = {name: value for parameters in row.parameters.values() for name, value in parameters.items()}
    return ", ".join(f"{name}={in_words(value)}" for name, value in values.items())


def bound_cell(row: Row, gap: Gap) -> str:
    """Return a row's bound as text; ``(unproven)`` marks a bound that is not certified.

    For ``cost``, the bound is rounded up to a sum of GPU prices.
    """
    if gap.bound is None or gap.refuted is not None:
        return "-" if row.bound is None else "refuted"
    minimised = row.objective == "cost"
    signs = ("≥", "≤") if draws_unicode() else (">=", "<=")
    unproven = "" if row.bound_certified else " (unproven)"
    return f"{signs[0] if minimised else signs[1]} {worth_of_bound(gap.bound, objective_of(row)).split()[0]}{unproven}"


def row_json(row: Row, gaps: Mapping[str, Gap]) -> dict[str, object]:
    """Return a row as JSON data, with its gaps."""
    gap = gaps[row.key]
    refuted = None if gap.refuted is None else str(gap.refuted)
    return row.to_json() | {"gap": gap.gap, "own_gap": gap.own_gap, "refuted": refuted}
