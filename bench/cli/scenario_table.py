"""Runs as tables: those on instances, and those on scenario sets, which are counted rather than valued."""

from collections.abc import Mapping, Sequence
from json import dumps
from typing import TYPE_CHECKING

from bench.cli.tables import mark, run_table, seconds, short, table

if TYPE_CHECKING:
    from rich.table import Table

    from bench.ledger.gap import Gap
    from bench.ledger.row import JsonObject, Row


def run_tables(rows: Sequence["Row"], gaps: Mapping[str, "Gap"], seeds: bool = False) -> "list[Table | str]":
    """Return a table of the runs on instances and one of those on scenario sets, of either only where there are any."""
    singles = [row for row in rows if row.scenarios is None]
    sets = [row for row in rows if row.scenarios is not None]
    tables: list[Table | str] = []
    if singles or not sets:
        tables.append(run_table(singles, gaps, seeds))
    if singles and sets:
        tables.append("")
    if sets:
        tables.append(_set_table(sets, seeds))
    return tables


def _set_table(rows: Sequence["Row"], seeds: bool) -> "Table":
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


def set_in_words(found: "JsonObject") -> list[str]:
    """Return what became of the scenarios of a set."""
    return [
        f"{found['accepted']:,} of {found['decided']:,} schedulable",
        f"{found['served']:,} of these keep their SLOs",
    ]


def parameters_in_words(row: "Row") -> str:
    """Return the parameters of all schedulers of a run: ``variant=atc22, interference=false``."""
    values = {name: value for each in row.parameters.values() for name, value in each.items()}
    return ", ".join(f"{name}={value if isinstance(value, str) else dumps(value)}" for name, value in values.items())


def _counts(row: "Row", found: "JsonObject") -> list[str]:
    """Return how many scenarios were decided, have a plan, and keep all constraints; and what deciding took."""
    decided, count = found["decided"], found["count"]
    return [
        f"{decided:,}" if decided == count else f"{decided:,} of {count:,}",
        f"{found['accepted']:,}",
        f"{found['served']:,} {mark(row.feasible)}",
        seconds(row.decision_s),
        seconds(found["decision_median_s"]),
        seconds(found["decision_max_s"]),
    ]
