"""Held-out instances of the challenge: a seed gives the same set in every version, and its hash commits to it."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli.app import main
from instances import GpuType
from instances.files import read_instance
from instances.library.held_out import SIZES, commitment, held_out

PAGE = Path(__file__).parents[2] / "docs" / "challenge.md"


def stated_hash() -> str:
    """Return the hash of the seed ``example`` in docs/challenge.md."""
    match = re.search(r"--seed example --verify ([0-9a-f]{64})", PAGE.read_text(encoding="utf-8"))
    assert match is not None
    return match[1]


def test_a_seed_gives_the_set_that_the_page_commits_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this test fails, published seeds no longer give their sets: the generator or the library's types changed."""

    def refuse(name: str, where: str = "") -> GpuType:
        raise AssertionError(f"{name} was read from the catalogue")

    monkeypatch.setattr("instances.pool_mix.gpu_type", refuse)
    instances = held_out("example")
    assert commitment("example", instances) == stated_hash()
    other = [*instances[:-1], replace(instances[-1], provenance="edited")]
    assert commitment("example", other) != stated_hash()
    assert commitment("another", instances) != stated_hash()


def test_the_set_has_a_small_and_a_large_instance_of_each_family() -> None:
    instances = held_out("any text")
    sizes = [len(instance.workloads) for instance in instances]
    assert len({instance.name for instance in instances}) == len(instances) == 72
    for kind, (smallest, largest) in enumerate(SIZES.values()):
        assert all(smallest <= size <= largest for size in sizes[kind::2])
        assert len(set(sizes[kind::2])) > 10
    families = Counter(instance.name.rpartition("-")[0] for instance in instances)
    assert set(families.values()) == {2}
    assert all((pool.count is None) == (str(i.objective) == "cost") for i in instances for pool in i.gpus)


def test_the_command_verifies_the_hash(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["library", "draw", "--seed", "example"]
    assert main([*arguments, "--verify", stated_hash().upper()]) == 0
    assert capsys.readouterr().out.strip() == stated_hash()
    assert main([*arguments, "--verify", "0" * 64]) == 1
    assert "the hash differs" in capsys.readouterr().err


def test_the_command_writes_each_instance_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = held_out("example")[::36]
    monkeypatch.setattr("bench.cli.commands.library.draw.held_out", lambda _: few)
    assert main(["library", "draw", "--seed", "example", "-o", str(tmp_path / "set")]) == 0
    written = [read_instance(file) for file in (tmp_path / "set").iterdir()]
    assert {instance.name: instance.fingerprint for instance in written} == {i.name: i.fingerprint for i in few}
    assert main(["library", "draw", "--seed", "other", "--verify", "0" * 64, "-o", str(tmp_path / "wrong")]) == 1
    assert list((tmp_path / "wrong").iterdir()) == []
