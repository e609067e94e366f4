"""Folders of reports: whole or not at all, and never over anything else."""

from pathlib import Path

import pytest

from instances import InputError
from reports.page.files import MARK, check_folder, write_folder

FORMER, NEW = {"index.html": "old", "instances/a.html": "a"}, {"index.html": "new"}


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_report_replaces_a_former_one(tmp_path):
    folder = tmp_path / "deep" / "site"
    write_folder(folder, FORMER)
    write_folder(folder, NEW)
    assert contents(folder) == {"index.html": "new", MARK: "index.html\n"}
    assert list(folder.parent.iterdir()) == [folder]


def test_an_empty_folder_will_do(tmp_path):
    write_folder(tmp_path, NEW)
    assert contents(tmp_path)["index.html"] == "new"


@pytest.mark.parametrize("stranger", ["notes.txt", "instances/b.html"])
def test_what_no_report_wrote_is_left_alone(tmp_path, stranger):
    write_folder(tmp_path / "site", FORMER)
    (tmp_path / "site" / stranger).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=stranger):
        write_folder(tmp_path / "site", NEW)
    assert contents(tmp_path) == before


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "site").write_text("mine")
    with pytest.raises(InputError) as refused:
        check_folder(tmp_path / "site")
    assert str(refused.value) == f"{tmp_path / 'site'}: is a file; expected a folder for the report"


def test_what_cannot_be_written_leaves_the_former_report(tmp_path):
    folder = tmp_path / "site"
    write_folder(folder, FORMER)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        write_folder(folder, {**NEW, "x" * 300: ""})
    assert contents(tmp_path) == before
