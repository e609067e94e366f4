"""The library: its index, its entries, and the agreement of its instances with the generator."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.judging.judge import judge
from instances import GpuType, InputError, Objective
from instances.files import instance_from_json
from instances.library import LIBRARY, Library, LibraryEntry
from instances.library.drawing import add_missing, draw, drawn
from instances.library.entry import SCALE_TIE, TIE, better, closes

LINES = LIBRARY.summaries()
LARGEST_BYTES = 30 * 2**20
LARGEST_READ = 100
"""Largest number of workloads of the entries that these tests read completely."""
DIGESTS = {
    "cost-t4-4": "f33b3035a9e714a0",
    "cost-a100-4": "7eb71a184b630d11",
    "cost-inss-4": "3ff5bcb044e8c4e9",
    "cost-turing-4": "e22cdceb5605482a",
    "cost-ampere-turing-4": "bad2d6a9efcdc108",
    "cost-three-4": "b43e01597ef3ccb8",
    "cost-four-4": "db3a0053093a25bd",
}


def test_the_library_covers_all_objectives_rules_and_sizes() -> None:
    assert len(LINES) >= 200
    assert {line.objective for line in LINES} == {"cost", "capacity", "goodput", "scale"}
    assert {line.slo_rule for line in LINES} == {"half-slo", "assembly", "duty-cycle", "attainment"}
    assert {line.performance_model for line in LINES} >= {"igniter", "inss", "gpulet", "hybrid", "table"}
    assert {len(line.gpus) for line in LINES} == {1, 2, 3, 4}
    assert {4, 10_000} <= {line.workloads for line in LINES}
    assert all(set(line.gpus) != {"v100"} for line in LINES)
    assert sum(file.stat().st_size for file in LIBRARY.folder.iterdir()) < LARGEST_BYTES


def test_every_entry_has_a_line_in_the_index() -> None:
    assert len({line.name for line in LINES}) == len(LINES)
    files = {file.name.removesuffix(".json.gz") for file in LIBRARY.folder.glob("*.json.gz")} - {"types"}
    assert files == {line.name for line in LINES}
    wrong = [line.name for line in LINES if line.workloads <= 300 and LIBRARY.entry(line.name).summary() != line]
    assert wrong == []


def test_the_generator_draws_the_instances_of_the_library() -> None:
    """Except for the coefficients of the GPU types, which date from when the entry was added.

    Workloads of the 2080 Ti alone are left out: its reference rates have changed with its coefficients.
    """
    small = [i for i in drawn() if len(i.workloads) <= 300 and i.gpus[0].type.name != "rtx2080ti"]
    for instance in small[:: len(small) // 20]:
        entry = LIBRARY.instance(instance.name)
        assert [pool.type.name for pool in entry.gpus] == [pool.type.name for pool in instance.gpus]
        pools = zip(instance.gpus, entry.gpus, strict=True)
        with_entrys_types = replace(instance, gpus=tuple(replace(new, type=old.type) for new, old in pools))
        assert with_entrys_types.fingerprint == entry.fingerprint


def test_missing_instances_are_added_and_none_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_instances = [draw("t4", Objective.COST, 4), draw("four", Objective.GOODPUT, 7)]
    monkeypatch.setattr("instances.library.drawing.drawn", lambda: iter(two_instances))
    library = Library(tmp_path)
    assert add_missing(library) == [instance.name for instance in two_instances]
    assert add_missing(library) == []
    assert [library.instance(instance.name) for instance in two_instances] == two_instances


def test_an_instance_keeps_its_coefficients_when_the_catalogue_changes(tmp_path: Path) -> None:
    instance = draw("t4", Objective.COST, 4)
    (pool,) = instance.gpus
    dearer = replace(instance, gpus=(replace(pool, type=replace(pool.type, price_per_hour=99.0)),), name="dearer")
    library = Library(tmp_path)
    library.write(LibraryEntry(instance))
    library.write(LibraryEntry(dearer))
    assert library.instance("dearer") == dearer
    assert library.instance(instance.name) == instance


def test_reading_entries_never_reads_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests, values and certificates depend on the coefficients in the library, not on the catalogue."""

    def refuse(name: str) -> GpuType:
        raise AssertionError(f"{name} was read from the catalogue")

    monkeypatch.setattr("instances.files.instance.gpu_type", refuse)
    for line in LINES:
        if line.workloads <= LARGEST_READ:
            certificate = LIBRARY.certificate(line.name)
            assert certificate is None or instance_from_json(certificate["instance"]) == LIBRARY.instance(line.name)


def test_the_digests_of_entries_have_not_changed() -> None:
    """The digests date from before the recalibration of the catalogue and before batching times existed."""
    digests = {name: LIBRARY.instance(name).fingerprint[:16] for name in DIGESTS}
    assert digests == DIGESTS


def test_the_value_of_every_entry_is_the_judges(subtests: pytest.Subtests) -> None:
    for line in LINES:
        entry = LIBRARY.entry(line.name) if line.workloads <= LARGEST_READ else None
        if entry is not None and entry.plan is not None:
            with subtests.test(name=line.name):
                assert judge(entry.plan, entry.instance).value == pytest.approx(entry.value, rel=TIE)


def test_every_open_entry_says_why() -> None:
    assert all((line.why_open is None) == line.closed for line in LINES)
    assert all(line.why_open.endswith(".") for line in LINES if line.why_open is not None)
    unbounded = [line for line in LINES if line.bound is None]
    assert all("No bound" in str(line.why_open) for line in unbounded)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean"):
        LIBRARY.instance("cost-t4-5")
    with pytest.raises(InputError, match='unknown instance of the library "zzz"; `bench library` lists all'):
        LIBRARY.instance("zzz")
    assert not LIBRARY.has("../entries/cost-t4-4")


def test_values_tie_within_the_tolerance() -> None:
    assert better(1.0, 1.1, Objective.COST)
    assert not better(1.0, 1.0 + 1e-8, Objective.COST)
    assert better(1.0 + 1e-6, 1.0, Objective.GOODPUT)
    assert not better(1.0 + 0.9 * SCALE_TIE, 1.0, Objective.SCALE)
    assert better(1.825, 1.82, Objective.SCALE)
    assert closes(1.83, 1.825, Objective.SCALE)
    assert not closes(1.83, 1.82, Objective.SCALE)
