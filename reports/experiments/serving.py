"""Plans under random arrivals: iGniter's twelve workloads, and plans with wrong latencies."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import fmean

from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.ledger.row import Row
from bench.plan_simulation import Interference, Settings, Simulated, simulate
from bench.simulation.arrivals import Arrivals
from instances import Plan
from instances.files import plan_from_json
from reports.claim import QueryTable
from reports.need import Need
from reports.papers.igniter_plans import BASELINES, LATE_IN_PAPER, twelve
from reports.papers.robustness import CONSTANT, ERRORS, HEADROOMS, POISSON, SCHEDULERS, SEEDS
from reports.quantities import not_in_time_pct
from reports.runs import NotAtHandError, Runs, the_instance

Query = Callable[[Runs], str]
_FOUR = ("igniter", *BASELINES)
_STEADY = Settings(CONSTANT)


def _plan(runs: Runs, scheduler: str) -> Plan:
    row = runs.row(twelve(scheduler))
    if row.plan is None:
        raise NotAtHandError("no plan")
    return plan_from_json(row.plan)


@cache
def _simulated(plan: Plan, settings: Settings) -> Simulated:
    return simulate(plan, the_instance("igniter-12"), settings)


def _violating(settings: Settings, scheduler: str) -> Query:
    """Query the workloads with more than 1 % of their requests not in time, and the percentage of all requests."""

    def query(runs: Runs) -> str:
        found = _simulated(_plan(runs, scheduler), settings)
        return f"{found.violating} ({100.0 * found.violation_rate:.1f} %)"

    return query


def _loads(scheduler: str) -> Query:
    """Query the least and largest load of a slot: its rate over its throughput."""

    def query(runs: Runs) -> str:
        plan = _plan(runs, scheduler)
        able = [slot.throughput_rps for slot in judge(plan, the_instance("igniter-12")).slots]
        loads = [100.0 * slot.rate_rps / rps for (_, _, slot), rps in zip(plan.slots(), able, strict=True)]
        return f"{min(loads):.0f}–{max(loads):.0f} %"

    return query


def _judged(scheduler: str) -> Query:
    return lambda runs: f"{runs.row(twelve(scheduler)).violations}"


_VARYING = replace(_STEADY, interference=Interference.STATIC, dropping=False)
_ARRIVALS = (
    ("constant arrivals, as `bench run`", _STEADY),
    ("– neighbours run all the time (`--interference static`)", replace(_STEADY, interference=Interference.STATIC)),
    ("– no request dropped (`--no-drop`)", replace(_STEADY, dropping=False)),
    ("– both", _VARYING),
    ("– both, batch times vary by 5 % (`--noise 0.05`)", replace(_VARYING, noise=0.05)),
    ("– both, batch times vary by 10 %", replace(_VARYING, noise=0.1)),
    ("Poisson arrivals, as `bench run`", Settings(POISSON)),
    ("– no request dropped", Settings(POISSON, dropping=False)),
)


def _simulated_line(said: str, settings: Settings) -> tuple[str | Query, ...]:
    return said, *(_violating(settings, scheduler) for scheduler in _FOUR)


TWELVE = QueryTable(
    ("workloads in violation", *_FOUR),
    [
        ("the paper: measured P99, constant arrivals", *(f"{LATE_IN_PAPER[scheduler]}" for scheduler in _FOUR)),
        ("the judge: budgets of half the SLO", *(_judged(scheduler) for scheduler in _FOUR)),
        *(_simulated_line(said, settings) for said, settings in _ARRIVALS),
        ("load of a slot, least and largest", *(_loads(scheduler) for scheduler in _FOUR)),
    ],
)


def _wrong(scheduler: str, headroom: float, of: Callable[[Row], float | None], arrivals: Arrivals, form: str) -> Query:
    """Query the means of a figure over the seeds, by the error of the GPUs' figures."""

    def query(runs: Runs) -> str:
        needs = [_robust(scheduler, Trial(headroom, error=error, arrivals=arrivals)) for error in ERRORS]
        found = [[value for row in rows if (value := of(row)) is not None] for rows in runs.each(needs)]
        return ", ".join(form.format(fmean(values)) if values else "–" for values in found)

    return query


def _robust(scheduler: str, trial: Trial) -> Need:
    return Need("64gpu-cost", (scheduler,), SEEDS, trial=trial)


def _gpus(scheduler: str, headroom: float) -> Query:
    def query(runs: Runs) -> str:
        rows = runs.rows(_robust(scheduler, Trial(headroom, arrivals=POISSON)))
        used = sorted({row.gpus_used for row in rows if row.gpus_used is not None})
        return "–".join(map(str, dict.fromkeys((used[0], used[-1])))) if used else "no plan"

    return query


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
