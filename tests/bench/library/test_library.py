"""Library of hard instances: submissions to a copy, certificates, and the commands that read and write it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.api import Bound, Outcome, Run, Status
from bench.certificate.checking import check
from bench.certificate.failures import GivenUpError
from bench.certificate.proving import certificate
from bench.cli.app import main
from bench.library.solving import solve
from bench.library.submission import Submission, credit, submit, with_plan
from bench.schedulers.registry import entries, load
from instances import InputError, Instance, Objective, Plan, PlanClass
from instances.files import plan_to_json, read_json, write_json
from instances.library import LIBRARY, Credit, Library, LibraryEntry
from instances.library.drawing import draw
from instances.library.entry import NONE, SCALE_TIE, better
from instances.plan import Gpulet, PlacedGpu, Slot
from tests.soak import first

LINES = LIBRARY.summaries()
PROVEN = [line.name for line in LINES if line.proof is not None]
SMALL = [line.name for line in LINES if line.proof is not None and line.workloads <= 10 and line.objective == "cost"]
NAME = "cost-turing-4"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Make a library with one entry, whose best plan is that of ``whole-gpu``."""
    copied = Library(tmp_path / "library")
    instance = LIBRARY.instance(NAME)
    copied.write(LibraryEntry(instance))
    submit(copied, plan_to_json(whole_gpu_plan(instance.name)), "plan", "somebody")
    return copied


def whole_gpu_plan(name: str) -> Plan:
    instance = LIBRARY.instance(NAME)
    plan = load(entries()["whole-gpu"].target)().schedule(instance, Run()).plan
    assert plan is not None
    return replace(plan, instance=name)


def best_plan() -> Plan:
    plan = LIBRARY.entry(NAME).plan
    assert plan is not None
    return plan


def proof_file(folder: Path, name: str = NAME) -> Path:
    write_json(folder / "proof.json.gz", LIBRARY.certificate(name))
    return folder / "proof.json.gz"


def test_a_better_plan_is_a_new_best_and_a_tie_is_none(library: Library) -> None:
    before = library.entry(NAME)
    submission = submit(library, plan_to_json(best_plan()), "plan", "A. Author")
    after = library.entry(NAME)
    assert submission.new_best
    assert after.value is not None
    assert before.value is not None
    assert after.value < before.value
    assert (after.plan, after.plan_credit.by if after.plan_credit else "") == (best_plan(), "A. Author")
    assert library.summaries() == [after.summary()]
    repeated = submit(library, plan_to_json(best_plan()), "plan", "B. Author")
    assert not repeated.new_best
    assert "ties with" in repeated.sentence
    assert "is worse than" in submit(library, plan_to_json(whole_gpu_plan(NAME)), "plan", "B. Author").sentence
    assert library.entry(NAME) == after


def test_a_plan_that_breaks_a_constraint_is_refused(library: Library) -> None:
    gpu = best_plan().gpus[0]
    crowded = PlacedGpu(gpu.type, tuple(replace(each, share_units=1) for each in gpu.gpulets))
    submission = submit(library, plan_to_json(Plan(NAME, (crowded, *best_plan().gpus[1:]))), "plan", "A. Author")
    assert (submission.new_best, submission.new_bound) == (False, False)
    assert "infeasible" in submission.sentence


def test_plans_of_a_wider_class_are_refused(library: Library) -> None:
    slots = tuple(Slot(w.id, 1, w.rate_rps) for w in library.instance(NAME).workloads)
    turns = Plan(NAME, (PlacedGpu("rtx2080ti", (Gpulet(10, slots, 50.0),)),))
    assert "spatio-temporal" in submit(library, plan_to_json(turns), "plan", "A. Author").sentence


def test_on_mig_instances_plans_may_split_workloads(tmp_path: Path) -> None:
    library_, name = Library(tmp_path / "library"), "library-parvagpu-2"
    library_.write(LibraryEntry(LIBRARY.instance(name)))
    plan = load(entries()["mig"].target)().schedule(library_.instance(name), Run()).plan
    assert plan is not None
    assert plan.plan_class == PlanClass.SPLIT
    assert submit(library_, plan_to_json(plan), "plan", "A. Author").new_best


def entry_with(objective: Objective, bound: str) -> LibraryEntry:
    """Return an entry without a plan."""
    claim = {"bound": bound, "plan_class": "spatial", "parts": None}
    credit = Credit("somebody", "0.1.0", "2026-01-01")
    return LibraryEntry(draw("t4", objective, 4), claim=claim, proof={"kind": "dual"}, proof_credit=credit)


def test_an_entry_under_scale_without_a_plan_is_closed_by_its_bound() -> None:
    entry = entry_with(Objective.SCALE, "0.005")
    assert (entry.value, entry.closed, entry.gap) == (None, True, 0.0)


@pytest.mark.parametrize(
    ("objective", "bound", "degenerate"),
    [
        (Objective.SCALE, "0.005", True),
        (Objective.SCALE, "0.01", False),
        (Objective.COST, "none", True),
        (Objective.COST, "0", False),
        (Objective.GOODPUT, "0", True),
        (Objective.CAPACITY, "none", True),
        (Objective.CAPACITY, "0.1", False),
    ],
)
def test_an_entry_is_degenerate_if_nothing_can_be_served(objective: Objective, bound: str, degenerate: bool) -> None:
    assert entry_with(objective, bound).degenerate == degenerate
    assert not LibraryEntry(draw("t4", objective, 4)).degenerate


def test_degenerate_entries_are_withdrawn_and_their_names_not_used_again(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = entry_with(Objective.SCALE, "0.005")
    library.write(entry)
    arguments = ["library", "withdraw", "*", "--library", str(library.folder)]
    assert main(arguments) == 0
    assert library.names() == [NAME]
    with pytest.raises(InputError, match='"scale-t4-4" was withdrawn: its bound proves that nothing can be served'):
        library.entry(entry.instance.name)
    with pytest.raises(InputError, match="the name was used before"):
        library.write(entry)
    capsys.readouterr()
    assert main(arguments) == 2
    assert "matches no degenerate entry" in capsys.readouterr().err


def test_no_entry_of_the_bench_is_degenerate() -> None:
    lines = [line for line in LINES if line.bound in (NONE, "0", str(SCALE_TIE))]
    assert [line.name for line in lines if LIBRARY.entry(line.name).degenerate] == []


@pytest.mark.parametrize("name", ["scale-turing-7", "library/scale-turing-7"])
def test_a_withdrawn_entry_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--instances", name]) == 2
    assert 'the instance "scale-turing-7" was withdrawn' in capsys.readouterr().err
    assert main(["run", "--instances", "library/cost-volta-t4-4"]) == 2
    assert 'was made again as "cost-volta-t4-4-v2"' in capsys.readouterr().err


def test_a_certificate_gives_a_new_bound_and_its_plan_is_submitted(library: Library, tmp_path: Path) -> None:
    file = proof_file(tmp_path)
    submission = submit(library, read_json(file), str(file), "A. Author")
    assert (submission.new_best, submission.new_bound) == (True, True)
    entry = library.entry(NAME)
    assert entry.closed
    assert library.summaries()[0].closed
    repeated = submit(library, read_json(file), str(file), "B. Author")
    assert (repeated.new_best, repeated.new_bound) == (False, False)


def test_a_false_certificate_and_one_of_another_instance_are_refused(library: Library, tmp_path: Path) -> None:
    data = json.loads(json.dumps(LIBRARY.certificate(NAME)))
    data["claim"]["bound"] = "3"
    submission = submit(library, data, "proof", "A. Author")
    assert not submission.new_bound
    assert "not proven" in submission.sentence
    assert library.entry(NAME).claim is None
    data["instance"]["workloads"][0]["rate_rps"] += 1.0
    with pytest.raises(InputError, match="differs"):
        submit(library, data, "proof", "A. Author")


def test_the_command_submits_to_a_copy_and_exits_with_1_if_nothing_is_new(
    library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "plan.json", plan_to_json(best_plan()))
    arguments = ["library", "submit", str(tmp_path / "plan.json"), "--by", "A", "--library", str(library.folder)]
    assert main(arguments) == 0
    assert "new best: 2" in capsys.readouterr().out
    assert main([*arguments, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["new_best"] is False


def test_a_folder_without_a_library_or_write_access_is_refused(
    library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "plan.json", plan_to_json(best_plan()))
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


def test_parts_of_an_entry_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also by the name with which runs select the entry."""
    for part, prefix in (("plan", ""), ("certificate", "library/")):
        file = tmp_path / f"{part}.json"
        assert main(["library", "--instance", f"{prefix}{NAME}", "--part", part, "-o", str(file)]) == 0
    capsys.readouterr()
    assert main(["check", str(tmp_path / "certificate.json"), "--instance", f"library/{NAME}"]) == 0
    assert main(["verify", str(tmp_path / "plan.json"), f"library/{NAME}", "--strict"]) == 0
    empty = Library(tmp_path / "library")
    empty.write(LibraryEntry(LIBRARY.instance(NAME)))
    folder = ["--library", str(empty.folder)]
    refused = ["library", "--instance", NAME, "--part", "plan", "-o", str(tmp_path / "none.json"), *folder]
    assert main(refused) == 2
    assert f"--part: {NAME} has no plan" in capsys.readouterr().err
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize("name", ["cost-tt-4", "nothing-*"])
def test_an_unknown_entry_is_named_with_the_nearest_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--instances", f"library/{name}"]) == 2
    problem = capsys.readouterr().err
    assert f'unknown entry of the library "library/{name}"' in problem
    assert ('did you mean "library/cost-t4-4"?' in problem) == (name == "cost-tt-4")


def test_names_of_the_library_select_instances(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"library/{NAME}", "--ledger", "none.sqlite"]) == 0
    assert main(["show", "library/no-such-*", "--ledger", "none.sqlite"]) == 2


class _ReportsAndIsInterrupted:
    """Scheduler that reports the best plan and is then interrupted by Ctrl-C."""

    name = "reports"
    objectives = frozenset({Objective.COST})

    def schedule(self, instance: object, run: Run) -> Outcome:
        run.report(plan=best_plan())
        raise KeyboardInterrupt


def test_the_plan_of_an_interrupted_run_is_submitted(library: Library) -> None:
    submissions: list[Submission] = []
    with pytest.raises(KeyboardInterrupt):
        solve(library, NAME, _ReportsAndIsInterrupted(), "reports", 1.0, 1.0, submissions.append)
    assert [each.new_best for each in submissions] == [True]
    assert library.entry(NAME).plan == best_plan()


class _ClaimsFalseBound(_ReportsAndIsInterrupted):
    """Scheduler that claims a false bound, which no certificate supports."""

    def schedule(self, instance: object, run: Run) -> Outcome:
        return Outcome(Status.OPTIMAL, best_plan(), Bound(1e-3, certified=True))


def test_solving_takes_the_bound_of_the_checked_certificate(library: Library) -> None:
    submissions: list[Submission] = []
    solve(library, NAME, _ClaimsFalseBound(), "claims", 1.0, 60.0, submissions.append)
    assert [each.new_bound for each in submissions] == [False, True]
    assert library.entry(NAME).bound == LIBRARY.entry(NAME).bound


def test_every_run_that_solves_an_entry_reports_its_result(library: Library) -> None:
    """An entry whose best plan and bound are known, a run that finds both again, and one that cannot solve it."""
    for _ in range(2):
        submissions: list[Submission] = []
        solve(library, NAME, load(entries()["colgen"].target)(), "colgen", 20.0, 60.0, submissions.append)
    plan, bound = (each.sentence for each in submissions)
    assert plan.startswith(f"{NAME}: no new best: ")
    assert bound.startswith(f"{NAME}: no new bound: ")

    refused: list[Submission] = []
    solve(library, NAME, load(entries()["ts"].target)(), "ts", 1.0, 1.0, refused.append)
    assert [each.sentence.startswith(f"{NAME}: ts does not solve cost") for each in refused] == [True]


def test_a_weaker_bound_is_taken_if_the_check_of_the_best_takes_too_long(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[float] = []

    def slow_at_first(*given: Any) -> dict[str, Any]:
        attempts.append(given[-1])
        if len(attempts) < 3:
            raise GivenUpError("the check takes more than 1 s of computing")
        return certificate(*given)

    monkeypatch.setattr("bench.library.solving.certificate", slow_at_first)
    submissions: list[Submission] = []
    solve(library, NAME, load(entries()["colgen"].target)(), "colgen", 20.0, 60.0, submissions.append)

    entry, best = library.entry(NAME), LIBRARY.entry(NAME)
    assert attempts == [0.0, 0.05, 0.5]
    assert entry.bound is not None
    assert best.bound is not None
    assert 0.0 < float(entry.bound) < float(best.bound)
    assert check(library.certificate(NAME), NAME).proven


class _OnlyPlans(_ReportsAndIsInterrupted):
    """Scheduler with a plan and no bound."""

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return Outcome(Status.FEASIBLE, LIBRARY.entry(instance.name).plan)


def test_an_entry_whose_run_has_no_bound_gets_that_of_the_least_shares(tmp_path: Path) -> None:
    copied, name = Library(tmp_path / "library"), "cost-t4-24"
    copied.write(LibraryEntry(LIBRARY.instance(name)))
    submissions: list[Submission] = []

    solve(copied, name, _OnlyPlans(), "plans", 1.0, 60.0, submissions.append)

    entry, best = copied.entry(name), LIBRARY.entry(name).value
    assert [each.new_bound for each in submissions] == [False, True]
    assert entry.proof_credit is not None
    assert entry.proof_credit.by == "least shares"
    assert entry.bound is not None
    assert best is not None
    assert 0.5 * best < float(entry.bound) <= best


class _TooLongError(Exception):
    pass


def test_a_proof_can_be_ended_while_it_is_made() -> None:
    def stop(part: float) -> None:
        raise _TooLongError

    with pytest.raises(_TooLongError):
        certificate(LIBRARY.instance(NAME), None, [], progress=stop)


@pytest.mark.parametrize("name", first(2, SMALL[:: max(1, len(SMALL) // 8)][:8]))
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
    assert entry.value is not None
    submission, judged = with_plan(replace(entry, plan=None, value=None, claim=None), entry.plan, credit("test"))
    assert submission.new_best
    assert judged.value is not None
    objective = entry.instance.objective
    assert not better(judged.value, entry.value, objective)
    assert not better(entry.value, judged.value, objective)
