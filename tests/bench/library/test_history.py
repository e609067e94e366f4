"""History of the library: findings are added by submissions, runs and renewals, and keep their credit."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench.api import Run
from bench.cli.app import main
from bench.library.renewal import renew
from bench.library.solving import solve
from bench.library.submission import submit
from bench.schedulers.registry import entries, load
from instances.files import plan_to_json
from instances.library import LIBRARY, Credit, Library, LibraryEntry
from instances.library.history import HISTORY, latest, read_history

NAME = "cost-turing-4"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Make a library with one entry, whose best plan is that of ``whole-gpu``."""
    copied = Library(tmp_path / "library")
    instance = LIBRARY.instance(NAME)
    plan = load(entries()["whole-gpu"].target)().schedule(instance, Run()).plan
    assert plan is not None
    copied.write(LibraryEntry(instance))
    submit(copied, plan_to_json(plan), "plan", "First", machine="Some CPU", work="1 s")
    return copied


def best_plan_data() -> object:
    plan = LIBRARY.entry(NAME).plan
    assert plan is not None
    return plan_to_json(plan)


def test_a_finder_keeps_the_credit_after_a_better_plan(library: Library) -> None:
    (first,) = library.history(NAME)
    assert (first.kind, first.by, first.machine, first.work, first.proof) == ("plan", "First", "Some CPU", "1 s", None)
    submit(library, best_plan_data(), "plan", "Second")
    kept, second = library.history(NAME)
    assert kept == first
    assert (second.by, second.value, second.machine) == ("Second", LIBRARY.entry(NAME).value, None)
    submit(library, best_plan_data(), "plan", "Third")  # a tie
    assert library.history(NAME) == [first, second]


def test_a_certificate_adds_its_bound_and_its_plan(library: Library) -> None:
    submit(library, LIBRARY.certificate(NAME), "proof", "Prover")
    _, plan, bound = library.history(NAME)
    assert (plan.kind, plan.by) == ("plan", "Prover")
    assert (bound.kind, bound.by, bound.value) == ("bound", "Prover", LIBRARY.entry(NAME).bound)
    assert bound.accepted_by.startswith("checker (")
    assert latest(library.history(NAME), NAME) == [plan, bound]


def test_a_run_states_its_machine_and_its_seconds(library: Library) -> None:
    scheduler = load(entries()["ffd++"].target)()
    solve(library, NAME, scheduler, "ffd++", 10.0, 60.0, lambda _: None)
    found = library.history(NAME)[1:]
    assert [finding.kind for finding in found] == ["plan", "bound"]
    assert all(finding.machine for finding in found)
    assert found[0].work is not None
    assert found[0].work.endswith(" s")
    assert (found[1].by, found[1].work) == ("exhaustive search", None)


def test_a_renewed_entry_begins_with_the_kept_plan_and_old_findings_stay(library: Library) -> None:
    (old,) = library.history(NAME)
    new = renew(library, NAME)
    assert library.history(NAME) == [old]
    assert library.history(new.instance.name) == [replace(old, entry=new.instance.name)]


def test_an_entry_is_shown_with_its_history(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    submit(library, best_plan_data(), "plan", "Second")
    assert main(["library", "--instance", NAME, "--library", str(library.folder)]) == 0
    printed = capsys.readouterr().out
    assert "First" in printed
    assert "Some CPU" in printed
    assert main(["library", "--instance", NAME, "--library", str(library.folder), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["history"]
    assert shown == [asdict(finding) for finding in library.history(NAME)]


def test_the_option_names_machine_and_work(library: Library, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(best_plan_data()))
    arguments = ["library", "submit", str(tmp_path / "plan.json"), "--by", "A", "--library", str(library.folder)]
    assert main([*arguments, "--machine", "EPYC 9654", "--work", "600 s"]) == 0
    assert library.entry(NAME).plan_credit == Credit(
        "A", library.history(NAME)[1].version, library.history(NAME)[1].date, "EPYC 9654", "600 s"
    )


def test_the_latest_findings_of_every_entry_are_those_of_the_index() -> None:
    history = read_history(LIBRARY.folder)
    assert [finding.entry for finding in history] == sorted(finding.entry for finding in history)
    latest_of = {(finding.entry, finding.kind): finding for finding in history}
    for line in LIBRARY.summaries():
        for kind, value, by in (("plan", line.value, line.plan_by), ("bound", line.bound, line.proof_by)):
            finding = latest_of.get((line.name, kind))  # type: ignore[arg-type]
            assert (value, by) == ((None, None) if finding is None else (finding.value, finding.by)), line.name


def test_each_finding_is_one_line_of_the_file() -> None:
    lines = (LIBRARY.folder / HISTORY).read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(read_history(LIBRARY.folder)) + 2
