"""Output folders of reports: written completely or not at all, and never over other files."""

from pathlib import Path

import pytest

from instances import InputError
from reports.page.files import MARK, check_folder, write_folder

FORMER_REPORT, NEW_REPORT = {"index.html": "old", "instances/a.html": "a"}, {"index.html": "new"}


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_report_replaces_a_former_one(tmp_path):
    folder = tmp_path / "deep" / "site"
    write_folder(folder, FORMER_REPORT)
    write_folder(folder, NEW_REPORT)
    assert contents(folder) == {"index.html": "new", MARK: "index.html\n"}
    assert list(folder.parent.iterdir()) == [folder]


def test_a_report_may_be_written_into_an_empty_folder(tmp_path):
    write_folder(tmp_path, NEW_REPORT)
    assert contents(tmp_path)["index.html"] == "new"


@pytest.mark.parametrize("stranger", ["notes.txt", "instances/b.html"])
def test_a_folder_with_other_files_is_refused(tmp_path, stranger):
    write_folder(tmp_path / "site", FORMER_REPORT)
    (tmp_path / "site" / stranger).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=stranger):
        write_folder(tmp_path / "site", NEW_REPORT)
    assert contents(tmp_path) == before


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "site").write_text("mine")
    with pytest.raises(InputError) as refused:
        check_folder(tmp_path / "site")
    assert str(refused.value) == f"{tmp_path / 'site'}: is a file; expected a folder for the report"


def test_a_report_that_cannot_be_written_leaves_the_former_one(tmp_path):
    folder = tmp_path / "site"
    write_folder(folder, FORMER_REPORT)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        write_folder(folder, {**NEW_REPORT, "x" * 300: ""})
    assert contents(tmp_path) == before
