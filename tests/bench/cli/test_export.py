"""``bench export``: files, standard output, and errors."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Call

from bench.ledger.export_table import documentation
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import Instance


@pytest.fixture(autouse=True)
def _ledger(tmp_path: Path, make_row: Callable[..., Row], make_instance: Callable[..., Instance]) -> None:
    with Ledger(tmp_path / "l.sqlite", create=True) as ledger:
        for name in ("mix", "=mix"):
            instance = make_instance(name)
            row = make_row(key=name, instance=name, instance_hash=instance.fingerprint, value=6.12, feasible=True)
            ledger.add(row, instance)


def test_csv_goes_to_standard_output_or_into_a_file(call: Call, tmp_path: Path) -> None:
    shown = call("export", "l.sqlite")
    lines = list(csv.DictReader(io.StringIO(shown.out)))
    assert [(line["instance"], line["value"], line["value_unit"]) for line in lines] == [
        ("mix", "6.12", "$/h"),
        ("=mix", "6.12", "$/h"),
    ]
    assert shown.err == "2 texts begin with =, +, - or @; for a spreadsheet, repeat the command with --spreadsheet\n"
    written = call("export", "l.sqlite", "-o", "new/runs.csv")
    assert (written.code, written.out) == (0, "")
    assert "2 runs in new/runs.csv\n" in written.err
    assert (tmp_path / "new/runs.csv").read_text() == shown.out


def test_formulas_are_quoted_for_a_spreadsheet(call: Call) -> None:
    shown = call("export", "l.sqlite", "--spreadsheet")
    assert [line["instance"] for line in csv.DictReader(io.StringIO(shown.out))] == ["mix", "'=mix"]
    assert shown.err == ""


def test_control_characters_are_escaped(
    call: Call, make_row: Callable[..., Row], make_instance: Callable[..., Instance]
) -> None:
    odd = "\x1b[31mred\n\x00\x9b\u202ex"
    with Ledger(Path("l.sqlite")) as ledger:
        ledger.add(
            make_row(key="odd", reason=odd, instance_hash=make_instance("mix").fingerprint), make_instance("mix")
        )
    shown = call("export", "l.sqlite")
    assert list(csv.DictReader(io.StringIO(shown.out)))[2]["reason"] == r"\x1b[31mred\n\x00\x9b\u202ex"
    assert all(character.isprintable() or character == "\n" for character in shown.out)


def test_parquet_goes_into_a_file(call: Call, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    done = call("export", "l.sqlite", "-o", "runs.parquet")
    assert (done.code, done.err) == (0, "2 runs in runs.parquet\n")
    call("export", "l.sqlite", "--format", "parquet", "-o", "runs.table")
    assert (tmp_path / "runs.table").read_bytes() == (tmp_path / "runs.parquet").read_bytes()
    assert parquet.read_table(tmp_path / "runs.parquet").column("instance").to_pylist() == ["mix", "=mix"]


def test_columns_are_explained_without_a_ledger(call: Call) -> None:
    assert call("export", "--columns").out == documentation()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("missing.sqlite", "error: missing.sqlite: no such ledger"),
        ("l.sqlite --format parquet", "error: --output: is missing; expected a file for Parquet\n"),
        ("l.sqlite --format xlsx", "error: --format:"),
        (
            "l.sqlite --format csv -o x.parquet",
            "error: --format: is csv, but x.parquet is named as Parquet; omit --format or change the name",
        ),
        ("l.sqlite --format parquet -o x --spreadsheet", "error: --spreadsheet: has an effect only with --format csv"),
        ("l.sqlite -o l.sqlite/x.csv", "error: l.sqlite/x.csv: cannot be written: "),
    ],
)
def test_wrong_input_is_one_line(call: Call, line: str, problem: str) -> None:
    done = call("export", *line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(problem)
    assert done.err.count("\n") == 1
