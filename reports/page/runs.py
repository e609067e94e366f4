"""Columns of all runs of a ledger: the page's table, its CSV file, and the provenance of every number."""

from collections.abc import Callable, Mapping, Sequence
from json import dumps
from typing import Any

from bench.command_text import command_line
from bench.formatting import beaten_by, holds
from bench.ledger.gap import CertifiedBound
from bench.ledger.labels import in_words
from bench.ledger.row import Row
from reports.page.instance_results import AT_OTHER_RATES, InstanceResults
from reports.page.leaderboard import outcome

_Read = Callable[[InstanceResults, Row], Any]
"""Type of a function that returns a column's value for a run, given the results on its instance."""

COLUMNS: dict[str, _Read] = {
    "key": lambda _, row: row.key,
    "suite": lambda instance_results, row: instance_results.suite,
    "instance": lambda _, row: row.instance,
    "instance_hash": lambda _, row: row.instance_hash,
    "objective": lambda instance_results, row: instance_results.objective,
    "scheduler": lambda _, row: row.scheduler,
    "entrant": lambda instance_results, row: instance_results.entrants[row.key],
    "arrivals": lambda instance_results, row: instance_results.arrivals.get(row.key),
    "seed": lambda _, row: row.seed,
    "source": lambda _, row: row.source,
    "outcome": lambda _, row: outcome(row),
    "status": lambda _, row: str(row.status),
    "termination": lambda _, row: str(row.termination),
    "value": lambda _, row: row.value,
    "bound": lambda _, row: row.bound,
    "bound_certified": lambda _, row: row.bound_certified,
    "gap": lambda instance_results, row: _short(instance_results.gaps[row.key].gap),
    "gap_bound": lambda instance_results, row: _of_gap_bound(instance_results, row, lambda bound: _short(bound.value)),
    "gap_bound_key": lambda instance_results, row: _of_gap_bound(instance_results, row, lambda bound: bound.key),
    "better_plan": lambda instance_results, row: (
        beaten_by(instance_results.better[row.key]) if row.key in instance_results.better else None
    ),
    "gpus_used": lambda _, row: row.gpus_used,
    "violations": lambda _, row: row.violations,
    "cost_per_hour": lambda _, row: _short(row.cost_per_hour),
    "throughput_rps": lambda _, row: _short(row.throughput_rps),
    "goodput_rps": lambda _, row: _short(row.goodput_rps),
    "utilisation_pct": lambda _, row: _short(row.utilisation_pct),
    "fragments_pct": lambda _, row: _short(row.fragments_pct),
    "least_slack": lambda _, row: _short(row.least_slack),
    "sim_goodput_rps": lambda _, row: _short(row.sim_goodput_rps),
    "sim_violation_rate": lambda _, row: _short(row.sim_violation_rate),
    "sim_worst_p99": lambda _, row: _short(row.sim_worst_p99),
    "holds": lambda _, row: holds(row),
    "decision_s": lambda _, row: _short(row.decision_s),
    "peak_memory_mb": lambda _, row: _short(row.peak_memory_mb),
    "time_limit_s": lambda _, row: row.time_limit_s,
    "started_at": lambda _, row: row.started_at,
    "reason": lambda _, row: row.reason,
    "command": lambda instance_results, row: command(row, instance_results),
    "host": lambda _, row: dumps(_host(row)),
}
"""Functions that compute the page's columns from a run; columns of the ledger have the same names here."""


def all_runs(all_results: Sequence[InstanceResults]) -> dict[str, Any]:
    """Return the columns of all runs.

    Returns
    -------
    dict
        The columns by name. A column is a list of values. If many values repeat, the column is
        ``{"values": [...], "at": [...]}``: the distinct values, and the position of each run's value among them.
    """
    pairs = [(instance_results, row) for instance_results in all_results for row in instance_results.all_rows]
    return {
        name: _packed([read(instance_results, row) for instance_results, row in pairs])
        for name, read in COLUMNS.items()
    }


def _of_gap_bound(instance_results: InstanceResults, row: Row, read: Callable[[CertifiedBound], Any]) -> Any:
    """Return ``read(bound)`` for the bound from which the gap is computed; ``None`` without a gap."""
    bound = instance_results.bounds[row.key]
    return None if bound is None or instance_results.gaps[row.key].gap is None else read(bound)


def _packed(column: Sequence[Any]) -> Any:
    """Return a column in the form that ``all_runs`` describes."""
    distinct = {value: position for position, value in enumerate(dict.fromkeys(column))}
    if 2 * len(distinct) > len(column):
        return column
    return {"values": list(distinct), "at": [distinct[value] for value in column]}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.7g}")


def _host(row: Row) -> dict[str, Any]:
    """Return the provenance of a run without the fields that vary between runs on the same machine."""
    return {name: value for name, value in row.provenance.items() if name not in ("load_average", "schedulers")}


def command(row: Row, instance_results: InstanceResults) -> str | None:
    """Return the command that makes such a run; ``None`` for a part of ``bench max-rate`` or ``online``."""
    if row.source == "replay":
        return _replay(instance_results, row)
    if instance_results.suite.endswith(AT_OTHER_RATES):
        return None  # the instance exists only while its rates are tried
    arrivals = instance_results.arrivals.get(row.key)
    return command_line(
        "run",
        instances=row.instance,
        schedulers=row.scheduler,
        seeds=row.seed,
        param=[
            f"{scheduler}.{name}={in_words(value)}"
            for scheduler, parameters in row.parameters.items()
            for name, value in parameters.items()
            if value is not None
        ],
        time_limit=row.time_limit_s,
        work_limit=row.work_limit,
        memory_limit=None if row.memory_limit_mb is None else row.memory_limit_mb / 1024,
        threads=row.threads,
        headroom=None if row.headroom == 1.0 else row.headroom,
        margin=row.margin,
        then=row.second_objective or None,
        then_limit=row.then_limit_s,
        arrivals=arrivals,
        simulate="off" if arrivals is None and row.plan_class is not None else None,
        check_holds=row.holds is not None,
        **_truth(row.truth),
    )


def _replay(instance_results: InstanceResults, row: Row) -> str:
    """Return the commands that write the plan of a replay to a file and replay it."""
    replay: Mapping[str, Any] = row.parameters["replay"]
    dropping = replay.get("dropping")
    dropping_differs = (
        instance_results.instance is not None
        and dropping is not None
        and dropping != instance_results.instance.dropping
    )
    replay_command = command_line(
        "replay",
        "plan.json",
        backend=replay["backend"],
        seed=row.seed,
        seconds=in_words(replay["seconds"]) if "seconds" in replay else None,
        warmup=in_words(replay["warmup_s"]) if "warmup_s" in replay else None,
        arrivals=str(replay["arrivals"]).split(" ")[0] if "arrivals" in replay else None,
        half=bool(replay.get("half")),
        graphs=bool(replay.get("graphs")),
        drop=dropping_differs and bool(dropping),
        no_drop=dropping_differs and not dropping,
    )
    show_command = command_line("show", row.key[:12], ledger=instance_results.ledger, plan=True, o="plan.json")
    return f"{show_command} && {replay_command}"


def _truth(reality: str | None) -> dict[str, object]:
    """Return the options that produce the text ``reality`` of ``bench.evaluation.Trial.reality``."""
    options: dict[str, object] = {}
    for part in (reality or "").split(", "):
        if part.startswith("figures off by up to "):
            options["error"] = float(part.split()[-2]) / 100
        elif part:
            options["truth"] = part
    return options
