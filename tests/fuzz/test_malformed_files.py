"""Malformed files of every kind: one line that names the file, exit code 2, no traceback, nothing run or written."""

import resource
import sqlite3
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from bench.cli.app import main
from bench.ledger.store import Ledger
from instances import InputError
from tests.fuzz.formats import FORMATS, PAIRS, Format, _plan
from tests.fuzz.malformed import hostile_pickle, malformed

EXAMPLES_PER_READER, EXAMPLES_PER_COMMAND, REFUSALS_IN_SOAK_TEST = 60, 12, 10_000
"""Malformed files of each format for its reader and for its command, and files that the soak test must refuse."""

SETTINGS = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck), "derandomize": True}
"""Settings under which every run has the same examples, without a database."""

each_format = pytest.mark.parametrize("form", FORMATS, ids=[form.name for form in FORMATS])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def refusal(form: Format, content: bytes, folder: Path) -> str | None:
    """Read a file; return why it is refused, after checking that the message is one line that names the file."""
    path = folder / form.name
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of arithmetic with absurd figures
            form.read(path)
    except InputError as error:
        message = str(error)
        assert message.startswith(str(path)), message
        assert "\n" not in message, message
        return message
    finally:
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        assert sorted(folder.iterdir()) == [path]
        path.unlink()
    return None


@each_format
def test_good_file_is_read(form: Format, folder: Path) -> None:
    assert refusal(form, form.good(), folder) is None


@each_format
def test_malformed_files_are_refused_in_one_line(form: Format, folder: Path) -> None:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES_PER_READER, **SETTINGS)
    @given(malformed(form))
    def check(content: bytes) -> None:
        outcomes["read" if refusal(form, content, folder) is None else "refused"] += 1

    check()
    assert outcomes["refused"] > EXAMPLES_PER_READER / 2


@pytest.mark.soak
@each_format
def test_ten_thousand_malformed_files_are_refused_in_one_line(form: Format, folder: Path) -> None:
    outcomes: Counter[str] = Counter()

    @settings(max_examples=REFUSALS_IN_SOAK_TEST // 4, **(SETTINGS | {"derandomize": False}))
    @given(malformed(form))
    def check(content: bytes) -> None:
        outcomes["read" if refusal(form, content, folder) is None else "refused"] += 1

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while outcomes["refused"] < REFUSALS_IN_SOAK_TEST:
        check()
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    counts = f"{outcomes['refused']} refused, {outcomes['read']} read"
    print(f"{form.name}: {counts}, {grown_mib:.0f} MiB more", file=sys.__stderr__)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the other files that the commands need."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_bytes(PAIRS)
    (tmp_path / "plan.json").write_bytes(_plan())
    yield tmp_path
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("form", [form for form in FORMATS if form.command], ids=lambda form: form.name)
def test_commands_refuse_malformed_files(
    form: Format, work: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    codes: Counter[int] = Counter()

    @settings(max_examples=EXAMPLES_PER_COMMAND, **SETTINGS)
    @given(malformed(form))
    def check(content: bytes) -> None:
        if refusal(form, content, folder) is None:
            return
        path = work / form.name
        path.write_bytes(content)
        before = sorted(work.iterdir())
        capfd.readouterr()
        code = main([form.name if part == "FILE" else part for part in form.command])
        printed = capfd.readouterr()
        codes[code] += 1
        if form.kind == "ledger" and code == 0:  # the command does not show the malformed part
            path.unlink()
            return
        assert (code, printed.out) == (2, ""), printed
        assert printed.err.startswith("error: "), printed
        assert form.name in printed.err, printed
        assert printed.err.count("\n") == 1, printed
        assert sorted(work.iterdir()) == before

    check()
    assert codes[2] > codes[0]


# --- Attacks ---


def test_weights_do_not_run_code(folder: Path) -> None:
    (form,) = (form for form in FORMATS if form.kind == "weights")
    message = refusal(form, hostile_pickle(f"touch {folder}/ran"), folder)  # fails if ``folder`` has a file ``ran``
    assert message is not None
    assert "is not a file of weights" in message


def test_ledger_with_a_view_instead_of_a_table_is_refused(folder: Path) -> None:
    path = folder / "view.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE instances (hash, name, json)")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS key FROM n"
    database.execute(f"CREATE VIEW runs AS {endless}")
    database.close()
    with pytest.raises(InputError, match="is no ledger"):
        Ledger(path)
    path.unlink()
