"""Rows of library entries: the best plan and the proven bound of an entry join the runs on its instance."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from bench.api import Scope, Status
from bench.ledger.row import CHECKED, Row, Termination
from instances import InputError, Objective, PlanClass
from instances.library import LIBRARY, MARK, LibraryEntry
from instances.library.entry import NONE


def entry_rows(names: Mapping[str, str]) -> list[Row]:
    """Return the row of the library's entry for each instance that is in the library.

    ``names`` has the names of instances by fingerprint. An instance is in the library if an entry has its name and its
    fingerprint, which covers workloads, GPU coefficients, performance model and SLO rule.
    """
    rows = {fingerprint: _row(name) for fingerprint, name in names.items() if LIBRARY.has(name)}
    return [row for fingerprint, row in rows.items() if row is not None and row.instance_hash == fingerprint]


def named(rows: Iterable[Row]) -> dict[str, str]:
    """Return the name of each instance of ``rows`` by its fingerprint."""
    return {row.instance_hash: row.instance for row in rows}


def is_of_library(key: str) -> bool:
    """Return whether a key is that of an entry's row."""
    return key.startswith(MARK)


def source_in_words(row: Row) -> str:
    """Return the run of a row, ``run 1234abcd``, or the entry: ``library/cost-t4-24``."""
    return row.key if is_of_library(row.key) else f"run {row.key[:8]}"


def _row(name: str) -> Row | None:
    """Return the row of an entry; ``None`` if the entry has neither plan nor bound, or its file is damaged."""
    try:
        return _row_of_file(name, (LIBRARY.folder / f"{name}.json.gz").stat().st_mtime_ns)
    except (InputError, OSError, KeyError, TypeError, ValueError):
        return None


@lru_cache(maxsize=512)
def _row_of_file(name: str, _modified_ns: int) -> Row | None:
    """Return the row of an entry; the row of an unchanged file is computed once."""
    entry = LIBRARY.entry(name)
    return None if entry.plan is None and entry.bound is None else entry_row(entry)


def entry_row(entry: LibraryEntry) -> Row:
    """Return an entry as a row with its best plan, and with its bound for the plans that the bound covers.

    The row credits the finder of the plan or, without a plan, the finder of the bound. It has no times.
    """
    instance = entry.instance
    by_throughput = instance.objective in (Objective.CAPACITY, Objective.GOODPUT)
    credit = entry.plan_credit or entry.proof_credit
    bound = None if entry.bound in (None, NONE) else float(str(entry.bound))
    without_plan = Status.INFEASIBLE if entry.bound == NONE else Status.UNKNOWN
    return Row(
        key=f"{MARK}{instance.name}",
        instance=instance.name,
        instance_hash=instance.fingerprint,
        scheduler=f"{MARK}{instance.name}" if credit is None else credit.by,
        parameters={},
        seed=0,
        source="plan",
        headroom=1.0,
        truth=None,
        status=without_plan if entry.plan is None else Status.FEASIBLE,
        termination=Termination.FINISHED,
        reason="",
        objective="throughput" if by_throughput else instance.objective.value,
        throughput_of=instance.objective.value if by_throughput else None,
        slo_rule=instance.slo_rule.value,
        performance_model=instance.performance_model,
        plan=entry.plan,
        plan_class=None if entry.plan is None else entry.plan.plan_class,
        value=entry.value,
        feasible=None if entry.plan is None else True,
        bound=bound,
        bound_certified=None if bound is None else True,
        bound_scope=None if entry.claim is None else _scope(entry),
        proof=None if entry.claim is None else CHECKED,
        decision_s=None,
        import_s=None,
        warm_s=None,
        overhead_s=0.0,
        wall_s=0.0,
        overshoot_s=0.0,
        peak_memory_mb=None,
        time_limit_s=0.0,
        work_limit=None,
        memory_limit_mb=None,
        threads=1,
        started_at="" if credit is None else credit.date,
        statistics={},
        trajectory=[],
        log_tail="",
        provenance={},
    )


def _scope(entry: LibraryEntry) -> Scope:
    """Return the plans to which an entry's bound applies."""
    assert entry.claim is not None
    parts = entry.claim.get("parts")
    return Scope(plan_class=PlanClass(entry.claim["plan_class"]), part_steps=parts, parts_apart=parts is not None)
