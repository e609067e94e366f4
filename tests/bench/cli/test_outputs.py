"""Commands do not write over ledgers or over files that they read."""

from pathlib import Path

import pytest
from conftest import Call

LEDGER = "l.sqlite"


@pytest.fixture
def call(call: Call) -> Call:
    assert call(f"run --instances igniter-3 --schedulers igniter --ledger {LEDGER} --plans plans").code == 0
    (plan,) = Path("plans").iterdir()
    plan.rename("plan.json")
    Path("trace.csv").write_text("10\n20\n")
    return call


@pytest.mark.parametrize(
    ("line", "file"),
    [
        (f"export {LEDGER} -o {LEDGER}", LEDGER),
        (f"show igniter-3 -o {LEDGER}", LEDGER),
        (f"generate igniter-mix --size 3 -o {LEDGER}", LEDGER),
        (f"report {LEDGER} --experiments -o {LEDGER}", LEDGER),
        ("simulate plan.json --seconds 1 --series plan.json", "plan.json"),
        ("simulate plan.json --seconds 1 --arrivals trace.csv --series ./trace.csv", "trace.csv"),
        ("online --instances plan.json --scheduler igniter -o plan.json", "plan.json"),
        ("online --instances igniter-3 --scheduler igniter --trace W1=trace.csv -o trace.csv", "trace.csv"),
    ],
)
def test_ledgers_and_input_files_are_not_written_over(call: Call, line: str, file: str) -> None:
    before = Path(file).read_bytes()
    done = call(line)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "name another file" in done.err
    assert Path(file).read_bytes() == before


def test_measurements_are_not_written_over(call: Call) -> None:
    Path("m").mkdir()
    Path("m/solo.csv").write_text("model,batch,share_pct,latency_ms,l2_util_pct,dram_util_pct\n")
    Path("m/gpu.json").write_text('{"name": "v100"}')
    for line in ("profile fit m -o m/solo.csv", "profile fit plan.json -o plan.json"):
        done = call(line)
        assert (done.code, done.err.count("name another file")) == (2, 1)
