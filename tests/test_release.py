"""Files of a release: the package, its citation and its archive name the same version, title and licence."""

import json
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def test_package_citation_and_archive_agree() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    archive = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert package["version"] == citation["version"] == archive["version"]
    assert package["license"] == citation["license"] == archive["license"]
    assert citation["title"] == archive["title"]
    assert [author["name"] for author in citation["authors"]] == [creator["name"] for creator in archive["creators"]]
    assert f"## {package['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_is_tried_on_the_oldest_python_and_two_newer_ones() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    versions = workflow["jobs"]["wheel"]["strategy"]["matrix"]["python"]
    assert f">={versions[0]}" == package["requires-python"]
    assert versions == ["3.11", "3.12", "3.13"]
