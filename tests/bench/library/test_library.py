"""Submissions to a copy of the library, its certificates, and the commands that read and write it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bench.api import Bound, Outcome, Run, Status
from bench.certificate.checking import check
from bench.certificate.proving import certificate
from bench.cli.app import main
from bench.library.solving import solve
from bench.library.submission import Submission, submit, with_plan
from bench.schedulers.registry import entries, load
from instances import InputError, Objective, Plan, PlanClass
from instances.files import plan_to_json, read_json, write_json
from instances.library import LIBRARY, Library, LibraryEntry
from instances.plan import Gpulet, PlacedGpu, Slot

LINES = LIBRARY.summaries()
PROVEN = [line.name for line in LINES if line.proof is not None]
SMALL = [line.name for line in LINES if line.proof is not None and line.workloads <= 10 and line.objective == "cost"]
NAME = "cost-turing-4"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A library with one entry, whose plan gives each workload a GPU of its own."""
    made = Library(tmp_path / "library")
    instance = LIBRARY.instance(NAME)
    made.write(LibraryEntry(instance))
    submit(made, plan_to_json(alone(instance.name)), "plan", "somebody")
    return made


def alone(name: str) -> Plan:
    instance = LIBRARY.instance(NAME)
    each = load(entries()["whole-gpu"].target)().schedule(instance, Run()).plan
    assert each is not None
    return replace(each, instance=name)


def best() -> Plan:
    plan = LIBRARY.entry(NAME).plan
    assert plan is not None
    return plan


def proof_file(folder: Path, name: str = NAME) -> Path:
    write_json(folder / "proof.json.gz", LIBRARY.certificate(name))
    return folder / "proof.json.gz"


def test_a_better_plan_is_a_new_best_and_a_tie_is_none(library: Library) -> None:
    before = library.entry(NAME)
    found = submit(library, plan_to_json(best()), "plan", "A. Author")
    after = library.entry(NAME)
    assert found.new_best
    assert after.value is not None
    assert before.value is not None
    assert after.value < before.value
    assert (after.plan, after.plan_credit.by if after.plan_credit else "") == (best(), "A. Author")
    assert library.summaries() == [after.summary()]
    again = submit(library, plan_to_json(best()), "plan", "B. Author")
    assert not again.new_best
    assert "ties with" in again.sentence
    assert "is worse than" in submit(library, plan_to_json(alone(NAME)), "plan", "B. Author").sentence
    assert library.entry(NAME) == after


def test_a_plan_that_breaks_a_constraint_is_refused(library: Library) -> None:
    gpu = best().gpus[0]
    crowded = PlacedGpu(gpu.type, tuple(replace(each, share_units=1) for each in gpu.gpulets))
    found = submit(library, plan_to_json(Plan(NAME, (crowded, *best().gpus[1:]))), "plan", "A. Author")
    assert (found.new_best, found.new_bound) == (False, False)
    assert "infeasible" in found.sentence


def test_plans_of_a_wider_class_are_refused(library: Library) -> None:
    slots = tuple(Slot(w.id, 1, w.rate_rps) for w in library.instance(NAME).workloads)
    turns = Plan(NAME, (PlacedGpu("rtx2080ti", (Gpulet(10, slots, 50.0),)),))
    assert "spatio-temporal" in submit(library, plan_to_json(turns), "plan", "A. Author").sentence


def test_on_mig_instances_plans_may_split_workloads(tmp_path: Path) -> None:
    made, name = Library(tmp_path / "library"), "library-parvagpu-2"
    made.write(LibraryEntry(LIBRARY.instance(name)))
    plan = load(entries()["mig"].target)().schedule(made.instance(name), Run()).plan
    assert plan is not None
    assert plan.plan_class == PlanClass.SPLIT
    assert submit(made, plan_to_json(plan), "plan", "A. Author").new_best


def test_a_scale_below_the_least_multiple_is_proven_without_a_plan() -> None:
    entry = LIBRARY.entry("scale-turing-7")
    assert (entry.value, entry.bound, entry.closed, entry.gap) == (None, "0.005", True, 0.0)


def test_a_certificate_is_a_new_bound_and_brings_its_plan(library: Library, tmp_path: Path) -> None:
    file = proof_file(tmp_path)
    found = submit(library, read_json(file), str(file), "A. Author")
    assert (found.new_best, found.new_bound) == (True, True)
    entry = library.entry(NAME)
    assert entry.closed
    assert library.summaries()[0].closed
    again = submit(library, read_json(file), str(file), "B. Author")
    assert (again.new_best, again.new_bound) == (False, False)


def test_a_false_certificate_and_one_of_another_instance_are_refused(library: Library, tmp_path: Path) -> None:
    data = json.loads(json.dumps(LIBRARY.certificate(NAME)))
    data["claim"]["bound"] = "3"
    found = submit(library, data, "proof", "A. Author")
    assert not found.new_bound
    assert "not proven" in found.sentence
    assert library.entry(NAME).claim is None
    data["instance"]["workloads"][0]["rate_rps"] += 1.0
    with pytest.raises(InputError, match="differs"):
        submit(library, data, "proof", "A. Author")


def test_the_command_writes_a_copy_and_says_what_it_found(
    library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "plan.json", plan_to_json(best()))
    arguments = ["library", "submit", str(tmp_path / "plan.json"), "--by", "A", "--library", str(library.folder)]
    assert main(arguments) == 0
    assert "new best: 2" in capsys.readouterr().out
    assert main([*arguments, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["new_best"] is False


def test_a_folder_without_a_library_or_without_write_access_is_told(
    library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "plan.json", plan_to_json(best()))
    assert main(["library", "submit", str(tmp_path / "plan.json"), "--by", "A", "--library", str(tmp_path)]) == 2
    assert "no index.json" in capsys.readouterr().err
    monkeypatch.setattr("bench.cli.views.library.os.access", lambda _, mode: mode != os.W_OK)
    folder = str(library.folder)
    assert main(["library", "submit", str(tmp_path / "plan.json"), "--by", "A", "--library", folder]) == 2
    assert "cannot be written; use a clone" in capsys.readouterr().err


def test_lists_and_entries_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["library", "--open", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in shown] == [line.name for line in LINES if not line.closed]
    assert main(["library", "--instance", NAME, "-o", str(tmp_path / "instance.json")]) == 0
    assert "proven best" in capsys.readouterr().out
    assert main(["library", "-o", "x.json"]) == 2
    assert main(["library", "--instance", "no-such"]) == 2


def test_names_of_the_library_select_instances(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"library/{NAME}", "--ledger", "none.sqlite"]) == 0
    assert main(["show", "library/no-such-*", "--ledger", "none.sqlite"]) == 2


class _Reports:
    """Scheduler that reports the best plan and is then interrupted."""

    name = "reports"
    objectives = frozenset({Objective.COST})

    def schedule(self, instance: object, run: Run) -> Outcome:
        run.report(plan=best())
        raise KeyboardInterrupt


def test_an_interrupted_run_keeps_its_plan(library: Library) -> None:
    told: list[Submission] = []
    with pytest.raises(KeyboardInterrupt):
        solve(library, NAME, _Reports(), "reports", 1.0, 1.0, told.append)
    assert [each.new_best for each in told] == [True]
    assert library.entry(NAME).plan == best()


class _Claims(_Reports):
    """Scheduler that claims a false bound, which no certificate supports."""

    def schedule(self, instance: object, run: Run) -> Outcome:
        return Outcome(Status.OPTIMAL, best(), Bound(1e-3, certified=True))


def test_solving_takes_the_bound_of_the_checked_certificate(library: Library) -> None:
    told: list[Submission] = []
    solve(library, NAME, _Claims(), "claims", 1.0, 60.0, told.append)
    assert [each.new_bound for each in told] == [False, True]
    assert library.entry(NAME).bound == LIBRARY.entry(NAME).bound


class _TooLongError(Exception):
    pass


def test_a_proof_can_be_ended_while_it_is_made() -> None:
    def stop(part: float) -> None:
        raise _TooLongError

    with pytest.raises(_TooLongError):
        certificate(LIBRARY.instance(NAME), None, [], progress=stop)


@pytest.mark.parametrize("name", SMALL[:: max(1, len(SMALL) // 8)][:8])
def test_small_certificates_prove_their_entries(name: str) -> None:
    assert_proven(name)


@pytest.mark.soak
@pytest.mark.parametrize("name", PROVEN)
def test_certificates_prove_their_entries(name: str) -> None:
    assert_proven(name)


def assert_proven(name: str) -> None:
    verdict = check(LIBRARY.certificate(name), name)
    assert verdict.proven, verdict.sentence


@pytest.mark.soak
@pytest.mark.parametrize("line", [line for line in LINES if line.value is not None], ids=lambda line: line.name)
def test_best_plans_have_their_values(line: object) -> None:
    entry = LIBRARY.entry(line.name)  # type: ignore[attr-defined]
    assert entry.plan is not None
    found, _ = with_plan(replace(entry, plan=None, value=None, claim=None), entry.plan, "test")
    assert found.new_best
    assert f"{entry.value:.10g}" in found.sentence
