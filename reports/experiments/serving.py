"""Plans under random arrivals: iGniter's twelve workloads, plans that hold, and plans with wrong latencies."""

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
from reports.need import Need
from reports.papers.hold import EXACT, OPTIMUM, PAPERS_OPTIMUM, curve, tested
from reports.papers.hold import HEADROOMS as STEPS
from reports.papers.hold import SCHEDULERS as WITH_HEADROOM
from reports.papers.hold_robustness import CONDITIONS, PLANS, kept
from reports.papers.igniter_plans import BASELINES, LATE_IN_PAPER, twelve
from reports.papers.robustness import CONSTANT, ERRORS, HEADROOMS, POISSON, ROUNDS_LIMIT_S, SCHEDULERS, SEEDS
from reports.quantities import not_in_time_pct, proven_gpus
from reports.runs import MissingDataError, Runs, the_instance

_FOUR = ("igniter", *BASELINES)
_STEADY = Settings(CONSTANT)


def _plan(runs: Runs, scheduler: str) -> Plan:
    row = runs.row(twelve(scheduler))
    if row.plan is None:
        raise MissingDataError("no plan")
    return row.plan


@cache
def _simulated(plan: Plan, settings: Settings) -> Simulated:
    return simulate(plan, the_instance("igniter-12"), settings)


@query
def _violating(runs: Runs, settings: Settings, scheduler: str) -> str:
    """Return the workloads with more than 1 % of their requests not in time, and the percentage of all requests."""
    found = _simulated(_plan(runs, scheduler), settings)
    return f"{found.violating} ({100.0 * found.violation_rate:.1f} %)"


@query
def _loads(runs: Runs, scheduler: str) -> str:
    """Return the least and largest load of a slot: its rate over its throughput."""
    plan = _plan(runs, scheduler)
    able = [slot.throughput_rps for slot in judge(plan, the_instance("igniter-12")).slots]
    loads = [100.0 * slot.rate_rps / rps for (_, _, slot), rps in zip(plan.slots(), able, strict=True)]
    return f"{min(loads):.0f}–{max(loads):.0f} %"


@query
def _judged(runs: Runs, scheduler: str) -> str:
    return f"{runs.row(twelve(scheduler)).violations}"


_VARYING = replace(_STEADY, interference=Interference.STATIC, dropping=False)
_ARRIVALS = (
    ("constant arrivals, as `bench run`", _STEADY),
    (
        f"– neighbours run all the time (`{option('interference', 'static')}`)",
        replace(_STEADY, interference=Interference.STATIC),
    ),
    (f"– no request dropped (`{option('no_drop')}`)", replace(_STEADY, dropping=False)),
    ("– both", _VARYING),
    (f"– both, batch times vary by 5 % (`{option('noise', 0.05)}`)", replace(_VARYING, noise=0.05)),
    ("– both, batch times vary by 10 %", replace(_VARYING, noise=0.1)),
    ("Poisson arrivals, as `bench run`", Settings(POISSON)),
    ("– no request dropped", Settings(POISSON, dropping=False)),
)


def _simulated_line(words: str, settings: Settings) -> tuple[str | Query, ...]:
    return words, *(_violating(settings, scheduler) for scheduler in _FOUR)


TWELVE = QueryTable(
    ("workloads in violation", *_FOUR),
    [
        ("the paper: measured P99, constant arrivals", *(f"{LATE_IN_PAPER[scheduler]}" for scheduler in _FOUR)),
        ("the judge: budgets of half the SLO", *(_judged(scheduler) for scheduler in _FOUR)),
        *(_simulated_line(words, settings) for words, settings in _ARRIVALS),
        ("load of a slot, least and largest", *(_loads(scheduler) for scheduler in _FOUR)),
    ],
)


@query
def _wrong(
    runs: Runs, scheduler: str, headroom: float, of: Callable[[Row], float | None], arrivals: Arrivals, form: str
) -> str:
    """Return the means of a quantity over the seeds, one for each error of the GPUs' figures."""
    needs = [_robust(scheduler, Trial(headroom, error=error, arrivals=arrivals)) for error in ERRORS]
    found = [[value for row in rows if (value := of(row)) is not None] for rows in runs.rows_of_each(needs)]
    return ", ".join(form.format(fmean(values)) if values else "–" for values in found)


def _robust(scheduler: str, trial: Trial) -> Need:
    return Need("64gpu-cost", (scheduler,), SEEDS, trial=trial, time_limit_s=ROUNDS_LIMIT_S)


@query
def _gpus(runs: Runs, scheduler: str, headroom: float) -> str:
    rows = runs.rows(_robust(scheduler, Trial(headroom, arrivals=POISSON)))
    used = sorted({row.gpus_used for row in rows if row.gpus_used is not None})
    return "–".join(map(str, dict.fromkeys((used[0], used[-1])))) if used else "no plan"


WRONG = QueryTable(
    ("scheduler", "headroom", "GPUs", "constraints broken", "not in time, constant (%)", "not in time, Poisson (%)"),
    [
        (
            scheduler,
            f"{headroom:g}",
            _gpus(scheduler, headroom),
            _wrong(scheduler, headroom, lambda row: row.violations, POISSON, "{:.0f}"),
            _wrong(scheduler, headroom, not_in_time_pct, CONSTANT, "{:.1f}"),
            _wrong(scheduler, headroom, not_in_time_pct, POISSON, "{:.1f}"),
        )
        for scheduler in SCHEDULERS
        for headroom in HEADROOMS
    ],
)


def _tested(runs: Runs, scheduler: str) -> list[Row]:
    """Return a scheduler's tested plans in the order of headroom; see ``reports.papers.hold``."""
    return curve([row for (row,) in runs.rows_of_each(tested(scheduler, headroom) for headroom in STEPS)], scheduler)


def _without_headroom(scheduler: str) -> tuple[Query, Query]:
    def first(runs: Runs) -> Row | None:
        return next((row for row in _tested(runs, scheduler) if row.headroom == STEPS[0]), None)

    return (
        lambda runs: f"{row.gpus_used}" if (row := first(runs)) else "no plan",
        lambda runs: f"{row.late_workloads}" if (row := first(runs)) else "–",
    )


def _until_it_holds(scheduler: str) -> tuple[Query, Query, Query]:
    """Query the least headroom from which on all plans hold, the GPUs there, and the added cost."""

    def least(runs: Runs) -> Row | str:
        rows = _tested(runs, scheduler)
        holding = rows[len(rows) - next((n for n, row in enumerate(reversed(rows)) if not row.holds), len(rows)) :]
        if holding:
            return holding[0]
        return "no plan" if not rows else f"none: {rows[-1].late_workloads} late at {rows[-1].headroom:g}"

    def headroom(runs: Runs) -> str:
        return row if isinstance(row := least(runs), str) else f"{row.headroom:g}"

    def gpus(runs: Runs) -> str:
        return "–" if isinstance(row := least(runs), str) else f"{row.gpus_used}"

    def more(runs: Runs) -> str:
        row, optimum = least(runs), runs.row(OPTIMUM)
        if isinstance(row, str) or row.value is None or not optimum.value:
            return "–"
        return f"{100.0 * (row.value / optimum.value - 1.0):.0f} %"

    return headroom, gpus, more


@query
def _under_the_rule(runs: Runs, scheduler: str) -> str:
    """Return the GPUs of a scheduler's own plan under ``attainment``, and its late workloads."""
    row = runs.row(replace(tested(scheduler, 1.0), instances=OPTIMUM.instances))
    if row.gpus_used is None:
        return "does not plan it"
    return f"{row.gpus_used}{'' if row.holds else f', {row.late_workloads} late'}"


@query
def _exact(runs: Runs, need: Need, of: Callable[[Row], str]) -> str:
    row = runs.row(need)
    return of(row) if row.value is not None else "no plan"


def _proven(row: Row) -> str:
    """Return the GPUs of an exact plan, and the certified bound unless the plan is optimal."""
    if row.status == "optimal":
        return f"{row.gpus_used}, {claim_in_words(row)}"
    least = proven_gpus(row)
    return f"{row.gpus_used}" if least is None else f"{row.gpus_used} (≥ {least})"


HOLDING = QueryTable(
    (
        *("scheduler", "GPUs without headroom", "late workloads", "headroom until none is late", "GPUs"),
        *("costs more by", "GPUs under `attainment`"),
    ),
    [
        *((name, *_without_headroom(name), *_until_it_holds(name), _under_the_rule(name)) for name in WITH_HEADROOM),
        (
            EXACT,
            _exact(PAPERS_OPTIMUM, _proven),
            _exact(PAPERS_OPTIMUM, lambda row: f"{row.late_workloads}"),
            *("–", "–", "–"),
            _exact(OPTIMUM, _proven),
        ),
    ],
)


@query
def _kept(runs: Runs, need: Need, condition: str) -> str:
    """Return the late workloads of a plan under a condition, and the percentage of all requests in time."""
    found = kept(runs.row(need), condition)
    if found is None:
        raise MissingDataError("no trace")
    return f"{len(found.late)} ({100.0 * found.attainment:.1f} %)"


def _robust_line(condition: str) -> tuple[str | Query, ...]:
    return condition, *(_kept(need, condition) for need in PLANS.values())


ROBUST = QueryTable(
    ("late workloads (requests in time)", *PLANS),
    [
        ("GPUs", *(_exact(need, lambda row: f"{row.gpus_used}") for need in PLANS.values())),
        *map(_robust_line, CONDITIONS),
    ],
)
