"""A ledger with something of everything, and its report."""

from pathlib import Path

import pytest

from bench.cli import main
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import Instance
from tests.reports.page.runs_made_here import runs_of_every_kind


@pytest.fixture(scope="session")
def rows() -> list[tuple[Row, Instance]]:
    return runs_of_every_kind()


@pytest.fixture(scope="session")
def ledger_file(rows: list[tuple[Row, Instance]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "some.sqlite"
    with Ledger(path, create=True) as ledger:
        for row, instance in rows:
            assert ledger.add(row, instance)
    return path


@pytest.fixture(scope="session")
def site(ledger_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "site"
    assert main(["report", str(ledger_file), "-o", str(folder)]) == 0
    return folder
