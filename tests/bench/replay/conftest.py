"""Fixtures of the replay tests: a host with made-up GPUs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.replay import fake_pynvml


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Replace NVML by a fake; return its file, with a line per GPU: UUID, product, free MiB, MIG mode."""
    folder = tmp_path / "fake"
    folder.mkdir(exist_ok=True)
    (folder / "gpus").write_text("GPU-11, Tesla V100, 10000, Disabled\n", encoding="utf-8")
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml)
    monkeypatch.setattr(fake_pynvml, "broken", set())
    yield folder / "gpus"
    assert fake_pynvml.opened == 0
