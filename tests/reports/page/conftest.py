"""Fixtures of the page's tests: a ledger with rows of every kind, its report, a library's site, and a browser."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.api import Run
from bench.cli import main
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.library.submission import submit
from bench.schedulers.registry import entries, load
from heuristics.igniter.igniter import IGniter
from instances import Instance
from instances.files import plan_to_json
from instances.library import LIBRARY, Library, LibraryEntry
from tests.reports.page.browser import CHROMIUM, Browser
from tests.reports.page.runs_made_here import BOUND, TWELVE, run_of, runs_of_every_kind


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


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    running = Browser(tmp_path_factory.mktemp("chromium"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def addresses(site: Path) -> dict[str, str]:
    """Addresses of the report's pages by their names."""
    address_of = _addresses(site)
    hostile = next(name for name in address_of if name.startswith("__script"))
    return {"hostile": address_of.pop(hostile), **address_of}


@pytest.fixture(scope="session")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of a report with twenty variants of a scheduler."""
    folder = tmp_path_factory.mktemp("crowded")
    row = run_of(IGniter(), TWELVE, **BOUND)
    with Ledger(folder / "crowded.sqlite", create=True) as ledger:
        for number in range(20):
            ledger.add(replace(row, key=f"{number:064x}", parameters={"igniter": {"variant": number}}), TWELVE)
    assert main(["report", str(folder / "crowded.sqlite"), "-o", str(folder / "site")]) == 0
    return _addresses(folder / "site")


def _addresses(site: Path) -> dict[str, str]:
    return {path.name.rpartition("-")[0] or path.stem: path.as_uri() for path in site.rglob("*.html")}


@pytest.fixture(scope="session")
def small_library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Make a library of five entries: one whose plan was improved, one that is open, and one without a plan."""
    library = Library(tmp_path_factory.mktemp("library") / "entries")
    best = LIBRARY.entry("cost-turing-4")
    whole_gpu = load(entries()["whole-gpu"].target)().schedule(best.instance, Run()).plan
    library.write(LibraryEntry(best.instance))
    submit(library, plan_to_json(whole_gpu), "plan", "<b>First</b>", machine="Some CPU", work="1 s")
    for name in ("cost-turing-4", "goodput-four-300", "library-parvagpu-2"):
        library.write(LIBRARY.entry(name))
    proven, without_plan = LIBRARY.entry("cost-four-24"), LIBRARY.entry("scale-t4-4")
    assert proven.claim is not None
    assert proven.value is not None
    library.write(replace(proven, claim={**proven.claim, "bound": f"{0.9 * proven.value:.4f}"}))
    library.write(replace(without_plan, plan=None, value=None, plan_credit=None))
    return library


@pytest.fixture(scope="session")
def library_site(small_library: Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library-site") / "site"
    assert main(["library", "site", "-o", str(folder), "--library", str(small_library.folder)]) == 0
    return folder
