"""Export of a ledger as a table: documented columns, and exact values in CSV and Parquet."""

import csv
import io
import sys
from pathlib import Path

import pandas
import pytest

from bench.ledger.export_table import COLUMNS, RelativeValues, documentation, like_formulas, table, to_csv, to_parquet
from bench.ledger.frames import all_columns
from bench.ledger.gap import Gap
from bench.ledger.row import UNITS, columns
from bench.ledger.store import Ledger
from instances import InputError
from instances.suites import suite

DOCUMENT = Path(__file__).parents[2] / "docs/columns.md"
NOT_EXPORTED = {"duals", "violation_details", "simulation", "scenarios", "trajectory", "log_tail", "plan"}
"""Columns of the ledger that the table does not have."""


@pytest.fixture
def full(make_row):
    """Return a row with values in most columns."""
    return make_row(
        "colgen",
        "smoke-cost",
        key="00ff",
        parameters={"colgen": {"plan_class": "spatial"}},
        source="plan",
        reason='a "quoted", comma\nand a line',
        objective="cost",
        slo_rule="half-slo",
        performance_model="igniter",
        value=6.119999999999999,
        bound=6.0,
        bound_certified=True,
        bound_scope={"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None},
        feasible=True,
        plan_class="spatial",
        plan={"version": 1, "instance": "smoke-cost", "gpus": []},
        simulation={"arrivals": "gamma:3", "seconds": 30.0, "workloads": [], "applications": []},
        decision_s=1e-05,
        overhead_s=0.1,
        wall_s=0.2,
        overshoot_s=0.0,
        threads=1,
        started_at="2026-01-02T03:04:05+00:00",
        statistics={"nodes": 142.0},
        trajectory=[],
        log_tail="",
        provenance={"python": "3.11", "cores": 2, "load_average": 0.5, "commit": None},
    )


@pytest.fixture
def lines(full, tmp_path):
    (instance,) = (each for each in suite("smoke").build() if each.name == "smoke-cost")
    with Ledger(tmp_path / "l.sqlite", create=True) as ledger:
        ledger.add(full, instance)
        return list(table(ledger))


def test_the_documentation_of_columns_is_up_to_date():
    assert DOCUMENT.read_text() == documentation(), "bench export --columns > docs/columns.md"


def test_every_field_of_a_row_is_exported_or_listed_as_not_exported():
    names = [column.name for column in COLUMNS]
    fields = {column.name for column in columns()}
    assert len(set(names)) == len(names)
    assert fields - set(names) == NOT_EXPORTED
    assert set(names) - fields == {
        *("label", "value_unit", "gap", "own_gap", "refuted", "arrivals", "simulated_s"),
        *(name for name in names if name.startswith(("scenarios_", "scenario_decision_"))),
        *("bench_version", "commit", "python", "cpu", "cores", "load_average"),
    }


def test_every_column_has_a_meaning_and_its_name_agrees_with_its_unit():
    for column in COLUMNS:
        assert column.meaning == column.meaning.strip() != ""
        assert "|" not in column.meaning
        for ending, unit in (("_s", "s"), ("_rps", "req/s"), ("_pct", "%"), ("_mb", "MiB"), ("_rate", "fraction")):
            if column.name.endswith(ending):
                assert column.unit == unit, column.name


def test_every_objective_has_a_unit():
    objectives = {i.objective.value for s in ("64gpu", "gpulet-scen1", "mediator-40") for i in suite(s).build()}
    assert {"throughput" if each in ("capacity", "goodput") else each for each in objectives} <= set(UNITS)


def test_values_are_those_of_the_row_and_its_gaps(lines):
    (line,) = lines
    assert list(line) == [column.name for column in COLUMNS]
    expected = {
        "value": 6.119999999999999,
        "value_unit": "$/h",
        "gap": pytest.approx(0.0),
        "parameters": '{"colgen": {"plan_class": "spatial"}}',
        "arrivals": "gamma:3",
        "simulated_s": 30.0,
        "scenarios_count": None,
        "feasible": True,
        "status": "feasible",
        "python": "3.11",
        "cores": 2,
        "commit": None,
    }
    assert {name: line[name] for name in expected} == expected


def test_every_value_has_the_type_of_its_column(lines):
    for column in COLUMNS:
        value = lines[0][column.name]
        assert value is None or type(value) is column.kind, column.name


def test_csv_has_every_text_and_every_digit(lines):
    (read,) = csv.DictReader(io.StringIO(to_csv(lines), newline=""))
    assert read["reason"] == r'a "quoted", comma\nand a line'
    assert float(read["value"]) == 6.119999999999999
    assert float(read["decision_s"]) == 1e-05
    assert (read["feasible"], read["seed"], read["truth"], read["scenarios_count"]) == ("true", "0", "", "")
    assert to_csv([]).count("\n") == 1


def test_texts_like_formulas_are_unchanged_and_counted(lines):
    odd = [{**lines[0], "instance": name, "gap": -0.5} for name in ("=1+1", "+mix", "-mix", "@mix", "mix", "")]
    assert [line["instance"] for line in csv.DictReader(io.StringIO(to_csv(odd)))][:5] == [
        *("=1+1", "+mix", "-mix", "@mix", "mix")
    ]
    assert like_formulas(odd) == 4
    assert like_formulas(lines) == 0


def test_parquet_has_types_units_and_meanings(lines, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    (tmp_path / "t.parquet").write_bytes(to_parquet([*lines, {**lines[0], "value": None, "feasible": None}]))
    read = parquet.read_table(tmp_path / "t.parquet")
    assert read.to_pylist()[0] == lines[0]
    assert [row["value"] for row in read.to_pylist()] == [6.119999999999999, None]
    assert [str(read.schema.field(name).type) for name in ("value", "seed", "feasible", "instance")] == [
        *("double", "int64", "bool", "string")
    ]
    assert read.schema.field("decision_s").metadata[b"unit"] == b"s"
    assert parquet.read_table(io.BytesIO(to_parquet([]))).num_rows == 0


def test_without_pyarrow_the_error_says_how_to_install_it(lines, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"form parquet: needs pyarrow; pip install 'gpushare-bench\[parquet\]'"):
        to_parquet(lines)


def test_a_run_without_results_has_empty_values(make_row):
    blank = make_row(objective="cost", provenance={}, statistics={})
    values = {column.name: column.compute(blank, RelativeValues(Gap(), "blank")) for column in COLUMNS}
    assert values["value"] is values["gap"] is values["arrivals"] is values["cpu"] is None
    assert values["value_unit"] == "$/h"


def test_a_data_frame_has_the_same_values_and_na_for_unknown_ones(lines, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        frame = all_columns(ledger)
    assert list(frame.columns) == [column.name for column in COLUMNS]
    (run,) = frame.itertuples()
    for name, value in lines[0].items():
        if value is None:
            assert getattr(run, name) is pandas.NA
        else:
            assert getattr(run, name) == value
