"""Text forms of values, percentages, durations, outcomes and runs, on a terminal and on a page."""

from datetime import timedelta
from math import ceil, floor, isclose, isfinite

from bench.command_text import command_line
from bench.ledger.better_plans import BetterPlan
from bench.ledger.bound_scope import claim_in_words
from bench.ledger.row import CHECKED, UNITS, Row
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from instances import Instance
from instances.library.entry import TIE
from instances.tolerance import MARGIN

_LONGEST_CLOCK_S = 1e9
"""Longest duration, some thirty years, that ``clock`` shows as hours, minutes and seconds."""

_DIGITS = {"cost": 2, "capacity": 1, "goodput": 1, "scale": 3, "colocation": 1, "scenarios": 0}


def worth(value: float | None, objective: str) -> str:
    """Return an objective's value with its unit."""
    return "-" if value is None else _with_unit(_decimal(value, objective), objective)


def worth_of_bound(bound: float, objective: str) -> str:
    """Return a bound with its unit, rounded so that it does not say more than the bound does."""
    power = 10.0 ** _digits(bound, objective)
    slack = MARGIN * abs(bound) * power
    if not isfinite(bound * power):  # the largest floats are whole numbers
        return worth(bound, objective)
    whole = floor(bound * power + slack) if objective == "cost" else ceil(bound * power - slack)
    return _with_unit(_decimal(whole / power, objective), objective)


def _digits(value: float, objective: str) -> int:
    """Return the number of decimals of a value; a cost has one more if it is a whole number of tenths of cents."""
    tenths = 1000.0 * value
    in_tenths = (
        objective == "cost"
        and isfinite(tenths)
        and round(tenths) % 10 != 0
        and isclose(tenths, round(tenths), rel_tol=MARGIN)
    )
    return _DIGITS.get(objective, 3) + in_tenths


def _decimal(value: float, objective: str) -> str:
    return f"{value:,.{_digits(value, objective)}f}"


def _with_unit(number: str, objective: str) -> str:
    return f"{number} {UNITS.get(objective, '')}".strip()


def objective_of(row: Row) -> str:
    """Return the objective of a row's instance in one word."""
    return row.throughput_of or row.objective


def gpu_count(count: int) -> str:
    """Return a number of GPUs: ``1 GPU``, ``2 GPUs``."""
    return f"{count:,} GPU{'s' * (count != 1)}"


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage; a small one that is not 0 is ``< 0.1 %``."""
    if fraction is not None and TIE < fraction < 0.0005:
        return "< 0.1 %"
    return with_percent_sign(None if fraction is None else 100.0 * fraction)


def with_percent_sign(value: float | None) -> str:
    """Return a percentage with its unit."""
    return "-" if value is None else f"{value:.1f} %"


def seconds(duration_s: float | None) -> str:
    """Return a duration with about three digits."""
    if duration_s is None:
        return "-"
    if duration_s < 1.0:
        return f"{1000.0 * duration_s:.3g} ms"
    if duration_s < 100.0:
        return f"{duration_s:.2f} s"
    return f"{duration_s:.0f} s" if duration_s < 1000.0 else clock(duration_s)


def clock(duration_s: float) -> str:
    """Return a duration as hours, minutes and seconds, or as a number if it is implausibly long."""
    if duration_s > _LONGEST_CLOCK_S:
        return f"{duration_s:.3g} s"
    return str(timedelta(seconds=round(duration_s))).removeprefix("0:")


def result(row: Row) -> str:
    """Return the scheduler's claim and, if it did not finish, the termination of the run."""
    if row.termination.failed or row.termination == "skipped":
        return str(row.termination)
    claim = claim_in_words(row) + (f", proof {CHECKED}" if row.proof == CHECKED else "")
    return claim if row.termination == "finished" else f"{claim} ({row.termination})"


def beaten_by(better: BetterPlan) -> str:
    """Return in words the plan that beats an optimum of a class: ``16.40 $/h with split plans by sbp``."""
    row = better.row
    return f"{worth(row.value, objective_of(row))} with {better.outside} by {row.scheduler}"


ON_PAPER = "on paper"
"""Words for a plan without a violation that does not hold; they replace the judge's tick."""

HOLDS_MEANS = (
    "holds: whether every workload keeps its attainment in 10 simulations of at least 300 s"
    f" ({command_line('run', check_holds=True)}, {command_line('simulate', check=True)}); unchecked: not"
    " tested, with the requests that are late in the run's own simulation. Servers drop late requests, unless the"
    " instance has dropping = false"
)
NOT_IN_TIME_MEANS = (
    f"not in time: requests late, dropped or unfinished in the run's own simulation; a workload may miss"
    f" {100.0 * VIOLATIONS_ALLOWED:g} % of its requests, or what its attainment permits"
)
UNPROVEN_MEANS = (
    "(unproven): the bound of a simplified model, or of a solver that nothing has confirmed; it counts for no gap"
)
ON_PAPER_MEANS = f"{ON_PAPER}: no constraint is broken, so the plan holds on paper, but it does not under its arrivals"


def holds(row: Row) -> str:
    """Return whether a run's plan holds, in words; a dash without a plan, or without requests that have an SLO.

    Only the test decides (``row.holds``). Without it the plan is unchecked, whatever its short simulation shows.
    """
    if row.holds is not None:
        return holds_in_words(row.holds, row.late_workloads or 0)
    if row.value is None or row.objective in ("colocation", "scenarios"):
        return "-"
    late_text = percent(row.sim_violation_rate)
    return "unchecked" if late_text in ("-", percent(0.0)) else f"unchecked, {late_text} late"


def holds_on(row: Row, instance: Instance | None) -> str:
    """Return the words of ``holds``; for a tested plan of a known instance, also whether its servers drop requests."""
    return holds(row) if row.holds is None or instance is None else f"{holds(row)}, on {servers(instance.dropping)}"


def holds_attribute(row: Row) -> str:
    """Return whether a run's plan holds, as an HTML attribute: ``yes``, ``no``, or empty if it is unchecked."""
    return {True: "yes", False: "no", None: ""}[row.holds]


def holds_in_words(holds: bool | None, late_workloads: int) -> str:
    """Return the result of the test in words; all requests together may be late although no workload is."""
    if holds is None:
        return "the test cannot tell"
    if holds:
        return "yes"
    return f"no, {late_workloads} late" if late_workloads else "no, late in total"


def servers(dropping: bool) -> str:
    """Return in words whether the servers drop late requests."""
    return "servers that drop late requests" if dropping else "servers that drop no requests"


def short_hash(digest: str) -> str:
    """Return the beginning of a hash of an instance, a source or a commit, long enough to distinguish them."""
    return digest[:12]


def short_key(row: Row) -> str:
    """Return the beginning of a row's key, long enough to distinguish rows."""
    return row.key[:8]
