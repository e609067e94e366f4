"""Benchmark set of the library: the procedure that chooses it, and the set on record."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from instances import InputError
from instances.library import LIBRARY, LibraryLine
from instances.library.choosing import SIZE, candidates, choose

LINES = LIBRARY.summaries()


def test_the_set_on_record_is_the_one_that_the_procedure_chooses() -> None:
    benchmark = LIBRARY.benchmark
    assert benchmark is not None
    recorded = [
        replace(line, difficulty=benchmark.difficulties[line.name])
        for line in LINES
        if line.name in benchmark.difficulties
    ]
    assert len(recorded) == len(benchmark.difficulties)
    assert benchmark.entries == choose(recorded)
    assert LIBRARY.names("benchmark") == benchmark.entries


def test_the_set_is_diverse() -> None:
    of_set = [line for line in LINES if line.name in LIBRARY.names("benchmark")]
    assert len(of_set) == SIZE
    for feature in ("objective", "slo_rule", "difficulty"):
        counts = Counter(getattr(line, feature) for line in of_set)
        assert set(counts) >= {getattr(line, feature) for line in candidates(LINES)} - {None}
        assert min(counts.values()) >= 2
    assert {len(line.gpus) for line in of_set} == {1, 2, 3, 4}


def line(name: str, objective: str, **values: object) -> LibraryLine:
    """Return a line; each name has GPUs of its own, so that it is a family of its own."""
    return replace(LINES[0], name=name, objective=objective, **{"gpus": {name: None}, **values})  # type: ignore[arg-type]


def test_the_next_entry_has_the_rarest_features() -> None:
    lines = [line("a", "cost"), line("b", "cost"), line("c", "goodput"), line("d", "cost", slo_rule="assembly")]
    assert choose(lines, 1) == ["a"]  # all tie, and the alphabet decides
    assert choose(lines, 2) == ["a", "c"]
    assert choose(lines[::-1], 3) == ["a", "c", "d"]
    assert choose(lines, 9) == ["a", "b", "c", "d"]


def test_a_family_has_two_entries_at_most() -> None:
    family = {"gpus": {"t4": None}}
    lines = [line("a", "cost", **family), line("b", "cost", **family), line("c", "cost", **family), line("d", "cost")]
    assert choose(lines) == ["a", "b", "d"]


@pytest.mark.parametrize(
    "values", [{"value": None}, {"bound": None}, {"workloads": 301}, {"performance_model": "mig-table"}]
)
def test_some_entries_are_no_candidates(values: dict[str, object]) -> None:
    known = line("a", "cost", value=1.0, bound="1", workloads=300)
    assert candidates([known]) == [known]
    assert candidates([replace(known, **values)]) == []  # type: ignore[arg-type]


def test_no_entry_has_the_name_of_the_set() -> None:
    assert not LIBRARY.has("benchmark")
    with pytest.raises(InputError):
        LIBRARY.instance("benchmark")


def test_the_documentation_lists_the_set() -> None:
    text = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
    _, _, listed = text.partition(
        f"The entries of set {LIBRARY.benchmark.version if LIBRARY.benchmark else 0} are:\n\n"
    )
    assert re.findall(r"`([\w-]+)`", listed.partition("\n\n")[0]) == LIBRARY.names("benchmark")
