"""Tables of plans under random arrivals: iGniter's twelve workloads, plans that hold, and wrong latencies."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import fmean

from bench.command_text import option
from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.ledger.bound_scope import claim_in_words
from bench.ledger.row import Row
from bench.plan_simulation import Interference, Settings, Simulated, simulate
from bench.simulation.arrivals import Arrivals
from instances import Plan
from reports.claim import Query, QueryTable, query
from reports.need import Need, is_tested
from reports.papers.hold import EXACT, OPTIMUM, PAPERS_OPTIMUM, curve, tested_need
from reports.papers.hold import HEADROOMS as HOLD_HEADROOMS
from reports.papers.hold import SCHEDULERS as HOLD_SCHEDULERS
from reports.papers.hold_robustness import CONDITIONS, PLANS, holding_under
from reports.papers.igniter_plans import BASELINES, need_on_twelve
from reports.papers.igniter_violations import LATE_IN_PAPER
from reports.papers.robustness import CONSTANT, ERRORS, HEADROOMS, POISSON, ROUNDS_LIMIT_S, SCHEDULERS, SEEDS
from reports.quantities import not_in_time_pct, proven_gpus
from reports.runs import MissingDataError, Runs, the_instance

_FOUR_SCHEDULERS = ("igniter", *BASELINES)
_CONSTANT_SETTINGS = Settings(CONSTANT)


def _plan(runs: Runs, scheduler: str) -> Plan:
    row = runs.row(need_on_twelve(scheduler))
    if row.plan is None:
        raise MissingDataError("no plan")
    return row.plan


@cache
def _simulated(plan: Plan, settings: Settings) -> Simulated:
    return simulate(plan, the_instance("igniter-12"), settings)


@query
def _violating(runs: Runs, settings: Settings, scheduler: str) -> str:
    """Return the number of workloads with more than 1 % late requests, and the percentage of late requests overall."""
    simulated = _simulated(_plan(runs, scheduler), settings)
    return f"{simulated.violating} ({100.0 * simulated.violation_rate:.1f} %)"


@query
def _loads(runs: Runs, scheduler: str) -> str:
    """Return the smallest and largest load of a slot in percent: its rate over its throughput."""
    plan = _plan(runs, scheduler)
    capacities_rps = [slot.throughput_rps for slot in judge(plan, the_instance("igniter-12")).slots]
    loads = [100.0 * slot.rate_rps / rps for (_, _, slot), rps in zip(plan.slots(), capacities_rps, strict=True)]
    return f"{min(loads):.0f}–{max(loads):.0f} %"


@query
def _broken_constraints(runs: Runs, scheduler: str) -> str:
    return f"{runs.row(need_on_twelve(scheduler)).violations}"


_STATIC_NO_DROP = replace(_CONSTANT_SETTINGS, interference=Interference.STATIC, dropping=False)
_ARRIVALS = (
    ("constant arrivals, as `bench run`", _CONSTANT_SETTINGS),
    (
        f"– neighbours run all the time (`{option('interference', 'static')}`)",
        replace(_CONSTANT_SETTINGS, interference=Interference.STATIC),
    ),
    (f"– no request dropped (`{option('no_drop')}`)", replace(_CONSTANT_SETTINGS, dropping=False)),
    ("– both", _STATIC_NO_DROP),
    (f"– both, batch times vary by 5 % (`{option('noise', 0.05)}`)", replace(_STATIC_NO_DROP, noise=0.05)),
    ("– both, batch times vary by 10 %", replace(_STATIC_NO_DROP, noise=0.1)),
    ("Poisson arrivals, as `bench run`", Settings(POISSON)),
    ("– no request dropped", Settings(POISSON, dropping=False)),
)


def _simulated_line(words: str, settings: Settings) -> tuple[str | Query, ...]:
    return words, *(_violating(settings, scheduler) for scheduler in _FOUR_SCHEDULERS)


TWELVE = QueryTable(
    ("workloads in violation", *_FOUR_SCHEDULERS),
    [
        (
            "the paper: measured P99, constant arrivals",
            *(f"{LATE_IN_PAPER[scheduler]}" for scheduler in _FOUR_SCHEDULERS),
        ),
        ("the judge: budgets of half the SLO", *(_broken_constraints(scheduler) for scheduler in _FOUR_SCHEDULERS)),
        *(_simulated_line(words, settings) for words, settings in _ARRIVALS),
        ("load of a slot, least and largest", *(_loads(scheduler) for scheduler in _FOUR_SCHEDULERS)),
    ],
)


@query
def _means_by_error(
    runs: Runs,
    scheduler: str,
    headroom: float,
    quantity: Callable[[Row], float | None],
    arrivals: Arrivals,
    format_string: str,
) -> str:
    """Return the mean of a quantity over the seeds, for each error of the GPUs' figures."""
    needs = [_robust_need(scheduler, Trial(headroom, error=error, arrivals=arrivals)) for error in ERRORS]
    values_by_error = [
        [value for row in rows if (value := quantity(row)) is not None] for rows in runs.rows_of_each(needs)
    ]
    return ", ".join(format_string.format(fmean(values)) if values else "–" for values in values_by_error)


def _robust_need(scheduler: str, trial: Trial) -> Need:
    return Need("64gpu-cost", (scheduler,), SEEDS, trial=trial, time_limit_s=ROUNDS_LIMIT_S)


@query
def _gpus(runs: Runs, scheduler: str, headroom: float) -> str:
    rows = runs.rows(_robust_need(scheduler, Trial(headroom, arrivals=POISSON)))
    gpu_counts = sorted({row.gpus_used for row in rows if row.gpus_used is not None})
    return "–".join(map(str, dict.fromkeys((gpu_counts[0], gpu_counts[-1])))) if gpu_counts else "no plan"


WRONG = QueryTable(
    ("scheduler", "headroom", "GPUs", "constraints broken", "not in time, constant (%)", "not in time, Poisson (%)"),
    [
        (
            scheduler,
            f"{headroom:g}",
            _gpus(scheduler, headroom),
            _means_by_error(scheduler, headroom, lambda row: row.violations, POISSON, "{:.0f}"),
            _means_by_error(scheduler, headroom, not_in_time_pct, CONSTANT, "{:.1f}"),
            _means_by_error(scheduler, headroom, not_in_time_pct, POISSON, "{:.1f}"),
        )
        for scheduler in SCHEDULERS
        for headroom in HEADROOMS
    ],
)


def _planned(runs: Runs, scheduler: str) -> list[Row]:
    """Return a scheduler's plans in the order of headroom."""
    return [row for (row,) in runs.rows_of_each(tested_need(scheduler, headroom) for headroom in HOLD_HEADROOMS)]


def _tested(runs: Runs, scheduler: str) -> list[Row]:
    """Return a scheduler's tested plans in the order of headroom; see ``reports.papers.hold``."""
    return curve(_planned(runs, scheduler), scheduler)


def _without_headroom(scheduler: str) -> tuple[Query, Query]:
    """Return two queries on the plan without headroom: its GPUs, and its late workloads."""

    def first_row(runs: Runs) -> Row | None:
        return next((row for row in _tested(runs, scheduler) if row.headroom == HOLD_HEADROOMS[0]), None)

    return (
        lambda runs: f"{row.gpus_used}" if (row := first_row(runs)) else "no plan",
        lambda runs: f"{row.late_workloads}" if (row := first_row(runs)) else "–",
    )


def _until_it_holds(scheduler: str) -> tuple[Query, Query, Query]:
    """Return three queries: the smallest headroom from which on all plans hold, its plan's GPUs, and the added cost.

    The added cost is relative to the optimum under ``attainment``, in percent.
    """

    def first_holding(runs: Runs) -> Row | str:
        """Return the first plan from which on all plans hold, or the reason in words why there is none."""
        rows = _tested(runs, scheduler)
        holding_count = next((count for count, row in enumerate(reversed(rows)) if not row.holds), len(rows))
        if holding_count:
            return rows[len(rows) - holding_count]
        if not rows:
            return "no plan"
        open_at = [row.headroom for row in _planned(runs, scheduler) if row.headroom and not is_tested(row)]
        unknown = "".join(f", unknown at {headroom:g}" for headroom in open_at)
        return f"none: {rows[-1].late_workloads} late at {rows[-1].headroom:g}{unknown}"

    def headroom(runs: Runs) -> str:
        return row if isinstance(row := first_holding(runs), str) else f"{row.headroom:g}"

    def gpus(runs: Runs) -> str:
        return "–" if isinstance(row := first_holding(runs), str) else f"{row.gpus_used}"

    def added_cost(runs: Runs) -> str:
        row, optimum = first_holding(runs), runs.row(OPTIMUM)
        if isinstance(row, str) or row.value is None or not optimum.value:
            return "–"
        return f"{100.0 * (row.value / optimum.value - 1.0):.0f} %"

    return headroom, gpus, added_cost


@query
def _gpus_under_attainment(runs: Runs, scheduler: str) -> str:
    """Return the GPUs of a scheduler's plan under the SLO rule ``attainment``, and the plan's late workloads."""
    row = runs.row(replace(tested_need(scheduler, 1.0), instances=OPTIMUM.instances))
    if row.gpus_used is None:
        return "does not plan it"
    return f"{row.gpus_used}{'' if row.holds else f', {row.late_workloads} late'}"


@query
def _exact_cell(runs: Runs, need: Need, cell_text: Callable[[Row], str]) -> str:
    row = runs.row(need)
    return cell_text(row) if row.value is not None else "no plan"


def _proven(row: Row) -> str:
    """Return the GPUs of an exact plan, and the certified bound if the plan is not proven optimal."""
    if row.status == "optimal":
        return f"{row.gpus_used}, {claim_in_words(row)}"
    bound_gpus = proven_gpus(row)
    return f"{row.gpus_used}" if bound_gpus is None else f"{row.gpus_used} (≥ {bound_gpus})"


HOLDING = QueryTable(
    (
        *("scheduler", "GPUs without headroom", "late workloads", "headroom until none is late", "GPUs"),
        *("costs more by", "GPUs under `attainment`"),
    ),
    [
        *(
            (name, *_without_headroom(name), *_until_it_holds(name), _gpus_under_attainment(name))
            for name in HOLD_SCHEDULERS
        ),
        (
            EXACT,
            _exact_cell(PAPERS_OPTIMUM, _proven),
            _exact_cell(PAPERS_OPTIMUM, lambda row: f"{row.late_workloads}"),
            *("–", "–", "–"),
            _exact_cell(OPTIMUM, _proven),
        ),
    ],
)


@query
def _late_and_in_time(runs: Runs, need: Need, condition: str) -> str:
    """Return the number of late workloads of a plan under a condition, and the percentage of all requests in time."""
    holding = holding_under(runs.row(need), condition)
    if holding is None:
        raise MissingDataError("no trace")
    return f"{len(holding.late)} ({100.0 * holding.attainment:.1f} %)"


def _robust_line(condition: str) -> tuple[str | Query, ...]:
    return condition, *(_late_and_in_time(need, condition) for need in PLANS.values())


ROBUST = QueryTable(
    ("late workloads (requests in time)", *PLANS),
    [
        ("GPUs", *(_exact_cell(need, lambda row: f"{row.gpus_used}") for need in PLANS.values())),
        *map(_robust_line, CONDITIONS),
    ],
)
