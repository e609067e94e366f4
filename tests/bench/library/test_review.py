"""Review of the library's entries, and renewal of entries under new names."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli.app import main
from bench.library.renewal import next_name, renew
from bench.library.review import RECORD, budgets_digest, read_record, review, write_record
from instances import InputError
from instances.files import read_json, write_json
from instances.library import LIBRARY, Library
from instances.library.drawing import draw, drawn

LINES = LIBRARY.summaries()
NAME, OTHER = "cost-turing-4", "scale-turing-4"
BY_SHARE = "cost-volta-t4-4-v2"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Make a library with copies of three entries of the bench, and a record of their digests."""
    copied = Library(tmp_path / "library")
    for name in (NAME, OTHER, BY_SHARE):
        copied.write(LIBRARY.entry(name))
    write_record(copied, {name: budgets_digest(copied.entry(name)) for name in copied.names()})
    return copied


def test_small_entries_of_the_bench_have_the_budgets_on_record() -> None:
    recorded = read_record(LIBRARY)
    assert set(recorded) == set(LIBRARY.names())
    small = [line.name for line in LINES if line.workloads <= 4]
    assert [name for name in small if budgets_digest(LIBRARY.entry(name)) != recorded[name]] == []


@pytest.mark.soak
def test_no_entry_of_the_bench_has_to_be_renewed() -> None:
    recorded = read_record(LIBRARY)
    reviews = [review(LIBRARY.entry(name), LIBRARY.certificate(name), recorded[name]) for name in LIBRARY.names()]
    assert [each for each in reviews if not each.stays] == []


def test_an_entry_stays_if_plan_budgets_and_certificate_are_as_before(library: Library) -> None:
    entry, certificate = library.entry(NAME), library.certificate(NAME)
    review_ = review(entry, certificate, read_record(library)[NAME])
    assert (review_.plan, review_.budgets, review_.certificate, review_.stays) == (True, True, True, True)
    assert entry.value is not None
    assert not review(replace(entry, value=entry.value * 1.001), None, None).stays
    assert json.loads(json.dumps(certificate))["claim"]["bound"] != "3"
    false = json.loads(json.dumps(certificate)) | {"claim": {**(certificate or {})["claim"], "bound": "3"}}
    assert not review(entry, false, None).stays


@pytest.mark.parametrize("name", [NAME, BY_SHARE])
def test_a_slightly_longer_slo_changes_the_digest(name: str) -> None:
    entry = LIBRARY.entry(name)
    first, *others = entry.instance.workloads
    longer = replace(first, slo_ms=first.slo_ms * (1.0 + (2e-16 if name == NAME else 1e-3)))
    changed = replace(entry, instance=replace(entry.instance, workloads=(longer, *others)))
    assert budgets_digest(changed) != budgets_digest(entry)


def test_the_command_lists_entries_that_do_not_stay(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["library", "review", "--library", str(library.folder)]
    assert main(arguments) == 0
    assert "3 of 3 entries stay" in capsys.readouterr().out
    write_json(library.folder / RECORD, {**read_record(library), BY_SHARE: "0" * 64})
    assert main([*arguments, "--no-certificates"]) == 1
    out = capsys.readouterr().out
    assert "2 of 3 entries stay" in out
    assert BY_SHARE in out
    assert main([*arguments, "--format", "json", "--no-certificates", "scale-*"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [OTHER]


def test_an_entry_that_is_not_on_record_does_not_stay_and_a_record_is_not_replaced(library: Library) -> None:
    arguments = ["library", "review", "--library", str(library.folder), "--no-certificates"]
    recorded = read_record(library)
    false = {NAME: "0" * 64}
    write_json(library.folder / RECORD, false)  # one wrong digest, and no others
    assert main([*arguments, BY_SHARE]) == 1
    assert main([*arguments, "--record"]) == 0
    assert main([*arguments, BY_SHARE]) == 0
    assert read_record(library) == recorded | false


def test_an_entry_is_renewed_under_the_next_name(library: Library, capsys: pytest.CaptureFixture[str]) -> None:
    old = library.entry(BY_SHARE)
    assert main(["library", "renew", BY_SHARE, "--library", str(library.folder)]) == 0
    assert "cost-volta-t4-4-v3: plan kept" in capsys.readouterr().err
    new = library.entry("cost-volta-t4-4-v3")
    assert (new.value, new.plan_credit, new.bound) == (old.value, old.plan_credit, None)
    assert replace(new.instance, name=BY_SHARE) == old.instance
    assert library.names() == ["cost-turing-4", "cost-volta-t4-4-v3", "scale-turing-4"]
    assert library.renewed() == {BY_SHARE: "cost-volta-t4-4-v3"}
    with pytest.raises(InputError, match='"cost-volta-t4-4-v2" was made again as "cost-volta-t4-4-v3"'):
        library.instance(BY_SHARE)
    assert main(["library", "renew", BY_SHARE, "--library", str(library.folder)]) == 2


def test_the_name_of_a_renewed_entry_is_not_used_again(library: Library) -> None:
    new = renew(library, NAME)
    renewed = library.entry(new.instance.name)
    with pytest.raises(InputError, match="the name was used before"):
        library.replace(new.instance.name, replace(renewed, instance=replace(renewed.instance, name=NAME)))
    assert renew(library, new.instance.name).instance.name == f"{NAME}-v3"
    assert library.current(NAME) == f"{NAME}-v3"


def test_renewal_drops_a_plan_that_is_no_longer_feasible(library: Library) -> None:
    file = library.folder / f"{NAME}.json.gz"
    data: dict[str, dict[str, list[dict[str, float]]]] = json.loads(json.dumps(read_json(file)))
    data["instance"]["workloads"][0]["slo_ms"] = 1.0
    write_json(file, data)
    new = renew(library, NAME)
    assert (new.plan, new.value, new.plan_credit) == (None, None, None)


def test_the_next_name_has_the_next_version() -> None:
    assert [next_name(name) for name in ("cost-t4-4", "cost-t4-4-v2", "cost-t4-4-v9")] == [
        "cost-t4-4-v2",
        "cost-t4-4-v3",
        "cost-t4-4-v10",
    ]


def test_the_generator_draws_renewed_entries_under_their_current_names() -> None:
    renewed = LIBRARY.renewed()
    assert renewed
    assert not set(renewed) & set(LIBRARY.names())
    names = {instance.name for instance in drawn() if len(instance.workloads) <= 24}
    assert names <= set(LIBRARY.names())
    old = draw("volta-t4", LIBRARY.instance(BY_SHARE).objective, 4)
    assert LIBRARY.current(old.name) == BY_SHARE
    assert LIBRARY.instance(BY_SHARE) == replace(old, name=BY_SHARE)
