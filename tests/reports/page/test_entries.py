"""Site of the library: every entry has a page with its answers, its history and its files."""

import gzip
import re
from html import unescape
from pathlib import Path
from typing import Literal

import pytest

from bench.cli import main
from instances.files import read_instance, read_json, read_plan
from instances.library import Library, LibraryFinding
from reports.charts.page import styled
from reports.page import files
from reports.page.entries.entry_page import _MOST_GPUS
from reports.page.entries.history_picture import history_picture
from reports.page.entries.site import library_site_files, write_library_site

ASSETS = Path(files.__file__).parent / "assets"


def page_of(site: Path, name: str) -> str:
    return (site / "entries" / f"{name}.html").read_text(encoding="utf-8")


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_a_page_answers_how_good_since_when_by_whom_proven_how_and_where(
    library_site: Path, small_library: Library
) -> None:
    entry, words = small_library.entry("cost-turing-4"), words_of(page_of(library_site, "cost-turing-4"))
    assert entry.plan_credit is not None
    assert entry.proof_credit is not None
    assert entry.proof is not None
    assert "How good? The best-known plan has the value 2.00 $/h. It is proven best." in words
    assert f"Since when? Plan: {entry.plan_credit.date}, bound: {entry.proof_credit.date}." in words
    assert f"By whom? Plan: {entry.plan_credit.by} (version" in words
    assert f"Proven how? By a certificate of the kind {entry.proof['kind']}" in words
    assert "Where to get it? Instance, JSON , Best plan, JSON , Certificate, JSON , Model, MPS , Model, LP" in words


def test_a_finder_who_was_beaten_stays_in_the_history(library_site: Path, small_library: Library) -> None:
    page = page_of(library_site, "cost-turing-4")
    rows = re.findall(r'<tr><th scope="row">(\d{4}-\d\d-\d\d)</th>', page)
    assert len(rows) == len(small_library.history("cost-turing-4")) == 3
    assert "<td>&lt;b&gt;First&lt;/b&gt;</td>" in page  # names are only text
    assert "Some CPU" in page
    assert page.count("</title></use>") == 3  # a mark for each finding


def test_entries_without_a_plan_and_open_entries_say_so(library_site: Path, small_library: Library) -> None:
    assert "No plan is known. No plan is above" in words_of(page_of(library_site, "scale-t4-4"))
    words = words_of(page_of(library_site, "cost-four-24"))
    assert "the gap to the bound is 10.0 %. No plan is below" in words
    assert f"Why open? {small_library.entry('cost-four-24').why_open}" in words


def test_a_large_plan_is_drawn_in_part(library_site: Path, small_library: Library) -> None:
    for name in ("cost-four-24", "library-parvagpu-2"):
        plan = small_library.entry(name).plan
        assert plan is not None
        assert page_of(library_site, name).count('<li><i class="m') == plan.gpus_used
    plan = small_library.entry("goodput-four-300").plan
    assert plan is None or page_of(library_site, "goodput-four-300").count('<li><i class="m') <= _MOST_GPUS


def test_files_are_those_of_the_entry(library_site: Path, small_library: Library) -> None:
    folder, name = library_site / "files", "cost-turing-4"
    assert read_instance(folder / f"{name}.json").fingerprint == small_library.instance(name).fingerprint
    assert read_plan(folder / f"{name}-plan.json")[0] == small_library.entry(name).plan
    assert read_json(folder / f"{name}-certificate.json.gz") == small_library.certificate(name)
    assert main(["check", str(folder / f"{name}-certificate.json.gz")]) == 0
    assert "ROWS" in gzip.decompress((folder / f"{name}.mps.gz").read_bytes()).decode()
    assert gzip.decompress((folder / f"{name}.lp.gz").read_bytes()).decode().endswith("end\n")


def test_every_link_has_its_file(library_site: Path) -> None:
    pages = list(library_site.rglob("*.html"))
    assert len(pages) == 6
    for page in pages:
        html = page.read_text(encoding="utf-8")
        for address in re.findall(r'(?:href|src)="([^"#:]+)(?:#[^"]*)?"', html):
            assert (page.parent / address).is_file(), (page.name, address)


def test_the_index_has_a_row_for_each_entry_with_the_texts_of_its_filters(
    library_site: Path, small_library: Library
) -> None:
    index = (library_site / "index.html").read_text(encoding="utf-8")
    for line in small_library.summaries():
        assert f'data-name="{line.name}" data-objective="{line.objective}"' in index
        assert f'<a href="entries/{line.name}.html">{line.name}</a>' in index


def test_equal_libraries_give_equal_sites(small_library: Library, library_site: Path) -> None:
    for name, content in library_site_files(small_library).items():
        written = (library_site / name).read_bytes()
        assert written == (content.encode() if isinstance(content, str) else content)


def test_an_interrupted_command_leaves_the_former_site(small_library: Library, tmp_path: Path) -> None:
    def interrupt(part: float) -> None:
        assert 0.0 < part <= 1.0
        raise KeyboardInterrupt

    write_library_site(small_library, tmp_path / "site")
    former = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(KeyboardInterrupt):
        write_library_site(small_library, tmp_path / "site", interrupt)
    assert {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == former


def test_a_folder_with_other_files_is_refused(
    small_library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").touch()
    assert main(["library", "site", "-o", str(tmp_path), "--library", str(small_library.folder)]) == 2
    assert "mine.txt" in capsys.readouterr().err


def test_an_entry_without_findings_has_no_picture() -> None:
    assert history_picture([], "cost") is None


@pytest.mark.parametrize("values", [(5289.04101477157, "5289.041020063"), (0.0, "0"), (4.0, "2"), (3.0, "none")])
def test_values_and_bounds_of_any_distance_are_drawn(values: tuple[float, str]) -> None:
    kinds: tuple[Literal["plan"], Literal["bound"]] = ("plan", "bound")
    history = [
        LibraryFinding("name", kind, value, "A", "0.1.0", "2026-11-23", None, None, None)
        for kind, value in zip(kinds, values, strict=True)
    ]
    with styled():
        picture = history_picture(history, "capacity")
    assert picture is not None
    assert picture.svg.count("</title></use>") == (1 if values[1] == "none" else 2)


def test_the_scripts_of_the_project_are_short() -> None:
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in ASSETS.glob("*.js")) < 500
