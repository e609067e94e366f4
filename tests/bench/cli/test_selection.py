"""The selection of instances on the command line: names, files, patterns and folders."""

from pathlib import Path

import pytest

from bench.selection import anchored, find_problems
from instances import InputError
from instances.files import instance_to_json, write_json
from instances.generate import generate


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("one.json", "deep/two.json", "deep/er/three.json", "deep/comma,d.json", "[odd]/four.json", "smoke"):
        write_json(tmp_path / name, instance_to_json(generate("igniter-mix", 2, 0, name=Path(name).stem)))
    return tmp_path


def names(*texts: str) -> list[str]:
    return [problem.name for problem in find_problems(texts, "--instances")]


@pytest.mark.usefixtures("folder")
def test_names_files_patterns_and_folders_can_be_mixed() -> None:
    assert names("igniter-3,one.json", "deep", "gpulet-1023") == ["igniter-3", "one", "comma,d", "two", "gpulet-1023"]
    assert names("deep/*.json,igniter-12") == ["comma,d", "two", "igniter-12"]
    assert names("**/t*.json") == ["three", "two"]
    assert names("deep/*") == ["comma,d", "two"]


@pytest.mark.usefixtures("folder")
def test_the_name_of_an_existing_file_may_have_brackets_and_commas() -> None:
    assert names("[odd]/four.json") == ["four"]
    assert names("deep/comma,d.json") == ["comma,d"]


@pytest.mark.usefixtures("folder")
def test_the_name_of_a_suite_takes_precedence_over_a_file() -> None:
    assert len(names("smoke")) == 4
    assert names("./smoke") == ["smoke"]


@pytest.mark.usefixtures("folder")
def test_errors_name_the_file_among_many() -> None:
    Path("deep/wrong.json").write_text('{"version": 1}')
    with pytest.raises(InputError, match=r"^deep/wrong.json: name: is missing"):
        names("igniter-3", "deep/*.json")


def test_names_of_files_are_relative_to_the_folder(folder: Path) -> None:
    assert anchored("two.json,igniter-3,er/*.json", Path("deep")) == "deep/two.json,igniter-3,deep/er/*.json"
    assert anchored("smoke", Path()) == "smoke"
    assert anchored("er", Path("deep")) == "deep/er"
    assert names(anchored("f*.json", Path("[odd]"))) == ["four"]
    assert anchored(str(folder / "one.json"), Path("deep")) == str(folder / "one.json")
