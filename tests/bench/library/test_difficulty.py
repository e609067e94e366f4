"""Difficulty of library entries: proofs by runs, classes, and the command that measures them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.api import Scope, Status
from bench.cli.app import main
from bench.ledger.row import Row, Termination
from bench.library.difficulty import WORK_PER_S, Measuring, proves, references
from formulations.colgen.clock import INTEGER_NODES_PER_S, NODES_PER_S
from instances.library import LIBRARY, Library
from instances.library.difficulty import Difficulty

NAME = "cost-turing-4"
ENTRY = LIBRARY.entry(NAME)

MakeRow = Callable[..., Row]


@pytest.fixture
def proof(make_row: MakeRow) -> MakeRow:
    """Make a row of a run that proves the entry."""

    def make(scheduler: str = "colgen", **values: Any) -> Row:
        of_proof = {
            "instance": NAME,
            "scheduler": scheduler,
            "status": Status.OPTIMAL,
            "feasible": True,
            "value": ENTRY.value,
            "bound": ENTRY.value,
            "bound_certified": True,
            "bound_scope": Scope(),
        }
        return make_row(**{**of_proof, **values})

    return make


@pytest.mark.parametrize(
    ("values", "proven"),
    [
        ({}, True),
        ({"bound": 1.1}, True),  # the next cost of whole GPUs is 2
        ({"bound": 0.9}, False),
        ({"bound_certified": False}, False),
        ({"bound": None}, False),
        ({"feasible": False}, False),
        ({"value": 3.0, "bound": 3.0}, False),  # a false proof: the entry's plan is better
        ({"bound_scope": Scope(max_batch=4)}, False),
        ({"bound_scope": Scope(allowed_shares=(10,))}, False),
    ],
)
def test_a_run_proves_an_entry_by_a_certified_bound_for_all_plans(
    proof: MakeRow, values: dict[str, Any], proven: bool
) -> None:
    assert proves(proof(**values), ENTRY) == proven


def measured(proof: MakeRow, runs: Sequence[tuple[str, int, bool]]) -> Measuring:
    measuring = Measuring(ENTRY)
    for scheduler, limit_s, proven in runs:
        measuring.add(proof(scheduler, bound_certified=proven), limit_s)
    return measuring


@pytest.mark.parametrize(
    ("runs", "difficulty"),
    [
        ([("colgen", 1, True), ("cpsat", 1, True)], Difficulty.TOY),
        ([("colgen", 1, True), ("cpsat", 1, False), ("cpsat", 10, True)], Difficulty.EASY),
        ([("colgen", 60, True), ("cpsat", 1, True)], Difficulty.MEDIUM),
        ([("colgen", 1, True), ("cpsat", 60, False)], Difficulty.HARD),
        ([("colgen", 1, True), ("cpsat", 10, False)], None),
        ([("colgen", 1, True)], None),
    ],
)
def test_the_last_reference_scheduler_decides(
    proof: MakeRow, runs: Sequence[tuple[str, int, bool]], difficulty: Difficulty | None
) -> None:
    result = measured(proof, runs).result
    assert (None if result is None else result.difficulty) == difficulty


def test_a_run_that_the_clock_ended_does_not_count(proof: MakeRow) -> None:
    measuring = Measuring(ENTRY)
    measuring.add(proof(termination=Termination.WALL_LIMIT), 60)
    assert measuring.result is None
    assert measuring.missing == ["colgen", "cpsat"]


def test_a_second_of_work_is_the_clocks_second_of_column_generation() -> None:
    assert WORK_PER_S == {"colgen": NODES_PER_S, "cpsat": 1, "mig": INTEGER_NODES_PER_S}


def test_mig_entries_have_their_own_reference() -> None:
    assert references(LIBRARY.instance("library-parvagpu-2")) == ["mig"]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    copied = Library(tmp_path / "library")
    for name in (NAME, "cost-t4-4"):
        copied.write(replace(LIBRARY.entry(name), measured=None))
    return copied


def test_the_command_writes_each_difficulty_and_goes_on_where_it_stopped(
    library: Library,
    tmp_path: Path,
    proof: MakeRow,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs are replaced by rows: colgen proves at once, and cpsat with ten seconds; the clock never matters."""
    module = "bench.cli.commands.library.classify"
    asked: list[tuple[int, str, str]] = []

    def tasks(entries: Sequence[Any]) -> dict[tuple[int, str, str], object]:
        keys = [(s, name, each.instance.name) for each in entries for s in (1, 10, 60) for name in ("colgen", "cpsat")]
        return {key: SimpleNamespace(key=key) for key in keys}

    def run(wanted: Sequence[Any], *_: object) -> tuple[list[Row], int, bool]:
        limits = [task.key for task in wanted]
        asked.extend(limits)
        rows = [
            proof(name, instance=of, value=value, bound=value, bound_certified=name == "colgen" or limit_s == 10)
            for limit_s, name, of in limits
            for value in [library.entry(of).value]
        ]
        return rows, 0, False

    monkeypatch.setattr(f"{module}._tasks", tasks)
    monkeypatch.setattr(f"{module}.run_with_progress", run)
    monkeypatch.setattr(f"{module}.refuse_wrong_answers", lambda: None)
    arguments = ["library", "classify", "--library", str(library.folder), "--ledger", str(tmp_path / "l.sqlite")]
    assert main(arguments) == 0
    assert asked[4:] == [(10, "cpsat", "cost-t4-4"), (10, "cpsat", NAME)]
    assert [line.difficulty for line in library.summaries()] == ["easy", "easy"]
    assert library.entry(NAME).measured is not None
    assert library.entry(NAME).measured.proven_s == {"colgen": 1, "cpsat": 10}
    assert library.entry(NAME).summary() == library.summaries()[1]
    capsys.readouterr()
    assert main(arguments) == 2
    assert "matches no proven entry without a difficulty" in capsys.readouterr().err
    assert main(["library", "--library", str(library.folder)]) == 0
    assert "difficulty: 2 easy" in capsys.readouterr().out


@pytest.mark.soak
def test_a_small_entry_is_measured(library: Library, tmp_path: Path) -> None:
    ledger = str(tmp_path / "l.sqlite")
    assert main(["library", "classify", NAME, "--library", str(library.folder), "--ledger", ledger]) == 0
    difficulties = {line.name: line.difficulty for line in library.summaries()}
    assert difficulties["cost-t4-4"] is None
    assert difficulties[NAME] in ("toy", "easy", "medium", "hard")
