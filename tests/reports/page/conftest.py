"""A ledger with something of everything, and its report."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli import main
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from heuristics.elastic_partitioning import ElasticPartitioning
from heuristics.first_fit import FfdPlus, FfdPlusPlus
from heuristics.igniter import IGniter
from instances import Instance
from instances.suites import suite
from tests.reports.page.runs_made_here import BOUND, GAME, HOSTILE, TWELVE, row_of, run_of


def hostile_instance() -> Instance:
    workloads = tuple(replace(one, id=f"{one.id}{HOSTILE}") for one in TWELVE.workloads[:3])
    return replace(TWELVE, name=HOSTILE, workloads=workloads)


@pytest.fixture(scope="session")
def rows() -> list[tuple[Row, Instance]]:
    igniter = run_of(IGniter(), TWELVE, **BOUND)
    mixes = suite("igniter-scaling").build()[:3]
    hostile = hostile_instance()
    return [
        (igniter, TWELVE),
        (run_of(FfdPlus(), TWELVE), TWELVE),
        (run_of(FfdPlusPlus(), TWELVE), TWELVE),
        (row_of("cpsat", TWELVE, termination="crashed", reason=f"signal 11\u2028{HOSTILE}"), TWELVE),
        (replay_of(igniter), TWELVE),
        *((run_of(scheduler, mix), mix) for mix in mixes for scheduler in (IGniter(), FfdPlusPlus())),
        (run_of(ElasticPartitioning(), GAME), GAME),
        (run_of(IGniter(), hostile, scheduler=HOSTILE, parameters={HOSTILE: {"a": HOSTILE}}), hostile),
        (scenarios(), TWELVE),
    ]


def replay_of(row: Row) -> Row:
    """A replay of the plan of ``row`` on which everything took a tenth longer, as ``bench replay`` keeps it."""
    assert row.simulation is not None
    workloads = [
        {key: value for key, value in one.items() if key != "histogram"}
        | {"p99_ms": 1.1 * one["p99_ms"], "predicted": {"p99_ms": one["p99_ms"]}}
        for one in row.simulation["workloads"]
    ]
    values = {**row.simulation, "workloads": workloads, "valid": True, "invalid_reason": None}
    return replace(
        row,
        key="ab" * 32,
        scheduler="replay",
        source="replay",
        parameters={"replay": {"backend": "cpu", "plan": row.plan}},
        simulation=values,
    )


def scenarios() -> Row:
    times, bits = {"decision_median_s": 0.001, "decision_max_s": 0.002}, {"accepted_bits": "", "served_bits": ""}
    counts = {"count": 1023, "decided": 1023, "accepted": 900, "served": 890, **times, **bits}
    return row_of(
        "sbp", TWELVE, instance="gpulet-1023", instance_hash="cd" * 32, objective="scenarios", scenarios=counts
    )


@pytest.fixture(scope="session")
def ledger_file(rows: list[tuple[Row, Instance]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "some.sqlite"
    with Ledger(path, create=True) as ledger:
        for row, instance in rows:
            assert ledger.add(row, instance)
    return path


@pytest.fixture(scope="session")
def site(ledger_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "site"
    assert main(["report", str(ledger_file), "-o", str(folder)]) == 0
    return folder
