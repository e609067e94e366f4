"""Check of changed entries: submissions in a clone are accepted; worse plans, forgeries and edits are refused."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.api import Run
from bench.cli.app import main
from bench.library.submission import submit
from bench.schedulers.registry import entries, load
from instances.files import plan_to_json, read_json, write_json
from instances.library import LIBRARY, Library, LibraryEntry
from instances.library.collection import ENTRY_SUFFIX, TYPES
from instances.library.history import HISTORY, history_to_json, read_history

NAME = "cost-turing-4"
IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, "-C", str(folder), *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "State of the library")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Make a clone of a repository with a library of one entry; its plan is that of ``whole-gpu``, it has no bound."""
    origin = Library(tmp_path / "origin" / "entries")
    instance = LIBRARY.instance(NAME)
    plan = load(entries()["whole-gpu"].target)().schedule(instance, Run()).plan
    assert plan is not None
    origin.write(LibraryEntry(instance))
    submit(origin, plan_to_json(plan), "plan", "First")
    git(tmp_path / "origin", "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path / "origin")
    (tmp_path / "origin" / "README").touch()
    commit(tmp_path / "origin")
    git(tmp_path, "clone", "--quiet", str(tmp_path / "origin"), str(tmp_path / "clone"))
    return Library(tmp_path / "clone" / "entries")


@pytest.fixture
def checked(library: Library, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return the function that runs the command on the clone and returns its exit code and its output."""

    def run(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["library", "check-changes", "--library", str(library.folder), *arguments])
        return code, capsys.readouterr().out

    return run


def with_best(library: Library) -> LibraryEntry:
    """Return the entry of the clone with the plan and the bound of the bench's library."""
    best = LIBRARY.entry(NAME)
    return replace(best, instance=library.instance(NAME))


def test_a_better_plan_and_a_better_bound_from_a_clone_are_accepted(
    library: Library, checked: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    code, printed = checked()
    assert code == 0
    assert "entries changed: 0" in printed
    plan = LIBRARY.entry(NAME).plan
    assert plan is not None
    write_json(tmp_path / "plan.json", plan_to_json(plan))
    write_json(tmp_path / "proof.json.gz", LIBRARY.certificate(NAME))
    for file in ("plan.json", "proof.json.gz"):
        submission = ["library", "submit", str(tmp_path / file), "--by", "A", "--library", str(library.folder)]
        assert main(submission) == 0
    assert [finding.kind for finding in library.history(NAME)] == ["plan", "plan", "bound"]
    assert library.summaries()[0].closed
    uncommitted = checked()
    commit(library.folder)
    for code, printed in (uncommitted, checked()):  # in both cases compared with a commit of the origin
        assert code == 0
        assert "entries changed: 1" in printed
        assert "problems: 0" in printed


def test_a_new_bound_leaves_a_plan_whose_credit_is_of_the_older_form(
    library: Library, checked: Callable[..., tuple[int, str]]
) -> None:
    file = library.folder / f"{NAME}{ENTRY_SUFFIX}"
    data: Any = read_json(file)
    credit = {field: value for field, value in data["best"]["credit"].items() if field not in ("machine", "work")}
    write_json(file, {**data, "best": {**data["best"], "credit": credit}})
    commit(library.folder)
    proven = LIBRARY.entry(NAME)
    bounded = replace(library.entry(NAME), claim=proven.claim, proof=proven.proof, proof_credit=proven.proof_credit)
    library.write(bounded)
    code, printed = checked("--since", "HEAD")
    assert (code, "entries changed: 1" in printed) == (0, True), printed


def test_a_worse_plan_is_refused(library: Library, checked: Callable[..., tuple[int, str]]) -> None:
    library.write(with_best(library))
    commit(library.folder)
    worse = Library(library.folder.parents[1] / "origin" / "entries").entry(NAME)
    library.write(replace(with_best(library), plan=worse.plan, value=worse.value, plan_credit=worse.plan_credit))
    code, printed = checked("--since", "HEAD")
    assert code == 1
    assert f"{NAME}: its plan is worse than the one before" in printed
    assert "a new finding in history.json is no improvement" in printed


def test_a_plan_that_is_worth_less_than_stated_is_refused(
    library: Library, checked: Callable[..., tuple[int, str]]
) -> None:
    entry = library.entry(NAME)
    assert entry.value is not None
    library.write(replace(entry, value=entry.value - 1.0))
    code, printed = checked()
    assert code == 1
    assert "and the entry states" in printed


def test_a_plan_that_breaks_a_constraint_is_refused(library: Library, checked: Callable[..., tuple[int, str]]) -> None:
    best = with_best(library)
    assert best.plan is not None
    assert best.value is not None
    library.write(replace(best, plan=replace(best.plan, gpus=best.plan.gpus[1:]), value=best.value - 1.0))
    code, printed = checked()
    assert code == 1
    assert f"{NAME}: refused: the plan is infeasible" in printed


def test_a_forged_certificate_is_refused(library: Library, checked: Callable[..., tuple[int, str]]) -> None:
    best, entry = with_best(library), library.entry(NAME)
    assert best.claim is not None
    library.write(
        replace(entry, claim={**best.claim, "bound": "2.5"}, proof=best.proof, proof_credit=best.proof_credit)
    )
    code, printed = checked()
    assert code == 1
    assert f"{NAME}: its certificate is refused: not proven" in printed


def edited(library: Library, change: Callable[[Any], None]) -> None:
    """Change the data in the entry's file."""
    file = library.folder / f"{NAME}{ENTRY_SUFFIX}"
    data: Any = read_json(file)
    change(data)
    write_json(file, data)


def _more_requests(data: Any) -> None:
    data["instance"]["workloads"][0]["rate_rps"] += 1.0


def _other_credit(data: Any) -> None:
    data["best"]["credit"]["by"] = "Somebody else"


def _no_plan(data: Any) -> None:
    data["best"] = None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_more_requests, "the instance was edited; an entry never changes"),
        (_other_credit, "its plan ties with the one before, which stays"),
        (_no_plan, "its plan was removed"),
    ],
)
def test_an_edited_entry_is_refused(
    library: Library, checked: Callable[..., tuple[int, str]], change: Callable[[Any], None], problem: str
) -> None:
    edited(library, change)
    code, printed = checked()
    assert code == 1
    assert f"{NAME}: {problem}" in printed


def test_edited_common_files_are_refused(library: Library, checked: Callable[..., tuple[int, str]]) -> None:
    (finding,) = read_history(library.folder)
    history = library.folder / HISTORY
    history.write_text(history_to_json([replace(finding, by="Somebody else")]))
    code, printed = checked()
    assert code == 1
    assert "findings in history.json were edited or removed" in printed
    assert "its last findings in history.json are not the plan and the bound of the entry" in printed
    history.write_text(history_to_json([finding]))
    types: Any = read_json(library.folder / TYPES)
    for coefficients in types.values():
        coefficients["price_per_hour"] += 1.0
    write_json(library.folder / TYPES, types)
    code, printed = checked()
    assert code == 1
    assert "the coefficients of" in printed


def test_a_removed_entry_and_a_false_index_are_refused(
    library: Library, checked: Callable[..., tuple[int, str]]
) -> None:
    (library.folder / "index.json").write_text("[]\n")
    code, printed = checked()
    assert code == 1
    assert f"{NAME}: is missing in index.json" in printed
    assert f"{NAME}: was removed" in printed


def test_old_names_stay_on_record(library: Library, checked: Callable[..., tuple[int, str]]) -> None:
    write_json(library.folder / "withdrawn.json", {"cost-old": "nothing fits"})
    commit(library.folder)
    write_json(library.folder / "withdrawn.json", {})
    code, printed = checked("--since", "HEAD")
    assert code == 1
    assert "cost-old: its line in withdrawn.json was edited or removed" in printed


def test_a_damaged_entry_is_one_line(library: Library, checked: Callable[..., tuple[int, str]]) -> None:
    file = library.folder / f"{NAME}{ENTRY_SUFFIX}"
    data: Any = read_json(file)
    del data["best"]
    write_json(file, data)
    code, printed = checked()
    assert code == 1
    assert f"{NAME}: its file is damaged: KeyError('best')" in printed


def test_without_an_earlier_commit_only_index_and_history_are_compared(
    library: Library, checked: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", "--depth", "1", (tmp_path / "origin").as_uri(), str(tmp_path / "shallow"))
    shallow = ["library", "check-changes", "--library", str(tmp_path / "shallow" / "entries")]
    assert main(shallow) == 0
    edited(Library(tmp_path / "shallow" / "entries"), _other_credit)
    assert main(shallow) == 1
    assert main([*shallow, "--since", "v0.1.0"]) == 2


def test_the_library_of_the_bench_agrees_with_its_index_and_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in LIBRARY.folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    assert main(["library", "check-changes", "--library", str(tmp_path)]) == 0
    assert "there is no earlier commit" in capsys.readouterr().out
