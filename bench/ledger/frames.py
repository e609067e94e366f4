"""Rows of a ledger as pandas tables."""

from collections.abc import Sequence

from pandas import DataFrame, Series

from bench.ledger.bound_scope import claim_in_words
from bench.ledger.export_table import COLUMNS, Exported, Values, lines_of, table
from bench.ledger.gap import ledger_gaps
from bench.ledger.row import Row
from bench.ledger.store import Ledger

MAIN = (
    "instance",
    "scheduler",
    "label",
    "parameters",
    "seed",
    "status",
    "value",
    "value_unit",
    "gpus_used",
    "least_slack",
    "bound",
    "gap",
    "refuted",
    "decision_s",
    "feasible",
    "violations",
    "sim_violation_rate",
    "holds",
    "late_workloads",
    "termination",
    "reason",
    "key",
)
"""Columns of the table that ``bench.run`` returns, besides ``claim`` and ``plan``."""


SHOWN = ("instance", "label", "seed", "claim", "value", "value_unit", "gpus_used", "gap", "decision_s", "feasible")
"""Columns of a printed table; ``table.columns`` names all columns."""


class RunTable(DataFrame):
    """Table of runs that prints its main columns in full."""

    @property
    def _constructor(self) -> type["RunTable"]:
        return RunTable

    def __repr__(self) -> str:
        return self._shown().to_string()

    def _repr_html_(self) -> str:
        return str(self._shown().to_html())

    def _shown(self) -> DataFrame:
        """Return the columns ``SHOWN``; if the table lacks one of them, return all columns."""
        return DataFrame(self[[*SHOWN]] if set(SHOWN) <= set(self.columns) else self)


def all_columns(ledger: Ledger) -> DataFrame:
    """Return every run of a ledger with all columns; ``pandas.NA`` marks a value that is unknown or does not apply."""
    return _frame(list(table(ledger)), COLUMNS)


def main_columns(rows: Sequence[Row], ledger: Ledger) -> RunTable:
    """Return ``rows`` of a ledger with the columns ``MAIN``, ``claim`` and ``plan``.

    ``claim`` is the status in words, such as ``optimal (spatial)``, and ``plan`` is a ``Plan`` or ``None``.
    """
    gaps = ledger_gaps(rows, ledger)
    exported = [column for name in MAIN for column in COLUMNS if column.name == name]
    frame = _frame(list(lines_of(rows, gaps, exported)), exported)
    claims = Series([claim_in_words(row) for row in rows], dtype="string")
    return RunTable(frame.assign(claim=claims, plan=Series([row.plan for row in rows], dtype=object)))


def _frame(lines: Sequence[Values], exported: Sequence[Exported]) -> DataFrame:
    types = {str: "string", int: "Int64", float: "Float64", bool: "boolean"}
    frame = DataFrame.from_records(list(lines), columns=[column.name for column in exported])
    return frame.astype({column.name: types[column.kind] for column in exported})
