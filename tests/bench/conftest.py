"""Fixtures of the tests of the bench: a tiny instance, a locked ledger, and tasks for toy and hostile schedulers."""

import shlex
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bench.api import Status
from bench.cli.app import main
from bench.ledger.row import Row, Termination, columns
from bench.ledger.store import Ledger
from bench.task import Stage, Task
from instances import Instance
from instances.files import instance_from_json

# Workers import the schedulers by name, from the path that they inherit.
sys.path.append(str(Path(__file__).parent))

from hostile.collection import KIND

TaskFactory = Callable[..., Task]


@dataclass(frozen=True)
class Called:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Call = Callable[..., Called]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run the command line in an empty folder; ``line`` is split as by a shell, ``arguments`` are not."""
    monkeypatch.chdir(tmp_path)

    def run(line: str, *arguments: str) -> Called:
        code = main([*shlex.split(line), *arguments])
        printed = capsys.readouterr()
        return Called(code, printed.out, printed.err)

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of a ledger that does not exist yet."""
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """Second connection to the ledger, which holds its write lock as another process would."""
    Ledger(path, create=True).close()
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield database


def _instance(name: str = "mix", objective: str = "cost", **fields: object) -> Instance:
    return instance_from_json(
        {
            "version": 1,
            "name": name,
            "objective": objective,
            "slo_rule": "half-slo",
            "performance_model": "igniter",
            "gpus": [{"type": "v100", "count": None}],
            "workloads": [
                {"id": "w1", "model": "alexnet", "slo_ms": 15, "rate_rps": 50},
                {"id": "w2", "model": "resnet50", "slo_ms": 60, "rate_rps": 20},
            ],
            **fields,
        }
    )


@pytest.fixture(scope="session")
def make_instance() -> Callable[..., Instance]:
    """Make a variant of a small instance: two workloads that each fit on half a V100."""
    return _instance


@pytest.fixture(scope="session")
def instance() -> Instance:
    return _instance()


def target(name: str) -> str:
    """Return the ``module:Class`` of a toy or hostile scheduler."""
    return f"hostile.{KIND[name]}:{name}" if name in KIND else f"toy_schedulers:{name}"


@pytest.fixture(scope="session")
def make_task(instance: Instance) -> TaskFactory:
    """Make a task from a spec like ``Outer@Inner:how`` of toy and hostile schedulers.

    ``how`` is that scheduler's parameter of this name; ``parameters`` go to the outermost one, which runs last.
    """

    def make(
        spec: str, on: Instance = instance, *, parameters: dict[str, object] | None = None, **terms: object
    ) -> Task:
        stages = []
        for name, _, how in (stage_spec.partition(":") for stage_spec in reversed(spec.split("@"))):
            stages.append(Stage(name, target(name), overrides={"how": how} if how else {}))
        overrides = stages[-1].overrides | {field: str(value) for field, value in (parameters or {}).items()}
        stages[-1] = replace(stages[-1], overrides=overrides)
        return Task(on, tuple(stages), **{"time_limit_s": 20.0, **terms})  # type: ignore[arg-type]

    return make


_BLANK: dict[str, object] = {
    **dict.fromkeys(column.name for column in columns()),
    "key": "00ff",
    "instance": "mix",
    "instance_hash": "hash",
    "scheduler": "s",
    "parameters": {"s": {"width": 3}},
    "seed": 0,
    "source": "plan",
    "status": Status.FEASIBLE,
    "termination": Termination.FINISHED,
    "reason": "",
    "objective": "cost",
    "slo_rule": "half-slo",
    "performance_model": "igniter",
    "violation_details": [],
    "overhead_s": 0.02,
    "wall_s": 0.5,
    "overshoot_s": 0.0,
    "time_limit_s": 10.0,
    "threads": 1,
    "started_at": "2024-01-02T03:04:05.678+00:00",
    "statistics": {"nodes": 3.0, "ratio": None},
    "trajectory": [],
    "log_tail": "",
    "provenance": {"python": "3.11"},
}


@pytest.fixture(scope="session")
def make_row() -> Callable[..., Row]:
    """Make a row of a run without a plan; ``values`` replace its defaults."""
    from tests.row_values import of_classes  # here, since some tests import this file without the root on the path

    return lambda **values: Row(**of_classes({**_BLANK, **values}))
