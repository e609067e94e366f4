"""Ledgers compressed by xz: they are read in place and never written."""

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.ledger import ledger_file
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import InputError, Instance


@pytest.fixture
def file(tmp_path: Path, make_row: Callable[..., Row], instance: Instance) -> Path:
    with Ledger(tmp_path / "runs.sqlite", create=True) as ledger:
        ledger.add(make_row(instance_hash=instance.fingerprint), instance)
    file = tmp_path / "runs.sqlite.xz"
    file.write_bytes(lzma.compress((tmp_path / "runs.sqlite").read_bytes()))
    return file


def test_a_compressed_ledger_is_read_without_another_file(file: Path, instance: Instance) -> None:
    with Ledger(file.with_suffix("")) as ledger:
        rows = ledger.rows()
    file.with_suffix("").unlink()
    with Ledger(file) as ledger:
        assert ledger.rows() == rows
        assert ledger.instance(instance.fingerprint) == instance
        assert not ledger.contradicted()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_compressed_ledger_is_not_written(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(InputError, match="only read; unpack it with `xz -dk`"):
        Ledger(file, create=True)
    with pytest.raises(InputError, match="only read"):
        Ledger(file.with_name("new.sqlite.xz"), create=True)
    assert file.read_bytes() == before


def test_a_damaged_or_huge_file_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="its end is missing"):
        Ledger(file)
    file.write_bytes(b"SQLite format 3\0")
    with pytest.raises(InputError, match="no compressed ledger"):
        Ledger(file)
    file.write_bytes(lzma.compress(b"no database" * 100))
    with pytest.raises(InputError, match="no ledger"):
        Ledger(file)
    file.write_bytes(whole)
    monkeypatch.setattr(ledger_file, "_LARGEST_LEDGER", 1000)
    with pytest.raises(InputError, match="more than 1 GiB"):
        Ledger(file)
